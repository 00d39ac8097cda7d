//! `dmtree figure sensitivity`: how the claims about Figure 12 depend on each parameter.
//!
//! The base is Figure 12's cluster with local page data by loopback. Each parameter is varied alone from there; a
//! setting is what flags of `bench` make of the base, so that each can be run again on its own. Nothing says how
//! parameters act together.

pub mod dependence;
mod document;
pub mod setting;
pub mod table;
mod variations;

use dmtree_lock::LockSpec;

use crate::claims::Claim;
use crate::command::{BENCH, Command};
use crate::console::Console;
use crate::error::{Failure, Result};
use crate::figures::figure12;
use crate::files::write_whole;
use crate::jobs::{Job, run_jobs, threads_for};
use crate::lock_bench::wanted::check_given;
use crate::mix::Mix;
use crate::perform::{check_outputs, console_beside, write_data};
use crate::plan::{Plan, effective_config};
use crate::plot::Caption;
use crate::plot::sensitivity::sensitivity_svg;
use crate::report::{Report, RunRow};
use crate::results::{conditions, notes};
use crate::run::RunOutcome;
use crate::settings::choice::{DataPaths, Switch};
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::value::{Bounded, Place};
use crate::settings::{Options, Settings, Subject, flags};
use crate::store::Resume;

use dependence::{Judged, dependences, dependences_text};
use setting::{Setting, settings_of};

const TITLE: &str = "Sensitivity: what the claims about Figure 12 depend on";

/// What makes the report of one setting.
const COMMAND: Command = Command {
    name: "figure sensitivity",
    title: TITLE,
    judge: figure12::claims,
    remark: |_, _| None,
    ..figure12::COMMAND
};

/// What one setting came to.
#[derive(Clone, Debug)]
pub struct StudyRow {
    /// The setting.
    pub setting: Setting,
    /// Its claims.
    pub claims: Vec<Claim>,
    /// Its runs, class by class.
    pub runs: Vec<RunRow>,
}

/// What all came to, the base first.
#[derive(Clone, Debug)]
pub struct Study {
    /// How `bench` makes the base.
    pub base_command: String,
    /// The settings, grouped by parameter.
    pub rows: Vec<StudyRow>,
}

impl Study {
    /// The base.
    pub fn base(&self) -> Option<&StudyRow> {
        self.rows.first()
    }

    /// The claims of each row, and those of the base, on the percentiles that both have.
    fn alike(&self) -> Vec<[Vec<Claim>; 2]> {
        let Some(base) = self.base() else {
            return Vec::new();
        };
        let claims = |row: &StudyRow, other: &StudyRow| {
            figure12::claims(&row.setting.settings, &where_also(&row.runs, &other.runs))
        };
        let rows = self.rows.iter();
        rows.map(|row| [claims(row, base), claims(base, row)])
            .collect()
    }
}

/// `runs`, without the percentiles that the same runs of `others` lack.
fn where_also(runs: &[RunRow], others: &[RunRow]) -> Vec<RunRow> {
    let name = |row: &RunRow| (row.lock.clone(), row.distribution.clone(), row.class);
    runs.iter()
        .map(|row| {
            let mut row = row.clone();
            if let Some(other) = others.iter().find(|other| name(other) == name(&row)) {
                row.latency_ns = row.latency_ns.where_also(&other.latency_ns);
            }
            row
        })
        .collect()
}

/// Figure 12's cluster; the two locks and distributions that its claims compare; a window in which the slowest class
/// has twenty operations beyond its P99.9.
fn defaults() -> Options {
    let known = "every default is a value of its option";
    Options {
        lock: Some("sherman,farlock".parse().expect(known)),
        data_path: Some(DataPaths::Loopback),
        seconds: Some(PositiveTime::from_ns(250_000_000)),
        warmup: Some(Time::from_ns(20_000_000)),
        out: Some("results/sensitivity".parse().expect(known)),
        ..(figure12::COMMAND.defaults)(&Options::default())
    }
}

fn quick() -> Options {
    Options {
        keys: Some(Bounded::new(1_000_000)),
        seconds: Some(PositiveTime::from_ns(30_000_000)),
        warmup: Some(Time::from_ns(5_000_000)),
        ..Options::default()
    }
}

