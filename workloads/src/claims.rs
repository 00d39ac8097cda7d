//! The published claims about Figure 12, and how what was measured compares.
//!
//! A claim about latency is judged by the ratio Sherman / FARLock at P95, P99, P99.9 and P99.999,
//! wherever both have a value; measured is the smallest and the largest. A range holds when both of
//! its ends are met within 25 %; "about the same" is 0.9 to 1.1.

use std::fmt;

use dmtree_lock::DataPath;
use serde::Serialize;

use crate::report::{Class, RunRow};
use crate::seeds::{SeedFigures, Span};

/// How far an end of a published range may be missed.
const TOLERANCE: f64 = 0.25;
/// What counts as about the same.
const ABOUT_THE_SAME: (f64, f64) = (0.9, 1.1);

/// What a claim comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As published.
    Holds,
    /// The effect has the right sign and the wrong size.
    Direction,
    /// Not as published.
    Fails,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::Direction => "direction",
            Verdict::Fails => "fails",
        })
    }
}

/// The smallest and the largest of the ratios that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Range {
    fn of(ratios: impl IntoIterator<Item = f64>) -> Option<Self> {
        ratios
            .into_iter()
            .fold(None, |range: Option<Range>, ratio| {
                let (min, max) = range.map_or((ratio, ratio), |range| {
                    (range.min.min(ratio), range.max.max(ratio))
                });
                Some(Range { min, max })
            })
    }
}

/// Two or three significant digits: `0.86`, `3.6`, `14`.
fn ratio_text(ratio: f64) -> String {
    if ratio >= 9.95 {
        format!("{ratio:.0}")
    } else if ratio >= 1.995 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.2}")
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (ratio_text(self.min), ratio_text(self.max));
        if min == max {
            write!(f, "{min}×")
        } else {
            write!(f, "{min}–{max}×")
        }
    }
}

/// The ends of what each seed alone measures, over the seeds. A seed alone has fewer samples: where it lacks a
/// percentile that all together have, what is measured of them can lie outside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RangeOverSeeds {
    /// The smallest ratio: of the seed where it is least, and of the one where it is greatest.
    pub min: Span<f64>,
    /// The largest ratio, likewise.
    pub max: Span<f64>,
}

impl RangeOverSeeds {
    /// None of fewer than two seeds, or when one of them measured nothing.
    fn of(seeds: &[Option<Range>]) -> Option<Self> {
        if seeds.len() < 2 {
            return None;
        }
        Some(Self {
            min: Span::of(seeds.iter().map(|range| range.map(|range| range.min)))?,
            max: Span::of(seeds.iter().map(|range| range.map(|range| range.max)))?,
        })
    }
}

impl fmt::Display for RangeOverSeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |Span(min, max)| Range { min, max };
        write!(f, "{} to {}", end(self.min), end(self.max))
    }
}

/// A published claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its id.
    pub id: &'static str,
    /// The data path of the runs that it was judged on.
    pub data_path: DataPath,
    /// What was published of FARLock against Sherman's lock.
    pub published: &'static str,
    /// The ratios measured; null when no percentile had enough samples on both sides.
    pub measured: Option<Range>,
    /// How far the seeds lie apart; of several seeds, each of which has a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_seeds: Option<RangeOverSeeds>,
    /// How what all seeds together measured compares; null when nothing was measured.
    pub verdict: Option<Verdict>,
}

/// What a claim is about.
enum Subject {
    /// Sherman's tail latency over FARLock's, published as a range.
    Tail {
        distribution: &'static str,
        class: Class,
        published: Range,
    },
    /// FARLock's throughput over Sherman's, published as about the same, over these distributions.
    Throughput {
        distributions: &'static [&'static str],
    },
}

struct Published {
    id: &'static str,
    text: &'static str,
    subject: Subject,
}

const UNIFORM: &str = "uniform";
const ZIPF: &str = "zipf:0.99";

/// Hu et al., OSDI 2026, section 6 and Figure 12.
const FIGURE_12: [Published; 5] = [
    Published {
        id: "f12-local-uniform",
        text: "uniform: local tail 11–14× lower",
        subject: Subject::Tail {
            distribution: UNIFORM,
            class: Class::Local,
            published: Range {
                min: 11.0,
                max: 14.0,
            },
        },
    },
    Published {
        id: "f12-local-zipf",
        text: "Zipf 0.99: local tail 3.6–11× lower",
        subject: Subject::Tail {
            distribution: ZIPF,
            class: Class::Local,
            published: Range {
                min: 3.6,
                max: 11.0,
            },
        },
    },
    Published {
        id: "f12-remote-uniform",
        text: "uniform: remote tail 1.7–6× lower",
        subject: Subject::Tail {
            distribution: UNIFORM,
            class: Class::Remote,
            published: Range { min: 1.7, max: 6.0 },
        },
    },
    Published {
        id: "f12-remote-zipf",
        text: "Zipf 0.99: remote tail 1.8–3.5× lower",
        subject: Subject::Tail {
            distribution: ZIPF,
            class: Class::Remote,
            published: Range { min: 1.8, max: 3.5 },
        },
    },
    Published {
        id: "f12-throughput",
        text: "total throughput about the same",
        subject: Subject::Throughput {
            distributions: &[UNIFORM, ZIPF],
        },
    },
];

