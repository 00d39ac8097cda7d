//! The page formats: both make trees, one of them a sound one.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;
#[path = "common/contended.rs"]
mod contended;
#[path = "common/history.rs"]
mod history;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use common::{Cluster, LOCKS, PATHS, Setup, Telling};
use contended::{at_once, cold_caches, rng};
use dmtree_cluster::NodeId;
use dmtree_index::{IndexCache, PageFormat, TreeOptions};
use dmtree_lock::DataPath;
use rand::RngExt;

fn setup(format: PageFormat, lock: &'static str, spare_bytes: u64, page_bytes: u32) -> Setup {
    let mut setup = Setup::growing(lock, spare_bytes);
    setup.load.page_format = format;
    setup.load.page_bytes = page_bytes;
    setup.load.chunk_bytes = 4 * u64::from(page_bytes);
    setup
}

#[test]
fn a_tree_of_any_format_and_page_holds_what_was_loaded_and_what_is_done_to_it() {
    for format in PageFormat::ALL {
        for (seed, page_bytes) in [128, 192, 448, 1024, 1088].into_iter().enumerate() {
            let lock = LOCKS[seed % 3];
            let options = TreeOptions::new(PATHS[seed % 2]);
            let _telling = Telling(lock, options, seed as u64);
            let mut setup = setup(format, lock, 1 << 20, page_bytes);
            setup.clients = vec![(NodeId(1), 0)];
            setup.capacity = 1000;
            let mut cluster = Cluster::new(&setup);
            let pairs: BTreeMap<_, _> = (0..1000).map(|key| (key * 4, !key)).collect();
            let loaded = cluster.load(pairs.clone());
            let (shape, found) = cluster.verify();
            assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), pairs);
            assert_eq!(shape.height(), usize::from(loaded.height));
            let trees = cluster.trees(&cold_caches(&setup), options);
            let model = Rc::new(Cell::new(pairs));
            let told = Rc::clone(&model);
            at_once(&mut cluster, trees, |_, mut tree| {
                let (told, mut rng) = (Rc::clone(&told), rng(seed as u64, 0));
                async move {
                    let mut model = told.take();
                    for number in 0..4000 {
                        let key = match rng.random_range(0..4100) {
                            4000.. => u64::MAX,
                            key => key,
                        };
                        let value = [0, u64::MAX, number][rng.random_range(0..3)];
                        match rng.random_range(0..4) {
                            0 => {
                                let there = model.insert(key, value).is_some();
                                assert_eq!(tree.insert(key, value).await.unwrap(), there);
                            }
                            1 => {
                                let there = model.get_mut(&key);
                                assert_eq!(tree.update(key, value).await.unwrap(), there.is_some());
                                there.into_iter().for_each(|there| *there = value);
                            }
                            _ => assert_eq!(tree.get(key).await.unwrap(), model.get(&key).copied()),
                        }
                    }
                    told.set(model);
                    tree
                }
            });
            let found: BTreeMap<_, _> = cluster.verify().1.into_iter().collect();
            assert_eq!(found, model.take());
        }
    }
}

/// Writers hold locks, so that the format is nothing to them.
#[test]
fn a_tree_in_shermans_format_grows_from_nothing_by_many_clients() {
    for seed in 0..60 {
        let lock = LOCKS[seed as usize % 3];
        let options = TreeOptions::new(PATHS[seed as usize / 3 % 2]);
        let _telling = Telling(lock, options, seed);
        let setup = setup(PageFormat::Sherman, lock, 1 << 16, 128).seeded(seed);
        let mut cluster = Cluster::new(&setup);
        cluster.load([]);
        let trees = cluster.trees(&cold_caches(&setup), options);
        let met = at_once(&mut cluster, trees, |client, mut tree| {
            let mut rng = rng(seed, client);
            async move {
                for _ in 0..60 {
                    let key = rng.random_range(0..200);
                    tree.insert(key, key << 32 | client as u64).await.unwrap();
                    assert!(tree.update(key, key << 32).await.unwrap());
                }
                tree
            }
        });
        let (shape, pairs) = cluster.verify();
        assert_eq!((shape.keys, met.added), (pairs.len() as u64, met.added));
        assert!(met.added == shape.keys && met.replaced > 100 && shape.height() > 3);
        assert!(
            pairs
                .iter()
                .all(|(key, value)| value >> 32 == *key && value & 0xffff_ffff < 6)
        );
    }
}

