//! Inserts: splits, new roots, and everything that goes on meanwhile.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;
#[path = "common/contended.rs"]
mod contended;
#[path = "common/history.rs"]
mod history;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use common::{Cluster, LOCKS, PATHS, Setup, Telling};
use contended::{at_once, cold_caches, histories, race_for_roots, rng};
use dmtree_cluster::{ErrorKind as ClusterErrorKind, NodeId};
use dmtree_index::{ErrorKind, GrowthStats, IndexCache, LoadOptions, Shape, TreeOptions};
use dmtree_lock::DataPath;
use rand::RngExt;
use rand::seq::SliceRandom;

fn is_linearizable(lock: &'static str) {
    for path in PATHS {
        let mut met = GrowthStats::default();
        for seed in 0..300 {
            let _telling = Telling(lock, TreeOptions::new(path), seed);
            let setup = Setup::growing(lock, 1 << 14).seeded(seed);
            let (ops, this) = histories(&setup, TreeOptions::new(path), None);
            met += this;
            if let Err(why) = history::check(&ops) {
                panic!("{why}");
            }
        }
        assert!(
            met.splits > 1500 && met.replaced > 5000 && met.roots > 200,
            "{met:?}"
        );
    }
}

#[test]
fn inserts_are_linearizable_with_sherman() {
    is_linearizable(LOCKS[0]);
}

#[test]
fn inserts_are_linearizable_with_alock() {
    is_linearizable(LOCKS[1]);
}

#[test]
fn inserts_are_linearizable_with_farlock() {
    is_linearizable(LOCKS[2]);
}

#[test]
fn inserts_are_linearizable_with_tas() {
    is_linearizable(LOCKS[4]);
}

#[test]
fn inserts_are_linearizable_with_ticket() {
    is_linearizable(LOCKS[5]);
}

#[test]
fn inserts_are_linearizable_with_mcs() {
    is_linearizable("mcs");
}

/// Reading leaves by CPU, a get sees values the key has had, or that it is absent before it has returned from
/// being added; and it is linearizable on a fabric that is kinder than the contract.
#[test]
fn gets_by_cpu_see_no_mixture_while_the_tree_grows() {
    let options = TreeOptions {
        read_path: DataPath::Cpu,
        ..TreeOptions::new(DataPath::Cpu)
    };
    for seed in 0..300 {
        let lock = LOCKS[seed as usize % 3];
        let _telling = Telling(lock, options, seed);
        let setup = Setup::growing(lock, 1 << 14).seeded(seed);
        let (ops, _) = histories(&setup, options, None);
        let written: BTreeSet<_> = ops
            .iter()
            .filter(|op| op.write)
            .map(|op| (op.key, op.value))
            .collect();
        assert!(ops.iter().all(|op| written.contains(&(op.key, op.value))));
        if let Err(why) = history::check(&ops) {
            assert!(setup.config.hostile, "{why}");
        }
    }
}

/// Each client works on keys of its own, which lie between the others', and knows what every operation has to
/// say; at the end the tree is sound and holds what the models do.
fn models(
    setup: &Setup,
    options: TreeOptions,
    caches: &[Arc<IndexCache>],
    operations: u64,
) -> (Shape, GrowthStats) {
    let seed = setup.config.seed;
    let mut cluster = Cluster::new(setup);
    cluster.load([]);
    let clients = setup.clients.len() as u64;
    let all = Rc::new(RefCell::new(BTreeMap::new()));
    let trees = cluster.trees(caches, options);
    let met = at_once(&mut cluster, trees, |client, mut tree| {
        let (all, mut rng) = (Rc::clone(&all), rng(seed, client));
        async move {
            let mut model = BTreeMap::new();
            for number in 0..operations {
                let key = rng.random_range(0..operations) * clients + client as u64;
                // Both ends of the keys, too.
                let key = if key + 1 == operations * clients {
                    u64::MAX
                } else {
                    key
                };
                let value = [0, u64::MAX, number][rng.random_range(0..3)];
                match rng.random_range(0..6) {
                    0 => assert_eq!(tree.get(key).await.unwrap(), model.get(&key).copied()),
                    1 => {
                        let there = model.contains_key(&key);
                        assert_eq!(tree.update(key, value).await.unwrap(), there);
                        if there {
                            model.insert(key, value);
                        }
                    }
                    _ => assert_eq!(
                        tree.insert(key, value).await.unwrap(),
                        model.insert(key, value).is_some()
                    ),
                }
            }
            all.borrow_mut().extend(model);
            tree
        }
    });
    let (shape, mut pairs) = cluster.verify();
    pairs.sort_unstable();
    assert!(
        pairs.into_iter().eq(all.take()),
        "the tree holds what was inserted"
    );
    (shape, met)
}

