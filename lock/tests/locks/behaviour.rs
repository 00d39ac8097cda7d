//! What tells the locks apart: their verbs, their budgets, their order.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use dmtree_cluster::sim::{Profile, Sim, SimConfig, SwapKind};
use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};
use dmtree_lock::{
    AnyGuard, Backoff, Cohort, DataPath, LockOptions, LockPlan, LockProtocol, Monitor, WriteBack,
};

/// One lock and one page on node 0, and clients on given nodes.
struct Bench {
    sim: Sim,
    plan: LockPlan,
    monitor: Rc<Monitor>,
    page: GlobalAddr,
    clients: Vec<NodeId>,
}

impl Bench {
    fn new(name: &str, handover: Option<u32>, clients: &[u16]) -> Self {
        Self::swapping(name, handover, clients, SwapKind::Native, Backoff::None)
    }

    fn swapping(
        name: &str,
        handover: Option<u32>,
        clients: &[u16],
        swap: SwapKind,
        backoff: Backoff,
    ) -> Self {
        let clients: Vec<NodeId> = clients.iter().copied().map(NodeId).collect();
        let mut map = MemoryMap::new(clients.iter().map(|node| node.0).max().unwrap_or(0) + 1);
        let page = map.reserve(NodeId(0), MemoryKind::Host, 1024, 64);
        let options = LockOptions {
            slots: 1,
            sherman_handover: handover,
            backoff,
            ..LockOptions::default()
        };
        let spec = name.parse().expect(name);
        let plan = LockPlan::reserve(spec, options, &mut map, &[NodeId(0)], &clients);
        let mut config = SimConfig::new(Profile::by_name("cx3-fdr").expect("a profile"));
        config.swap = swap;
        let sim = Sim::new(&config, &map).expect("memory");
        let monitor = Rc::new(Monitor::new(plan.table()));
        Self {
            sim,
            plan,
            monitor,
            page,
            clients,
        }
    }

    fn lock(&self) -> GlobalAddr {
        self.plan.table().lock(NodeId(0), 0)
    }

    /// Each client takes the lock again and again until `until_ns`, works and writes a word back.
    fn closed_loop(&mut self, until_ns: u64, work_ns: u64, path: DataPath) {
        for (number, node) in self.clients.clone().into_iter().enumerate() {
            let ep = self.sim.endpoint(node, number as u16);
            let mut lock = self
                .plan
                .client(ClientId(number as u32), Some(Rc::clone(&self.monitor)));
            let (at, page) = (self.lock(), self.page);
            self.sim.spawn(&ep.clone(), async move {
                while ep.now() < until_ns {
                    let guard = lock.acquire(&ep, at).await.expect("granted");
                    ep.work(work_ns).await;
                    let writes: [(GlobalAddr, &[u64]); 1] = [(page, &[1])];
                    let write_back = WriteBack {
                        path,
                        writes: &writes,
                    };
                    lock.release(&ep, guard, write_back)
                        .await
                        .expect("released");
                }
            });
        }
        self.sim.run().expect("everybody ends");
    }

    fn grants(&self) -> [u64; 2] {
        let counters = self.monitor.counters(self.lock());
        Cohort::ALL.map(|cohort| counters.grants(cohort))
    }
}

/// Verbs of an acquire and a release with one word to write back, of a client alone.
fn verbs_alone(name: &str, node: u16, path: DataPath) -> u64 {
    let mut bench = Bench::new(name, Some(4), &[node]);
    let ep = bench.sim.endpoint(NodeId(node), 0);
    let mut lock = bench
        .plan
        .client(ClientId(0), Some(Rc::clone(&bench.monitor)));
    let (at, page) = (bench.lock(), bench.page);
    bench.sim.spawn(&ep.clone(), async move {
        let guard = lock.acquire(&ep, at).await.expect("granted");
        let writes: [(GlobalAddr, &[u64]); 1] = [(page, &[7])];
        lock.release(
            &ep,
            guard,
            WriteBack {
                path,
                writes: &writes,
            },
        )
        .await
        .expect("released");
    });
    bench.sim.run().expect("it ends");
    assert_eq!(
        bench.sim.host_words(NodeId(0))[page.offset() as usize / 8],
        7,
        "{name}"
    );
    bench.sim.stats().verbs
}

