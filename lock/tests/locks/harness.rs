//! A cluster of clients that take locks at random and count under them: what every lock must survive, and what
//! finds the broken ones out.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use dmtree_cluster::sim::{Profile, Sim, SimConfig, SimEndpoint, SwapKind};
use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};
use dmtree_lock::{
    AnyLock, Backoff, Cohort, DataPath, ErrorKind, Fault, LockOptions, LockPlan, LockProtocol,
    LockSpec, Monitor, WriteBack,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Pages that one lock guards, so that a holder may leave one alone.
const PAGES: u64 = 2;
/// Words of a page, all of them the same counter: a page of different words was read half-written.
const PAGE_WORDS: usize = 8;
/// Virtual time without a grant or a release after which waiting clients count as stuck. The longest honest wait
/// here is some 10 chains of 20 us each.
const STALL_NS: u64 = 2_000_000;

/// What a run is like.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    seed: u64,
    profile: &'static str,
    nodes: u16,
    servers: Vec<NodeId>,
    slots: u32,
    /// Node and thread of each.
    clients: Vec<(NodeId, u16)>,
    operations: u32,
    jitter_ns: u64,
    hostile: bool,
    /// An RNIC with a tenth of the latency: what is late is later in proportion.
    quick: bool,
    swap: SwapKind,
    backoff: Backoff,
    path: DataPath,
    /// Longest critical section, and longest pause between two.
    work_ns: u64,
    pause_ns: u64,
    handover: Option<u32>,
    memory: MemoryKind,
    descriptors: usize,
    /// How likely a holder finds nothing to do.
    idle: f64,
}

impl Scenario {
    /// The scenario of a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let nodes = rng.random_range(1..=4);
        let servers = if nodes > 1 && rng.random_bool(0.25) {
            vec![NodeId(0), NodeId(1)]
        } else {
            vec![NodeId(0)]
        };
        let mut clients = Vec::new();
        for node in (0..nodes).map(NodeId) {
            // Few threads: clients of one share its queue pairs.
            for _ in 0..rng.random_range(u32::from(node.0 == 0)..=3) {
                clients.push((node, rng.random_range(0..2)));
            }
        }
        // Client numbers must not go with nodes.
        for last in (1..clients.len()).rev() {
            clients.swap(last, rng.random_range(0..=last));
        }
        Self {
            seed,
            profile: "cx3-fdr",
            nodes,
            servers,
            slots: rng.random_range(1..=4),
            clients,
            operations: rng.random_range(4..=12),
            jitter_ns: [0, 100, 1500, 5000][rng.random_range(0..4)],
            hostile: rng.random_bool(0.5),
            quick: rng.random_bool(0.5),
            swap: if rng.random_bool(0.5) {
                SwapKind::Cas
            } else {
                SwapKind::Native
            },
            path: if rng.random_bool(0.5) {
                DataPath::Cpu
            } else {
                DataPath::Loopback
            },
            work_ns: [0, 500, 6000][rng.random_range(0..3)],
            pause_ns: [0, 2000, 20_000][rng.random_range(0..3)],
            handover: [None, Some(1), Some(4), Some(u32::MAX)][rng.random_range(0..4)],
            memory: if rng.random_bool(0.25) {
                MemoryKind::Device
            } else {
                MemoryKind::Host
            },
            descriptors: rng.random_range(3..=8),
            idle: 0.2,
            // Drawn last, so that the seeds before there was a choice are what they were.
            backoff: [
                Backoff::None,
                Backoff::None,
                Backoff::Exponential {
                    min_ns: 500,
                    max_ns: 4000,
                },
                Backoff::Exponential {
                    min_ns: 2000,
                    max_ns: 64_000,
                },
            ][rng.random_range(0..4)],
        }
    }
}

