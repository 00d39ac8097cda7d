//! `dmtree figure all`: every figure of the FARLock paper that there is here, as one sweep. A run that several figures
//! want is run once.

use std::collections::HashMap;
use std::path::PathBuf;

use super::{figure3, figure7, figure8, figure9, figure10, figure11, figure12};
use crate::command::Command;
use crate::console::Console;
use crate::error::{Failure, Result};
use crate::files::{check_directory, write_whole};
use crate::jobs::{Job, run_jobs, threads_for};
use crate::page::{ClaimLine, Link, Page, Section};
use crate::perform::written_in;
use crate::plan::{Plan, Results, has_arrivals};
use crate::results::{conditions, write_all};
use crate::settings::choice::Switch;
use crate::settings::quantity::PositiveTime;
use crate::settings::value::{Bounded, Place};
use crate::settings::{Options, Settings};
use crate::store::Resume;

/// In the order of their numbers.
const FIGURES: [&Command; 7] = [
    &figure3::COMMAND,
    &figure7::COMMAND,
    &figure8::COMMAND,
    &figure9::COMMAND,
    &figure10::COMMAND,
    &figure11::COMMAND,
    &figure12::COMMAND,
];

/// Three seeds of 2 virtual seconds for all.
fn defaults() -> Options {
    Options {
        seconds: Some(PositiveTime::from_ns(2_000_000_000)),
        seeds: Some(Bounded::new(3)),
        ..Options::default()
    }
}

/// Where results go, where nothing is said.
fn usual_place(is_paper: bool) -> Place {
    let directory = if is_paper {
        "results/all-paper"
    } else {
        "results/all"
    };
    Place::from(PathBuf::from(directory))
}

/// Performs all figures with the options that were given; `only_print` prints the effective ones of each instead.
///
/// # Errors
/// [`Failure::Usage`] before anything is run or written, [`Failure::Work`] afterwards.
pub fn perform(given: Options, only_print: bool) -> Result<()> {
    check_files(&given)?;
    let is_paper = given.paper.is_some_and(Switch::is_on);
    let out = given.out.clone().unwrap_or_else(|| usual_place(is_paper));
    let plans = plans(&given, &out)?;
    if only_print {
        return print_configs(&plans);
    }
    let is_resumed = given.resume.map_or(is_paper, Switch::is_on);
    let all = Settings::of(Options {
        out: Some(out.clone()),
        resume: Some(is_resumed.into()),
        ..Options::default()
    })?;

    let jobs: Vec<Vec<Job<'_>>> = plans.iter().map(Plan::jobs).collect();
    let once = Once::of(&jobs)?;
    let mut resume = Resume::of(&all, &once.jobs)?;
    let threads = threads_for(&resume.left(&once.jobs))?;
    for plan in &plans {
        check_directory("--out", &directory_of(&out, plan.command))?;
    }
    resume.prepare()?;
    // Where nobody can be told, the results are worth no less.
    drop(Console::Stderr.print(&resume.text()));
    let outcomes = run_jobs(&once.jobs, resume, threads)?;

    let results: Vec<Results<'_>> = plans
        .iter()
        .zip(&once.places)
        .map(|(plan, places)| {
            let of_plan = places.iter().map(|place| outcomes[*place].clone());
            plan.results(of_plan.collect())
        })
        .collect::<Result<_>>()?;
    let written = results
        .iter()
        .map(|results| {
            let directory = directory_of(&out, results.command());
            write_all(directory.path(), results)
        })
        .fold(Ok(()), Result::and);
    let page = written.and_then(|()| {
        let page = page(&results)?.html()?;
        write_whole(&out.path().join(PAGE), &page)
    });
    let mut text: String = results
        .iter()
        .map(|results| (results.command().tell)(results))
        .collect();
    if page.is_ok() {
        text += &format!(
            "{}the page is {}\n",
            written_in(&out),
            out.path().join(PAGE).display()
        );
    }
    let printed = Console::Stdout.print(&text);
    page.and(printed)
}

/// Of the page with all figures.
const PAGE: &str = "index.html";