#[test]
fn uncontended_costs_are_those_of_the_protocols() {
    let (cpu, loopback) = (DataPath::Cpu, DataPath::Loopback);
    // CAS; WRITE page, WRITE 0.
    assert_eq!(verbs_alone("sherman", 1, cpu), 3);
    assert_eq!(verbs_alone("sherman", 0, loopback), 3);
    assert_eq!(verbs_alone("sherman", 0, cpu), 2);
    // Swap; WRITE victim, READ; WRITE page, CAS tail.
    assert_eq!(verbs_alone("alock", 1, cpu), 5);
    assert_eq!(verbs_alone("alock", 0, loopback), 1);
    assert_eq!(verbs_alone("alock", 0, cpu), 0);
    // Swap; WRITE page, CAS tail; with nobody there the two ways to release are one.
    for name in ["mcs", "mcs:cas-release"] {
        assert_eq!(verbs_alone(name, 1, cpu), 3);
        assert_eq!(verbs_alone(name, 0, loopback), 3);
        assert_eq!(verbs_alone(name, 0, cpu), 2);
    }
    // CAS; WRITE page, WRITE 0.
    assert_eq!(verbs_alone("tas", 1, cpu), 3);
    assert_eq!(verbs_alone("tas", 0, loopback), 3);
    assert_eq!(verbs_alone("tas", 0, cpu), 2);
    // FAA; READ; WRITE page, FAA.
    assert_eq!(verbs_alone("ticket", 1, cpu), 4);
    assert_eq!(verbs_alone("ticket", 0, loopback), 4);
    assert_eq!(verbs_alone("ticket", 0, cpu), 3);
    // Swap; WRITE flag and victim, READ; FAA, WRITE flag; READ owner; WRITE page, WRITE owner, CAS tail.
    assert_eq!(verbs_alone("farlock", 1, cpu), 9);
    assert_eq!(verbs_alone("farlock", 0, loopback), 1);
    assert_eq!(verbs_alone("farlock", 0, cpu), 0);
    // A head alone leaves in the chain that takes its ticket.
    for name in ["farlock-g", "farlock-g:1,1", "farlock-g:5,5"] {
        assert_eq!(verbs_alone(name, 1, cpu), 9);
        assert_eq!(verbs_alone(name, 0, loopback), 1);
        assert_eq!(verbs_alone(name, 0, cpu), 0);
    }
}

#[test]
fn alock_shares_by_its_budgets() {
    // Four clients of each cohort in a closed loop: both queues always have somebody.
    let share = |name: &str| {
        let mut bench = Bench::new(name, None, &[0, 0, 0, 0, 1, 1, 2, 2]);
        bench.closed_loop(3_000_000, 1000, DataPath::Loopback);
        let [local, remote] = bench.grants();
        local as f64 / remote as f64
    };
    for (name, expected) in [
        ("alock", 1.0),
        ("alock:1,1", 1.0),
        ("alock:20,5", 4.0),
        ("alock:2,6", 1.0 / 3.0),
    ] {
        let found = share(name);
        assert!(
            (found / expected - 1.0).abs() < 0.1,
            "{name}: {found} local grants to a remote one"
        );
    }
}

#[test]
fn sherman_hands_over_within_a_compute_server_up_to_its_limit() {
    // Verbs a grant: 3 when every grant goes through the global word, fewer when some are handed over.
    let verbs_a_grant = |handover| {
        let mut bench = Bench::new("sherman", handover, &[1, 1, 1, 1]);
        bench.closed_loop(2_000_000, 1000, DataPath::Loopback);
        bench.sim.stats().verbs as f64 / bench.grants()[1] as f64
    };
    // One compute server alone: n hand-overs, each with 1 verb, then one through the word, with 3.
    for (handover, expected) in [
        (None, 3.0),
        (Some(0), 3.0),
        (Some(1), 2.0),
        (Some(4), 1.4),
        (Some(8), 11.0 / 9.0),
        (Some(u32::MAX), 1.0),
    ] {
        let found = verbs_a_grant(handover);
        assert!(
            (found - expected).abs() < 0.02,
            "{handover:?}: {found} verbs a grant"
        );
    }
}

