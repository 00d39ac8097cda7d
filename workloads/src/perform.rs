//! From options to printed and written results.

use crate::command::Command;
use crate::console::Console;
use crate::csv_text::csv_text;
use crate::error::Result;
use crate::files::{check_directory, check_file, make_way, write_whole};
use crate::inserts::inserts_text;
use crate::jobs::{run_jobs, threads_for};
use crate::lock_bench::order::order_text;
use crate::lock_bench::table::fairness_text;
use crate::plan::{Plan, Results};
use crate::real::launch::{self, ClusterWanted};
use crate::remarks::{ended_early, nothing_measured, short_window};
use crate::results::{conditions, json_text, notes, write_all};
use crate::seeds::over_seeds_text;
use crate::settings::choice::Fabric;
use crate::settings::value::Place;
use crate::settings::{Options, Settings};
use crate::store::Resume;
use crate::table::{claims_text, runs_text, verified_text};

/// Performs `command` with the options that were given; `only_print` prints the effective ones
/// instead.
///
/// # Errors
/// [`crate::Failure::Usage`] before anything is run or written, [`crate::Failure::Work`] afterwards.
pub fn perform(command: &'static Command, given: Options, only_print: bool) -> Result<()> {
    if given.fabric.is_some_and(|fabric| fabric != Fabric::Sim) {
        return launch::perform(command, &ClusterWanted::on_this(), given, only_print);
    }
    let plan = Plan::of(command, given)?;
    if only_print {
        return Console::Stdout.print(&plan.effective_config()?);
    }
    let settings = plan.base();
    let jobs = plan.jobs();
    let mut resume = Resume::of(settings, &jobs)?;
    let threads = threads_for(&resume.left(&jobs))?;
    check_outputs(settings, command.file_name)?;
    resume.prepare()?;
    // Where nobody can be told, the results are worth no less.
    drop(Console::Stderr.print(&resume.text()));
    let outcomes = run_jobs(&jobs, resume, threads)?;
    deliver(&plan.results(outcomes)?)
}

/// Prints and writes the results of a command.
///
/// # Errors
/// [`Failure::Work`] naming what could not be written.
pub(crate) fn deliver(results: &Results<'_>) -> Result<()> {
    let (command, settings) = (results.command(), results.base());
    let recorded = results
        .recorded()
        .map(|text| Console::Stderr.print(&text?))
        .fold(Ok(()), Result::and);

    let written = settings
        .out
        .as_ref()
        .map_or(Ok(()), |out| write_all(out.path(), results));
    let mut text = (command.tell)(results);
    if let (Some(out), Ok(())) = (&settings.out, &written) {
        text += &written_in(out);
    }
    let report = &results.report;
    let json = settings
        .json
        .as_ref()
        .map_or(Ok(()), |place| write_data(place, &json_text(report)?));
    let csv = settings
        .csv
        .as_ref()
        .map_or(Ok(()), |place| write_data(place, &csv_text(report)?));
    // A full disk must not cost the results of a long run: they are shown all the same.
    let printed = console_beside(settings).print(&text);
    written.and(json).and(csv).and(recorded).and(printed)
}

/// Where people read, when standard output may belong to data.
pub(crate) fn console_beside(settings: &Settings) -> Console {
    let mut data = [&settings.json, &settings.csv].into_iter().flatten();
    if data.any(Place::is_stdout) {
        Console::Stderr
    } else {
        Console::Stdout
    }
}

/// Where results are, for people.
pub(crate) fn written_in(out: &Place) -> String {
    format!("results are in {out}\n")
}

/// The results for people.
pub(crate) fn figure_text(results: &Results<'_>) -> String {
    let (settings, report) = (results.base(), &results.report);
    format!(
        "{}: {}\n{}\n{}{}{}{}{}{}{}{}{}",
        results.command().title,
        conditions(&results.settings()),
        notes(settings),
        runs_text(&report.runs),
        over_seeds_text(&report.runs),
        fairness_text(&report.runs),
        order_text(&report.runs),
        ended_early(&report.runs) + &nothing_measured(&report.runs) + &short_window(&report.runs),
        inserts_text(&report.runs),
        verified_text(&report.runs),
        claims_text(&report.claims),
        (results.command().remark)(settings, &report.runs)
            .map_or(String::new(), |line| line + "\n"),
    )
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
