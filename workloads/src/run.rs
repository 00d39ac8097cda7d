//! One run: a simulated cluster, a loaded tree, and clients that work on it.

mod sizes;
#[cfg(test)]
mod tests;
mod verification;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dmtree_cluster::sim::{Sim, SimConfig, SimEndpoint, SimError, SwapKind};
use dmtree_cluster::{Endpoint, MemoryMap, NodeId, WaitBounds};
use dmtree_index::{GrowthStats, IndexCache, LoadedTree, Tree, TreeMeta, TreeOptions, TreePlan};
use dmtree_lock::{AnyLock, DataPath, LockOptions, LockPlan, LockSpec, Monitor};

use crate::distribution::{Distribution, KeyChooser};
use crate::driver::{ClientTask, Outcome, Schedule, drive, loaded_key};
use crate::error::{Failure, Result};
use crate::latency::Latencies;
use crate::progress::Progress;
use crate::settings::choice::{Swap, path_name};
use crate::settings::{MAX_KEYS, Settings};
use crate::sweep::Abandon;
use crate::trace::{About, Place, Trace, TraceSummary};
use crate::verify::Verified;
use sizes::load_options;

/// The node that is memory server and compute server.
const SERVER: NodeId = NodeId(0);

/// A lock that is waited for and neither granted nor released for this long is stuck: holders need
/// microseconds, and milliseconds behind thousands of queued verbs.
const STUCK: Duration = Duration::from_secs(1);
/// Nor is it stuck before this many verbs, one after the other, could each have been late by the
/// whole jitter: an acquire and a release take fewer.
const STUCK_JITTERS: u32 = 32;

/// How often the watch looks at a run, in virtual time.
const WATCH: Duration = Duration::from_millis(2);

/// What distinguishes the runs of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// The lock.
    pub lock: LockSpec,
    /// The request distribution.
    pub distribution: Distribution,
    /// How local clients reach page data.
    pub data_path: DataPath,
    /// The seed.
    pub seed: u64,
}

impl RunSpec {
    /// Whether it is the same run as `other`, with the same or another seed.
    pub fn is_but_for_seed(&self, other: &Self) -> bool {
        let seed = other.seed;
        Self {
            seed,
            ..self.clone()
        } == *other
    }

    /// In words, without the seed.
    pub fn title(&self) -> String {
        format!(
            "{}, {}, {}",
            self.lock,
            self.distribution,
            path_name(self.data_path)
        )
    }
}

/// The runs that `settings` ask for, in the order of the results; those of one run's seeds follow each other.
pub fn runs_of(settings: &Settings) -> Vec<RunSpec> {
    let mut runs = Vec::new();
    for data_path in settings.data_paths.each() {
        for distribution in &settings.distributions {
            for lock in &settings.locks {
                for seed in settings.seeds() {
                    runs.push(RunSpec {
                        lock: *lock,
                        distribution: *distribution,
                        data_path: *data_path,
                        seed,
                    });
                }
            }
        }
    }
    runs
}

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
    /// What was verified in the end, if it was to be.
    pub verified: Option<Verified>,
}

/// The tree of a simulated client.
type SimTree = Tree<SimEndpoint, AnyLock>;

/// What a test does to a run.
trait Tampering {
    fn lock(&self, _: &AnyLock) {}
    fn tree(&self, _: &mut SimTree) {}
    /// To memory, when all clients have ended.
    fn memory(&self, _: &mut Sim, _: &TreeMeta) {}
}

/// Nothing.
struct Untouched;

impl Tampering for Untouched {}

