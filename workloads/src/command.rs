//! What `bench` and `figure` have in common: from options to printed and written results.

use std::thread::available_parallelism;

use crate::claims::{Claim, judge_figure_12};
use crate::console::Console;
use crate::csv_text::csv_text;
use crate::error::{Failure, Result};
use crate::figure12;
use crate::files::{check_directory, check_file, write_whole};
use crate::inserts::inserts_text;
use crate::memory::{available_bytes, runs_that_fit};
use crate::progress::Progress;
use crate::report::RunRow;
use crate::results::{conditions, json_text, notes, report, write_all};
use crate::run::{RunPlan, RunSpec, nanos, runs_of};
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::value::Place;
use crate::settings::{Options, Settings, config_text, quick_options};
use crate::sweep::run_all;
use crate::table::{claims_text, runs_text, verified_text};

/// A command that runs a sweep and reports it.
#[derive(Debug)]
pub struct Command {
    /// As typed, and in the report.
    pub name: &'static str,
    /// Of its result files.
    pub file_name: &'static str,
    /// Above its figures.
    pub title: &'static str,
    /// What it changes of the general defaults.
    pub defaults: fn() -> Options,
    /// What `--quick` changes of them.
    pub quick: fn() -> Options,
    /// Finds its claims in the rows of its runs.
    pub judge: fn(&Settings, &[RunRow]) -> Vec<Claim>,
}

/// `dmtree bench`.
pub const BENCH: Command = Command {
    name: "bench",
    file_name: "bench",
    title: "Latency of the tree's operations, by lock",
    defaults: Options::default,
    quick: quick_options,
    judge: |_, _| Vec::new(),
};

/// What `figure` performs.
#[derive(Clone, Copy, Debug)]
pub enum Figure {
    /// One sweep.
    Sweep(&'static Command),
    /// The study of [`sensitivity`](crate::sensitivity).
    Sensitivity,
}

/// The figure called `name`.
///
/// # Errors
/// [`Failure::Usage`] when there is none, naming those that exist.
pub fn figure(name: &str) -> Result<Figure> {
    match name {
        "12" => Ok(Figure::Sweep(&figure12::COMMAND)),
        "sensitivity" => Ok(Figure::Sensitivity),
        _ => Err(Failure::Usage(format!(
            "there is no figure {name} here; there are 12 and sensitivity"
        ))),
    }
}

/// Performs `command` with the options that were given; `only_print` prints the effective ones
/// instead.
///
/// # Errors
/// [`Failure::Usage`] before anything is run or written, [`Failure::Work`] afterwards.
pub fn perform(command: &Command, given: Options, only_print: bool) -> Result<()> {
    let quick = given.quick.is_some_and(|quick| quick.is_on());
    let quick = if quick {
        (command.quick)()
    } else {
        Options::default()
    };
    let outputs = given.or(quick).or((command.defaults)());
    let settings = Settings::of(outputs)?;
    if only_print {
        return Console::Stdout.print(&effective_config(&settings)?);
    }
    let runs = runs_of(&settings);
    let threads = threads_for(&settings, &runs)?;
    check_outputs(&settings)?;

    let total_ns = (settings.warmup + settings.window).as_nanos() as u64 * runs.len() as u64;
    let progress = Progress::new(total_ns);
    let outcomes = run_all(&runs, threads, |spec, abandon| {
        RunPlan::new(&settings, spec)?.execute(&progress, abandon)
    });
    progress.end();
    let outcomes = outcomes?;
    let traced = outcomes
        .iter()
        .filter_map(|outcome| outcome.trace.as_ref())
        .try_for_each(|trace| Console::Stderr.print(&trace.clone()?.text()));

    let report = report(command.name, &settings, &outcomes, |rows| {
        (command.judge)(&settings, rows)
    })?;
    let written = settings.out.as_ref().map_or(Ok(()), |out| {
        write_all(
            out.path(),
            command.file_name,
            command.title,
            &settings,
            &outcomes,
            &report,
        )
    });
    let text = format!(
        "{}: {}\n{}\n{}{}{}{}{}",
        command.title,
        conditions(&settings),
        notes(&settings),
        runs_text(&report.runs),
        inserts_text(&report.runs),
        verified_text(&report.runs),
        claims_text(&report.claims),
        match &settings.out {
            Some(out) if written.is_ok() => format!("results are in {out}\n"),
            _ => String::new(),
        },
    );
    let taken = [&settings.json, &settings.csv]
        .into_iter()
        .flatten()
        .any(Place::is_stdout);
    let json = settings
        .json
        .as_ref()
        .map_or(Ok(()), |place| write_data(place, &json_text(&report)?));
    let csv = settings
        .csv
        .as_ref()
        .map_or(Ok(()), |place| write_data(place, &csv_text(&report)?));
    let console = if taken {
        Console::Stderr
    } else {
        Console::Stdout
    };
    // A full disk must not cost the results of a long run: they are shown all the same.
    let printed = console.print(&text);
    written.and(json).and(csv).and(traced).and(printed)
}

/// The effective options as a config file.
pub(crate) fn effective_config(settings: &Settings) -> Result<String> {
    let trace = settings.trace.as_ref();
    config_text(&Options {
        out: settings.out.clone(),
        json: settings.json.clone(),
        csv: settings.csv.clone(),
        trace: trace.map(|trace| trace.place.clone()),
        trace_from: trace.map(|trace| Time::from_ns(nanos(trace.from))),
        trace_for: trace.map(|trace| PositiveTime::from_ns(nanos(trace.length))),
        verify: Some(settings.verify.into()),
        lock_memory: Some(settings.asked_lock_memory),
        ..settings.options.clone()
    })
}

/// On how many threads the runs fit into memory.
fn threads_for(settings: &Settings, runs: &[RunSpec]) -> Result<usize> {
    let mut most = 0;
    for spec in runs {
        most = most.max(RunPlan::new(settings, spec)?.bytes());
    }
    let cores = available_parallelism().map_or(1, |cores| cores.get());
    runs_that_fit(most, available_bytes(), cores.min(runs.len()))
}

/// Finds out now what would keep results from being written after the work. The directory comes
/// last, as it is made by this.
pub(crate) fn check_outputs(settings: &Settings) -> Result<()> {
    let trace = settings.trace.as_ref().map(|trace| &trace.place);
    for (flag, place) in [
        ("--json", settings.json.as_ref()),
        ("--csv", settings.csv.as_ref()),
        ("--trace", trace),
    ] {
        if let Some(place) = place {
            check_file(flag, place)?;
        }
    }
    settings
        .out
        .as_ref()
        .map_or(Ok(()), |out| check_directory("--out", out))
}

pub(crate) fn write_data(place: &Place, text: &str) -> Result<()> {
    if place.is_stdout() {
        Console::Stdout.print(text)
    } else {
        write_whole(place.path(), text)
    }
}

/// The claims of Figure 12, data path by data path.
pub(crate) fn figure_12_claims(settings: &Settings, rows: &[RunRow]) -> Vec<Claim> {
    settings
        .data_paths
        .each()
        .iter()
        .flat_map(|path| judge_figure_12(rows, *path))
        .collect()
}
