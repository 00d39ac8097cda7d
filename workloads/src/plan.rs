//! [`Plan`]: what a command line asks a [`Command`] for; [`Results`]: what came of it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::command::{Command, Coordinates, Drawing, PartOptions};
use crate::error::{Failure, Result};
use crate::jobs::Job;
use crate::lock_bench::wanted::check_given;
use crate::report::Report;
use crate::results::report;
use crate::run::{RunOutcome, nanos};
use crate::settings::choice::Switch;
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::{Options, Settings, Subject, config_text, flags};

/// Runs of a command that have one [`Settings`].
#[derive(Clone, Debug)]
pub struct Part {
    /// In words, within the command; empty for the only one.
    pub name: String,
    /// The options that make it, by name.
    pub varied: Map<String, Value>,
    /// Where it lies in the command's figure, by axis.
    pub at: Coordinates,
    /// What comes of them.
    pub settings: Settings,
}

impl Part {
    /// What the names of its files begin with: nothing of the only part.
    pub(crate) fn file_prefix(&self) -> String {
        let mut prefix: String = self
            .name
            .chars()
            .map(|c| {
                if c.is_alphanumeric() || c == '.' {
                    c
                } else {
                    '-'
                }
            })
            .collect();
        if !prefix.is_empty() {
            prefix.push('-');
        }
        prefix
    }
}

/// What is to be run.
#[derive(Debug)]
pub struct Plan {
    /// By which command.
    pub command: &'static Command,
    /// Part by part; there is one at least.
    parts: Vec<Part>,
    /// What all parts have in common.
    options: Options,
}

impl Plan {
    /// What `command` is to do with the options that were given.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the flags.
    pub fn of(command: &'static Command, given: Options) -> Result<Self> {
        Self::with_defaults(command, given, Options::default())
    }

    /// The same with `defaults` before the command's own.
    pub(crate) fn with_defaults(
        command: &'static Command,
        given: Options,
        defaults: Options,
    ) -> Result<Self> {
        command.subject.check(&given)?;
        let size = size_options(command, &given)?;
        let defaults = defaults.or((command.defaults)(&given));
        let mut part_options = (command.parts)(&given);
        if part_options.is_empty() {
            part_options.push(PartOptions {
                name: String::new(),
                options: Options {
                    arrivals: given.arrivals.clone(),
                    ..Options::default()
                },
                at: Coordinates::new(),
            });
        }
        check_arrivals(command, &given)?;
        check_recorded(command, &given, part_options.len())?;
        check_parts(&given, &part_options)?;
        let options = given.or(size).or(defaults);
        let parts = part_options
            .into_iter()
            .map(|part| {
                let is_only = part.name.is_empty();
                let varied = if is_only {
                    Map::new()
                } else {
                    object(&part.options)?
                };
                let options = part.options.or(options.clone());
                Ok(Part {
                    settings: Settings::about(command.subject, options)
                        .map_err(|failure| named(&part.name, failure))?,
                    name: part.name,
                    varied,
                    at: part.at,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            command,
            parts,
            options,
        })
    }

    /// What `command` is to do with these settings alone.
    pub(crate) fn single(command: &'static Command, settings: Settings) -> Self {
        Self {
            command,
            options: settings.options.clone(),
            parts: vec![Part {
                name: String::new(),
                varied: Map::new(),
                at: Coordinates::new(),
                settings,
            }],
        }
    }

    /// The command line that does the same alone.
    ///
    /// # Errors
    /// None in practice.
    pub(crate) fn command_line(&self) -> Result<String> {
        let usual = Self::of(self.command, Options::default())?;
        let own = |plan: &Self| {
            let unplaced = Options {
                out: None,
                resume: None,
                quick: None,
                paper: None,
                ..plan.options.clone()
            };
            plan.command.subject.own(unplaced)
        };
        let flags = flags::difference(&own(self), &own(&usual))?;
        let words = ["dmtree", self.command.name].map(str::to_owned).into_iter();
        Ok(words.chain(flags).collect::<Vec<_>>().join(" "))
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The settings of the first part; what varies aside, those of all.
    pub fn base(&self) -> &Settings {
        &self.parts[0].settings
    }

    /// All runs, part by part, in the order of the results.
    pub(crate) fn jobs(&self) -> Vec<Job<'_>> {
        let parts = self.parts.iter();
        parts
            .flat_map(|part| Job::all_of(&part.name, &part.settings))
            .collect()
    }

    /// The settings of what all parts have in common.
    fn common(&self) -> Result<Cow<'_, Settings>> {
        match self.parts.as_slice() {
            [only] => Ok(Cow::Borrowed(&only.settings)),
            _ => Settings::about(self.command.subject, self.options.clone()).map(Cow::Owned),
        }
    }

    /// The effective options as a config file, without what the parts vary.
    ///
    /// # Errors
    /// None in practice.
    pub(crate) fn effective_config(&self) -> Result<String> {
        let common = self.common()?;
        let text = effective_config(&common)?;
        if self.parts.len() == 1 {
            return Ok(text);
        }
        let foreign = self.foreign(&object(&common.options)?)?;
        let failed = |why: &dyn std::fmt::Display| {
            Failure::Work(format!("cannot read the effective options: {why}"))
        };
        let mut table: toml::Table = text.parse().map_err(|error| failed(&error))?;
        table.retain(|name, _| !foreign.iter().any(|other| other == name));
        let options: Options = table.try_into().map_err(|error| failed(&error))?;
        config_text(&options)
    }

    /// The names of `options`, those of all parts, that parts vary, and of those that mean nothing to any of them, as a
    /// measured time to given arrivals.
    fn foreign(&self, options: &Map<String, Value>) -> Result<Vec<String>> {
        let parts = self.parts.iter().map(|part| object(&part.settings.options));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let is_foreign = |name: &&String| {
            self.is_varied(name) || !parts.iter().any(|part| part.contains_key(*name))
        };
        Ok(options.keys().filter(is_foreign).cloned().collect())
    }

    /// Whether parts differ in the option `name`. What parts set of the profile comes on top of what all have.
    fn is_varied(&self, name: &str) -> bool {
        name != "set" && self.parts.iter().any(|part| part.varied.contains_key(name))
    }

    /// What came of the runs, which `outcomes` has in the order of [`Plan::jobs`].
    ///
    /// # Errors
    /// None in practice.
    pub(crate) fn results(&self, outcomes: Vec<RunOutcome>) -> Result<Results<'_>> {
        let mut outcomes = outcomes.into_iter();
        let by_part: Vec<Vec<RunOutcome>> = self
            .parts
            .iter()
            .map(|part| {
                let runs = Job::all_of("", &part.settings).count();
                outcomes.by_ref().take(runs).collect()
            })
            .collect();
        let report = report(self, &by_part)?;
        Ok(Results {
            plan: self,
            by_part,
            report,
        })
    }

