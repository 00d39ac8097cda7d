//! A simulated cluster with a loaded tree, and what its tests share.

#![allow(dead_code)] // Each test binary uses its own part.
#![allow(unreachable_pub)] // Test binaries have no outside.

use std::rc::Rc;
use std::sync::Arc;

use dmtree_cluster::sim::{Profile, Sim, SimConfig, SimEndpoint, SwapKind};
use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, MemoryMap, NodeId};
use dmtree_index::{
    IndexCache, LoadOptions, LoadedTree, Shape, Survey, Tree, TreeOptions, TreePlan, verify,
};
use dmtree_lock::{AnyLock, DataPath, LockOptions, LockPlan, Monitor};

pub const LOCKS: [&str; 7] = [
    "sherman",
    "alock:20,5",
    "farlock",
    "farlock-g:3,2",
    "tas",
    "ticket",
    "mcs:cas-release",
];
pub const PATHS: [DataPath; 2] = [DataPath::Cpu, DataPath::Loopback];

pub type SimTree = Tree<SimEndpoint, AnyLock>;

/// What a test's cluster is like.
#[derive(Clone, Debug)]
pub struct Setup {
    pub nodes: u16,
    pub servers: Vec<NodeId>,
    /// Node and thread of each client.
    pub clients: Vec<(NodeId, u16)>,
    pub lock: &'static str,
    pub config: SimConfig,
    pub load: LoadOptions,
    /// Keys that memory is reserved for.
    pub capacity: u64,
    /// Locks a server.
    pub slots: u32,
}

impl Setup {
    /// Nodes 0 and 2 serve memory, all three run two clients; on nodes 0 and 1 they share a thread. Five keys a
    /// leaf, so that a small tree has many leaves and levels.
    pub fn new(lock: &'static str) -> Self {
        let clients = [(0, 0), (1, 0), (2, 0), (0, 0), (1, 0), (2, 1)];
        Self {
            nodes: 3,
            servers: vec![NodeId(0), NodeId(2)],
            clients: clients.map(|(node, thread)| (NodeId(node), thread)).into(),
            lock,
            config: SimConfig::new(Profile::by_name("cx3-fdr").unwrap()),
            load: LoadOptions {
                fill: 0.8,
                page_bytes: 128,
                chunk_bytes: 1024,
                ..LoadOptions::default()
            },
            capacity: 60,
            // Few locks, so that pages share them.
            slots: 3,
        }
    }

    /// As [`Setup::new`], with memory for the tree to grow: chunks of four pages, so that they are taken often and
    /// from both servers.
    pub fn growing(lock: &'static str, spare_bytes: u64) -> Self {
        let mut setup = Self::new(lock);
        setup.load.chunk_bytes = 512;
        setup.load.spare_bytes = spare_bytes;
        setup
    }

    /// Jitter from 0 to 5 µs; every other seed hostile, every fourth with a native swap.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self.config.jitter_ns = seed * 617 % 5001;
        self.config.hostile = seed.is_multiple_of(2);
        self.config.swap = if seed % 4 < 2 {
            SwapKind::Cas
        } else {
            SwapKind::Native
        };
        self
    }
}

/// Tells what has failed when a test panics.
pub struct Telling(pub &'static str, pub TreeOptions, pub u64);

impl Drop for Telling {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed: lock {}, seed {}, {:?}", self.0, self.2, self.1);
        }
    }
}

/// A simulated cluster with memory for a tree.
pub struct Cluster {
    pub sim: Sim,
    pub plan: TreePlan,
    pub endpoints: Vec<SimEndpoint>,
    /// In the order of the clients.
    locks: Vec<AnyLock>,
    lock_plan: LockPlan,
}

impl Cluster {
    pub fn new(setup: &Setup) -> Self {
        let mut map = MemoryMap::new(setup.nodes);
        let plan = TreePlan::reserve(&mut map, &setup.servers, setup.capacity, setup.load).unwrap();
        let nodes: Vec<_> = setup.clients.iter().map(|(node, _)| *node).collect();
        let options = LockOptions {
            slots: setup.slots,
            ..LockOptions::default()
        };
        let spec = setup.lock.parse().unwrap();
        let lock_plan = LockPlan::reserve(spec, options, &mut map, &setup.servers, &nodes);
        let monitor = Rc::new(Monitor::new(lock_plan.table()));
        let mut sim = Sim::new(&setup.config, &map).unwrap();
        let endpoints: Vec<_> = setup
            .clients
            .iter()
            .map(|(node, thread)| sim.endpoint(*node, *thread))
            .collect();
        let locks = (0..endpoints.len() as u32)
            .map(|client| lock_plan.client(ClientId(client), Some(Rc::clone(&monitor))))
            .collect();
        Self {
            sim,
            plan,
            endpoints,
            locks,
            lock_plan,
        }
    }

    /// Loads `pairs` into the cluster's memory.
    pub fn load(&mut self, pairs: impl IntoIterator<Item = (u64, u64)>) -> LoadedTree {
        let sim = &mut self.sim;
        let mut sink = |addr: GlobalAddr, words: &[u64]| {
            let at = addr.offset() as usize / 8;
            sim.host_words(addr.node())[at..at + words.len()].copy_from_slice(words);
            Ok(())
        };
        self.plan.load(pairs, &mut sink).unwrap()
    }

    /// One handle a client, whose cache is that of its node.
    pub fn trees(&mut self, caches: &[Arc<IndexCache>], options: TreeOptions) -> Vec<SimTree> {
        let clients = self.endpoints.iter().cloned().zip(self.locks.drain(..));
        let trees = clients.map(|(ep, lock)| {
            let cache = Arc::clone(&caches[usize::from(ep.node().0)]);
            let (meta, table) = (Arc::clone(self.plan.meta()), self.lock_plan.table().clone());
            Tree::new(ep, lock, meta, table, cache, options)
        });
        trees.collect()
    }

    pub fn word(&mut self, addr: GlobalAddr) -> u64 {
        self.sim.host_words(addr.node())[addr.offset() as usize / 8]
    }

    pub fn set_word(&mut self, addr: GlobalAddr, word: u64) {
        self.sim.host_words(addr.node())[addr.offset() as usize / 8] = word;
    }

    /// Checks the tree in memory, and that `caches` lead to its keys; how many copies they have.
    pub fn verify_caches(&mut self, caches: &[Arc<IndexCache>]) -> u64 {
        let (sim, meta) = (&mut self.sim, self.plan.meta());
        let mut read = |addr: GlobalAddr, words: &mut [u64]| {
            let at = addr.offset() as usize / 8;
            words.copy_from_slice(&sim.host_words(addr.node())[at..at + words.len()]);
            Ok(())
        };
        let survey = Survey::of(meta, &mut read, |_| ()).unwrap();
        let survey = survey.expect("a sound tree");
        let copies = caches.iter().map(|cache| {
            let checked = survey.check_cache(meta, cache, &mut read).unwrap();
            checked.expect("a sound cache")
        });
        copies.sum()
    }

    /// Checks the tree in memory; its shape and its pairs.
    pub fn verify(&mut self) -> (Shape, Vec<(u64, u64)>) {
        let mut pairs = Vec::new();
        let sim = &mut self.sim;
        let read = |addr: GlobalAddr, words: &mut [u64]| {
            let at = addr.offset() as usize / 8;
            words.copy_from_slice(&sim.host_words(addr.node())[at..at + words.len()]);
            Ok(())
        };
        let shape = verify(self.plan.meta(), read, |key, value| {
            pairs.push((key, value))
        });
        (shape.unwrap().expect("a sound tree"), pairs)
    }
}
