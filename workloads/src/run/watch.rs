//! The event loop of a run, and who looks after it meanwhile.

use std::time::{Duration, Instant};

use dmtree_cluster::sim::{Sim, SimError};
use dmtree_index::ErrorKind;
use dmtree_lock::Monitor;

use super::{RunPlan, nanos};
use crate::driver::{ClientFailure, Outcome, Schedule};
use crate::error::Result;
use crate::progress::Progress;
use crate::settings::choice::PageFormat;
use crate::sweep::Abandon;

/// A lock that is waited for and neither granted nor released for this long is stuck: holders need
/// microseconds, and milliseconds behind thousands of queued verbs.
const STUCK: Duration = Duration::from_secs(1);
/// Nor is it stuck before this many verbs, one after the other, could each have been late by the
/// whole jitter: an acquire and a release take fewer.
pub(crate) const STUCK_JITTERS: u32 = 32;

/// How often the watch looks at a run, in virtual time.
const WATCH: Duration = Duration::from_millis(2);

/// What has to be said where Sherman's page format may be the cause.
const UNSOUND_FORMAT: &str = "\n--page-format sherman is unsound under the memory contract: its versions do not \
    tell every torn or overtaken READ, so that such failures are expected of it, most of all with --hostile or --jitter; \
    --page-format sequence is sound";

impl RunPlan<'_> {
    /// After how long without progress a lock is stuck. Whoever says how long a wait may be knows better.
    fn patience(&self) -> Duration {
        let settings = self.settings;
        if settings.wait_limit_given {
            settings.wait_limit
        } else {
            (STUCK + settings.jitter * STUCK_JITTERS).min(settings.wait_limit)
        }
    }

    /// Runs the event loop in slices, so that progress can be shown and trouble be seen. Returns
    /// the wall-clock time of the event loop alone.
    // The event loop becomes a part of this. On its own it keeps its registers whatever its caller does beside it.
    #[inline(never)]
    pub(super) fn watch(
        &self,
        sim: &mut Sim,
        monitor: &Monitor,
        outcome: &Outcome,
        schedule: Schedule,
        progress: &Progress,
        abandon: Abandon<'_>,
    ) -> Result<Duration> {
        let stuck = self.patience();
        let mut event_loop = Duration::ZERO;
        let mut shown = 0;
        loop {
            let until = sim.now_ns() + nanos(WATCH);
            let began = Instant::now();
            let finished = sim.run_until(until);
            event_loop += began.elapsed();
            if let Some((client, failure, how_many)) = outcome.failure() {
                let others = if how_many > 1 {
                    format!(" ({how_many} clients failed)")
                } else {
                    String::new()
                };
                let hint = self.hint_at_format(&failure);
                return Err(self.failure(format!("{client}: {failure}{others}{hint}")));
            }
            if finished.map_err(|error: SimError| self.failure(error))? {
                progress.advance(schedule.window_end_ns - shown);
                return Ok(event_loop);
            }
            if let Some(stall) = monitor.stalled(sim.now_ns(), nanos(stuck)) {
                return Err(self.failure(stall));
            }
            if abandon.is_asked_for() {
                return Err(self.failure("given up, as an earlier run failed"));
            }
            let now = sim.now_ns().min(schedule.window_end_ns);
            progress.advance(now - shown);
            shown = now;
        }
    }

    /// What a failure may come from that Sherman's page format allows.
    fn hint_at_format(&self, failure: &ClientFailure) -> &'static str {
        let lost = match failure {
            ClientFailure::NotFound { .. } => true,
            ClientFailure::Lock(_) => false,
            ClientFailure::Tree(error) => matches!(
                error.kind(),
                ErrorKind::BadPage { .. } | ErrorKind::Astray { .. }
            ),
        };
        if lost {
            self.hint_at_format_of_loss()
        } else {
            ""
        }
    }

    /// The same where something was lost or damaged for sure.
    pub(super) fn hint_at_format_of_loss(&self) -> &'static str {
        match self.settings.page_format {
            PageFormat::Sherman => UNSOUND_FORMAT,
            PageFormat::Sequence => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::runs_of;
    use crate::settings::{Options, Settings};

    #[test]
    fn a_lock_is_not_stuck_before_a_limit_that_was_asked_for() {
        for (options, seconds) in [
            ("", 1.0),
            ("jitter = \"10ms\"", 1.32),
            ("jitter = \"300ms\"", 10.0),
            ("wait-limit = \"30s\"", 30.0),
            ("wait-limit = \"30s\"\njitter = \"1ms\"", 30.0),
            ("wait-limit = \"5ms\"", 0.005),
        ] {
            let options: Options = toml::from_str(options).expect("options");
            let settings = Settings::of(options).expect("settings");
            let spec = runs_of(&settings).remove(0);
            let plan = RunPlan::new(&settings, &spec).expect("a plan");
            assert_eq!(plan.patience().as_secs_f64(), seconds);
        }
    }
}
