//! Every lock over TCP, in real time: two nodes, clients of both cohorts and of one thread, counters that lose nothing.
//!
//! A run here is one schedule of a real machine, not many that were chosen; the simulated ones are where bugs are looked
//! for. It shows that the same code runs on the fabric, and that nothing in it counts on virtual time.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{
    ClientThread, Cluster, Key, Server, ServerConfig, TcpEndpoint, ThreadConfig,
};
use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};
use dmtree_lock::{AnyLock, DataPath, LockOptions, LockPlan, LockProtocol, LockSpec, WriteBack};

const NODES: u16 = 2;
const THREADS: u16 = 2;
const COROUTINES: u16 = 2;
const OPERATIONS: u64 = 60;
const LOCKS: u32 = 2;

/// What a client does: takes locks in turn, and adds 1 to both words of what they guard.
async fn work(
    ep: TcpEndpoint,
    mut lock: AnyLock,
    pages: Vec<(GlobalAddr, GlobalAddr)>,
    holders: Arc<Vec<AtomicU64>>,
) {
    for operation in 0..OPERATIONS {
        let turn = (operation as usize + ep.client().0 as usize) % pages.len();
        let (at, page) = pages[turn];
        let guard = lock.acquire(&ep, at).await.unwrap();
        let inside = holders[turn].fetch_add(1, Ordering::SeqCst);
        assert_eq!(inside, 0, "{} is not alone", ep.client());
        let mut words = [0; 2];
        ep.read_words(page, &mut words).await.unwrap();
        assert_eq!(words[0], words[1], "a half-written page");
        holders[turn].fetch_sub(1, Ordering::SeqCst);
        let new = [words[0] + 1; 2];
        let write_back = WriteBack {
            path: DataPath::Loopback,
            writes: &[(page, &new)],
        };
        lock.release(&ep, guard, write_back).await.unwrap();
    }
}

fn run(spec: &str, native_swap: bool) {
    let spec: LockSpec = spec.parse().unwrap();
    let mut map = MemoryMap::new(NODES);
    let places: Vec<(NodeId, u16)> = (0..NODES)
        .flat_map(|node| (0..THREADS).map(move |thread| (NodeId(node), thread)))
        .flat_map(|place| (0..COROUTINES).map(move |_| place))
        .collect();
    let nodes: Vec<NodeId> = places.iter().map(|(node, _)| *node).collect();
    let options = LockOptions {
        slots: LOCKS,
        ..LockOptions::default()
    };
    let plan = LockPlan::reserve(spec, options, &mut map, &[NodeId(0)], &nodes);
    let pages: Vec<(GlobalAddr, GlobalAddr)> = (0..LOCKS)
        .map(|index| {
            let page = map.reserve(NodeId(0), MemoryKind::Host, 64, 64);
            (plan.table().lock(NodeId(0), index), page)
        })
        .collect();

    let key = Key::generate().unwrap();
    let cluster = Cluster::new(spec.to_string(), 1);
    let regions: Vec<Arc<Regions>> = (0..NODES)
        .map(|node| Arc::new(Regions::zeroed(NodeId(node), &map).unwrap()))
        .collect();
    let servers: Vec<Server> = regions
        .iter()
        .map(|regions| {
            let config = ServerConfig::new(key.clone(), cluster.clone());
            Server::start(config, Arc::clone(regions)).unwrap()
        })
        .collect();
    let peers = servers.iter().map(|server| Some(server.addr())).collect();
    let mut config = ThreadConfig::new(peers, key, cluster);
    config.native_swap = native_swap;
    let holders: Arc<Vec<AtomicU64>> = Arc::new((0..LOCKS).map(|_| AtomicU64::new(0)).collect());
    std::thread::scope(|scope| {
        for node in 0..NODES {
            for thread in 0..THREADS {
                let (config, own) = (config.clone(), Arc::clone(&regions[usize::from(node)]));
                let (plan, places, pages) = (&plan, &places, &pages);
                let holders = Arc::clone(&holders);
                scope.spawn(move || {
                    let mut clients = ClientThread::connect(config, own).unwrap();
                    for (id, place) in places.iter().enumerate() {
                        if *place != (NodeId(node), thread) {
                            continue;
                        }
                        let id = ClientId(id as u32);
                        let ep = clients.endpoint(id);
                        let lock = plan.client(id, None);
                        let work = work(ep.clone(), lock, pages.clone(), Arc::clone(&holders));
                        clients.spawn(&ep, work);
                    }
                    clients.run().unwrap();
                });
            }
        }
    });
    let total: u64 = pages
        .iter()
        .map(|(_, page)| regions[0].host_words()[page.offset() as usize / 8].load(Ordering::SeqCst))
        .sum();
    assert_eq!(
        total,
        places.len() as u64 * OPERATIONS,
        "{spec}: lost updates"
    );
}

#[test]
fn locks_that_queue() {
    for spec in ["farlock", "farlock-g:3,2", "alock", "alock:20,5", "mcs"] {
        for native_swap in [false, true] {
            run(spec, native_swap);
        }
    }
}

#[test]
fn locks_that_try_again() {
    for spec in ["sherman", "tas", "ticket"] {
        run(spec, false);
    }
}