/// Requests 20 us apart, longer than a remote one needs to join, while client 0 holds the lock: in which order clients
/// on nodes 0 to 2 are served.
fn order_of_grants(name: &str) -> Vec<usize> {
    let order = [0, 1, 0, 0, 2, 0, 1, 2, 2, 0];
    let mut bench = Bench::new(name, None, &order);
    let served = Rc::new(RefCell::new(Vec::new()));
    let waited = Rc::new(Cell::new(0));
    for (number, node) in bench.clients.clone().into_iter().enumerate() {
        let ep = bench.sim.endpoint(node, number as u16);
        let mut lock = bench
            .plan
            .client(ClientId(number as u32), Some(Rc::clone(&bench.monitor)));
        let (at, served, waited) = (bench.lock(), Rc::clone(&served), Rc::clone(&waited));
        bench.sim.spawn(&ep.clone(), async move {
            ep.sleep(number as u64 * 20_000).await;
            let guard = lock.acquire(&ep, at).await.expect("granted");
            served.borrow_mut().push(number);
            ep.work(if number == 0 { 300_000 } else { 1000 }).await;
            waited.set(waited.get().max(ep.now()));
            lock.release(&ep, guard, WriteBack::NONE)
                .await
                .expect("released");
        });
    }
    bench.sim.run().expect("everybody ends");
    assert!(waited.get() > 300_000);
    served.take()
}

#[test]
fn fair_locks_serve_both_cohorts_in_the_order_of_their_requests() {
    let in_order: Vec<usize> = (0..10).collect();
    for name in ["ticket", "mcs", "mcs:cas-release", "farlock", "farlock-g"] {
        assert_eq!(order_of_grants(name), in_order, "{name}");
    }
    // The others overtake, and everybody is served once all the same.
    for name in ["tas", "alock"] {
        let mut served = order_of_grants(name);
        assert_ne!(served, in_order, "{name}");
        served.sort_unstable();
        assert_eq!(served, in_order, "{name}");
    }
}

#[test]
fn a_swap_by_cas_collapses_when_all_begin_at_once_and_backoff_prevents_it() {
    // 10 nodes of 12 clients, all from the first instant on: docs/locks.md.
    let crowd: Vec<u16> = (0..10).flat_map(|node| [node; 12]).collect();
    let grants = |swap, backoff| {
        let mut bench = Bench::swapping("mcs", None, &crowd, swap, backoff);
        bench.closed_loop(20_000_000, 100, DataPath::Loopback);
        bench.grants().iter().sum::<u64>() as f64
    };
    let backoff = Backoff::Exponential {
        min_ns: 2000,
        max_ns: 256_000,
    };
    let native = grants(SwapKind::Native, Backoff::None);
    let collapsed = grants(SwapKind::Cas, Backoff::None);
    let paused = grants(SwapKind::Cas, backoff);
    assert!(
        collapsed < native / 2.0,
        "{collapsed} grants, native {native}"
    );
    assert!(paused > native * 0.7, "{paused} grants, native {native}");
    // Bounds that are short against what 120 attempts take of the atomic unit change nothing.
    let hurried = Backoff::Exponential {
        min_ns: 2000,
        max_ns: 64_000,
    };
    assert!(grants(SwapKind::Cas, hurried) < native / 2.0);
}

