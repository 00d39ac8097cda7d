//! Gets while a leaf's structure changes all the time, under a fabric that tears whatever it may.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{Cluster, Setup};
use dmtree_cluster::{Chain, Endpoint, NodeId};
use dmtree_index::{IndexCache, TreeOptions};
use dmtree_lock::DataPath;

const CHANGES: u64 = 60;
/// Header words of a leaf: sequence, occupancy, slots.
const SEQ: u64 = 0;
const OCCUPANCY: u64 = 5;
const SLOTS: u64 = 6;

/// One client moves four keys round the five slots of a leaf, all values changing with each move; five others
/// get them. Keys are never missing, and values are of the change that was last when the get began, or later.
/// Returns how many reads were not settled.
fn churn(seed: u64, by_cpu: bool, read_path: DataPath) -> u64 {
    let setup = Setup::new("farlock").seeded(seed);
    let mut cluster = Cluster::new(&setup);
    let loaded = cluster.load((0..4).map(|key| (key, key)));
    let (leaf, words) = (loaded.root, cluster.plan.meta().layout().words());
    let image: Vec<u64> = (0..words as u64)
        .map(|word| cluster.word(leaf.word(word)))
        .collect();
    let caches: Vec<_> = (0..3)
        .map(|_| Arc::new(IndexCache::prefilled(Arc::clone(&loaded.index))))
        .collect();
    let options = TreeOptions {
        read_path,
        ..TreeOptions::new(DataPath::Cpu)
    };
    let trees = cluster.trees(&caches, options);
    let (changed, torn) = (Rc::new(RefCell::new(0)), Rc::new(RefCell::new(0)));
    // The writer is on the leaf's node, or on another one.
    let writer = if by_cpu { 0 } else { 1 };
    assert_eq!(
        (leaf.node(), trees[writer].endpoint().node() == leaf.node()),
        (NodeId(0), by_cpu)
    );
    for (client, mut tree) in trees.into_iter().enumerate() {
        let ep = tree.endpoint().clone();
        let (changed, torn, mut image) = (Rc::clone(&changed), Rc::clone(&torn), image.clone());
        cluster.sim.spawn(&ep.clone(), async move {
            if client != writer {
                while *changed.borrow() < CHANGES {
                    let before = *changed.borrow();
                    for key in 0..4 {
                        let value = tree
                            .get(key)
                            .await
                            .unwrap()
                            .expect("a key that is only moved");
                        assert_eq!(value % 4, key, "seed {seed}: a value of another key");
                        assert!(
                            value / 4 >= before,
                            "seed {seed}: {} after {before}",
                            value / 4
                        );
                    }
                }
                *torn.borrow_mut() += tree.stats().torn_reads;
                return;
            }
            let mut chain = Chain::new();
            for change in 1..=CHANGES {
                image[OCCUPANCY as usize] = 0;
                for key in 0..4 {
                    let slot = (key + change) % 5;
                    image[OCCUPANCY as usize] |= 1 << slot;
                    image[(SLOTS + slot * 2) as usize] = key;
                    image[(SLOTS + slot * 2) as usize + 1] = change * 4 + key;
                }
                let body = &image[SEQ as usize + 1..];
                if by_cpu {
                    ep.store(leaf, change * 2 - 1, Ordering::Release)
                        .await
                        .unwrap();
                    ep.store_words(leaf.word(1), body).await.unwrap();
                    ep.store(leaf, change * 2, Ordering::Release).await.unwrap();
                } else {
                    chain.clear();
                    chain.write_words(leaf, &[change * 2 - 1]);
                    chain.write_words(leaf.word(1), body);
                    chain.write_words(leaf, &[change * 2]);
                    ep.execute(&mut chain).await.unwrap();
                }
                *changed.borrow_mut() = change;
                ep.sleep(4000).await;
            }
        });
    }
    cluster.sim.run().unwrap();
    torn.take()
}

#[test]
fn no_get_sees_a_half_done_change() {
    for by_cpu in [false, true] {
        let torn: u64 = (0..200)
            .map(|seed| churn(seed, by_cpu, DataPath::Loopback))
            .sum();
        assert!(torn > 1000, "only {torn} reads met a change");
    }
}

#[test]
fn no_get_by_cpu_sees_a_half_done_change_of_a_cpu() {
    // Of a remote client's completed change it may know nothing yet: see the tree's linearizability.
    let torn: u64 = (0..100).map(|seed| churn(seed, true, DataPath::Cpu)).sum();
    assert!(torn > 100, "only {torn} reads met a change");
}
