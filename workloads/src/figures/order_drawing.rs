//! Figures of given arrivals: who was served when.

use dmtree_lock::Cohort;

use super::sweep_drawing::locks;
use crate::command::Drawing;
use crate::error::Result;
use crate::lock_bench::{LockBench, Order};
use crate::plan::Results;
use crate::plot::Caption;
use crate::plot::bars::{Bar, BarChart, BarPanel, bars_svg};
use crate::plot::lines::{LineChart, Panel, Point, Scale, XAxis, YAxis, lines_svg};
use crate::report::{Class, RunRow};
use crate::results::conditions;

/// A column for each lock, a row for each part that has arrivals: of the first seed.
pub(super) fn draw_orders(results: &Results<'_>) -> Result<Vec<Drawing>> {
    Ok(Drawing::only(orders(results)?))
}

/// The same, and the spread of the order of grants over the number of threads.
pub(super) fn draw_order_and_spread(results: &Results<'_>) -> Result<Vec<Drawing>> {
    let mut drawings = vec![Drawing {
        suffix: "a".to_owned(),
        svg: orders(results)?,
    }];
    let rows = &results.report.runs;
    let locks = locks(rows);
    let points = |lock: &String| -> Vec<Point> {
        rows.iter()
            .filter(|row| row.class == Class::All && row.lock == *lock && row.order.is_empty())
            .map(|row| Point {
                x: f64::from(row.nodes) * f64::from(row.threads),
                y: row.fairness.and_then(|fairness| fairness.displacement_sd),
                span: None,
            })
            .collect()
    };
    let lines: Vec<_> = locks.iter().map(points).collect();
    if lines.iter().any(|points| !points.is_empty()) {
        let chart = LineChart {
            columns: 1,
            x: XAxis {
                name: "threads, half of them on each of two nodes".to_owned(),
                is_log: false,
            },
            names: locks,
            panels: vec![Panel {
                title: "how far grants are from the order of requests".to_owned(),
                y: YAxis {
                    name: "standard deviation (requests)",
                    scale: Scale::Linear,
                },
                lines,
                empty: "nothing measured",
            }],
        };
        let caption = caption(results, |part| part.script.is_none());
        drawings.push(Drawing {
            suffix: "b".to_owned(),
            svg: lines_svg(&chart, &caption)?,
        });
    }
    Ok(drawings)
}

/// With the conditions of those parts that `shows` says are shown.
fn caption(results: &Results<'_>, shows: fn(&LockBench) -> bool) -> Caption {
    let mut settings = results.settings();
    settings.retain(|settings| settings.lock_bench.as_ref().is_some_and(shows));
    Caption {
        title: results.command().title.to_owned(),
        subtitle: conditions(&settings),
    }
}

fn orders(results: &Results<'_>) -> Result<String> {
    let rows = &results.report.runs;
    let served: Vec<&RunRow> = rows
        .iter()
        .filter(|row| row.class == Class::All && !row.order.is_empty())
        .collect();
    let columns = locks(rows).len();
    let panels = served.iter().filter_map(|row| {
        let order = row.order.first()?;
        let part = row
            .part
            .as_deref()
            .map_or(String::new(), |part| format!(", {part}"));
        Some(BarPanel {
            title: format!("{}{part}", row.lock),
            subtitle: waits_text(order),
            bars: bars(order),
        })
    });
    let chart = BarChart {
        columns,
        panels: panels.collect(),
    };
    bars_svg(&chart, &caption(results, |part| part.script.is_some()))
}

/// How long the last of each class has waited.
fn waits_text(order: &Order) -> String {
    let last = |class: Cohort| {
        let ns = order.last_wait_ns(class)?;
        Some(format!("last {class} waits {:.1} µs", ns as f64 / 1000.0))
    };
    let texts: Vec<String> = [last(Cohort::Local), last(Cohort::Remote)]
        .into_iter()
        .flatten()
        .collect();
    texts.join(", ")
}

fn bars(order: &Order) -> Vec<Bar> {
    let us = |ns: u64| ns as f64 / 1000.0;
    let requests = order.requests.iter();
    requests
        .map(|request| Bar {
            is_local: request.class == Cohort::Local,
            asked: us(request.arrival_ns),
            granted: us(request.grant_ns),
            ended: us(request.end_ns),
        })
        .collect()
}