impl Scenario {
    /// The scenario of a seed, with everything turned towards races: hostile, one lock, no pauses.
    pub(crate) fn draw_crowded(seed: u64) -> Self {
        let mut scenario = Self::draw(seed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(!seed);
        scenario.servers.truncate(1);
        scenario.slots = 1;
        scenario.operations = 30;
        scenario.hostile = true;
        scenario.jitter_ns = [0, 0, 1500][rng.random_range(0..3)];
        scenario.work_ns = 0;
        scenario.pause_ns = [0, 0, 1000][rng.random_range(0..3)];
        scenario
    }

    /// A scenario of either kind on RNICs that answer atomics before their address is free, keep several of a
    /// queue pair in flight, and reach device memory sooner than the host's.
    pub(crate) fn draw_modern(seed: u64) -> Self {
        let mut scenario = if seed.is_multiple_of(2) {
            Self::draw(seed)
        } else {
            Self::draw_crowded(seed)
        };
        scenario.profile = ["cx5-100g", "cx6-200g"][seed as usize / 2 % 2];
        scenario
    }
}

impl Scenario {
    /// The crowded scenario of a seed with four more clients a node: groups get long.
    pub(crate) fn draw_grouped(seed: u64) -> Self {
        let mut scenario = Self::draw_crowded(seed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(32));
        for node in (0..scenario.nodes).map(NodeId) {
            for _ in 0..4 {
                let place = rng.random_range(0..=scenario.clients.len());
                let thread = rng.random_range(0..2);
                scenario.clients.insert(place, (node, thread));
            }
        }
        scenario.operations = 10;
        scenario
    }

    /// The crowded scenario of a seed in which a link may take longer than a turn: a quick RNIC, late messages, and
    /// a queue that is short at times.
    pub(crate) fn draw_late_links(seed: u64) -> Self {
        let mut scenario = Self::draw_crowded(seed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(16));
        scenario.quick = true;
        scenario.idle = 0.9;
        scenario.jitter_ns = [1500, 5000][rng.random_range(0..2)];
        scenario.pause_ns = [2000, 10_000, 30_000][rng.random_range(0..3)];
        scenario
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The monitor saw a broken invariant.
    Violation(String),
    /// The pages do not show all that was done, or a half-written page was seen.
    Lost(String),
    /// Clients wait for ever.
    Stall(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Violation(text) => write!(f, "violation: {text}"),
            Failure::Lost(text) => write!(f, "lost: {text}"),
            Failure::Stall(text) => write!(f, "stall: {text}"),
            Failure::Other(text) => write!(f, "failed: {text}"),
        }
    }
}

impl From<dmtree_lock::Error> for Failure {
    fn from(error: dmtree_lock::Error) -> Self {
        match error.kind() {
            ErrorKind::Violation(violation) => Failure::Violation(violation.to_string()),
            _ => Failure::Other(error.to_string()),
        }
    }
}

impl From<dmtree_cluster::Error> for Failure {
    fn from(error: dmtree_cluster::Error) -> Self {
        Failure::Other(error.to_string())
    }
}

/// What a whole run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) grants: [u64; 2],
    pub(crate) longest_run: [u32; 2],
    pub(crate) verbs: u64,
}

struct Shared {
    scenario: Scenario,
    /// Locks in the order of their addresses, and the first of each one's pages.
    locks: Vec<(GlobalAddr, GlobalAddr)>,
    /// What each page's counter has to be: by lock, by page.
    counts: RefCell<Vec<[u64; PAGES as usize]>>,
    /// Grants that were used for nothing, by lock.
    idle: RefCell<Vec<u64>>,
    failure: RefCell<Option<Failure>>,
}

