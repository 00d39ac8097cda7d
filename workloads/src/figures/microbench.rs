//! What the figures of the paper's microbenchmark (section 5) have in common: its locks and sizes, and how rows of them
//! are found and compared.
//!
//! The cluster is the paper's: 10 nodes of 12 threads, all locks on node 0, critical sections of 300 cycles for local
//! clients and 15,000 for remote ones. Measured are 2 virtual seconds with each of three seeds; `--paper` measures the
//! paper's 10.

use crate::claims::judge::{Rule, Statement, View, rows_with};
use crate::claims::{Claim, Unit};
use crate::report::{Class, RunRow};
use crate::settings::Options;
use crate::settings::choice::Switch;
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::value::Bounded;

/// The paper's locks: its TS is `tas`, its budgets are those that it found best.
pub(super) const LOCKS: &str = "tas,ticket,mcs,alock:20,5,farlock,farlock-g";

const KNOWN: &str = "every default is a value of its option";

/// What holds where nothing is said; results go to `results/NAME`.
pub(super) fn defaults(name: &str, locks: &str, lock_counts: &str) -> Options {
    Options {
        lock: Some(locks.parse().expect(KNOWN)),
        lock_count: Some(lock_counts.parse().expect(KNOWN)),
        seconds: Some(PositiveTime::from_ns(2_000_000_000)),
        seeds: Some(Bounded::new(3)),
        out: Some(format!("results/{name}").parse().expect(KNOWN)),
        ..Options::default()
    }
}

/// At one lock some 100,000 jobs a second: enough for P99.9 of all.
pub(super) fn quick() -> Options {
    Options {
        seconds: Some(PositiveTime::from_ns(150_000_000)),
        warmup: Some(Time::from_ns(10_000_000)),
        seeds: Some(Bounded::new(1)),
        ..Options::default()
    }
}

/// The paper measured the middle 10 s of 20 s, three times.
pub(super) fn paper(name: &str) -> Options {
    Options {
        warmup: Some(Time::from_ns(5_000_000_000)),
        seconds: Some(PositiveTime::from_ns(10_000_000_000)),
        seeds: Some(Bounded::new(3)),
        resume: Some(Switch::On),
        out: Some(format!("results/{name}-paper").parse().expect(KNOWN)),
        ..Options::default()
    }
}

/// A row of one lock, and of the other at the same place.
pub(super) type Pair<'a> = (&'a RunRow, &'a RunRow);

/// The rows of `class` with `one` and with `other`, wherever there are both: of one part and one number of locks, where
/// `is_there` says so.
pub(super) fn pairs<'a>(
    rows: &'a [RunRow],
    [one, other]: [&str; 2],
    class: Class,
    is_there: impl Fn(&RunRow) -> bool,
) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    for row in rows_with(rows, one, class).filter(|row| is_there(row)) {
        let is_same_place =
            |other: &&RunRow| other.part == row.part && other.lock_count == row.lock_count;
        if let Some(other) = rows_with(rows, other, class).find(is_same_place) {
            pairs.push((row, other));
        }
    }
    pairs
}

/// What one claim says.
#[derive(Clone, Copy)]
pub(super) struct Saying {
    pub(super) id: &'static str,
    pub(super) published: &'static str,
    pub(super) rule: Rule,
}

