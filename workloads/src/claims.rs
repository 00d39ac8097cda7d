//! Published claims, and how what was measured compares.
//!
//! A claim about latency is judged by the ratio of two locks at P95, P99, P99.9 and P99.999, wherever both have a value,
//! over all runs that the claim is about; measured is the smallest and the largest. How each kind of claim is judged is
//! told at [`judge::Rule`].

mod figure12;
pub mod judge;

use std::fmt;

use dmtree_lock::DataPath;
use serde::Serialize;

use crate::seeds::Span;

pub use figure12::{judge_figure_12, published_range};

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

/// In what a claim is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// How many times as large.
    Ratio,
    /// Microseconds.
    Us,
    /// Requests.
    Requests,
}

/// The smallest and the largest of what was measured.
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

/// Whole numbers as they are, others with two or three significant digits: `0.86`, `3.6`, `14`.
fn number_text(ratio: f64, unit: Unit) -> String {
    if ratio >= 9.95 || unit == Unit::Requests {
        format!("{ratio:.0}")
    } else if ratio >= 1.995 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.2}")
    }
}

impl Range {
    /// As people read it: `3.6–11×`, `135 µs`.
    pub fn text(&self, unit: Unit) -> String {
        let [min, max] = [self.min, self.max].map(|end| number_text(end, unit));
        let sign = match unit {
            Unit::Ratio => "×",
            Unit::Us => " µs",
            Unit::Requests => "",
        };
        if min == max {
            format!("{min}{sign}")
        } else {
            format!("{min}–{max}{sign}")
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
    /// The medians over the seeds of both.
    pub median: Range,
}

impl RangeOverSeeds {
    /// None of fewer than two seeds, or when one of them measured nothing.
    fn of(seeds: &[Option<Range>]) -> Option<Self> {
        if seeds.len() < 2 {
            return None;
        }
        let ends = |end: fn(&Range) -> f64| -> Option<Vec<f64>> {
            seeds.iter().map(|range| range.as_ref().map(end)).collect()
        };
        let (least, greatest) = (ends(|range| range.min)?, ends(|range| range.max)?);
        let span = |ends: &[f64]| Span::of(ends.iter().copied().map(Some));
        Some(Self {
            min: span(&least)?,
            max: span(&greatest)?,
            median: Range {
                min: median(least),
                max: median(greatest),
            },
        })
    }

    /// As people read it: `3.6–11× to 3.7–12×`.
    pub fn text(&self, unit: Unit) -> String {
        let end = |Span(min, max)| Range { min, max }.text(unit);
        format!("{} to {}", end(self.min), end(self.max))
    }
}

/// The middle one; of an even number the mean of the two in the middle. `values` has one at least.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        values[middle - 1].midpoint(values[middle])
    }
}

/// A published claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its id.
    pub id: &'static str,
    /// The data path of the runs that it was judged on; of a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_path: Option<DataPath>,
    /// The part of the command that it was judged on; of one that judges each part by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// What was published.
    pub published: &'static str,
    /// Of what was measured.
    pub unit: Unit,
    /// What was measured; null when nothing had enough samples.
    pub measured: Option<Range>,
    /// How far the seeds lie apart; of several seeds, each of which has a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_seeds: Option<RangeOverSeeds>,
    /// How what all seeds together measured compares; null when nothing was measured.
    pub verdict: Option<Verdict>,
}

impl Claim {
    /// What was measured, as people read it; none of nothing.
    pub fn measured_text(&self) -> Option<String> {
        self.measured.map(|range| range.text(self.unit))
    }
}

#[cfg(test)]
mod tests;