/// Runs the scenario; all clients commit `fault` if there is one.
pub(crate) fn run(
    spec: LockSpec,
    fault: Option<Fault>,
    scenario: Scenario,
) -> Result<Done, Failure> {
    let other = |error: &dyn fmt::Display| Failure::Other(error.to_string());
    let mut map = MemoryMap::new(scenario.nodes);
    let client_nodes: Vec<NodeId> = scenario.clients.iter().map(|(node, _)| *node).collect();
    let options = LockOptions {
        slots: scenario.slots,
        sherman_handover: scenario.handover,
        descriptors: scenario.descriptors,
        sherman_memory: scenario.memory,
        backoff: scenario.backoff,
    };
    let plan = LockPlan::reserve(spec, options, &mut map, &scenario.servers, &client_nodes);
    let mut locks = Vec::new();
    for server in &scenario.servers {
        for slot in 0..scenario.slots {
            let bytes = PAGES * PAGE_WORDS as u64 * 8;
            locks.push((
                plan.table().lock(*server, slot),
                map.reserve(*server, MemoryKind::Host, bytes, 64),
            ));
        }
    }
    let mut profile = Profile::by_name(scenario.profile).map_err(|error| other(&error))?;
    profile.device_bytes.value = 1 << 20;
    if scenario.quick {
        for latency in [
            &mut profile.post_ns,
            &mut profile.completion_ns,
            &mut profile.wire_ns,
            &mut profile.switch_ns,
            &mut profile.pcie_read_ns,
            &mut profile.atomic_unit_ns,
            &mut profile.atomic_address_ns,
            &mut profile.faa_address_ns,
            &mut profile.device_read_ns,
            &mut profile.device_unit_ns,
            &mut profile.device_address_ns,
        ] {
            latency.value /= 10.0;
        }
    }
    let mut config = SimConfig::new(profile);
    config.seed = scenario.seed;
    config.jitter_ns = scenario.jitter_ns;
    config.hostile = scenario.hostile;
    config.swap = scenario.swap;
    let mut sim = Sim::new(&config, &map).map_err(|error| other(&error))?;
    let monitor = Rc::new(Monitor::new(plan.table()));
    let shared = Rc::new(Shared {
        counts: RefCell::new(vec![[0; PAGES as usize]; locks.len()]),
        idle: RefCell::new(vec![0; locks.len()]),
        locks,
        failure: RefCell::new(None),
        scenario,
    });
    for (number, (node, thread)) in shared.scenario.clients.iter().enumerate() {
        let ep = sim.endpoint(*node, *thread);
        let lock = plan.client(ClientId(number as u32), Some(Rc::clone(&monitor)));
        if let Some(fault) = fault {
            lock.sabotage(fault);
        }
        let shared = Rc::clone(&shared);
        sim.spawn(&ep.clone(), async move {
            if let Err(failure) = client(&ep, lock, &shared).await {
                shared.failure.borrow_mut().get_or_insert(failure);
            }
        });
    }
    loop {
        let finished = sim.run_until(sim.now_ns() + STALL_NS / 4);
        if let Some(failure) = shared.failure.take() {
            return Err(failure);
        }
        match finished {
            Ok(true) => break,
            Ok(false) => {
                if let Some(stall) = monitor.stalled(sim.now_ns(), STALL_NS) {
                    return Err(Failure::Stall(stall));
                }
            }
            Err(error) => return Err(Failure::Stall(error.to_string())),
        }
    }
    let counts = shared.counts.borrow();
    for (((lock, page), counts), idle) in shared
        .locks
        .iter()
        .zip(&*counts)
        .zip(&*shared.idle.borrow())
    {
        let granted = monitor.counters(*lock);
        let expected = counts.iter().sum::<u64>() + idle;
        if granted.grants(Cohort::Local) + granted.grants(Cohort::Remote) != expected {
            return Err(Failure::Other(format!(
                "{expected} grants were counted, the monitor has {granted:?}"
            )));
        }
        let words = sim.host_words(page.node());
        for (number, count) in counts.iter().enumerate() {
            let first = page.offset() as usize / 8 + number * PAGE_WORDS;
            let page = &words[first..first + PAGE_WORDS];
            if page.iter().any(|word| word != count) {
                return Err(Failure::Lost(format!(
                    "page {number} of {lock} is {page:?}, not {count}"
                )));
            }
        }
    }
    let totals = monitor.totals();
    Ok(Done {
        grants: Cohort::ALL.map(|cohort| totals.grants(cohort)),
        longest_run: Cohort::ALL.map(|cohort| totals.longest_run(cohort)),
        verbs: sim.stats().verbs,
    })
}