impl Saying {
    /// Judges it by the tail latencies of `pairs`, the slower one before the faster. None without runs.
    pub(super) fn of_tails(self, pairs: &[Pair<'_>]) -> Option<Claim> {
        self.of_pairs(pairs, &|view, (slower, faster)| {
            view.tail_ratios(slower, faster)
        })
    }

    /// Judges it by the median of the same ratios.
    pub(super) fn of_median_tail(self, pairs: &[Pair<'_>]) -> Option<Claim> {
        self.of_values(&rows_of(pairs), Unit::Ratio, &|view| {
            let mut ratios = Vec::new();
            for (slower, faster) in pairs {
                ratios.extend(view.tail_ratios(slower, faster)?);
            }
            ratios.sort_by(f64::total_cmp);
            Some(ratios.get(ratios.len() / 2).copied().into_iter().collect())
        })
    }

    /// Judges it by the throughputs of `pairs`, the faster one before the slower.
    pub(super) fn of_throughputs(self, pairs: &[Pair<'_>]) -> Option<Claim> {
        self.of_pairs(pairs, &|view, (faster, slower)| {
            Some(vec![view.throughput_ratio(faster, slower)?])
        })
    }

    fn of_pairs(
        self,
        pairs: &[Pair<'_>],
        ratios: &dyn Fn(View, Pair<'_>) -> Option<Vec<f64>>,
    ) -> Option<Claim> {
        self.of_values(&rows_of(pairs), Unit::Ratio, &|view| {
            let mut all = Vec::new();
            for pair in pairs {
                all.extend(ratios(view, *pair)?);
            }
            Some(all)
        })
    }

    /// Judges it by what `values` finds in `rows`.
    pub(super) fn of_values(
        self,
        rows: &[&RunRow],
        unit: Unit,
        values: &dyn Fn(View) -> Option<Vec<f64>>,
    ) -> Option<Claim> {
        let Self {
            id,
            published,
            rule,
        } = self;
        let statement = Statement {
            id,
            published,
            data_path: None,
            part: None,
            unit,
            rule,
            rows: rows.to_vec(),
            values,
        };
        (!rows.is_empty()).then(|| statement.judge())
    }
}

fn rows_of<'a>(pairs: &[Pair<'a>]) -> Vec<&'a RunRow> {
    pairs
        .iter()
        .flat_map(|(one, other)| [*one, *other])
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::claims::Verdict;
    use crate::latency::Summary;

    /// A row of locks alone whose tail is `tail_us` at every percentile.
    pub(in crate::figures) fn row(
        lock: &str,
        lock_count: u32,
        class: Class,
        tail_us: u64,
        throughput_ops_s: f64,
    ) -> RunRow {
        let ns = Some(tail_us * 1000);
        RunRow {
            lock: lock.to_owned(),
            lock_count,
            class,
            distribution: None,
            data_path: None,
            throughput_ops_s,
            latency_ns: Summary {
                p95: ns,
                p99: ns,
                p99_9: ns,
                p99_999: ns,
                ..Summary::default()
            },
            ..RunRow::for_test()
        }
    }

    /// Each claim's published text, what was measured of it, and the verdict.
    pub(in crate::figures) fn told(claims: &[Claim]) -> Vec<(&str, String, Option<Verdict>)> {
        claims
            .iter()
            .map(|claim| {
                let measured = claim.measured_text().unwrap_or_default();
                (claim.published, measured, claim.verdict)
            })
            .collect()
    }

    #[test]
    fn pairs_are_of_one_place() {
        let part = |name: &str, row: RunRow| RunRow {
            part: Some(name.to_owned()),
            ..row
        };
        let rows = [
            part("a", row("farlock", 1, Class::Local, 1, 1.0)),
            part("a", row("farlock-g:5,1", 1, Class::Local, 2, 1.0)),
            part("a", row("farlock-g:5,1", 2, Class::Local, 3, 1.0)),
            part("b", row("farlock", 2, Class::Local, 4, 1.0)),
            part("b", row("farlock-g:5,1", 2, Class::Local, 5, 1.0)),
            part("b", row("farlock-g:5,1", 2, Class::Remote, 6, 1.0)),
        ];
        let found = pairs(&rows, ["farlock-g", "farlock"], Class::Local, |_| true);
        let tails: Vec<_> = found
            .iter()
            .map(|(one, other)| (one.latency_ns.p99, other.latency_ns.p99))
            .collect();
        assert_eq!(tails, [(Some(2000), Some(1000)), (Some(5000), Some(4000))]);
        let of_two = pairs(&rows, ["farlock-g", "farlock"], Class::Local, |row| {
            row.lock_count == 2
        });
        assert_eq!(of_two.len(), 1);
        assert!(pairs(&rows, ["mcs", "farlock"], Class::Local, |_| true).is_empty());
    }
}