#[test]
fn a_tree_that_grows_from_nothing_does_what_a_map_does() {
    let mut heights = 0;
    for seed in 0..300 {
        let lock = LOCKS[seed as usize % 3];
        let options = TreeOptions::new(PATHS[seed as usize / 3 % 2]);
        let _telling = Telling(lock, options, seed);
        let setup = Setup::growing(lock, 1 << 16).seeded(seed);
        // Room for all inner pages, for a few, or for the top two levels only.
        let budget = [0, 3000, usize::MAX][seed as usize / 6 % 3];
        let caches: Vec<_> = (0..3)
            .map(|_| Arc::new(IndexCache::with_budget(budget)))
            .collect();
        let (shape, met) = models(&setup, options, &caches, 60);
        for cache in caches {
            // A node whose clients have not met the newest root yet keeps the levels below the one it knows.
            let known = cache.root().map_or(0, |(_, level)| usize::from(level));
            let above: u64 = shape.pages[known.saturating_sub(1).max(1)..].iter().sum();
            assert!(
                cache.bytes() <= budget.max(above as usize * 300),
                "{}",
                cache.bytes()
            );
        }
        assert_eq!(met.added, shape.keys);
        assert_eq!(met.roots as usize, shape.height() - 1);
        heights += shape.height();
    }
    assert!(heights >= 300 * 4, "{heights}");
}

/// 120 clients on ten nodes, all of which serve memory, insert into an empty tree at once.
#[test]
fn a_hundred_and_twenty_clients_on_ten_nodes_fill_an_empty_tree() {
    for (seed, (page_bytes, keys)) in
        (0..9).zip([(128, 40), (192, 40), (1024, 300)].into_iter().cycle())
    {
        for path in PATHS {
            let lock = LOCKS[(seed + seed / 3) as usize % 3];
            let _telling = Telling(lock, TreeOptions::new(path), seed);
            let mut setup = Setup::growing(lock, 4 << 20).seeded(seed);
            setup.nodes = 10;
            setup.servers = (0..10).map(NodeId).collect();
            setup.clients = (0..120)
                .map(|client| (NodeId(client % 10), client / 10))
                .collect();
            setup.load.page_bytes = page_bytes;
            setup.load.chunk_bytes = 4 * u64::from(page_bytes);
            setup.slots = 64;
            let mut cluster = Cluster::new(&setup);
            cluster.load([]);
            let trees = cluster.trees(&cold_caches(&setup), TreeOptions::new(path));
            let met = at_once(&mut cluster, trees, |client, mut tree| {
                let mut keys: Vec<_> = (0..keys)
                    .map(|number| number * 120 + client as u64)
                    .collect();
                keys.shuffle(&mut rng(seed, client));
                async move {
                    for key in keys {
                        assert!(!tree.insert(key, !key).await.unwrap());
                    }
                    tree
                }
            });
            let (shape, pairs) = cluster.verify();
            assert_eq!((met.added, shape.keys), (120 * keys, 120 * keys));
            assert!(pairs.iter().all(|(key, value)| *value == !*key));
        }
    }
}

/// Clients that split the root's level at the same time: one of them makes the root, the others' pages get into
/// it.
#[test]
fn new_roots_are_raced_for_and_nobodys_split_is_lost() {
    let mut met = GrowthStats::default();
    for seed in 0..300 {
        let lock = LOCKS[seed as usize % 3];
        let options = TreeOptions::new(PATHS[seed as usize / 3 % 2]);
        let _telling = Telling(lock, options, seed);
        let (shape, this) = race_for_roots(lock, options, seed, None);
        assert_eq!((shape.keys, shape.height() as u64 - 1), (96, this.roots));
        met += this;
    }
    assert!(met.roots_lost > 30, "{met:?}");
}

#[test]
fn both_ends_of_keys_and_values_are_keys_and_values() {
    for (lock, path) in LOCKS
        .into_iter()
        .flat_map(|lock| PATHS.map(|path| (lock, path)))
    {
        let mut setup = Setup::growing(lock, 1 << 16);
        setup.clients.truncate(1);
        let mut cluster = Cluster::new(&setup);
        cluster.load([]);
        let trees = cluster.trees(&cold_caches(&setup), TreeOptions::new(path));
        at_once(&mut cluster, trees, |_, mut tree| async move {
            let ends = [0, u64::MAX];
            for key in ends {
                for value in ends {
                    assert_eq!(tree.insert(key, value).await.unwrap(), value != 0);
                    assert_eq!(tree.get(key).await.unwrap(), Some(value));
                }
            }
            // Neighbours of both ends, until both have been split off.
            for key in 1..30 {
                assert!(!tree.insert(key, 0).await.unwrap());
                assert!(!tree.insert(u64::MAX - key, u64::MAX).await.unwrap());
            }
            for key in 0..30 {
                assert_eq!(
                    tree.get(key).await.unwrap(),
                    Some(if key == 0 { u64::MAX } else { 0 })
                );
                assert_eq!(tree.get(u64::MAX - key).await.unwrap(), Some(u64::MAX));
            }
            assert_eq!(tree.get(30).await.unwrap(), None);
            tree
        });
        assert_eq!(cluster.verify().0.keys, 60);
    }
}

