//! Results as tables for people.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::claims::Claim;
use crate::latency::Percentile;
use crate::report::RunRow;
use crate::settings::choice::path_name;

/// What stands where there are too few samples.
pub(crate) const NOTHING: &str = "–";

/// Microseconds with three significant digits: `0.760`, `44.2`, `1410`.
pub fn us_text(ns: u64) -> String {
    let us = ns as f64 / 1000.0;
    match us {
        _ if us < 9.995 => format!("{us:.2}"),
        _ if us < 99.95 => format!("{us:.1}"),
        _ => format!("{us:.0}"),
    }
}

/// Millions a second: `2.70`.
pub fn millions_text(per_second: f64) -> String {
    format!("{:.2}", per_second / 1e6)
}

pub(crate) fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table
}

/// The runs, a table for each setting, such as a distribution and a data path.
pub fn runs_text(rows: &[RunRow]) -> String {
    let mut text = String::new();
    let mut settings: Vec<String> = Vec::new();
    for row in rows {
        let setting = row.setting();
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    for setting in settings {
        let mut table = new_table();
        let percentiles = Percentile::ALL.map(|percentile| percentile.name);
        let header = ["lock", "class", "ops", "M ops/s"]
            .into_iter()
            .chain(percentiles)
            .chain(["max"]);
        table.set_header(header.enumerate().map(|(column, name)| {
            if column < 2 {
                Cell::new(name)
            } else {
                right(name)
            }
        }));
        for row in rows.iter().filter(|row| row.setting() == setting) {
            let latency = row.latency_ns;
            let values = latency.percentiles().into_iter().chain([latency.max]);
            table.add_row(
                [
                    Cell::new(&row.lock),
                    Cell::new(row.class),
                    right(row.ops),
                    right(millions_text(row.throughput_ops_s)),
                ]
                .into_iter()
                .chain(
                    values.map(|value| right(value.map_or_else(|| NOTHING.to_owned(), us_text))),
                ),
            );
        }
        // Writing to a String does not fail.
        let _ = writeln!(text, "{setting}; latency in µs\n{table}\n");
    }
    text
}

/// A line for each run that was verified.
pub fn verified_text(rows: &[RunRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let Some(verified) = row.verified else {
            continue;
        };
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{}, {}: verified {} keys ({} of them written), {} pages, {} cached copies of pages",
            row.lock,
            row.setting(),
            verified.keys,
            verified.written,
            verified.pages,
            verified.cached,
        );
    }
    text
}

/// What was published beside what was measured.
pub fn claims_text(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let over_seeds = claims.iter().any(|claim| claim.over_seeds.is_some());
    let of_paths = claims.iter().any(|claim| claim.data_path.is_some());
    let of_parts = claims.iter().any(|claim| claim.part.is_some());
    let mut table = new_table();
    table.set_header(
        ["claim"]
            .into_iter()
            .chain(of_parts.then_some("of"))
            .chain(of_paths.then_some("data path"))
            .chain(["published", "measured", "verdict"])
            .chain(over_seeds.then_some("over seeds")),
    );
    let nothing = || NOTHING.to_owned();
    for claim in claims {
        let path = claim
            .data_path
            .map_or_else(nothing, |path| path_name(path).to_owned());
        let verdict = claim.verdict.map_or_else(
            || "too few samples".to_owned(),
            |verdict| verdict.to_string(),
        );
        let over = claim
            .over_seeds
            .map_or_else(nothing, |over| over.text(claim.unit));
        table.add_row(
            [claim.id.to_owned()]
                .into_iter()
                .chain(of_parts.then(|| claim.part.clone().unwrap_or_default()))
                .chain(of_paths.then_some(path))
                .chain([
                    claim.published.to_owned(),
                    claim.measured_text().unwrap_or_else(nothing),
                    verdict,
                ])
                .chain(over_seeds.then_some(over)),
        );
    }
    let also = if over_seeds {
        "; of all seeds together.\nOver seeds: where its ends lie with each seed alone"
    } else {
        ""
    };
    format!(
        "what the paper says; measured is the least and the greatest of the ratios at P95, P99, P99.9 and P99.999, or\n\
         of the throughputs, over all runs that a claim is about{also}\n{table}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Range, Unit, Verdict};
    use dmtree_lock::DataPath;

    #[test]
    fn times_have_three_digits() {
        for (ns, text) in [
            (760, "0.76"),
            (9_994, "9.99"),
            (44_230, "44.2"),
            (99_960, "100"),
            (1_409_700, "1410"),
        ] {
            assert_eq!(us_text(ns), text);
        }
    }

    #[test]
    fn missing_percentiles_are_dashes_and_paths_have_tables() {
        let mut row = RunRow::for_test();
        row.latency_ns.p50 = Some(4_600);
        let other = RunRow {
            data_path: Some(DataPath::Loopback),
            ..row.clone()
        };
        let text = runs_text(&[row, other]);
        assert_eq!(text.matches("latency in µs").count(), 2);
        assert!(text.contains("by cpu") && text.contains("by loopback"));
        let line = text.lines().find(|line| line.contains("farlock")).unwrap();
        assert!(line.contains("4.60"), "{line}");
        assert_eq!(line.matches(NOTHING).count(), 6, "{line}");
    }

    #[test]
    fn claims_stand_beside_what_was_measured() {
        assert_eq!(claims_text(&[]), "");
        let claim = Claim {
            id: "f12-local-uniform",
            data_path: Some(DataPath::Cpu),
            part: None,
            unit: Unit::Ratio,
            published: "11–14×",
            measured: Some(Range {
                min: 0.514,
                max: 44.0,
            }),
            over_seeds: None,
            verdict: Some(Verdict::Fails),
        };
        let unjudged = Claim {
            measured: None,
            verdict: None,
            ..claim.clone()
        };
        let text = claims_text(&[claim, unjudged]);
        for part in [
            "f12-local-uniform",
            "11–14×",
            "0.51–44×",
            "fails",
            "too few samples",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