/// Performs the study with the options that were given, which change its base; `only_print` prints the base's
/// effective options instead.
///
/// # Errors
/// [`Failure::Usage`] before anything is run or written, [`Failure::Work`] afterwards.
pub fn perform(given: Options, only_print: bool) -> Result<()> {
    Subject::Tree.check(&given)?;
    check_given(&given)?;
    for (flag, is_given) in [
        ("--trace", given.trace.is_some()),
        ("--timeline", given.timeline.is_some()),
    ] {
        if is_given {
            return Err(Failure::Usage(format!(
                "{flag}: the study is of many runs and has none of it; give it to bench, with the flags of a row"
            )));
        }
    }
    let is_quick = given.quick.is_some_and(|quick| quick.is_on());
    let quick = if is_quick {
        quick()
    } else {
        Options::default()
    };
    let options = given.or(quick).or(defaults());
    let base = Settings::of(options.clone())?;
    if only_print {
        return Console::Stdout.print(&effective_config(&base)?);
    }
    check_claims(&base)?;
    check_size(&options, &base)?;
    let settings = settings_of(&options)?;
    let names: Vec<String> = settings
        .iter()
        .map(|setting| format!("setting {}", setting.name()))
        .collect();
    // Those of fast RNICs take longest, and are last in the table: they begin first.
    let mut jobs: Vec<Job<'_>> = settings
        .iter()
        .zip(&names)
        .flat_map(|(setting, name)| Job::all_of(name, &setting.settings))
        .collect();
    jobs.reverse();
    let threads = threads_for(&jobs)?;
    check_outputs(&base, "sensitivity")?;

    let mut outcomes = run_jobs(&jobs, Resume::of(&base, &jobs)?, threads)?;
    outcomes.reverse();
    let (study, reports) = study(settings, outcomes)?;
    let alike = study.alike();
    let judged: Vec<Judged<'_>> = study
        .rows
        .iter()
        .zip(&alike)
        .map(|(row, [alike, base_alike])| Judged {
            parameter: row.setting.parameter,
            value: &row.setting.value,
            claims: &row.claims,
            alike,
            base_alike,
        })
        .collect();
    let dependences = dependences(&judged);
    let conclusions = dependences_text(&dependences);
    let json = document::json_text(&study, &reports, &dependences)?;
    let csv = document::csv_of(&study, &reports)?;
    let written = base.out.as_ref().map_or(Ok(()), |out| {
        let write = |name: &str, text: &str| {
            write_whole(&out.path().join(format!("sensitivity.{name}")), text)
        };
        write("json", &json)?;
        write("csv", &csv)?;
        write("md", &table::markdown(&study, &dependences, &conclusions))?;
        let caption = Caption {
            title: TITLE.to_owned(),
            subtitle: heading(&base),
        };
        write("svg", &sensitivity_svg(&study, &caption)?)
    });
    let text = format!(
        "{TITLE}\nthe base: {}\n{}\n{}{}",
        heading(&base),
        notes(&base),
        table::text(&study, &conclusions),
        match &base.out {
            Some(out) if written.is_ok() => format!("results are in {out}\n"),
            _ => String::new(),
        }
    );
    let data = |place: &Option<Place>, text: &str| {
        place
            .as_ref()
            .map_or(Ok(()), |place| write_data(place, text))
    };
    let (json, csv) = (data(&base.json, &json), data(&base.csv, &csv));
    // A full disk must not cost the results of a long run: they are shown all the same.
    let printed = console_beside(&base).print(&text);
    written.and(json).and(csv).and(printed)
}

fn heading(base: &Settings) -> String {
    format!(
        "{}, local page data by {}",
        conditions(&[base]),
        base.data_paths
    )
}

/// Refuses what leaves nothing of the claims.
fn check_claims(base: &Settings) -> Result<()> {
    for lock in ["sherman", "farlock"] {
        if !base.locks.iter().any(|other| other.to_string() == lock) {
            return Err(Failure::Usage(format!(
                "--lock {}: the claims compare sherman and farlock; {lock} is not among them",
                list(&base.locks)
            )));
        }
    }
    if base.mix != Mix::update() {
        return Err(Failure::Usage(format!(
            "--mix {}: the claims are about updates; leave it out or say --mix update",
            base.mix
        )));
    }
    let known = ["uniform", "zipf:0.99"];
    if !base
        .distributions
        .iter()
        .any(|distribution| known.contains(&distribution.to_string().as_str()))
    {
        return Err(Failure::Usage(
            "--distribution: the claims are about uniform and zipf:0.99; neither is there"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Refuses what the study does not do.
fn check_size(options: &Options, base: &Settings) -> Result<()> {
    if options.paper.is_some_and(Switch::is_on) {
        return Err(Failure::Usage(
            "--paper is for figure 12; the study varies the number of keys itself, and takes --keys, --seconds, \
             --warmup and --seeds for its base"
                .to_owned(),
        ));
    }
    if base.resume {
        return Err(Failure::Usage(
            "--resume on: the study keeps no finished runs; leave it out".to_owned(),
        ));
    }
    Ok(())
}

fn list(locks: &[LockSpec]) -> String {
    let names: Vec<String> = locks.iter().map(ToString::to_string).collect();
    names.join(",")
}

/// The study, and the report of each of its settings.
fn study(settings: Vec<Setting>, outcomes: Vec<RunOutcome>) -> Result<(Study, Vec<Report>)> {
    let base = settings.first().map(|base| base.settings.options.clone());
    let bench = Settings::of((BENCH.defaults)(&Options::default()))?;
    let flags = flags::difference(&base.unwrap_or_default(), &bench.options)?;
    let (mut rows, mut reports) = (Vec::new(), Vec::new());
    let mut outcomes = outcomes.into_iter();
    for setting in settings {
        let runs = Job::all_of("", &setting.settings).count();
        let of_setting = outcomes.by_ref().take(runs).collect();
        let plan = Plan::single(&COMMAND, setting.settings.clone());
        let report = plan.results(of_setting)?.report;
        rows.push(StudyRow {
            setting,
            claims: report.claims.clone(),
            runs: report.runs.clone(),
        });
        reports.push(report);
    }
    let study = Study {
        base_command: format!("dmtree bench {}", flags.join(" ")),
        rows,
    };
    Ok((study, reports))
}