/// How many of the gets of a few hot keys, in 100 hostile runs, return a value that nobody has written, or
/// nothing, while others update them and split their leaves. Both halves of a written value are the same.
fn torn_values(format: PageFormat) -> u64 {
    let mut torn = 0;
    for seed in 0..100 {
        let lock = LOCKS[seed as usize % 3];
        let setup = setup(format, lock, 1 << 16, 1024).seeded(seed * 2);
        assert!(setup.config.hostile);
        let mut cluster = Cluster::new(&setup);
        let loaded = cluster.load((0..40).map(|key| (key * 8, 0)));
        let caches: Vec<_> = (0..3)
            .map(|_| Arc::new(IndexCache::prefilled(Arc::clone(&loaded.index))))
            .collect();
        let trees = cluster.trees(&caches, TreeOptions::new(DataPath::Loopback));
        let found = Rc::new(Cell::new(0));
        at_once(&mut cluster, trees, |client, mut tree| {
            let (found, mut rng) = (Rc::clone(&found), rng(seed, client));
            async move {
                for number in 1..200 {
                    let key = rng.random_range(0..2) * 8;
                    match client {
                        0 | 1 => {
                            let half = (client as u64 + 1) << 24 | number;
                            assert!(tree.update(key, half << 32 | half).await.unwrap());
                        }
                        2 => {
                            let half = rng.random_range(0..1 << 32);
                            tree.insert(rng.random_range(0..320), half << 32 | half)
                                .await
                                .unwrap();
                        }
                        _ => {
                            let value = tree.get(key).await.unwrap();
                            let is_whole =
                                value.is_some_and(|value| value >> 32 == value & 0xffff_ffff);
                            found.set(found.get() + u64::from(!is_whole));
                        }
                    }
                }
                tree
            }
        });
        cluster.verify();
        torn += found.get();
    }
    torn
}

#[test]
fn shermans_versions_accept_torn_reads_and_the_sound_format_does_not() {
    assert_eq!(torn_values(PageFormat::Sound), 0);
    let torn = torn_values(PageFormat::Sherman);
    assert!(torn > 20, "only {torn} torn values");
}

/// Verbs of a get, an update, an insert into a free slot: Sherman's lock takes two of them.
#[test]
fn what_the_formats_cost_in_verbs() {
    let mut verbs = Vec::new();
    for format in PageFormat::ALL {
        let mut setup = setup(format, "sherman", 1 << 16, 1024);
        setup.clients = vec![(NodeId(1), 0)];
        for operation in 0..3 {
            let mut cluster = Cluster::new(&setup);
            let loaded = cluster.load((0..60).map(|key| (key * 8, 0)));
            let cache = Arc::new(IndexCache::prefilled(Arc::clone(&loaded.index)));
            let caches = vec![Arc::clone(&cache), Arc::clone(&cache), cache];
            let trees = cluster.trees(&caches, TreeOptions::new(DataPath::Cpu));
            at_once(&mut cluster, trees, |_, mut tree| async move {
                match operation {
                    0 => assert_eq!(tree.get(8).await.unwrap(), Some(0)),
                    1 => assert!(tree.update(8, 1).await.unwrap()),
                    _ => assert!(!tree.insert(9, 1).await.unwrap()),
                }
                tree
            });
            verbs.push(cluster.sim.stats().verbs);
        }
    }
    assert_eq!(verbs, [3, 4, 5, 1, 4, 4]);
}
