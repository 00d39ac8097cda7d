//! Gets and updates at once, on every lock and data path, under jitter and hostility.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;
#[path = "common/history.rs"]
mod history;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use common::{Cluster, LOCKS, PATHS, Setup, Telling};
use dmtree_cluster::{Endpoint, NodeId};
use dmtree_index::{IndexCache, TreeOptions};
use dmtree_lock::DataPath;
use history::Op;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const KEYS: u64 = 30;
const OPERATIONS: u64 = 16;

/// Keys 0, 10, 20, … and `u64::MAX`; what is between is absent.
fn key(index: u64) -> u64 {
    if index + 1 == KEYS {
        u64::MAX
    } else {
        index * 10
    }
}

fn initial(index: u64) -> u64 {
    // The first key's value is 0.
    index * 3
}

/// Lets all clients get and update a few keys; what they did, and what is in memory at the end.
fn run(setup: &Setup, options: TreeOptions) -> Vec<Op> {
    let mut cluster = Cluster::new(setup);
    let loaded = cluster.load((0..KEYS).map(|index| (key(index), initial(index))));
    let cold = setup.config.seed % 3 == 1;
    let cache = |_| {
        let filled = || IndexCache::prefilled(Arc::clone(&loaded.index));
        Arc::new(if cold { IndexCache::new() } else { filled() })
    };
    let caches: Vec<_> = (0..setup.nodes).map(cache).collect();
    let first = (0..KEYS).map(|index| Op {
        key: key(index),
        value: Some(initial(index)),
        write: true,
        adds: false,
        begin: 0,
        end: 0,
    });
    let ops = Rc::new(RefCell::new(first.collect::<Vec<_>>()));
    for (client, mut tree) in cluster.trees(&caches, options).into_iter().enumerate() {
        let ops = Rc::clone(&ops);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(setup.config.seed << 8 | client as u64);
        let ep = tree.endpoint().clone();
        cluster.sim.spawn(&ep.clone(), async move {
            // Time 0 is the load's.
            ep.sleep(1 + rng.random_range(0..4000)).await;
            for number in 0..OPERATIONS {
                // Mostly five hot keys, of three neighbouring leaves and the right edge.
                let index = if rng.random_ratio(3, 4) {
                    [0, 3, 4, 8, KEYS - 1][rng.random_range(0..5)]
                } else {
                    rng.random_range(0..KEYS)
                };
                let (key, begin) = (key(index), ep.now());
                let write = rng.random();
                let value = if write {
                    let value = (client as u64 + 1) << 32 | number;
                    assert!(tree.update(key, value).await.unwrap(), "key {key} is there");
                    value
                } else {
                    tree.get(key)
                        .await
                        .unwrap()
                        .expect("a key that is only updated is there")
                };
                ops.borrow_mut().push(Op {
                    key,
                    value: Some(value),
                    write,
                    adds: false,
                    begin,
                    end: ep.now(),
                });
                if rng.random_ratio(1, 8) {
                    let absent = index * 10 + 5;
                    assert!(!tree.update(absent, 1).await.unwrap());
                    assert_eq!(tree.get(absent).await.unwrap(), None);
                }
            }
        });
    }
    cluster.sim.run().unwrap();
    let (shape, pairs) = cluster.verify();
    assert_eq!(shape.keys, KEYS);
    let ended = cluster.sim.now_ns() + 1;
    let last = pairs.into_iter().map(|(key, value)| Op {
        key,
        value: Some(value),
        write: false,
        adds: false,
        begin: ended,
        end: ended,
    });
    let mut ops = ops.take();
    ops.extend(last);
    ops
}

/// Runs `seeds` of `lock`, and tells the seed that fails.
fn each_seed(lock: &'static str, options: TreeOptions, seeds: u64, check: impl Fn(u64, &[Op])) {
    for seed in 0..seeds {
        let _telling = Telling(lock, options, seed);
        check(seed, &run(&Setup::new(lock).seeded(seed), options));
    }
}

fn is_linearizable(lock: &'static str) {
    for path in PATHS {
        let (reads, overlapping) = (RefCell::new(0), RefCell::new(0));
        each_seed(lock, TreeOptions::new(path), 300, |_, ops| {
            if let Err(why) = history::check(ops) {
                panic!("{why}");
            }
            let writes = ops.iter().filter(|op| op.write && op.end > 0);
            for read in ops.iter().filter(|op| !op.write) {
                *reads.borrow_mut() += 1;
                let meets = |write: &&Op| {
                    write.key == read.key && write.begin < read.end && read.begin < write.end
                };
                *overlapping.borrow_mut() += usize::from(writes.clone().any(|write| meets(&write)));
            }
        });
        // The runs really have what they are to be checked for.
        let (reads, overlapping) = (reads.take(), overlapping.take());
        assert!(
            overlapping * 10 > reads,
            "{overlapping} of {reads} gets meet an update of their key"
        );
    }
}

