//! [`Settings`]: every option with its value.

use std::time::Duration;

use dmtree_cluster::MemoryKind;
use dmtree_cluster::sim::Profile;
use dmtree_lock::{Backoff, LockSpec};

use super::choice::{DataPaths, Fabric, HandoverLimit, LockMemory, PageFormat, Swap};
use super::value::Place;
use super::{Options, Subject, TimelineWanted, TraceWanted, default_options};
use crate::distribution::Distribution;
use crate::driver::MAX_CLIENTS;
use crate::error::{Failure, Result};
use crate::lock_bench::LockBench;
use crate::lock_memory;
use crate::mix::{Mix, Operation};
use crate::run::RunSpec;
use crate::run::watch::STUCK_JITTERS;

/// Everything that a command has to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Locks, one after the other.
    pub locks: Vec<LockSpec>,
    /// Slots of the lock table, a memory server; of a lock benchmark the most of any run.
    pub lock_count: u32,
    /// Where Sherman's lock words were asked to lie.
    pub asked_lock_memory: LockMemory,
    /// Where they lie.
    pub lock_memory: MemoryKind,
    /// What carries the verbs.
    pub fabric: Fabric,
    /// RNICs and CPUs, the queue-pair cache on or off and parameters set as asked.
    pub profile: Profile,
    /// Nodes; node 0 is the memory server.
    pub nodes: u16,
    /// Threads a node.
    pub threads: u16,
    /// Clients a thread.
    pub coroutines: u16,
    /// How many keys are loaded.
    pub keys: u64,
    /// The measured window.
    pub window: Duration,
    /// Before it.
    pub warmup: Duration,
    /// Within which clients start.
    pub stagger: Duration,
    /// Request distributions, one after the other.
    pub distributions: Vec<Distribution>,
    /// Operations.
    pub mix: Mix,
    /// The first seed.
    pub seed: u64,
    /// How many seeds each run has: this one and those after it.
    pub seed_count: u32,
    /// The longest random delay of a verb.
    pub jitter: Duration,
    /// Whether the fabric takes the contract's freedoms.
    pub hostile: bool,
    /// How swaps are made.
    pub swap: Swap,
    /// The pauses between attempts of a CAS.
    pub backoff: Backoff,
    /// How local clients reach page data.
    pub data_paths: DataPaths,
    /// How full the loaded leaves are.
    pub fill: f64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The page format.
    pub page_format: PageFormat,
    /// CPU time to search a page.
    pub search_time: Duration,
    /// Sherman's limit of hand-overs in a row.
    pub handover_limit: HandoverLimit,
    /// The longest wait.
    pub wait_limit: Duration,
    /// Whether that was asked for: then nothing shorter ends a run.
    pub wait_limit_given: bool,
    /// Whether index caches start full.
    pub prefill_cache: bool,
    /// Bytes of a compute server's index cache.
    pub cache_budget: u64,
    /// Whether runs are verified.
    pub verify: bool,
    /// Whether finished runs are kept there, and taken from there.
    pub resume: bool,
    /// Directory for all results.
    pub out: Option<Place>,
    /// File for JSON.
    pub json: Option<Place>,
    /// File for CSV.
    pub csv: Option<Place>,
    /// What is traced.
    pub trace: Option<TraceWanted>,
    /// What is told over time.
    pub timeline: Option<TimelineWanted>,
    /// What clients do with locks alone; none where they work on the tree.
    pub lock_bench: Option<LockBench>,
    /// The options that can change a result, for the report; by them a kept run is known (`--resume`).
    pub options: Options,
}

impl Settings {
    /// [`Settings::about`] the tree.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the flags.
    pub fn of(options: Options) -> Result<Self> {
        Self::about(Subject::Tree, options)
    }