/// Inserts until there is no memory: an error that says so, and a tree that holds what was inserted and goes on to
/// be read and updated.
#[test]
fn out_of_memory_is_told_and_leaves_the_tree_as_it_is() {
    for seed in 0..60 {
        let lock = LOCKS[seed as usize % 3];
        let options = TreeOptions::new(PATHS[seed as usize / 3 % 2]);
        let _telling = Telling(lock, options, seed);
        let setup = Setup::growing(lock, seed * 512).seeded(seed);
        let mut cluster = Cluster::new(&setup);
        cluster.load([]);
        let trees = cluster.trees(&cold_caches(&setup), options);
        let all = Rc::new(RefCell::new(BTreeMap::new()));
        let (failed, told) = (Rc::new(RefCell::new(0)), Rc::clone(&all));
        at_once(&mut cluster, trees, |client, mut tree| {
            let (all, failed) = (Rc::clone(&all), Rc::clone(&failed));
            let mut keys: Vec<_> = (0..200).map(|number| number * 6 + client as u64).collect();
            keys.shuffle(&mut rng(seed, client));
            async move {
                for key in keys {
                    match tree.insert(key, !key).await {
                        Ok(there) => {
                            assert!(!there);
                            all.borrow_mut().insert(key, !key);
                        }
                        Err(failure) => {
                            let ErrorKind::Cluster(cause) = failure.kind() else {
                                panic!("{failure}");
                            };
                            let is = matches!(cause.kind(), ClusterErrorKind::OutOfMemory { .. });
                            assert!(is, "{failure}");
                            assert!(failure.to_string().contains("no free memory"), "{failure}");
                            assert_eq!(tree.get(key).await.unwrap(), None);
                            *failed.borrow_mut() += 1;
                        }
                    }
                }
                let own = |key: &&u64| **key % 6 == client as u64;
                let keys: Vec<_> = all.borrow().keys().filter(own).copied().collect();
                for key in keys {
                    assert_eq!(tree.get(key).await.unwrap(), Some(!key));
                    assert!(tree.update(key, key).await.unwrap());
                }
                tree
            }
        });
        assert!(*failed.borrow() > 0);
        let (_, mut pairs) = cluster.verify();
        pairs.sort_unstable();
        assert!(
            pairs
                .into_iter()
                .eq(told.borrow().keys().map(|key| (*key, *key)))
        );
    }
}

/// Verbs of an insert with pages and caches as they are by default, one lock's included: ten nodes, one of which
/// serves the memory, so that every node's cache is out of date by the other nine's splits.
#[test]
fn an_insert_costs_at_most_twice_the_verbs_of_an_update() {
    let mut setup = Setup::growing("sherman", 16 << 20);
    setup.load = LoadOptions {
        spare_bytes: 16 << 20,
        chunk_bytes: 64 << 10,
        ..LoadOptions::default()
    };
    (setup.capacity, setup.nodes, setup.slots) = (20_000, 10, 4096);
    setup.servers = vec![NodeId(0)];
    setup.clients = (1..10).map(|node| (NodeId(node), 0)).collect();
    let mut verbs = Vec::new();
    for insert in [false, true] {
        let mut cluster = Cluster::new(&setup);
        let loaded = cluster.load((0..20_000).map(|key| (key * 100, key)));
        let caches: Vec<_> = (0..10)
            .map(|_| Arc::new(IndexCache::prefilled(Arc::clone(&loaded.index))))
            .collect();
        let trees = cluster.trees(&caches, TreeOptions::new(DataPath::Cpu));
        let met = at_once(&mut cluster, trees, |client, mut tree| {
            let mut rng = rng(1, client);
            async move {
                for _ in 0..2000 {
                    let key = rng.random_range(0..20_000) * 100;
                    if insert {
                        let key = key + 1 + rng.random_range(0..11) * 9 + client as u64;
                        tree.insert(key, 1).await.unwrap();
                    } else {
                        assert!(tree.update(key, 1).await.unwrap());
                    }
                }
                tree
            }
        });
        let operations = 9.0 * 2000.0;
        let per = |count: u64| count as f64 / operations;
        verbs.push(per(cluster.sim.stats().verbs));
        if insert {
            cluster.verify();
            assert!(met.splits > 400, "{met:?}");
            println!(
                "{verbs:?} verbs an update and an insert, without locks: leaf {:.2}, split {:.2}, way {:.2}; {met:?}",
                per(met.leaf.total()),
                per(met.split.total()),
                per(met.way.total())
            );
            // What is told by purpose, and the lock's CAS and WRITE for each time it was taken, is all there is.
            let locks = met.leaf.locks + met.split.locks + met.way.locks;
            let told = met.leaf.total() + met.split.total() + met.way.total() + 2 * locks;
            assert!(
                cluster.sim.stats().verbs.abs_diff(told) * 50 < told,
                "{told}"
            );
        }
    }
    assert!((3.9..4.2).contains(&verbs[0]), "{verbs:?}");
    assert!(verbs[1] <= 2.0 * verbs[0], "{verbs:?}");
}

#[test]
fn the_same_seed_gives_the_same_history_of_a_growing_tree() {
    for (seed, lock) in (4..).zip(LOCKS) {
        let setup = Setup::growing(lock, 1 << 14).seeded(seed);
        let [one, other] = [0, 1].map(|_| histories(&setup, TreeOptions::new(DataPath::Cpu), None));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }
}