#[test]
fn gets_and_updates_are_linearizable_with_sherman() {
    is_linearizable(LOCKS[0]);
}

#[test]
fn gets_and_updates_are_linearizable_with_alock() {
    is_linearizable(LOCKS[1]);
}

#[test]
fn gets_and_updates_are_linearizable_with_farlock() {
    is_linearizable(LOCKS[2]);
}

#[test]
fn gets_and_updates_are_linearizable_with_farlock_g() {
    is_linearizable(LOCKS[3]);
}

#[test]
fn gets_and_updates_are_linearizable_with_tas() {
    is_linearizable(LOCKS[4]);
}

#[test]
fn gets_and_updates_are_linearizable_with_ticket() {
    is_linearizable(LOCKS[5]);
}

#[test]
fn gets_and_updates_are_linearizable_with_mcs() {
    is_linearizable("mcs");
    is_linearizable(LOCKS[6]);
}

/// Reading leaves by CPU, a get sees values the key has had and never nothing; and it is linearizable on a fabric
/// that is kinder than the contract.
#[test]
fn gets_by_cpu_see_no_mixture() {
    let options = TreeOptions {
        read_path: DataPath::Cpu,
        ..TreeOptions::new(DataPath::Cpu)
    };
    for lock in LOCKS {
        each_seed(lock, options, 100, |seed, ops| {
            let written: BTreeSet<_> = ops
                .iter()
                .filter(|op| op.write)
                .map(|op| (op.key, op.value))
                .collect();
            assert!(ops.iter().all(|op| written.contains(&(op.key, op.value))));
            if let Err(why) = history::check(ops) {
                assert!(seed.is_multiple_of(2), "not even hostile: {why}");
            }
        });
    }
}

/// In how many of 200 hostile runs a get on the leaf's node, begun after a remote client's update had returned,
/// does not find the new value.
fn stale_gets(lock: &'static str, read_path: DataPath) -> u32 {
    let mut stale = 0;
    for seed in 0..200 {
        let mut setup = Setup::new(lock).seeded(seed * 2);
        setup.clients = vec![(NodeId(0), 0), (NodeId(1), 0)];
        let mut cluster = Cluster::new(&setup);
        let loaded = cluster.load([(5, 1)]);
        assert_eq!(
            (loaded.root.node(), setup.config.hostile),
            (NodeId(0), true)
        );
        let caches = [0, 1].map(|_| Arc::new(IndexCache::prefilled(Arc::clone(&loaded.index))));
        let options = TreeOptions {
            read_path,
            ..TreeOptions::new(DataPath::Cpu)
        };
        let mut trees = cluster.trees(&caches, options).into_iter();
        let (mut local, mut remote) = (trees.next().unwrap(), trees.next().unwrap());
        let (updated, found) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(None)));
        let (ep, told) = (remote.endpoint().clone(), Rc::clone(&updated));
        cluster.sim.spawn(&ep, async move {
            assert!(remote.update(5, 2).await.unwrap());
            told.set(true);
        });
        let (ep, result) = (local.endpoint().clone(), Rc::clone(&found));
        cluster.sim.spawn(&ep.clone(), async move {
            while !updated.get() {
                ep.sleep(50).await;
            }
            result.set(local.get(5).await.unwrap());
        });
        cluster.sim.run().unwrap();
        assert!(matches!(found.get(), Some(1 | 2)), "seed {seed}: {found:?}");
        stale += u32::from(found.get() == Some(1));
    }
    stale
}

/// Why a get reads leaves by verbs: where completed WRITEs reach the CPU late, one by CPU misses them. (A release
/// that ends with an atomic pushes them there; Sherman's ends with a WRITE.)
#[test]
fn only_gets_by_cpu_miss_an_update_that_has_returned() {
    let by_cpu = stale_gets("sherman", DataPath::Cpu);
    assert!(by_cpu > 20, "{by_cpu}");
    for lock in LOCKS {
        assert_eq!(stale_gets(lock, DataPath::Loopback), 0, "{lock}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for lock in LOCKS {
        let setup = Setup::new(lock).seeded(4);
        let [one, other] = [0, 1].map(|_| run(&setup, TreeOptions::new(DataPath::Cpu)));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }
}
