//! [`TraceWanted`]: what of a run is to be traced.

use std::time::Duration;

use super::quantity::Time;
use super::value::Place;
use super::{Options, Subject};
use crate::error::{Failure, Result};
use crate::run::nanos;

/// How much is traced where nothing is said: about 2 MB of the paper's cluster.
const LENGTH: Duration = Duration::from_millis(1);

/// A trace that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceWanted {
    /// The file.
    pub place: Place,
    /// Where the traced window begins, from the beginning of the run.
    pub from: Duration,
    /// How long it is.
    pub length: Duration,
}

impl TraceWanted {
    /// What `options` say, for `runs` runs of `subject` that measure from `warmup` to `end`.
    pub(super) fn of(
        subject: Subject,
        options: &Options,
        runs: usize,
        warmup: Duration,
        end: Duration,
    ) -> Result<Option<Self>> {
        let refuse = |why: String| Err(Failure::Usage(why));
        let Some(place) = &options.trace else {
            return if options.trace_from.is_some() || options.trace_for.is_some() {
                refuse(
                    "--trace-from and --trace-for say what --trace FILE is to have: give it too"
                        .to_owned(),
                )
            } else {
                Ok(None)
            };
        };
        if place.is_stdout() {
            return refuse(
                "--trace -: a trace is written to a file, standard output is for results"
                    .to_owned(),
            );
        }
        if runs != 1 {
            return refuse(format!(
                "--trace is of one run, and these are {runs}: give {}, and --seeds 1",
                subject.of_one_run()
            ));
        }
        let from = options
            .trace_from
            .map_or(warmup, |from| Duration::from_nanos(from.ns));
        if from >= end {
            return refuse(format!(
                "--trace-from {} is behind the end of the run at {} (--warmup and --seconds)",
                Time::from_ns(nanos(from)),
                Time::from_ns(nanos(end))
            ));
        }
        Ok(Some(Self {
            place: place.clone(),
            from,
            length: options
                .trace_for
                .map_or(LENGTH, |length| Duration::from_nanos(length.get().ns)),
        }))
    }
}