    /// Fills what `options` do not say with what every command starts from, and checks what only
    /// several of them together can get wrong. Options that mean nothing for `subject` are left aside.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the flags.
    pub fn about(subject: Subject, options: Options) -> Result<Self> {
        let wait_limit_given = options.wait_limit.is_some();
        let options = complete(options);
        let Options {
            lock: Some(lock),
            lock_count: Some(lock_count),
            lock_memory: Some(asked_lock_memory),
            fabric: Some(fabric),
            profile: Some(profile),
            nodes: Some(nodes),
            threads: Some(threads),
            coroutines: Some(coroutines),
            keys: Some(keys),
            seconds: Some(seconds),
            warmup: Some(warmup),
            stagger: Some(stagger),
            distribution: Some(distribution),
            mix: Some(mix),
            seed: Some(seed),
            seeds: Some(seeds),
            jitter: Some(jitter),
            hostile: Some(hostile),
            swap: Some(swap),
            backoff: Some(backoff),
            data_path: Some(data_path),
            fill: Some(fill),
            page_bytes: Some(page_bytes),
            page_format: Some(page_format),
            search_time: Some(search_time),
            handover_limit: Some(handover_limit),
            wait_limit: Some(wait_limit),
            prefill_cache: Some(prefill_cache),
            cache_budget: Some(cache_budget),
            qp_cache: Some(qp_cache),
            verify: Some(verify),
            resume: Some(resume),
            ..
        } = options.clone()
        else {
            return Err(Failure::Work(
                "an option has no default; this is a mistake in dmtree".to_owned(),
            ));
        };
        let clients = nodes.get() * threads.get() * coroutines.get();
        if clients > MAX_CLIENTS {
            return Err(Failure::Usage(format!(
                "--nodes {nodes} × --threads {threads} × --coroutines {coroutines} are {clients} clients; at most \
                 {MAX_CLIENTS} can be told apart"
            )));
        }
        if stagger > warmup {
            return Err(Failure::Usage(format!(
                "--stagger {stagger} is longer than --warmup {warmup}: clients would start in the measured window"
            )));
        }
        if keys.get() == 0 && mix.share(Operation::Insert) < 1.0 {
            return Err(Failure::Usage(format!(
                "--keys 0 --mix {mix}: an empty tree has no key to update or get; --mix insert begins with one, other \
                 mixes need --keys 1 or more"
            )));
        }
        if resume.is_on() && options.out.is_none() {
            return Err(Failure::Usage(
                "--resume on keeps finished runs in the directory of --out: give --out DIR too"
                    .to_owned(),
            ));
        }
        options.check_files_differ()?;
        let lock_bench = match subject {
            Subject::Tree => None,
            // Both are within their options' bounds.
            Subject::Locks => Some(LockBench::of(
                &options,
                nodes.get() as u16,
                threads.get() as u16,
            )?),
        };
        let script_ns = lock_bench.as_ref().and_then(LockBench::script_ns);
        let [window, warmup, stagger] = match script_ns {
            None => [seconds.get().ns, warmup.ns, stagger.ns],
            Some(ns) => [ns, 0, 0],
        }
        .map(Duration::from_nanos);
        // Otherwise a lock that is only slow would be told to be stuck.
        if jitter.ns.saturating_mul(STUCK_JITTERS.into()) > wait_limit.get().ns {
            return Err(Failure::Usage(format!(
                "--jitter {jitter}: with verbs as late as that a sound wait can be longer than --wait-limit {wait_limit}, \
                 which has to be {STUCK_JITTERS} times the jitter at least"
            )));
        }
        if seed.get().checked_add(seeds.get() - 1).is_none() {
            return Err(Failure::Usage(format!(
                "--seed {seed} --seeds {seeds}: the last of them would be beyond {}",
                u64::MAX
            )));
        }
        let settings_each = match (&lock_bench, lock_count.0.as_slice()) {
            (Some(bench), _) => bench.lock_counts.len(),
            (None, [_]) => distribution.0.len() * data_path.each().len(),
            (None, _) => {
                return Err(Failure::Usage(format!(
                    "--lock-count {lock_count}: several numbers are for lock-bench; give one"
                )));
            }
        };
        let runs = lock.0.len() * settings_each * seeds.get() as usize;
        let trace = TraceWanted::of(subject, &options, runs, warmup, warmup + window)?;
        let timeline = TimelineWanted::of(subject, &options, runs, window)?;
        let mut profile = profile.0;
        profile.qp_cache_on = qp_cache.is_on();
        for item in &options.set {
            item.apply(&mut profile)
                .map_err(|error| Failure::Usage(format!("--set {item}: {error}")))?;
        }
        let most = lock_bench.as_ref().map(LockBench::most_locks);
        let lock_count = most.unwrap_or(lock_count.0[0]);
        let lock_memory = match fabric {
            Fabric::Sim => lock_memory::choose(asked_lock_memory, &lock.0, lock_count, &profile)?,
            // Processes have no other.
            Fabric::Tcp | Fabric::Verbs => MemoryKind::Host,
        };
        // Each is within its option's bounds, which fit the narrower types.
        Ok(Self {
            locks: lock.0,
            lock_count,
            asked_lock_memory,
            lock_memory,
            fabric,
            profile,
            nodes: nodes.get() as u16,
            threads: threads.get() as u16,
            coroutines: coroutines.get() as u16,
            keys: keys.get(),
            window,
            warmup,
            stagger,
            distributions: distribution.0,
            mix,
            seed: seed.get(),
            seed_count: seeds.get() as u32,
            jitter: Duration::from_nanos(jitter.ns),
            hostile: hostile.is_on(),
            swap,
            backoff: backoff.0,
            data_paths: data_path,
            fill: fill.get(),
            page_bytes: page_bytes.get() as u32,
            page_format,
            search_time: Duration::from_nanos(search_time.ns),
            handover_limit,
            wait_limit: Duration::from_nanos(wait_limit.get().ns),
            wait_limit_given,
            prefill_cache: prefill_cache.is_on(),
            cache_budget: cache_budget.get(),
            verify: verify.is_on(),
            resume: resume.is_on(),
            out: options.out.clone(),
            json: options.json.clone(),
            csv: options.csv.clone(),
            trace,
            timeline,
            options: of_fabric(
                fabric,
                subject.own(Options {
                    out: None,
                    json: None,
                    csv: None,
                    trace: None,
                    trace_from: None,
                    trace_for: None,
                    timeline: None,
                    timeline_every: None,
                    quick: None,
                    paper: None,
                    resume: None,
                    verify: None,
                    seconds: options.seconds.filter(|_| script_ns.is_none()),
                    warmup: options.warmup.filter(|_| script_ns.is_none()),
                    stagger: options.stagger.filter(|_| script_ns.is_none()),
                    ..options
                }),
            ),
            lock_bench,
        })
    }