/// A run whose memory is laid out and not yet allocated.
#[derive(Debug)]
pub struct RunPlan<'a> {
    settings: &'a Settings,
    spec: &'a RunSpec,
    map: MemoryMap,
    locks: LockPlan,
    tree: TreePlan,
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
        let mut map = MemoryMap::new(settings.nodes);
        let load = load_options(settings);
        let tree = TreePlan::reserve(&mut map, &[SERVER], settings.keys, load).map_err(usage)?;
        let clients: Vec<NodeId> = client_places(settings).map(|(node, _)| node).collect();
        let locks = LockPlan::reserve(
            spec.lock,
            lock_options(settings),
            &mut map,
            &[SERVER],
            &clients,
        );
        Ok(Self {
            settings,
            spec,
            map,
            locks,
            tree,
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
        let settings = self.settings;
        progress.begin(&settings.title_of(self.spec));
        let mut sim =
            Sim::new(&self.sim_config(), &self.map).map_err(|error| self.failure(error))?;
        let began = Instant::now();
        let loaded = self.load(&mut sim)?;
        let load = began.elapsed();
        let bytes_a_key = loaded.bytes_per_key().unwrap_or(0.0);
        tracing::info!(
            keys = loaded.keys,
            height = loaded.height,
            ?load,
            bytes_a_key,
            "tree loaded"
        );
        let monitor = Rc::new(Monitor::new(self.locks.table()));
        let outcome = Rc::new(if settings.verify {
            Outcome::with_history()
        } else {
            Outcome::default()
        });
        let schedule = Schedule::new(
            sim.now_ns(),
            nanos(settings.stagger),
            nanos(settings.warmup),
            nanos(settings.window),
        );
        let trace = self.trace(&mut sim)?;
        let caches = self.caches(&loaded);
        let clients = Clients {
            caches: &caches,
            monitor: &monitor,
            outcome: &outcome,
            schedule,
        };
        self.spawn_clients(&mut sim, clients, tampering);
        let watched = self.watch(&mut sim, &monitor, &outcome, schedule, progress, abandon);
        let trace = trace.map(|trace| trace.finish(sim.now_ns() * 1000, &self.about()));
        let event_loop = match (watched, &trace) {
            // What led to a failure is worth having.
            (Err(Failure::Work(why)), Some(Ok(trace))) => {
                return Err(Failure::Work(format!("{why}\n{}", trace.text().trim_end())));
            }
            (watched, _) => watched?,
        };
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
        self.warn_of_short_window(&local, &remote);
        tampering.memory(&mut sim, self.tree.meta());
        let verified = if settings.verify {
            Some(self.verify(&mut sim, &outcome.take_history(), &caches)?)
        } else {
            None
        };
        Ok(RunOutcome {
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
            verified,
        })
    }

    /// Begins the trace that is asked for.
    fn trace(&self, sim: &mut Sim) -> Result<Option<Trace>> {
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
        let trace = Trace::create(wanted.place.path(), places, SERVER, window)?;
        sim.trace(trace.sink());
        Ok(Some(trace))
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

    /// Operations count where they begin and are all waited for; so a window that is not long against them counts
    /// more of them than it had time for.
    fn warn_of_short_window(&self, local: &Latencies, remote: &Latencies) {
        let mut all = local.clone();
        all.merge(remote);
        let Some(mean_ns) = all.summary().mean else {
            return;
        };
        let window_ns = nanos(self.settings.window);
        if mean_ns * 20.0 > window_ns as f64 {
            tracing::warn!(
                run = self.spec.title(),
                mean_latency_us = mean_ns / 1000.0,
                measured_us = window_ns / 1000,
                "an operation is not short against the measured time: the throughput is overstated, raise --seconds"
            );
        }
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

    /// Keys with their numbers as values.
    fn loaded_pairs(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        (0..self.settings.keys).map(|index| (loaded_key(index), index))
    }

    /// Loads them.
    fn load(&self, sim: &mut Sim) -> Result<LoadedTree> {
        let mut words = sim.host_words(SERVER);
        let mut sink = BTreeMap::from([(SERVER, &mut *words)]);
        self.tree
            .load(self.loaded_pairs(), &mut sink)
            .map_err(|error| self.failure(error))
    }

    /// An index cache for each node.
    fn caches(&self, loaded: &LoadedTree) -> Vec<Arc<IndexCache>> {
        let settings = self.settings;
        let budget = usize::try_from(settings.cache_budget).unwrap_or(usize::MAX);
        let cache = |_| {
            Arc::new(if settings.prefill_cache {
                IndexCache::prefilled_with_budget(Arc::clone(&loaded.index), budget)
            } else {
                IndexCache::with_budget(budget)
            })
        };
        (0..settings.nodes).map(cache).collect()
    }

    fn spawn_clients(&self, sim: &mut Sim, clients: Clients<'_>, tampering: &impl Tampering) {
        let settings = self.settings;
        let Clients {
            caches,
            monitor,
            outcome,
            schedule,
        } = clients;
        let task = ClientTask {
            seed: self.spec.seed,
            server: SERVER,
            keys: KeyChooser::new(self.spec.distribution, places_of_keys(settings)),
            mix: settings.mix.clone(),
            schedule,
        };
        for (node, thread) in client_places(settings) {
            let endpoint = sim.endpoint(node, thread);
            let lock = self
                .locks
                .client(endpoint.client(), Some(Rc::clone(monitor)));
            tampering.lock(&lock);
            let mut tree = Tree::new(
                endpoint.clone(),
                lock,
                Arc::clone(self.tree.meta()),
                self.locks.table().clone(),
                Arc::clone(&caches[usize::from(node.0)]),
                TreeOptions::new(self.spec.data_path),
            );
            tampering.tree(&mut tree);
            sim.spawn(&endpoint, drive(task.clone(), tree, Rc::clone(outcome)));
        }
    }

    /// Runs the event loop in slices, so that progress can be shown and trouble be seen. Returns
    /// the wall-clock time of the event loop alone.
    // The event loop becomes a part of this. On its own it keeps its registers whatever its caller does beside it.
    #[inline(never)]
    fn watch(
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

    fn failure(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Work(format!(
            "the run of lock {}, {}, data path {}, seed {} failed: {why}",
            self.spec.lock,
            self.spec.distribution,
            path_name(self.spec.data_path),
            self.spec.seed,
        ))
    }
}

/// What the clients of a run share.
#[derive(Clone, Copy)]
struct Clients<'a> {
    caches: &'a [Arc<IndexCache>],
    monitor: &'a Rc<Monitor>,
    outcome: &'a Rc<Outcome>,
    schedule: Schedule,
}

/// Among how many keys, loaded or not, the distribution chooses. In an empty tree inserts are spread over all keys
/// that could have been loaded, so that uniform ones are so over all 64 bits.
fn places_of_keys(settings: &Settings) -> u64 {
    match settings.keys {
        0 => MAX_KEYS,
        keys => keys,
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
pub(crate) fn lock_options(settings: &Settings) -> LockOptions {
    LockOptions {
        slots: settings.lock_count,
        // From 65,535 on, sherman's lock knows no limit.
        sherman_handover: Some(settings.handover_limit.0.unwrap_or(u32::MAX)),
        sherman_memory: settings.lock_memory,
        backoff: settings.backoff,
        ..LockOptions::default()
    }
}

/// Node and thread of every client, in the order of their numbers.
fn client_places(settings: &Settings) -> impl Iterator<Item = (NodeId, u16)> {
    let (threads, coroutines) = (settings.threads, settings.coroutines);
    (0..settings.nodes).flat_map(move |node| {
        (0..threads).flat_map(move |thread| (0..coroutines).map(move |_| (NodeId(node), thread)))
    })
}

/// Settings are bounded far below 2^64 ns.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
