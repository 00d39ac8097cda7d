//! The maps: a drawing for each number of locks, in it a row for each number of nodes and spread, a column for each lock
//! and class.

use super::boundary::{locks, values};
use super::grid::{LOCKS, NODES, ROUND_TRIP, SECTION, SPREAD};
use super::is_protected;
use crate::command::Drawing;
use crate::error::Result;
use crate::plan::Results;
use crate::plot::Caption;
use crate::plot::heat::{Cell, HeatChart, HeatPanel, heat_svg};
use crate::report::{Class, RunRow};
use crate::results::conditions;
use crate::run::locks_text;

/// Draws the maps.
///
/// # Errors
/// [`crate::Failure::Work`] when drawing fails, which it does not.
pub(super) fn draw(results: &Results<'_>) -> Result<Vec<Drawing>> {
    let rows = &results.report.runs;
    let counts = values(rows, LOCKS);
    let drawing = |count: &f64| {
        let words = locks_text(*count as u32);
        Ok(Drawing {
            suffix: format!("-{}", words.replace(' ', "-")),
            svg: map(results, rows, *count, &words)?,
        })
    };
    counts.iter().map(drawing).collect()
}

fn map(results: &Results<'_>, rows: &[RunRow], count: f64, words: &str) -> Result<String> {
    let sections = values(rows, SECTION);
    let factors = values(rows, ROUND_TRIP);
    let locks = locks(rows);
    let mut panels = Vec::new();
    for nodes in values(rows, NODES) {
        for spread in values(rows, SPREAD) {
            for lock in &locks {
                for class in [Class::Local, Class::Remote] {
                    let cell = |section: &f64, factor: &f64| {
                        let place = [
                            (LOCKS, count),
                            (NODES, nodes),
                            (SPREAD, spread),
                            (ROUND_TRIP, *factor),
                            (SECTION, *section),
                        ];
                        let row = |class| {
                            rows.iter().find(|row| {
                                row.class == class
                                    && row.lock == *lock
                                    && place
                                        .iter()
                                        .all(|(axis, value)| row.at.get(axis) == Some(value))
                            })
                        };
                        let kind = row(Class::Local).zip(row(Class::Remote)).and_then(
                            |(local, remote)| is_protected(&local.latency_ns, &remote.latency_ns),
                        );
                        Cell {
                            value: row(class).and_then(|row| row.latency_ns.p99_9),
                            kind,
                        }
                    };
                    let of_factor =
                        |factor: &f64| sections.iter().map(|at| cell(at, factor)).collect();
                    let vary = match spread {
                        0.0 => String::new(),
                        share => format!(" ± {} %", share * 100.0),
                    };
                    panels.push(HeatPanel {
                        title: format!("{lock}, {class}; {nodes} nodes{vary}"),
                        cells: factors.iter().map(of_factor).collect(),
                    });
                }
            }
        }
    }
    let label = |factor: &f64| format!("× {factor}");
    let chart = HeatChart {
        columns: 2 * locks.len(),
        unit: "P99.9 job latency (µs)".to_owned(),
        boundary: "end of protection: local P99.9 below half of the remote P50 on one side only"
            .to_owned(),
        x: (
            "remote critical section (µs)".to_owned(),
            sections.iter().map(|us| section_label(*us)).collect(),
        ),
        y: ("round trip".to_owned(), factors.iter().map(label).collect()),
        panels,
    };
    let caption = Caption {
        title: format!("{}, {words}", results.command().title),
        subtitle: conditions(&results.settings()),
    };
    heat_svg(&chart, &caption)
}

/// To a tenth: cells are narrow.
fn section_label(us: f64) -> String {
    let text = format!("{us:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
