//! The study as JSON and CSV: what `bench` writes, with each run's setting.

use serde::Serialize;
use serde_json::Value;

use super::Study;
use super::dependence::Dependence;
use crate::claims::Claim;
use crate::csv_text::csv_text;
use crate::error::{Failure, Result};
use crate::report::{Report, RunRow, SCHEMA, Simulator};

#[derive(Serialize)]
struct Run<'a> {
    setting: &'a str,
    flags: &'a str,
    #[serde(flatten)]
    run: &'a RunRow,
}

#[derive(Serialize)]
struct SettingClaim<'a> {
    setting: &'a str,
    #[serde(flatten)]
    claim: &'a Claim,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    command: &'a str,
    version: &'a str,
    fabric: &'a str,
    time: &'a str,
    /// Of the base; flags of a setting can name another.
    profile: Option<&'a str>,
    /// Of the base.
    config: &'a Value,
    /// What makes a run of the base with `bench`.
    base: &'a str,
    runs: Vec<Run<'a>>,
    simulator: Simulator,
    claims: Vec<SettingClaim<'a>>,
    dependences: &'a [Dependence],
}

/// `reports` are those of the settings, in the order of the study.
///
/// # Errors
/// [`Failure::Work`]; none in practice.
pub(super) fn json_text(
    study: &Study,
    reports: &[Report],
    dependences: &[Dependence],
) -> Result<String> {
    let failed = |why: &dyn std::fmt::Display| Failure::Work(format!("cannot write JSON: {why}"));
    let base = reports.first().ok_or_else(|| failed(&"there is no base"))?;
    let labels: Vec<(String, String)> = study
        .rows
        .iter()
        .map(|row| (row.setting.name(), row.setting.flags.join(" ")))
        .collect();
    let simulators = || reports.iter().filter_map(|report| report.simulator);
    let labelled = || study.rows.iter().zip(&labels);
    let document = Document {
        schema: SCHEMA,
        command: &base.command,
        version: base.version,
        fabric: &base.fabric,
        time: base.time,
        profile: base.profile.as_deref(),
        config: &base.config,
        base: &study.base_command,
        runs: labelled()
            .flat_map(|(row, (setting, flags))| {
                row.runs.iter().map(move |run| Run {
                    setting,
                    flags,
                    run,
                })
            })
            .collect(),
        simulator: Simulator {
            events: simulators().map(|simulator| simulator.events).sum(),
            folded: simulators().map(|simulator| simulator.folded).sum(),
            verbs: simulators().map(|simulator| simulator.verbs).sum(),
            wall_s: simulators().map(|simulator| simulator.wall_s).sum(),
        },
        claims: labelled()
            .flat_map(|(row, (setting, _))| {
                row.claims
                    .iter()
                    .map(move |claim| SettingClaim { setting, claim })
            })
            .collect(),
        dependences,
    };
    let mut text = serde_json::to_string_pretty(&document).map_err(|error| failed(&error))?;
    text.push('\n');
    Ok(text)
}

/// The CSV of `bench` with setting and flags before it.
///
/// # Errors
/// None in practice: it is written to memory.
pub(super) fn csv_of(study: &Study, reports: &[Report]) -> Result<String> {
    let failed = |why: &dyn std::fmt::Display| Failure::Work(format!("cannot write CSV: {why}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut has_header = false;
    for (row, report) in study.rows.iter().zip(reports) {
        let text = csv_text(report)?;
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        if !has_header {
            has_header = true;
            let names = reader.headers().map_err(|error| failed(&error))?;
            let header = ["setting", "flags"].into_iter().chain(names);
            writer
                .write_record(header)
                .map_err(|error| failed(&error))?;
        }
        let (setting, flags) = (row.setting.name(), row.setting.flags.join(" "));
        for line in reader.records() {
            let line = line.map_err(|error| failed(&error))?;
            let cells = [setting.as_str(), flags.as_str()].into_iter().chain(&line);
            writer.write_record(cells).map_err(|error| failed(&error))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}
