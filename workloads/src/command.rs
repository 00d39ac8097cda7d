//! What `bench`, `lock-bench` and `figure` have in common: from options to printed and written results.

use std::thread::available_parallelism;

use crate::claims::{Claim, judge_figure_12};
use crate::console::Console;
use crate::csv_text::csv_text;
use crate::error::{Failure, Result};
use crate::figure12;
use crate::files::{check_directory, check_file, make_way, write_whole};
use crate::fitting::{advice, needed};
use crate::inserts::inserts_text;
use crate::lock_bench::order::order_text;
use crate::lock_bench::table::fairness_text;
use crate::lock_bench::wanted::check_given;
use crate::memory::{available_bytes, runs_that_fit};
use crate::progress::Progress;
use crate::remarks::{nothing_measured, short_window};
use crate::report::RunRow;
use crate::results::{conditions, json_text, notes, report, write_all};
use crate::run::{RunOutcome, RunPlan, RunSpec, nanos, runs_of};
use crate::seeds::over_seeds_text;
use crate::settings::choice::Switch;
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::value::Place;
use crate::settings::{Options, Settings, Subject, config_text, quick_options};
use crate::store::Resume;
use crate::sweep::run_all;
use crate::table::{claims_text, runs_text, verified_text};

/// A command that runs a sweep and reports it.
#[derive(Debug)]
pub struct Command {
    /// As typed, and in the report.
    pub name: &'static str,
    /// What its clients work on.
    pub subject: Subject,
    /// Of its result files.
    pub file_name: &'static str,
    /// Above its figures.
    pub title: &'static str,
    /// What it changes of the general defaults, where those options are given.
    pub defaults: fn(&Options) -> Options,
    /// What `--quick` changes of them.
    pub quick: fn() -> Options,
    /// What `--paper` changes of them; none where there is no such thing.
    pub paper: Option<fn() -> Options>,
    /// Finds its claims in the rows of its runs.
    pub judge: fn(&Settings, &[RunRow]) -> Vec<Claim>,
    /// A line about its claims, if there is something to say.
    pub remark: fn(&Settings) -> Option<String>,
}

/// `dmtree bench`.
pub const BENCH: Command = Command {
    name: "bench",
    subject: Subject::Tree,
    file_name: "bench",
    title: "Latency of the tree's operations, by lock",
    defaults: |_| Options::default(),
    quick: quick_options,
    paper: None,
    judge: |_, _| Vec::new(),
    remark: |_| None,
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
    command.subject.check(&given)?;
    check_given(&given)?;
    let size = size_options(command, &given)?;
    let defaults = (command.defaults)(&given);
    let settings = Settings::about(command.subject, given.or(size).or(defaults))?;
    if only_print {
        return Console::Stdout.print(&effective_config(&settings)?);
    }
    let runs = runs_of(&settings);
    let mut resume = Resume::of(&settings, &runs)?;
    let left = resume.left(&runs);
    let threads = threads_for(&settings, &left)?;
    check_outputs(&settings, command.file_name)?;
    resume.prepare()?;
    // Where nobody can be told, the results are worth no less.
    drop(Console::Stderr.print(&resume.text()));

    let ns_a_run = nanos(settings.warmup + settings.window);
    let [total_ns, done_ns] = [runs.len(), resume.done()].map(|runs| ns_a_run * runs as u64);
    let progress = Progress::resumed(total_ns, done_ns);
    let outcomes = run_all(&left, threads, |spec, abandon| {
        let outcome = RunPlan::new(&settings, spec)?.execute(&progress, abandon)?;
        resume.keep(&outcome, &progress);
        Ok(outcome)
    });
    progress.end();
    let outcomes = resume.complete(outcomes?);
    let recorded = outcomes
        .iter()
        .flat_map(RunOutcome::recorded)
        .map(|text| Console::Stderr.print(&text?))
        .fold(Ok(()), Result::and);

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
        "{}: {}\n{}\n{}{}{}{}{}{}{}{}{}{}",
        command.title,
        conditions(&settings),
        notes(&settings),
        runs_text(&report.runs),
        over_seeds_text(&report.runs),
        fairness_text(&report.runs),
        order_text(&report.runs),
        nothing_measured(&report.runs) + &short_window(&report.runs),
        inserts_text(&report.runs),
        verified_text(&report.runs),
        claims_text(&report.claims),
        (command.remark)(&settings).map_or(String::new(), |line| line + "\n"),
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
    written.and(json).and(csv).and(recorded).and(printed)
}

/// What `--quick` or `--paper` changes of the defaults.
fn size_options(command: &Command, given: &Options) -> Result<Options> {
    let is_on = |switch: Option<Switch>| switch.is_some_and(Switch::is_on);
    match (is_on(given.quick), is_on(given.paper), command.paper) {
        (true, true, _) => Err(Failure::Usage(
            "--quick and --paper contradict each other: one is smaller than the defaults, the other larger; give \
             one of them, or --quick=off or --paper=off against a config file"
                .to_owned(),
        )),
        (_, true, None) => Err(Failure::Usage(format!(
            "--paper is for figures, such as figure 12 --paper; for {} give {}--seconds, --warmup and --seeds",
            command.name,
            match command.subject {
                Subject::Tree => "--keys, ",
                Subject::Locks => "",
            }
        ))),
        (_, true, Some(paper)) => Ok(paper()),
        (true, ..) => Ok((command.quick)()),
        _ => Ok(Options::default()),
    }
}

/// The effective options as a config file.
pub(crate) fn effective_config(settings: &Settings) -> Result<String> {
    let (trace, timeline) = (settings.trace.as_ref(), settings.timeline.as_ref());
    config_text(&settings.subject().own(Options {
        out: settings.out.clone(),
        json: settings.json.clone(),
        csv: settings.csv.clone(),
        trace: trace.map(|trace| trace.place.clone()),
        trace_from: trace.map(|trace| Time::from_ns(nanos(trace.from))),
        trace_for: trace.map(|trace| PositiveTime::from_ns(nanos(trace.length))),
        timeline: timeline.map(|timeline| timeline.place.clone()),
        timeline_every: timeline.map(|timeline| PositiveTime::from_ns(nanos(timeline.every))),
        verify: Some(settings.verify.into()),
        resume: Some(settings.resume.into()),
        ..settings.options.clone()
    }))
}

/// On how many threads the runs fit into memory.
fn threads_for(settings: &Settings, runs: &[RunSpec]) -> Result<usize> {
    let most = needed(settings, runs)?;
    let cores = available_parallelism().map_or(1, |cores| cores.get());
    runs_that_fit(most, available_bytes(), cores.min(runs.len()), |usable| {
        advice(settings, runs, usable)
    })
}

/// Finds out now what would keep results from being written after the work. Directories are made
/// last, when all files are known to be right.
pub(crate) fn check_outputs(settings: &Settings, name: &str) -> Result<()> {
    settings.check_out_differs(name)?;
    for (flag, place) in settings.files() {
        check_file(flag, place)?;
    }
    if let Some(out) = &settings.out {
        check_directory("--out", out)?;
    }
    for (flag, place) in settings.files() {
        make_way(flag, place)?;
    }
    Ok(())
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