    /// The settings that the report tells: those of all parts, without what differs.
    ///
    /// # Errors
    /// None in practice.
    pub(crate) fn reported_options(&self) -> Result<Value> {
        let mut options = object(&self.common()?.options)?;
        let foreign = self.foreign(&options)?;
        options.retain(|name, _| !foreign.contains(name));
        Ok(Value::Object(options))
    }
}

/// What runs came to.
#[derive(Debug)]
pub struct Results<'a> {
    plan: &'a Plan,
    /// The outcomes, part by part.
    pub(crate) by_part: Vec<Vec<RunOutcome>>,
    /// All of it.
    pub report: Report,
}

impl Results<'_> {
    /// What was to be run.
    pub fn plan(&self) -> &Plan {
        self.plan
    }

    /// Of which command.
    pub fn command(&self) -> &'static Command {
        self.plan.command
    }

    /// See [`Plan::base`].
    pub fn base(&self) -> &Settings {
        self.plan.base()
    }

    /// The parts with their outcomes.
    pub fn parts(&self) -> impl Iterator<Item = (&Part, &[RunOutcome])> {
        let outcomes = self.by_part.iter().map(Vec::as_slice);
        self.plan.parts.iter().zip(outcomes)
    }

    /// The settings of all parts.
    pub fn settings(&self) -> Vec<&Settings> {
        self.plan.parts.iter().map(|part| &part.settings).collect()
    }

    /// Draws the figures.
    ///
    /// # Errors
    /// [`Failure::Work`] when drawing fails.
    pub fn drawings(&self) -> Result<Vec<Drawing>> {
        (self.command().draw)(self)
    }

    /// What recordings tell, in words, or why they could not be written.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = Result<String>> {
        self.by_part.iter().flatten().flat_map(RunOutcome::recorded)
    }
}

fn named(name: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Usage(why) if !name.is_empty() => Failure::Usage(format!("{name}: {why}")),
        other => other,
    }
}

/// Options by name.
fn object(options: &Options) -> Result<Map<String, Value>> {
    match serde_json::to_value(options) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(Failure::Work(
            "options have no JSON form; this is a mistake in dmtree".to_owned(),
        )),
    }
}

/// Whether each option that was given means something to one part at least.
fn check_parts(given: &Options, parts: &[PartOptions]) -> Result<()> {
    let alone = [
        Options {
            gap: given.gap,
            ..Options::default()
        },
        Options {
            seconds: given.seconds,
            ..Options::default()
        },
        Options {
            warmup: given.warmup,
            ..Options::default()
        },
        Options {
            stagger: given.stagger,
            ..Options::default()
        },
        Options {
            timeline: given.timeline.clone(),
            ..Options::default()
        },
    ];
    for option in alone {
        let checked = parts.iter().map(|part| {
            check_given(&Options {
                arrivals: part.options.arrivals.clone(),
                ..option.clone()
            })
        });
        // That of the first part, unless another one takes it.
        checked
            .reduce(|first, next| next.or(first))
            .unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Whether a figure of the closed loop is left one.
fn check_arrivals(command: &Command, given: &Options) -> Result<()> {
    let is_figure = command.name.starts_with("figure");
    match &given.arrivals {
        Some(arrivals) if is_figure && !has_arrivals(command, given) => {
            Err(Failure::Usage(format!(
                "--arrivals {arrivals}: {} is of the closed loop; requests at given times are figure 9 and figure 3, or \
             lock-bench",
                command.name
            )))
        }
        _ => Ok(()),
    }
}

/// Whether parts of a command have requests at given times whatever is given.
pub(crate) fn has_arrivals(command: &Command, given: &Options) -> bool {
    let given = Options {
        arrivals: None,
        ..given.clone()
    };
    let parts = (command.parts)(&given);
    parts.iter().any(|part| part.options.arrivals.is_some())
}

/// A recording is of one run.
fn check_recorded(command: &Command, given: &Options, parts: usize) -> Result<()> {
    let recorded = [
        ("--trace", given.trace.is_some()),
        ("--timeline", given.timeline.is_some()),
    ];
    match recorded.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) if parts > 1 => Err(Failure::Usage(format!(
            "{flag}: it is of one run, and {} has many; give it to {} with the options of one of them",
            command.name,
            match command.subject {
                Subject::Tree => "bench",
                Subject::Locks => "lock-bench",
            }
        ))),
        _ => Ok(()),
    }
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