async fn client(ep: &SimEndpoint, mut lock: AnyLock, shared: &Shared) -> Result<(), Failure> {
    let scenario = &shared.scenario;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(ep.random());
    ep.sleep(rng.random_range(0..=scenario.pause_ns)).await;
    for _ in 0..scenario.operations {
        // Mostly one lock, at times several, always in the order of addresses.
        let several = rng.random_bool(0.15);
        let mut chosen: Vec<usize> = (0..if several { rng.random_range(2..=3) } else { 1 })
            .map(|_| rng.random_range(0..shared.locks.len()))
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        let mut guards = Vec::new();
        for index in chosen {
            let guard = lock.acquire(ep, shared.locks[index].0).await?;
            guards.push((index, guard));
        }
        while !guards.is_empty() {
            let (index, guard) = guards.swap_remove(rng.random_range(0..guards.len()));
            if rng.random_bool(scenario.idle) {
                // Somebody who finds nothing to do, and has touched no page in between.
                shared.idle.borrow_mut()[index] += 1;
                lock.release(ep, guard, WriteBack::NONE).await?;
                continue;
            }
            let number = rng.random_range(0..PAGES);
            let page = shared.locks[index].1.add(number * PAGE_WORDS as u64 * 8);
            let mut words = [0; PAGE_WORDS];
            if scenario.path == DataPath::Cpu && page.node() == ep.node() {
                ep.load_words(page, &mut words).await?;
            } else {
                ep.read_words(page, &mut words).await?;
            }
            ep.work(rng.random_range(0..=scenario.work_ns)).await;
            let expected = {
                let counts = &mut shared.counts.borrow_mut()[index][number as usize];
                *counts += 1;
                *counts - 1
            };
            if words != [expected; PAGE_WORDS] {
                let lock = shared.locks[index].0;
                let client = ep.client();
                return Err(Failure::Lost(format!(
                    "{client} found {words:?}, not {expected}, under {lock}"
                )));
            }
            let (first, rest) = ([expected + 1; 3], [expected + 1; PAGE_WORDS - 3]);
            let writes: [(GlobalAddr, &[u64]); 2] = [(page, &first), (page.word(3), &rest)];
            lock.release(
                ep,
                guard,
                WriteBack {
                    path: scenario.path,
                    writes: &writes,
                },
            )
            .await?;
        }
        ep.sleep(rng.random_range(0..=scenario.pause_ns)).await;
    }
    match lock.poisoned() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Runs the scenarios of `seeds` with the real lock; the first failure ends it and names its seed.
pub(crate) fn survives(name: &str, seeds: Range<u64>, draw: fn(u64) -> Scenario) {
    let spec: LockSpec = name.parse().expect("a lock");
    survive(|_| spec, seeds, draw);
}

/// As [`survives`], with budgets of 1 to 6 that a seed draws.
pub(crate) fn survives_with_any_budgets(lock: &str, seeds: Range<u64>, draw: fn(u64) -> Scenario) {
    let spec = |seed| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xb0d9);
        let [local, remote] = [0; 2].map(|_| rng.random_range(1..=6));
        format!("{lock}:{local},{remote}").parse().expect("a lock")
    };
    survive(spec, seeds, draw);
}

fn survive(spec: impl Fn(u64) -> LockSpec, seeds: Range<u64>, draw: fn(u64) -> Scenario) {
    let mut total = Done::default();
    for seed in seeds {
        let name = spec(seed);
        match run(name, None, draw(seed)) {
            Ok(done) => {
                for cohort in 0..2 {
                    total.grants[cohort] += done.grants[cohort];
                    total.longest_run[cohort] =
                        total.longest_run[cohort].max(done.longest_run[cohort]);
                }
                total.verbs += done.verbs;
            }
            Err(failure) => panic!("{name}, seed {seed}: {failure}\n{:?}", draw(seed)),
        }
    }
    println!("{total:?}");
    assert!(
        total.grants.iter().all(|grants| *grants > 1000),
        "both cohorts were there: {total:?}"
    );
}

/// Runs scenarios until one of them finds `fault` out; at most those of `seeds`.
pub(crate) fn is_caught(name: &str, fault: Fault, seeds: Range<u64>, draw: fn(u64) -> Scenario) {
    let spec: LockSpec = name.parse().expect("a lock");
    for seed in seeds.clone() {
        match run(spec, Some(fault), draw(seed)) {
            Ok(_) => {}
            Err(Failure::Other(text)) => panic!("{fault:?}, seed {seed}: {text}"),
            Err(failure) => {
                println!("{fault:?}: seed {seed}: {failure}");
                return;
            }
        }
    }
    panic!("{fault:?} was not found out by {seeds:?}")
}