/// Between what ratios the claim `id` was published; none when there is no such claim.
pub fn published_range(id: &str) -> Option<Range> {
    let claim = FIGURE_12.iter().find(|claim| claim.id == id)?;
    Some(match claim.subject {
        Subject::Tail { published, .. } => published,
        Subject::Throughput { .. } => Range {
            min: ABOUT_THE_SAME.0,
            max: ABOUT_THE_SAME.1,
        },
    })
}

/// Judges the claims about Figure 12 on the runs of one data path. Claims whose runs are not all
/// there are left out.
pub fn judge_figure_12(rows: &[RunRow], data_path: DataPath) -> Vec<Claim> {
    let row = |lock: &str, distribution: &str, class: Class| {
        rows.iter().find(|row| {
            row.lock == lock
                && row.distribution.as_deref() == Some(distribution)
                && row.class == class
                && row.data_path == Some(data_path)
        })
    };
    let pair = |distribution: &str, class: Class| {
        Some((
            row("sherman", distribution, class)?,
            row("farlock", distribution, class)?,
        ))
    };
    let judge = |claim: &Published| {
        let pairs: Vec<_> = match claim.subject {
            Subject::Tail {
                distribution,
                class,
                ..
            } => vec![pair(distribution, class)?],
            Subject::Throughput { distributions } => distributions
                .iter()
                .map(|distribution| pair(distribution, Class::All))
                .collect::<Option<_>>()?,
        };
        // Of all seeds, or of one.
        let ratios = |of: &dyn Fn(&RunRow) -> Option<SeedFigures>| {
            let mut ratios = Vec::new();
            for (sherman, farlock) in &pairs {
                let (sherman, farlock) = (of(sherman)?, of(farlock)?);
                match claim.subject {
                    Subject::Tail { .. } => ratios.extend(tail_ratios(&sherman, &farlock)),
                    Subject::Throughput { .. } => {
                        ratios.push(farlock.throughput_ops_s / sherman.throughput_ops_s);
                    }
                }
            }
            Range::of(ratios.into_iter().filter(|ratio| ratio.is_finite()))
        };
        let measured = ratios(&|row| {
            Some(SeedFigures {
                throughput_ops_s: row.throughput_ops_s,
                latency_ns: row.latency_ns,
            })
        });
        let verdict = measured.map(|measured| match claim.subject {
            Subject::Tail { published, .. } => judge_range(measured, published),
            Subject::Throughput { .. } => judge_sameness(measured),
        });
        let rows = || {
            pairs
                .iter()
                .flat_map(|(sherman, farlock)| [sherman, farlock])
        };
        let seeds = rows().map(|row| row.each_seed.len()).min().unwrap_or(0);
        let each_seed: Vec<_> = (0..seeds)
            .map(|seed| ratios(&|row| row.each_seed.get(seed).copied()))
            .collect();
        Some(Claim {
            id: claim.id,
            data_path,
            published: claim.text,
            measured,
            over_seeds: RangeOverSeeds::of(&each_seed),
            verdict,
        })
    };
    FIGURE_12.iter().filter_map(judge).collect()
}

/// Slower over faster at P95, P99, P99.9 and P99.999, where both have a value.
fn tail_ratios(slower: &SeedFigures, faster: &SeedFigures) -> impl Iterator<Item = f64> {
    let tail = |figures: &SeedFigures| {
        let summary = &figures.latency_ns;
        [summary.p95, summary.p99, summary.p99_9, summary.p99_999]
    };
    tail(slower)
        .into_iter()
        .zip(tail(faster))
        .filter_map(|(slower, faster)| Some(slower? as f64 / (faster? as f64).max(1.0)))
}

/// "`published.min` to `published.max` times lower".
fn judge_range(measured: Range, published: Range) -> Verdict {
    let meets = |measured: f64, published: f64| {
        (published * (1.0 - TOLERANCE)..=published * (1.0 + TOLERANCE)).contains(&measured)
    };
    if meets(measured.min, published.min) && meets(measured.max, published.max) {
        Verdict::Holds
    } else if measured.min > 1.0 {
        Verdict::Direction
    } else {
        Verdict::Fails
    }
}

/// "About the same": there is no sign that could be right while the size is wrong.
fn judge_sameness(measured: Range) -> Verdict {
    let (low, high) = ABOUT_THE_SAME;
    if measured.min >= low && measured.max <= high {
        Verdict::Holds
    } else {
        Verdict::Fails
    }
}

#[cfg(test)]
mod tests;
