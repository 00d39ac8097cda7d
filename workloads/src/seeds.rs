//! `--seeds`: a run with several seeds, told as one.
//!
//! Histograms are merged, which is exact: a percentile of the pooled row is that of all samples of all seeds, so that
//! three seeds have three times as many samples beyond it. How far the seeds lie apart stands beside it, as the least
//! and the greatest of what each seed alone would have shown.

use std::fmt::Write as _;

use comfy_table::Cell;
use serde::Serialize;

use crate::latency::{Percentile, Summary};
use crate::report::RunRow;
use crate::run::RunOutcome;
use crate::table::{NOTHING, millions_text, new_table, right, us_text};
use crate::verify::Verified;

/// What one class of a run shows with one seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeedFigures {
    /// Operations that began in the window, a second.
    pub throughput_ops_s: f64,
    /// Their latencies, in nanoseconds.
    pub latency_ns: Summary,
    /// Most grants in a row of one lock to the class; of locks alone.
    pub longest_run: Option<u64>,
}

/// The least and the greatest over the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span<T>(
    /// The least.
    pub T,
    /// The greatest.
    pub T,
);

impl<T: Copy + PartialOrd> Span<T> {
    /// Of at least one value; none where a seed has none, as what the others have says nothing of it.
    pub fn of(values: impl IntoIterator<Item = Option<T>>) -> Option<Self> {
        let mut span: Option<Self> = None;
        for value in values {
            let value = value?;
            let Span(least, greatest) = span.unwrap_or(Span(value, value));
            span = Some(Span(
                if value < least { value } else { least },
                if value > greatest { value } else { greatest },
            ));
        }
        span
    }
}

/// The least and the greatest of each figure of a class over the seeds; a percentile is null where a seed has fewer
/// than ten samples beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverSeeds {
    /// Operations a second.
    pub throughput_ops_s: Span<f64>,
    /// Latencies, in nanoseconds.
    pub latency_ns: LatencySpans,
}

/// A span for each field of [`Summary`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencySpans {
    /// The mean.
    pub mean: Option<Span<f64>>,
    /// Percentile 50, and so on.
    pub p50: Option<Span<u64>>,
    /// Percentile 95.
    pub p95: Option<Span<u64>>,
    /// Percentile 99.
    pub p99: Option<Span<u64>>,
    /// Percentile 99.9.
    pub p99_9: Option<Span<u64>>,
    /// Percentile 99.99.
    pub p99_99: Option<Span<u64>>,
    /// Percentile 99.999.
    pub p99_999: Option<Span<u64>>,
    /// The largest.
    pub max: Option<Span<u64>>,
}

impl LatencySpans {
    /// The percentiles in the order of [`Percentile::ALL`].
    pub fn percentiles(&self) -> [Option<Span<u64>>; 6] {
        [
            self.p50,
            self.p95,
            self.p99,
            self.p99_9,
            self.p99_99,
            self.p99_999,
        ]
    }
}

impl OverSeeds {
    /// Over `seeds`; none of a single one.
    pub fn of(seeds: &[SeedFigures]) -> Option<Self> {
        if seeds.len() < 2 {
            return None;
        }
        let latencies = || seeds.iter().map(|seed| seed.latency_ns);
        let [p50, p95, p99, p99_9, p99_99, p99_999] = std::array::from_fn(|percentile| {
            Span::of(latencies().map(|summary| summary.percentiles()[percentile]))
        });
        Some(Self {
            throughput_ops_s: Span::of(seeds.iter().map(|seed| Some(seed.throughput_ops_s)))?,
            latency_ns: LatencySpans {
                mean: Span::of(latencies().map(|summary| summary.mean)),
                p50,
                p95,
                p99,
                p99_9,
                p99_99,
                p99_999,
                max: Span::of(latencies().map(|summary| summary.max)),
            },
        })
    }
}

/// The outcomes of each run with all of its seeds, which follow each other in `outcomes`.
pub fn by_run(outcomes: &[RunOutcome]) -> impl Iterator<Item = &[RunOutcome]> {
    outcomes.chunk_by(|one, next| one.spec.is_but_for_seed(&next.spec))
}

/// What the seeds of a run have found together, under the first one's name; none of no seeds. Counts, verbs and times
/// are sums, histograms are merged.
pub fn pool(seeds: &[RunOutcome]) -> Option<RunOutcome> {
    let (first, others) = seeds.split_first()?;
    let mut pooled = first.clone();
    for other in others {
        pooled.local.merge(&other.local);
        pooled.remote.merge(&other.remote);
        pooled.growth += other.growth;
        pooled.events += other.events;
        pooled.folded += other.folded;
        pooled.verbs += other.verbs;
        pooled.event_loop += other.event_loop;
        pooled.load += other.load;
        pooled.verified = both(pooled.verified, other.verified);
        if let (Some(fairness), Some(more)) = (&mut pooled.fairness, &other.fairness) {
            fairness.merge(more);
        }
        pooled.order.extend(other.order.iter().cloned());
        pooled.partial = pooled.partial.or_else(|| other.partial.clone());
    }
    Some(pooled)
}

/// What was verified in two runs.
fn both(one: Option<Verified>, other: Option<Verified>) -> Option<Verified> {
    let (one, other) = (one?, other?);
    Some(Verified {
        keys: one.keys + other.keys,
        written: one.written + other.written,
        pages: one.pages + other.pages,
        cached: one.cached + other.cached,
    })
}

/// How far the seeds lie apart, as a table; nothing of runs with one seed.
pub fn over_seeds_text(rows: &[RunRow]) -> String {
    const SHOWN: [Percentile; 3] = [Percentile::ALL[0], Percentile::ALL[2], Percentile::ALL[3]];
    let mut table = new_table();
    let names = SHOWN.map(|percentile| percentile.name);
    table.set_header(
        ["setting", "lock", "class"]
            .map(Cell::new)
            .into_iter()
            .chain(["M ops/s"].into_iter().chain(names).map(right)),
    );
    for row in rows {
        let Some(over) = row.over_seeds else { continue };
        let latency = over.latency_ns;
        let spans = [latency.p50, latency.p99, latency.p99_9];
        let cells = [row.setting(), row.lock.clone(), row.class.to_string()];
        let times = spans.map(|span| {
            right(span.map_or_else(|| NOTHING.to_owned(), |span| span_text(span, us_text)))
        });
        table.add_row(
            cells
                .map(Cell::new)
                .into_iter()
                .chain([right(span_text(over.throughput_ops_s, millions_text))])
                .chain(times),
        );
    }
    let mut text = String::new();
    if !table.is_empty() {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "the least and the greatest over the seeds; latency in µs\n{table}\n"
        );
    }
    text
}

fn span_text<T>(Span(least, greatest): Span<T>, text: impl Fn(T) -> String) -> String {
    let (least, greatest) = (text(least), text(greatest));
    if least == greatest {
        least
    } else {
        format!("{least}–{greatest}")
    }
}

#[cfg(test)]
mod tests;