fn page(results: &[Results<'_>]) -> Result<Page> {
    Ok(Page {
        title: "FARLock: the paper's figures, on a simulated cluster".to_owned(),
        introduction: format!(
            "The figures of the evaluation of FARLock (Hu et al., OSDI 2026) as dmtree {} measures them in virtual time. \
             Published claims stand beside what was measured; a claim holds within 25 %, has the right direction, or \
             fails.",
            env!("CARGO_PKG_VERSION")
        ),
        figures: results.iter().map(section).collect::<Result<_>>()?,
    })
}

fn section(results: &Results<'_>) -> Result<Section> {
    let command = results.command();
    let name = command.file_name;
    let file = |suffix: &str, words: &str| Link {
        name: words.to_owned(),
        href: format!("{name}/{name}{suffix}"),
    };
    let mut files = vec![file(".json", "JSON"), file(".csv", "CSV")];
    let mut plots = Vec::new();
    for drawing in results.drawings()? {
        files.push(file(&format!("{}.svg", drawing.suffix), "SVG"));
        plots.push(drawing.svg);
    }
    let report = &results.report;
    Ok(Section {
        id: name.to_owned(),
        name: command.name.to_owned(),
        title: command.title.to_owned(),
        conditions: conditions(&results.settings()),
        command: results.plan().command_line()?,
        plots,
        claims: report.claims.iter().map(ClaimLine::of).collect(),
        remarks: (command.remark)(results.base(), &report.runs)
            .into_iter()
            .collect(),
        files,
        parameters: results.plan().effective_config()?,
    })
}

/// What each figure is to do; its results go into a directory of its own.
fn plans(given: &Options, out: &Place) -> Result<Vec<Plan>> {
    let is_sized = [given.quick, given.paper]
        .into_iter()
        .flatten()
        .any(Switch::is_on);
    FIGURES
        .iter()
        .map(|command| {
            let given = Options {
                out: Some(directory_of(out, command)),
                // All of them keep theirs in one place.
                resume: Some(Switch::Off),
                ..command.subject.own(given.clone())
            };
            let given = useful(command, given);
            let defaults = if is_sized {
                Options::default()
            } else {
                useful(command, defaults())
            };
            Plan::with_defaults(command, given, defaults).map_err(|failure| match failure {
                Failure::Usage(why) => Failure::Usage(format!("{}: {why}", command.name)),
                other => other,
            })
        })
        .collect()
}

/// `given` without what means nothing to any part of `command`: another figure has a use for it.
fn useful(command: &Command, given: Options) -> Options {
    if !has_arrivals(command, &given) {
        return Options {
            arrivals: None,
            gap: None,
            ..given
        };
    }
    let parts = (command.parts)(&given);
    if parts.iter().any(|part| part.options.arrivals.is_none()) {
        return given;
    }
    Options {
        seconds: None,
        warmup: None,
        stagger: None,
        ..given
    }
}

fn directory_of(out: &Place, command: &Command) -> Place {
    Place::from(out.path().join(command.file_name))
}

/// What would be of one figure only, or of one run.
fn check_files(given: &Options) -> Result<()> {
    let files = [
        ("--json", given.json.is_some()),
        ("--csv", given.csv.is_some()),
        ("--trace", given.trace.is_some()),
        ("--timeline", given.timeline.is_some()),
    ];
    match files.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag @ ("--json" | "--csv"), _)) => Err(Failure::Usage(format!(
            "{flag}: each figure has a file of its own in the directory of --out; leave it out"
        ))),
        Some((flag, _)) => Err(Failure::Usage(format!(
            "{flag}: it is of one run; give it to bench or lock-bench with the options of one"
        ))),
    }
}

fn print_configs(plans: &[Plan]) -> Result<()> {
    let mut text = String::new();
    for plan in plans {
        text += &format!("# {}\n{}\n", plan.command.name, plan.effective_config()?);
    }
    Console::Stdout.print(&text)
}

/// Jobs of which none is there twice, and where each of the original ones is among them.
struct Once<'a> {
    jobs: Vec<Job<'a>>,
    places: Vec<Vec<usize>>,
}

impl<'a> Once<'a> {
    fn of(all: &[Vec<Job<'a>>]) -> Result<Self> {
        // Only looked up: its order does not matter.
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut jobs = Vec::new();
        let mut places: Vec<Vec<usize>> = all.iter().map(|_| Vec::new()).collect();
        // The tree's runs come last and take longest: they begin first.
        for (figure, of_figure) in all.iter().enumerate().rev() {
            for job in of_figure {
                let place = *known.entry(job.identity()?).or_insert_with(|| {
                    jobs.push(job.clone());
                    jobs.len() - 1
                });
                places[figure].push(place);
            }
        }
        Ok(Self { jobs, places })
    }
}
