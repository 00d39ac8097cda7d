//! [`TimelineWanted`]: whether and how a run's queues over time are to be told.

use std::time::Duration;

use super::quantity::Time;
use super::value::Place;
use super::{Options, Subject};
use crate::error::{Failure, Result};
use crate::run::nanos;

/// Intervals where nothing is said.
const INTERVALS: u64 = 500;
/// More are refused: a figure of them is no figure.
const MOST_INTERVALS: u64 = 100_000;

/// How a timeline is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineFormat {
    /// A figure: of a file whose name ends in `.svg`.
    Svg,
    /// A line for each interval.
    Csv,
}

/// A timeline that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineWanted {
    /// The file.
    pub place: Place,
    /// The length of an interval.
    pub every: Duration,
    /// What the file is to be.
    pub format: TimelineFormat,
}

impl TimelineWanted {
    /// What `options` say, for `runs` runs of `subject` that measure for `window`.
    pub(super) fn of(
        subject: Subject,
        options: &Options,
        runs: usize,
        window: Duration,
    ) -> Result<Option<Self>> {
        let refuse = |why: String| Err(Failure::Usage(why));
        let Some(place) = &options.timeline else {
            return match options.timeline_every {
                Some(every) => refuse(format!(
                    "--timeline-every {every} says how finely --timeline FILE is to tell: give it too"
                )),
                None => Ok(None),
            };
        };
        if place.is_stdout() {
            return refuse(
                "--timeline -: a timeline is written to a file, standard output is for results"
                    .to_owned(),
            );
        }
        if runs != 1 {
            return refuse(format!(
                "--timeline is of one run, and these are {runs}: give {}, and --seeds 1",
                subject.of_one_run()
            ));
        }
        let window_ns = nanos(window);
        let every_ns = options
            .timeline_every
            .map_or((window_ns / INTERVALS).max(1), |every| every.get().ns);
        let (every, seconds) = (Time::from_ns(every_ns), Time::from_ns(window_ns));
        if every_ns > window_ns {
            return refuse(format!(
                "--timeline-every {every} is longer than the measured time: --seconds {seconds}"
            ));
        }
        if window_ns.div_ceil(every_ns) > MOST_INTERVALS {
            return refuse(format!(
                "--timeline-every {every} cuts --seconds {seconds} into {} intervals; at most {MOST_INTERVALS} are \
                 told: take --timeline-every {} or more",
                window_ns.div_ceil(every_ns),
                Time::from_ns(window_ns.div_ceil(MOST_INTERVALS)),
            ));
        }
        let is_svg = place
            .path()
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("svg"));
        Ok(Some(Self {
            place: place.clone(),
            every: Duration::from_nanos(every_ns),
            format: if is_svg {
                TimelineFormat::Svg
            } else {
                TimelineFormat::Csv
            },
        }))
    }
}
