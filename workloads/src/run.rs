//! One run: a simulated cluster, its locks, and clients that work on them, or on a tree that they guard.
//!
//! [`RunPlan`] has what all runs have in common: the cluster, the locks, the event loop, what is recorded. What clients
//! do, and what that needs in memory before and tells afterwards, is a `Work`: of the tree in `run/tree.rs`, of locks
//! alone in `run/locks.rs`.

mod clients;
mod locks;
mod node;
mod recording;
mod sizes;
mod spec;
#[cfg(test)]
mod tests;
mod tree;
mod verification;
pub(crate) mod watch;

use std::rc::Rc;
use std::time::{Duration, Instant};

use dmtree_cluster::sim::{Sim, SimConfig, SwapKind};
use dmtree_cluster::{MemoryMap, NodeId, WaitBounds};
use dmtree_index::{GrowthStats, TreePlan};
use dmtree_lock::{DataPath, LockOptions, LockPlan, Monitor};

use crate::distribution::Distribution;
use crate::driver::{Outcome, Schedule};
use crate::error::{Failure, Result};
use crate::latency::Latencies;
use crate::lock_bench::{FairnessTally, LockBench, Order};
use crate::progress::Progress;
use crate::settings::Settings;
use crate::settings::choice::Swap;
use crate::sweep::Abandon;
use crate::timeline::TimelineSummary;
use crate::trace::TraceSummary;
use crate::verify::Verified;
use clients::client_places;
use locks::LockWork;
pub(crate) use node::Place;
use recording::Recorded;
pub(crate) use sizes::bytes_needed;
use sizes::load_options;
pub(crate) use spec::locks_text;
pub use spec::{RunSpec, WorkSpec, runs_of};
use tree::{Tampering, TreeWork, Untouched};

/// The node that is memory server and compute server: all locks and pages are on it.
pub(crate) const SERVER: NodeId = NodeId(0);

/// What a run found.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Which run.
    pub spec: RunSpec,
    /// Of clients on the memory server.
    pub local: Latencies,
    /// Of all others.
    pub remote: Latencies,
    /// What inserts have done and sent, those of warm-up and cool-down included.
    pub growth: GrowthStats,
    /// Events of the simulation.
    pub events: u64,
    /// Delays of the simulation that took no event.
    pub folded: u64,
    /// Verbs of the simulation.
    pub verbs: u64,
    /// Wall-clock time that the event loop took.
    pub event_loop: Duration,
    /// Wall-clock time that the bulk load took.
    pub load: Duration,
    /// What was traced, or why it could not be written; none when it was not asked for.
    pub trace: Option<Result<TraceSummary>>,
    /// The same of the timeline.
    pub timeline: Option<Result<TimelineSummary>>,
    /// What was verified in the end, if it was to be.
    pub verified: Option<Verified>,
    /// How fair the locks were; of locks alone.
    pub fairness: Option<FairnessTally>,
    /// Who was served when, seed by seed; of locks alone with given arrivals.
    pub order: Vec<Order>,
    /// Why it ended before its time, if it did; in real time only.
    pub partial: Option<Partial>,
}

/// A run that ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Why.
    pub why: String,
    /// For how long it measured.
    pub measured: Duration,
}

impl RunOutcome {
    /// What was recorded beside the results, in words, or why it could not be written.
    pub fn recorded(&self) -> impl Iterator<Item = Result<String>> {
        let trace = self.trace.clone().map(|trace| Ok(trace?.text()));
        let timeline = self.timeline.clone().map(|timeline| Ok(timeline?.text()));
        trace.into_iter().chain(timeline)
    }
}

/// What the clients of a run share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    monitor: &'a Rc<Monitor>,
    outcome: &'a Rc<Outcome>,
    schedule: Schedule,
}

/// What the clients of a run do.
trait Work {
    /// What is made of it before they begin.
    type Ready;

    /// Fills memory, in no virtual time.
    fn prepare(&self, sim: &mut Sim) -> Result<Self::Ready>;

    /// Where they put what they find.
    fn outcome(&self) -> Rc<Outcome>;

    /// Begins them.
    fn begin(&self, sim: &mut Sim, ready: &Self::Ready, shared: Shared<'_>);

    /// Completes what was found when all of them have ended.
    fn finish(
        &self,
        sim: &mut Sim,
        ready: Self::Ready,
        outcome: &Outcome,
        found: RunOutcome,
    ) -> Result<RunOutcome>;
}

/// What work needs in memory beside the locks.
#[derive(Debug)]
enum WorkPlan {
    Tree(TreePlan, Distribution, DataPath),
    Locks(LockBench),
}

/// A run whose memory is laid out and not yet allocated.
#[derive(Debug)]
pub struct RunPlan<'a> {
    settings: &'a Settings,
    spec: &'a RunSpec,
    map: MemoryMap,
    locks: LockPlan,
    work: WorkPlan,
}

impl<'a> RunPlan<'a> {
    /// Lays out the memory of a run.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the cluster cannot be simulated or the tree not be laid out so.
    pub fn new(settings: &'a Settings, spec: &'a RunSpec) -> Result<Self> {
        if settings.nodes > Sim::MAX_NODES {
            return Err(Failure::Usage(format!(
                "--nodes {}: at most {} can be simulated",
                settings.nodes,
                Sim::MAX_NODES
            )));
        }
        Self::lay_out(settings, spec).map_err(usage)
    }

