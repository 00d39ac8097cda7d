//! Figures of sweeps: latencies or throughputs of each lock over the number of locks or nodes.

use crate::command::Drawing;
use crate::error::Result;
use crate::latency::Percentile;
use crate::plan::Results;
use crate::plot::Caption;
use crate::plot::lines::{LineChart, Panel, Point, Scale, XAxis, YAxis, lines_svg};
use crate::report::{Class, RunRow};
use crate::results::conditions;
use crate::seeds::Span;

/// The percentiles that the paper shows, as places in [`Percentile::ALL`].
const TAIL: [usize; 4] = [1, 2, 3, 5];

const LATENCY: YAxis = YAxis {
    name: "job latency (µs, log scale)",
    scale: Scale::LogThousands,
};

const THROUGHPUT: YAxis = YAxis {
    name: "thousand jobs/s (log scale)",
    scale: Scale::LogThousands,
};

/// Tail latencies over the number of locks: a column for each class, a row for each percentile.
pub(super) fn draw_tails_over_locks(results: &Results<'_>) -> Result<Vec<Drawing>> {
    let rows = &results.report.runs;
    let locks = locks(rows);
    let mut panels = Vec::new();
    for percentile in TAIL {
        for class in [Class::Local, Class::Remote] {
            let name = Percentile::ALL[percentile].name;
            let points = |lock: &String| -> Vec<Point> {
                let of_lock = of(rows, lock, class);
                of_lock
                    .map(|row| Point {
                        x: f64::from(row.lock_count),
                        y: row.latency_ns.percentiles()[percentile].map(|ns| ns as f64),
                        span: row.over_seeds.and_then(|over| {
                            let Span(least, greatest) = over.latency_ns.percentiles()[percentile]?;
                            Some((least as f64, greatest as f64))
                        }),
                    })
                    .collect()
            };
            panels.push(Panel {
                title: format!("{name}, {class} clients"),
                y: LATENCY,
                lines: locks.iter().map(points).collect(),
                empty: "too few samples",
            });
        }
    }
    draw(results, locks, panels, 2, over_locks())
}

/// Throughputs over the number of locks: local, remote, all.
pub(super) fn draw_throughputs_over_locks(results: &Results<'_>) -> Result<Vec<Drawing>> {
    let x = |row: &RunRow| f64::from(row.lock_count);
    throughputs(results, x, over_locks())
}

/// Throughputs over the number of nodes: local, remote, all.
pub(super) fn draw_throughputs_over_nodes(results: &Results<'_>) -> Result<Vec<Drawing>> {
    let over_nodes = XAxis {
        name: "nodes".to_owned(),
        is_log: false,
    };
    throughputs(results, |row| f64::from(row.nodes), over_nodes)
}

fn over_locks() -> XAxis {
    XAxis {
        name: "locks (log scale)".to_owned(),
        is_log: true,
    }
}

fn throughputs(results: &Results<'_>, x: fn(&RunRow) -> f64, axis: XAxis) -> Result<Vec<Drawing>> {
    let rows = &results.report.runs;
    let locks = locks(rows);
    let panels = [Class::Local, Class::Remote, Class::All].map(|class| Panel {
        title: format!("{class} clients"),
        y: THROUGHPUT,
        lines: locks
            .iter()
            .map(|lock| {
                let of_lock = of(rows, lock, class);
                of_lock
                    .map(|row| Point {
                        x: x(row),
                        y: Some(row.throughput_ops_s),
                        span: row.over_seeds.map(|over| {
                            let Span(least, greatest) = over.throughput_ops_s;
                            (least, greatest)
                        }),
                    })
                    .collect()
            })
            .collect(),
        empty: "nothing measured",
    });
    draw(results, locks, panels.into(), 3, axis)
}

fn draw(
    results: &Results<'_>,
    names: Vec<String>,
    panels: Vec<Panel>,
    columns: usize,
    x: XAxis,
) -> Result<Vec<Drawing>> {
    let chart = LineChart {
        columns,
        x,
        names,
        panels,
    };
    let caption = Caption {
        title: results.command().title.to_owned(),
        subtitle: conditions(&results.settings()),
    };
    Ok(Drawing::only(lines_svg(&chart, &caption)?))
}

/// The locks of `rows`, in their order.
pub(super) fn locks(rows: &[RunRow]) -> Vec<String> {
    let mut locks: Vec<String> = Vec::new();
    for row in rows {
        if !locks.contains(&row.lock) {
            locks.push(row.lock.clone());
        }
    }
    locks
}

/// The rows of one lock and class.
fn of<'a>(rows: &'a [RunRow], lock: &str, class: Class) -> impl Iterator<Item = &'a RunRow> {
    let lock = lock.to_owned();
    rows.iter()
        .filter(move |row| row.class == class && row.lock == lock)
}