    /// What clients work on.
    pub fn subject(&self) -> Subject {
        match self.lock_bench {
            None => Subject::Tree,
            Some(_) => Subject::Locks,
        }
    }

    /// The seeds of each run.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..u64::from(self.seed_count)).map(move |number| first + number)
    }

    /// A run in words, with its seed where there are several.
    pub fn title_of(&self, spec: &RunSpec) -> String {
        match self.seed_count {
            1 => spec.title(),
            _ => format!("{}, seed {}", spec.title(), spec.seed),
        }
    }

    /// How many clients the whole cluster has.
    pub fn clients(&self) -> u32 {
        u32::from(self.nodes) * u32::from(self.threads) * u32::from(self.coroutines)
    }
}

/// The defaults under `options`. The stagger's follows a shorter warm-up, so that a warm-up of 0
/// can be asked for alone.
fn complete(options: Options) -> Options {
    let stagger_given = options.stagger.is_some();
    let mut options = options.or(default_options());
    if !stagger_given {
        options.stagger = options.stagger.min(options.warmup);
    }
    options
}

/// `options` without what only a simulated cluster has, where it is another one.
fn of_fabric(fabric: Fabric, options: Options) -> Options {
    match fabric {
        Fabric::Sim => options,
        Fabric::Tcp | Fabric::Verbs => Options {
            profile: None,
            jitter: None,
            hostile: None,
            qp_cache: None,
            search_time: None,
            lock_memory: None,
            set: Vec::new(),
            ..options
        },
    }
}