    fn lay_out(
        settings: &'a Settings,
        spec: &'a RunSpec,
    ) -> std::result::Result<Self, dmtree_index::Error> {
        let mut map = MemoryMap::new(settings.nodes);
        let work = match spec.work {
            WorkSpec::Tree {
                distribution,
                data_path,
            } => {
                let load = load_options(settings);
                let tree = TreePlan::reserve(&mut map, &[SERVER], settings.keys, load)?;
                WorkPlan::Tree(tree, distribution, data_path)
            }
            WorkSpec::Locks { .. } => {
                WorkPlan::Locks(settings.lock_bench.clone().unwrap_or_default())
            }
        };
        let clients: Vec<NodeId> = client_places(settings).map(|(node, _)| node).collect();
        let locks = LockPlan::reserve(
            spec.lock,
            lock_options(settings, spec),
            &mut map,
            &[SERVER],
            &clients,
        );
        Ok(Self {
            settings,
            spec,
            map,
            locks,
            work,
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`Failure::Work`] when a lock's invariant, a wait's limit or the simulation fails, naming
    /// lock, client and seed.
    ///
    /// # Panics
    /// When a protocol does.
    pub fn execute(self, progress: &Progress, abandon: Abandon<'_>) -> Result<RunOutcome> {
        self.execute_with(&Untouched, progress, abandon)
    }

    fn execute_with(
        self,
        tampering: &impl Tampering,
        progress: &Progress,
        abandon: Abandon<'_>,
    ) -> Result<RunOutcome> {
        let run = &self;
        match &self.work {
            WorkPlan::Tree(tree, distribution, data_path) => {
                let work = TreeWork {
                    run,
                    tree,
                    distribution: *distribution,
                    data_path: *data_path,
                    tampering,
                };
                self.perform(&work, progress, abandon)
            }
            WorkPlan::Locks(bench) => {
                self.perform(&LockWork::new(run, bench, tampering), progress, abandon)
            }
        }
    }

    fn perform<W: Work>(
        &self,
        work: &W,
        progress: &Progress,
        abandon: Abandon<'_>,
    ) -> Result<RunOutcome> {
        let settings = self.settings;
        progress.begin(&settings.title_of(self.spec));
        let mut sim =
            Sim::new(&self.sim_config(), &self.map).map_err(|error| self.failure(error))?;
        let began = Instant::now();
        let ready = work.prepare(&mut sim)?;
        let load = began.elapsed();
        let monitor = Rc::new(Monitor::new(self.locks.table()));
        let outcome = work.outcome();
        let schedule = Schedule::new(
            sim.now_ns(),
            nanos(settings.stagger),
            nanos(settings.warmup),
            nanos(settings.window),
        );
        let recording = self.record(&mut sim)?;
        let shared = Shared {
            monitor: &monitor,
            outcome: &outcome,
            schedule,
        };
        work.begin(&mut sim, &ready, shared);
        let watched = self.watch(&mut sim, &monitor, &outcome, schedule, progress, abandon);
        let Recorded { trace, timeline } = recording.finish(self, sim.now_ns() * 1000);
        let event_loop = watched.map_err(|failure| {
            // What led to a failure is worth having.
            let trace = trace.iter().flatten().map(TraceSummary::text);
            let timeline = timeline.iter().flatten().map(TimelineSummary::text);
            trace
                .chain(timeline)
                .fold(failure, |failure, text| failure.with_line(text.trim_end()))
        })?;
        let (local, remote) = outcome.latencies();
        let stats = sim.stats();
        let verbs_a_second = stats.verbs as f64 / event_loop.as_secs_f64();
        tracing::info!(
            run = self.spec.title(),
            ?event_loop,
            stats.events,
            verbs_a_second,
            "run done"
        );
        let found = RunOutcome {
            spec: self.spec.clone(),
            local,
            remote,
            growth: outcome.growth(),
            events: stats.events,
            folded: stats.folded,
            verbs: stats.verbs,
            event_loop,
            load,
            trace,
            timeline,
            verified: None,
            fairness: None,
            order: Vec::new(),
            partial: None,
        };
        work.finish(&mut sim, ready, &outcome, found)
    }

    fn sim_config(&self) -> SimConfig {
        let settings = self.settings;
        let limit_ns = nanos(settings.wait_limit);
        let mut config = SimConfig::new(settings.profile.clone());
        config.seed = self.spec.seed;
        config.jitter_ns = nanos(settings.jitter);
        config.hostile = settings.hostile;
        config.swap = match settings.swap {
            Swap::Cas => SwapKind::Cas,
            Swap::Native => SwapKind::Native,
        };
        config.waits = WaitBounds {
            report_ns: WaitBounds::default().report_ns.min(limit_ns),
            limit_ns,
        };
        config
    }

    fn failure(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Work(format!(
            "the run of lock {}, {}, seed {} failed: {why}",
            self.spec.lock, self.spec.work, self.spec.seed,
        ))
    }
}

fn usage(error: dmtree_index::Error) -> Failure {
    match error.kind() {
        // The options of the index are called as the flags are.
        dmtree_index::ErrorKind::Options { option, why } => {
            Failure::Usage(format!("--{}: {why}", option.replace('_', "-")))
        }
        _ => Failure::Usage(error.to_string()),
    }
}

/// What the lock needs to know beside its name.
pub(crate) fn lock_options(settings: &Settings, spec: &RunSpec) -> LockOptions {
    LockOptions {
        slots: spec.lock_count(settings),
        // From 65,535 on, sherman's lock knows no limit.
        sherman_handover: Some(settings.handover_limit.0.unwrap_or(u32::MAX)),
        sherman_memory: settings.lock_memory,
        backoff: settings.backoff,
        ..LockOptions::default()
    }
}

/// Settings are bounded far below 2^64 ns.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
