//! Clients that get, update and insert at once.

#![allow(dead_code)] // Each test binary uses its own part.
#![allow(unreachable_pub)] // Test binaries have no outside.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use dmtree_cluster::{Endpoint, NodeId};
use dmtree_index::{Fault, GrowthStats, IndexCache, Shape, TreeOptions};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::common::{Cluster, Setup, SimTree};
use crate::history::Op;

pub fn rng(seed: u64, client: usize) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed << 8 | client as u64)
}

pub fn cold_caches(setup: &Setup) -> Vec<Arc<IndexCache>> {
    (0..setup.nodes)
        .map(|_| Arc::new(IndexCache::new()))
        .collect()
}

/// Runs `program` on every client at once; what their inserts have met.
pub fn at_once<F: Future<Output = SimTree> + 'static>(
    cluster: &mut Cluster,
    trees: Vec<SimTree>,
    program: impl Fn(usize, SimTree) -> F,
) -> GrowthStats {
    let met = Rc::new(RefCell::new(GrowthStats::default()));
    for (client, tree) in trees.into_iter().enumerate() {
        let (ep, met) = (tree.endpoint().clone(), Rc::clone(&met));
        let running = program(client, tree);
        cluster.sim.spawn(&ep, async move {
            let tree = running.await;
            let stats = tree.stats();
            assert_eq!(stats.no_page, 0, "a pointer led to no page");
            *met.borrow_mut() += stats.growth;
        });
    }
    cluster.sim.run().unwrap();
    met.take()
}

/// Keys of [`histories`]: some are there at first; both ends of all keys are among them.
const KEYS: u64 = 40;

fn key(index: u64) -> u64 {
    if index + 1 == KEYS {
        u64::MAX
    } else {
        index * 10
    }
}

/// Lets all clients get, update and insert the same keys; what they did, and what is in memory at the end.
pub fn histories(
    setup: &Setup,
    options: TreeOptions,
    fault: Option<Fault>,
) -> (Vec<Op>, GrowthStats) {
    let seed = setup.config.seed;
    let mut cluster = Cluster::new(setup);
    // From an empty tree to one with half of the keys.
    let there = |index: u64| index % 4 < seed % 3;
    let loaded = cluster.load(
        (0..KEYS)
            .filter(|index| there(*index))
            .map(|index| (key(index), index)),
    );
    // Cold or warm, with room for all inner pages, for a few, or for the top two levels only.
    let budget = [0, 1500, usize::MAX][seed as usize / 5 % 3];
    let cache = |_| match seed % 5 {
        0 => IndexCache::with_budget(budget),
        _ => IndexCache::prefilled_with_budget(Arc::clone(&loaded.index), budget),
    };
    let caches: Vec<_> = (0..setup.nodes).map(|node| Arc::new(cache(node))).collect();
    let first = (0..KEYS).map(|index| Op {
        key: key(index),
        value: there(index).then_some(index),
        write: true,
        adds: false,
        begin: 0,
        end: 0,
    });
    let ops = Rc::new(RefCell::new(first.collect::<Vec<_>>()));
    let trees = cluster.trees(&caches, options);
    let met = at_once(&mut cluster, trees, |client, mut tree| {
        let (ops, mut rng) = (Rc::clone(&ops), rng(seed, client));
        fault.into_iter().for_each(|fault| tree.sabotage(fault));
        async move {
            let ep = tree.endpoint().clone();
            ep.sleep(1 + rng.random_range(0..4000)).await;
            for number in 0..14 {
                let (key, begin) = (key(rng.random_range(0..KEYS)), ep.now());
                let value = (client as u64 + 1) << 32 | number;
                let (write, value, adds) = match rng.random_range(0..6) {
                    0..3 => (true, Some(value), !tree.insert(key, value).await.unwrap()),
                    3 if tree.update(key, value).await.unwrap() => (true, Some(value), false),
                    3 => (false, None, false),
                    _ => (false, tree.get(key).await.unwrap(), false),
                };
                ops.borrow_mut().push(Op {
                    key,
                    value,
                    write,
                    adds,
                    begin,
                    end: ep.now(),
                });
            }
            tree
        }
    });
    cluster.verify_caches(&caches);
    let (_, pairs) = cluster.verify();
    let (pairs, ended): (BTreeMap<_, _>, _) =
        (pairs.into_iter().collect(), cluster.sim.now_ns() + 1);
    let mut ops = ops.take();
    ops.extend((0..KEYS).map(|index| Op {
        key: key(index),
        value: pairs.get(&key(index)).copied(),
        write: false,
        adds: false,
        begin: ended,
        end: ended,
    }));
    (ops, met)
}

/// Whether gets of an absent key find it while others fill the free slots around it: zeros, as its key and value
/// are, lie in slots that are free.
pub fn phantoms(setup: &Setup, options: TreeOptions, fault: Option<Fault>) -> u64 {
    let mut cluster = Cluster::new(setup);
    cluster.load([(1 << 32, 1)]);
    let trees = cluster.trees(&cold_caches(setup), options);
    let (busy, found) = (Rc::new(Cell::new(trees.len() / 2)), Rc::new(Cell::new(0)));
    let inserting = busy.get();
    at_once(&mut cluster, trees, |client, mut tree| {
        let (busy, found) = (Rc::clone(&busy), Rc::clone(&found));
        fault.into_iter().for_each(|fault| tree.sabotage(fault));
        async move {
            if client < inserting {
                for number in 0..20 {
                    assert!(
                        !tree
                            .insert(1 + client as u64 * 100 + number, 1)
                            .await
                            .unwrap()
                    );
                }
                busy.set(busy.get() - 1);
            }
            while busy.get() > 0 {
                found.set(found.get() + u64::from(tree.get(0).await.unwrap().is_some()));
            }
            tree
        }
    });
    cluster.verify();
    found.get()
}

/// 24 clients on three nodes insert four keys each into an empty tree at once.
pub fn race_for_roots(
    lock: &'static str,
    options: TreeOptions,
    seed: u64,
    fault: Option<Fault>,
) -> (Shape, GrowthStats) {
    let mut setup = Setup::growing(lock, 1 << 16).seeded(seed);
    setup.clients = (0..24).map(|client| (NodeId(client % 3), client)).collect();
    let mut cluster = Cluster::new(&setup);
    cluster.load([]);
    let trees = cluster.trees(&cold_caches(&setup), options);
    let met = at_once(&mut cluster, trees, |client, mut tree| {
        fault.into_iter().for_each(|fault| tree.sabotage(fault));
        async move {
            for number in 0..4 {
                let key = (client as u64 * 4 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                assert!(!tree.insert(key, number).await.unwrap());
            }
            tree
        }
    });
    (cluster.verify().0, met)
}
