//! The event loop of a run, and who looks after it meanwhile.

use std::time::{Duration, Instant};

use dmtree_cluster::sim::{Sim, SimError};
use dmtree_lock::Monitor;

use super::{RunPlan, nanos};
use crate::driver::{Outcome, Schedule};
use crate::error::Result;
use crate::progress::Progress;
use crate::sweep::Abandon;

/// A lock that is waited for and neither granted nor released for this long is stuck: holders need
/// microseconds, and milliseconds behind thousands of queued verbs.
const STUCK: Duration = Duration::from_secs(1);
/// Nor is it stuck before this many verbs, one after the other, could each have been late by the
/// whole jitter: an acquire and a release take fewer.
const STUCK_JITTERS: u32 = 32;

/// How often the watch looks at a run, in virtual time.
const WATCH: Duration = Duration::from_millis(2);

impl RunPlan<'_> {
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
        let patience = STUCK + self.settings.jitter * STUCK_JITTERS;
        let stuck = patience.min(self.settings.wait_limit);
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
                return Err(self.failure(format!("{client}: {failure}{others}")));
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
}