#[test]
fn a_cas_with_every_release_costs_an_atomic_in_a_crowd_and_none_alone() {
    // Native swaps: MCS joins with a swap and a WRITE, hands over with a WRITE, and writes back with another one, behind
    // which goes the READ that shows it to the CPU or, with a CAS at every release, that CAS.
    let verbs_a_grant = |name: &str, path| {
        let mut bench = Bench::new(name, None, &[1, 1, 1, 2, 2, 2]);
        bench.closed_loop(2_000_000, 1000, path);
        bench.sim.stats().verbs as f64 / bench.grants()[1] as f64
    };
    for (name, path, expected) in [
        ("mcs", DataPath::Loopback, 4.0),
        ("mcs", DataPath::Cpu, 5.0),
        ("mcs:cas-release", DataPath::Loopback, 5.0),
        ("mcs:cas-release", DataPath::Cpu, 5.0),
    ] {
        let found = verbs_a_grant(name, path);
        assert!(
            (found - expected).abs() < 0.05,
            "{name}, {path:?}: {found} verbs a grant"
        );
    }
}

/// In the order of the grants, from each group its cohort, its ticket and how many members it had.
fn groups(name: &str, clients: &[u16]) -> Vec<(Cohort, u64, usize)> {
    let mut bench = Bench::new(name, None, clients);
    let served: Rc<RefCell<Vec<(Cohort, u64)>>> = Rc::default();
    for (number, node) in bench.clients.clone().into_iter().enumerate() {
        let ep = bench.sim.endpoint(node, number as u16);
        let mut lock = bench
            .plan
            .client(ClientId(number as u32), Some(Rc::clone(&bench.monitor)));
        let (at, served) = (bench.lock(), Rc::clone(&served));
        bench.sim.spawn(&ep.clone(), async move {
            while ep.now() < 2_000_000 {
                let guard = lock.acquire(&ep, at).await.expect("granted");
                let ticket = match &guard {
                    AnyGuard::Farlock(guard) => guard.ticket(),
                    AnyGuard::FarlockG(guard) => guard.ticket(),
                    other => panic!("{other:?} has no ticket"),
                };
                served.borrow_mut().push((Cohort::of(node, at), ticket));
                ep.work(1000).await;
                lock.release(&ep, guard, WriteBack::NONE)
                    .await
                    .expect("released");
            }
        });
    }
    bench.sim.run().expect("everybody ends");
    let served = served.take();
    let one = |group: &[(Cohort, u64)]| (group[0].0, group[0].1, group.len());
    served.chunk_by(|a, b| a == b).map(one).collect()
}

#[test]
fn farlock_g_grants_in_groups_with_a_ticket_each() {
    let crowd = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2];
    for (name, budgets) in [
        ("farlock", [1, 1]),
        ("farlock-g:1,1", [1, 1]),
        ("farlock-g", [5, 1]),
        ("farlock-g:2,3", [2, 3]),
        ("farlock-g:1,4", [1, 4]),
    ] {
        let groups = groups(name, &crowd);
        assert!(groups.len() > 100, "{name}: {} groups", groups.len());
        for (nth, (_, ticket, _)) in groups.iter().enumerate() {
            assert_eq!(
                *ticket, nth as u64,
                "{name}: every ticket has one turn, in order"
            );
        }
        let longest = Cohort::ALL.map(|cohort| {
            let sizes = groups.iter().filter(|group| group.0 == cohort);
            sizes.map(|group| group.2).max().unwrap_or(0)
        });
        assert_eq!(longest, budgets, "{name}: budgets are kept, and used");
    }
}

#[test]
fn grouping_pays_for_local_clients_and_not_for_remote_ones() {
    // Figure 11 of the paper at 10 nodes of 12 threads, one lock and critical sections of 100 ns: local groups raise
    // local throughput and the total, remote groups lower both.
    let crowd: Vec<u16> = (0..10).flat_map(|node| [node; 12]).collect();
    let grants = |name: &str| {
        let mut bench = Bench::new(name, None, &crowd);
        bench.closed_loop(3_000_000, 100, DataPath::Cpu);
        let [local, remote] = bench.grants();
        [local, local + remote]
    };
    let [single, local, both] = ["farlock", "farlock-g:5,1", "farlock-g:5,5"].map(grants);
    for (of, what) in ["local grants", "all grants"].into_iter().enumerate() {
        assert!(
            single[of] < local[of] && both[of] < single[of],
            "{what}: {} one by one, {} in local groups, {} in groups of both cohorts",
            single[of],
            local[of],
            both[of]
        );
    }
}
