//! The study as a table: for a terminal, and as Markdown.

use comfy_table::{Table, presets};

use super::dependence::Dependence;
use super::{Study, StudyRow};
use crate::claims::{Claim, Verdict};
use crate::report::Class;
use crate::table::{NOTHING, millions_text};

/// The verdicts' marks.
const LEGEND: &str = "✓ holds, ~ direction (right sign, wrong size), ✗ fails";

fn mark(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Holds) => "✓",
        Some(Verdict::Direction) => "~",
        Some(Verdict::Fails) => "✗",
        None => "",
    }
}

fn claim_text(claim: Option<&Claim>) -> String {
    let measured = claim.and_then(|claim| Some((claim.measured_text()?, claim.verdict)));
    measured.map_or_else(
        || NOTHING.to_owned(),
        |(measured, verdict)| format!("{measured} {}", mark(verdict)),
    )
}

/// Throughput of `lock` with each distribution: `1.62 1.32`.
fn throughput_text(row: &StudyRow, lock: &str) -> String {
    let values: Vec<String> = row
        .runs
        .iter()
        .filter(|run| run.lock == lock && run.class == Class::All)
        .map(|run| millions_text(run.throughput_ops_s))
        .collect();
    values.join(" ")
}

/// `f12-local-uniform` without the figure, and the size that was published.
fn heading(claim: &Claim) -> (String, String) {
    let name = claim.id.trim_start_matches("f12-").to_owned();
    let size = claim.published.split(' ').find(|word| word.ends_with('×'));
    let size = size.unwrap_or_else(|| claim.published.trim_start_matches("total throughput "));
    (name, size.to_owned())
}

fn header(study: &Study, line: &str) -> Vec<String> {
    let claims = study.base().map_or(&[][..], |base| &base.claims);
    let mut cells = vec!["setting".to_owned()];
    cells.extend(claims.iter().map(|claim| {
        let (name, size) = heading(claim);
        format!("{name}{line}{size}")
    }));
    cells.extend(["sherman", "farlock"].map(|lock| format!("{lock}{line}M updates/s")));
    cells
}

fn cells(study: &Study, row: &StudyRow) -> Vec<String> {
    let claims = study.base().map_or(&[][..], |base| &base.claims);
    let mut cells = vec![row.setting.name()];
    cells.extend(claims.iter().map(|claim| {
        let found = row.claims.iter().find(|other| other.id == claim.id);
        claim_text(found)
    }));
    cells.extend(["sherman", "farlock"].map(|lock| throughput_text(row, lock)));
    cells
}

fn distributions(study: &Study) -> String {
    let names: Vec<String> = study
        .base()
        .map_or(&[][..], |base| &base.setting.settings.distributions)
        .iter()
        .map(ToString::to_string)
        .collect();
    names.join(", ")
}

fn legend(study: &Study) -> String {
    format!(
        "{LEGEND}; throughput: {}, one after the other",
        distributions(study)
    )
}

/// For a terminal: the table, what the settings' flags are, and what the claims depend on.
pub fn text(study: &Study, dependences: &str) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header(study, "\n"));
    let mut flags = Table::new();
    flags.load_style(presets::NOTHING);
    for row in &study.rows {
        table.add_row(cells(study, row));
        if !row.setting.is_base() {
            flags.add_row([row.setting.name(), row.setting.flags.join(" ")]);
        }
    }
    format!(
        "{table}\n{}\n\n{dependences}\nthe base:\n  {}\nthe others are the base and:\n{}\n\n",
        legend(study),
        study.base_command,
        flags
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

/// As Markdown, ready to be pasted into a document.
pub fn markdown(study: &Study, dependences: &[Dependence], dependences_text: &str) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header = header(study, ", ");
    let mut text = format!("    {}\n\n", study.base_command);
    text += &line(&[&header[..], &["flags".to_owned()]].concat());
    text += &format!("|{}\n", "---|".repeat(header.len() + 1));
    for row in &study.rows {
        let mut cells = cells(study, row);
        cells.push(match row.setting.flags.as_slice() {
            [] => String::new(),
            flags => format!("`{}`", flags.join(" ")),
        });
        text += &line(&cells);
    }
    text += &format!("\n{}.\n\n", legend(study));
    if !dependences.is_empty() {
        for line in dependences_text.lines() {
            text += &format!("* {line}\n");
        }
    }
    text
}
