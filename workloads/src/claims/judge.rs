//! [`Statement`]: what was published of some runs, in a form that can be judged.

use dmtree_lock::{DataPath, LockSpec};

use super::{Claim, Range, RangeOverSeeds, Unit, Verdict};
use crate::lock_bench::Order;
use crate::report::{Class, RunRow};
use crate::seeds::SeedFigures;

/// How far a published number may be missed.
const TOLERANCE: f64 = 0.25;
/// What counts as about the same.
pub(super) const ABOUT_THE_SAME: Range = Range { min: 0.9, max: 1.1 };

/// How a claim is judged by the smallest and the largest of what was measured. Every ratio is taken so that it is above 1
/// where the published effect is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// "From X to Y times": holds when both ends are met within 25 %. It has the right direction when all ratios are
    /// above 1.
    Between(Range),
    /// "Up to X times": holds when the largest is X within 25 %. It has the right direction when all are above 1.
    UpTo(f64),
    /// "X": holds when everything measured is X within 25 %.
    Is(f64),
    /// "About the same": 0.9 to 1.1. There is no sign that could be right while the size is wrong.
    Same,
    /// "As high, or higher": holds when everything measured is 0.9 at least, and fails otherwise.
    NoLess,
    /// "More": a direction alone, which holds when everything measured is above 1, and fails otherwise.
    More,
}

impl Rule {
    /// The verdict on what was measured.
    pub fn verdict(self, measured: Range) -> Verdict {
        let meets = |measured: f64, published: f64| {
            (published * (1.0 - TOLERANCE)..=published * (1.0 + TOLERANCE)).contains(&measured)
        };
        let direction = || {
            if measured.min > 1.0 {
                Verdict::Direction
            } else {
                Verdict::Fails
            }
        };
        let holds = |holds: bool| {
            if holds {
                Verdict::Holds
            } else {
                Verdict::Fails
            }
        };
        match self {
            Self::Between(published)
                if meets(measured.min, published.min) && meets(measured.max, published.max) =>
            {
                Verdict::Holds
            }
            Self::UpTo(most) if meets(measured.max, most) => Verdict::Holds,
            Self::Between(_) | Self::UpTo(_) => direction(),
            Self::Is(value) => holds(meets(measured.min, value) && meets(measured.max, value)),
            Self::Same => {
                let Range { min, max } = ABOUT_THE_SAME;
                holds(measured.min >= min && measured.max <= max)
            }
            Self::NoLess => holds(measured.min >= ABOUT_THE_SAME.min),
            Self::More => holds(measured.min > 1.0),
        }
    }
}

/// Whose figures are looked at: those of all seeds together, or of one.
#[derive(Clone, Copy, Debug)]
pub struct View(Option<usize>);

impl View {
    /// All seeds together.
    pub const ALL: Self = Self(None);

    /// What `row` shows; none where it has no such seed.
    pub fn figures(self, row: &RunRow) -> Option<SeedFigures> {
        match self.0 {
            None => Some(SeedFigures {
                throughput_ops_s: row.throughput_ops_s,
                latency_ns: row.latency_ns,
                longest_run: row.fairness.and_then(|fairness| fairness.longest_run),
            }),
            Some(seed) => row.each_seed.get(seed).copied(),
        }
    }

    /// Who was served when in `row`'s runs.
    pub fn orders(self, row: &RunRow) -> &[Order] {
        match self.0 {
            None => &row.order,
            Some(seed) => row.order.get(seed..=seed).unwrap_or_default(),
        }
    }

    /// How many times `slower`'s tail latency is `faster`'s: at P95, P99, P99.9 and P99.999, where both have a value.
    pub fn tail_ratios(self, slower: &RunRow, faster: &RunRow) -> Option<Vec<f64>> {
        let tail = |row| Some(self.figures(row)?.latency_ns.tail());
        let both = tail(slower)?.into_iter().zip(tail(faster)?);
        let ratios =
            both.filter_map(|(slower, faster)| Some(slower? as f64 / (faster? as f64).max(1.0)));
        Some(ratios.collect())
    }

    /// How many times `slower`'s throughput is `faster`'s.
    pub fn throughput_ratio(self, faster: &RunRow, slower: &RunRow) -> Option<f64> {
        let [faster, slower] = [self.figures(faster)?, self.figures(slower)?];
        Some(faster.throughput_ops_s / slower.throughput_ops_s)
    }
}

/// What was published of some runs, and how to find it in them.
pub struct Statement<'a> {
    /// Of the claim.
    pub id: &'static str,
    /// In words.
    pub published: &'static str,
    /// Of the runs; of a tree.
    pub data_path: Option<DataPath>,
    /// Of the runs, where each part is judged by itself.
    pub part: Option<String>,
    /// Of what is measured.
    pub unit: Unit,
    /// How it is judged.
    pub rule: Rule,
    /// The runs that it is about.
    pub rows: Vec<&'a RunRow>,
    /// What they show; none where a run lacks it altogether.
    pub values: &'a dyn Fn(View) -> Option<Vec<f64>>,
}

impl Statement<'_> {
    /// Judges it.
    pub fn judge(self) -> Claim {
        let range = |view| Range::of((self.values)(view)?.into_iter().filter(|v| v.is_finite()));
        let measured = range(View::ALL);
        let seeds = self.rows.iter().map(|row| row.each_seed.len()).min();
        let each_seed: Vec<_> = (0..seeds.unwrap_or(0))
            .map(|seed| range(View(Some(seed))))
            .collect();
        Claim {
            id: self.id,
            data_path: self.data_path,
            part: self.part,
            published: self.published,
            unit: self.unit,
            measured,
            over_seeds: RangeOverSeeds::of(&each_seed),
            verdict: measured.map(|measured| self.rule.verdict(measured)),
        }
    }
}

/// The rows of `class` with `lock`, whatever way it was typed: `farlock-g` is `farlock-g:5,1`.
pub fn rows_with<'a>(
    rows: &'a [RunRow],
    lock: &str,
    class: Class,
) -> impl Iterator<Item = &'a RunRow> {
    let canonical = |name: &str| name.parse::<LockSpec>().map(LockSpec::explicit).ok();
    let wanted = canonical(lock);
    rows.iter()
        .filter(move |row| row.class == class && wanted.is_some() && canonical(&row.lock) == wanted)
}
