//! What is recorded of a run while it goes on: its trace, its timeline.

use dmtree_cluster::TraceSink;
use dmtree_cluster::sim::Sim;

use super::clients::client_places;
use super::{RunPlan, SERVER, nanos};
use crate::error::Result;
use crate::plot::Caption;
use crate::results::conditions;
use crate::timeline::{Timeline, TimelineSummary};
use crate::trace::{About, Place, Trace, TraceSummary};

/// What is being recorded.
#[derive(Debug)]
pub(super) struct Recording {
    trace: Option<Trace>,
    timeline: Option<Timeline>,
}

/// What was recorded, or why it could not be written; none of what was not asked for.
pub(super) struct Recorded {
    pub(super) trace: Option<Result<TraceSummary>>,
    pub(super) timeline: Option<Result<TimelineSummary>>,
}

impl RunPlan<'_> {
    /// Begins what is asked for.
    pub(super) fn record(&self, sim: &mut Sim) -> Result<Recording> {
        let recording = Recording {
            trace: self.trace(sim)?,
            timeline: self.timeline(sim),
        };
        let trace = recording.trace.as_ref().map(Trace::sink);
        let timeline = recording.timeline.as_ref().map(Timeline::sink);
        let sinks: Vec<Box<dyn TraceSink>> = trace.into_iter().chain(timeline).collect();
        // With no sink at all the fabric does not even ask.
        if !sinks.is_empty() {
            sim.trace(Box::new(sinks));
        }
        Ok(recording)
    }

    fn trace(&self, sim: &Sim) -> Result<Option<Trace>> {
        let Some(wanted) = &self.settings.trace else {
            return Ok(None);
        };
        let coroutines = self.settings.coroutines;
        let places = client_places(self.settings)
            .enumerate()
            .map(|(number, (node, thread))| Place {
                node,
                thread,
                coroutine: (coroutines > 1).then_some((number % usize::from(coroutines)) as u16),
            });
        let from = (sim.now_ns() + nanos(wanted.from)) * 1000;
        let window = from..from + nanos(wanted.length) * 1000;
        Trace::create(wanted.place.path(), places, SERVER, window).map(Some)
    }

    fn timeline(&self, sim: &Sim) -> Option<Timeline> {
        let wanted = self.settings.timeline.as_ref()?;
        let from = (sim.now_ns() + nanos(self.settings.warmup)) * 1000;
        let window = from..from + nanos(self.settings.window) * 1000;
        let nodes = client_places(self.settings).map(|(node, _)| node);
        Some(Timeline::new(nodes, window, nanos(wanted.every) * 1000))
    }

    /// What a trace says of this run.
    fn about(&self) -> About {
        About {
            program: "dmtree",
            version: env!("CARGO_PKG_VERSION"),
            run: self.spec.title(),
            profile: self.settings.profile.name,
            seed: self.spec.seed,
            time: "virtual",
        }
    }
}

impl Recording {
    /// Ends what was recorded of `plan`'s run, at `now_ps`.
    pub(super) fn finish(self, plan: &RunPlan<'_>, now_ps: u64) -> Recorded {
        let trace = self.trace.map(|trace| trace.finish(now_ps, &plan.about()));
        let wanted = plan.settings.timeline.as_ref();
        let timeline = self.timeline.zip(wanted).map(|(timeline, wanted)| {
            let caption = Caption {
                title: format!("Locks over time: {}", plan.spec.title()),
                subtitle: conditions(&[plan.settings]),
            };
            timeline.finish(now_ps, wanted, &caption)
        });
        Recorded { trace, timeline }
    }
}
