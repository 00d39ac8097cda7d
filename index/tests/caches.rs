//! Index caches that know nothing, or what is no longer so; and memory that is damaged.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use common::{Cluster, LOCKS, PATHS, Setup, SimTree};
use dmtree_cluster::{ErrorKind as ClusterErrorKind, GlobalAddr, NodeId, WaitBounds};
use dmtree_index::{ErrorKind, IndexCache, LoadedTree, Result, TreeOptions, TreeStats};
use dmtree_lock::DataPath;

/// Runs `program` on the only client.
fn alone<T: 'static, F: Future<Output = T> + 'static>(
    cluster: &mut Cluster,
    tree: SimTree,
    program: impl FnOnce(SimTree) -> F,
) -> T {
    let result = Rc::new(RefCell::new(None));
    let (ep, told) = (tree.endpoint().clone(), Rc::clone(&result));
    let running = program(tree);
    cluster.sim.spawn(&ep, async move {
        *told.borrow_mut() = Some(running.await);
    });
    cluster.sim.run().unwrap();
    result.take().expect("the client has finished")
}

fn one_client(node: u16, lock: &'static str) -> Setup {
    Setup {
        clients: vec![(NodeId(node), 0)],
        ..Setup::new(lock)
    }
}

fn own_cache(cache: IndexCache) -> Vec<Arc<IndexCache>> {
    let cache = Arc::new(cache);
    vec![Arc::clone(&cache), Arc::clone(&cache), cache]
}

#[test]
fn a_cold_cache_fills_and_then_leads_straight_to_the_leaf() {
    for (lock, path, node) in LOCKS.into_iter().flat_map(|lock| {
        PATHS
            .into_iter()
            .flat_map(move |path| [0, 1].map(|node| (lock, path, node)))
    }) {
        let mut cluster = Cluster::new(&one_client(node, lock));
        let loaded = cluster.load((0..60).map(|key| (key * 10, key)));
        assert!(loaded.height >= 3);
        let caches = own_cache(IndexCache::new());
        let tree = cluster.trees(&caches, TreeOptions::new(path)).remove(0);
        let (cold, warm) = alone(&mut cluster, tree, async |mut tree: SimTree| {
            for key in 0..60 {
                assert_eq!(tree.get(key * 10).await.unwrap(), Some(key));
                assert!(tree.update(key * 10, !key).await.unwrap());
            }
            let cold = tree.stats();
            for key in 0..60 {
                assert_eq!(tree.get(key * 10).await.unwrap(), Some(!key));
                assert_eq!(tree.get(key * 10 + 1).await.unwrap(), None);
            }
            (cold, tree.stats())
        });
        // Each inner page was read once, the root word too, and nothing was out of date.
        let expected = TreeStats {
            inner_reads: loaded.inner_pages,
            root_reads: 1,
            ..Default::default()
        };
        assert_eq!((cold, warm), (expected, expected));
        assert_eq!(caches[0].len() as u64, loaded.inner_pages);
        assert_eq!(
            caches[0].bytes(),
            IndexCache::prefilled(loaded.index).bytes()
        );
    }
}

#[test]
fn trees_of_a_leaf_and_of_nothing_work_from_cold() {
    for keys in 0..=1u64 {
        let mut cluster = Cluster::new(&one_client(1, "farlock"));
        cluster.load((0..keys).map(|key| (key, 0)));
        let caches = own_cache(IndexCache::new());
        let tree = cluster
            .trees(&caches, TreeOptions::new(DataPath::Cpu))
            .remove(0);
        alone(&mut cluster, tree, async move |mut tree: SimTree| {
            for key in [0, 1, u64::MAX] {
                let there = key < keys;
                assert_eq!(tree.get(key).await.unwrap(), there.then_some(0));
                assert_eq!(tree.update(key, u64::MAX).await.unwrap(), there);
                assert_eq!(tree.get(key).await.unwrap(), there.then_some(u64::MAX));
            }
            assert_eq!(tree.stats().root_reads, 1);
        });
        // Nothing written but the value that was there.
        assert_eq!(
            cluster.verify().1,
            (0..keys).map(|key| (key, u64::MAX)).collect::<Vec<_>>()
        );
    }
}

/// The index of a tree that `keys` would make in `cluster`'s memory, without making it.
fn index_of(cluster: &Cluster, keys: impl IntoIterator<Item = u64>) -> LoadedTree {
    let mut nowhere = |_: GlobalAddr, _: &[u64]| Ok(());
    cluster
        .plan
        .load(keys.into_iter().map(|key| (key, 0)), &mut nowhere)
        .unwrap()
}

/// A cache that knows the index of another tree in the same memory is wrong in every way there is: pages
/// that have other fences, another level, or that are none.
#[test]
fn a_cache_that_is_wrong_about_everything_is_put_right() {
    let mut met = TreeStats::default();
    for (is, was) in [
        (60, 30),
        (30, 60),
        (60, 59),
        (60, 1),
        (3, 60),
        (1, 60),
        (17, 60),
        (60, 5),
    ] {
        for (scale, path) in [
            (7, DataPath::Cpu),
            (10, DataPath::Loopback),
            (13, DataPath::Cpu),
        ] {
            let lock = LOCKS[(is + was + scale) as usize % LOCKS.len()];
            let mut cluster = Cluster::new(&one_client(2, lock));
            let old = index_of(&cluster, (0..was).map(|key| key * scale));
            cluster.load((0..is).map(|key| (key * 10, key)));
            let cache = IndexCache::prefilled(old.index);
            let tree = cluster
                .trees(&own_cache(cache), TreeOptions::new(path))
                .remove(0);
            let stats = alone(&mut cluster, tree, async move |mut tree: SimTree| {
                for key in (0..is).map(|key| key * 37 % is) {
                    assert_eq!(
                        tree.get(key * 10).await.unwrap(),
                        Some(key),
                        "{is} {was} {scale}"
                    );
                    assert_eq!(tree.get(key * 10 + 1).await.unwrap(), None);
                    assert!(tree.update(key * 10, key).await.unwrap());
                    assert!(!tree.update(key * 10 + 1, 5).await.unwrap());
                }
                let settled = tree.stats();
                for key in 0..is {
                    assert_eq!(tree.get(key * 10).await.unwrap(), Some(key));
                }
                assert_eq!(tree.stats(), settled, "nothing wrong is left");
                settled
            });
            met.moves += stats.moves;
            met.restarts += stats.restarts;
            met.stale += stats.stale;
            assert_eq!(
                cluster.verify().1,
                (0..is).map(|key| (key * 10, key)).collect::<Vec<_>>()
            );
        }
    }
    assert!(
        met.moves > 20 && met.restarts > 20 && met.stale > 20,
        "{met:?}"
    );
}

/// A tree that has outgrown what the cache knows by far: the way leads over the root word, not along the leaves.
#[test]
fn a_root_that_is_the_root_no_more_is_looked_up_again() {
    let mut cluster = Cluster::new(&one_client(1, "alock:20,5"));
    cluster.load((0..60).map(|key| (key, key)));
    let first_leaf = cluster.plan.meta().heap().chunk(0, 0).unwrap();
    let cache = IndexCache::new();
    cache.set_root(first_leaf, 0);
    let tree = cluster
        .trees(&own_cache(cache), TreeOptions::new(DataPath::Cpu))
        .remove(0);
    let stats = alone(&mut cluster, tree, async |mut tree: SimTree| {
        assert_eq!(tree.get(59).await.unwrap(), Some(59));
        tree.stats()
    });
    assert_eq!((stats.restarts, stats.moves, stats.root_reads), (1, 0, 1));
}

/// What one client's get and update of `key` end with, when `damage` has been done to a tree of keys 0 to 59.
fn damaged(
    key: u64,
    warm: bool,
    damage: impl FnOnce(&mut Cluster, &LoadedTree),
) -> (Result<Option<u64>>, Result<bool>) {
    let mut setup = one_client(1, "farlock");
    setup.config.waits = WaitBounds {
        report_ns: 10_000,
        limit_ns: 1_000_000,
    };
    let mut cluster = Cluster::new(&setup);
    let loaded = cluster.load((0..60).map(|key| (key, key)));
    damage(&mut cluster, &loaded);
    let index = Arc::clone(&loaded.index);
    let cache = if warm {
        IndexCache::prefilled(index)
    } else {
        IndexCache::new()
    };
    let tree = cluster
        .trees(&own_cache(cache), TreeOptions::new(DataPath::Cpu))
        .remove(0);
    alone(&mut cluster, tree, async move |mut tree: SimTree| {
        (tree.get(key).await, tree.update(key, 1).await)
    })
}

#[test]
fn damage_ends_in_errors_that_name_the_page() {
    let first_leaf = |cluster: &Cluster| cluster.plan.meta().heap().chunk(0, 0).unwrap();
    // No tree at all, and a root word that leads out of its memory.
    for root in [0, GlobalAddr::new(NodeId(1), 64).to_bits(), u64::MAX] {
        let wild = GlobalAddr::from_bits(root);
        let (get, update) = damaged(3, false, |cluster, _| {
            cluster.set_word(cluster.plan.meta().root_word(), root);
        });
        for failure in [get.unwrap_err(), update.unwrap_err()] {
            assert!(
                matches!(failure.kind(), ErrorKind::BadPage { page, .. } if *page == wild),
                "{failure}"
            );
        }
    }
    // A leaf that bears no tag: restarts do not help, and say so.
    for warm in [true, false] {
        let mut leaf = GlobalAddr::NULL;
        let (get, update) = damaged(3, warm, |cluster, _| {
            leaf = first_leaf(cluster);
            cluster.set_word(leaf.word(1), 0);
        });
        for failure in [get.unwrap_err(), update.unwrap_err()] {
            assert!(
                matches!(failure.kind(), ErrorKind::Astray { key: 3, page, .. } if *page == leaf),
                "{failure}"
            );
            assert!(failure.to_string().contains("tag"), "{failure}");
        }
    }
    // A leaf that is its own right sibling, and responsible for nothing.
    let (get, update) = damaged(3, true, |cluster, _| {
        let leaf = first_leaf(cluster);
        cluster.set_word(leaf.word(3), 0);
        cluster.set_word(leaf.word(4), leaf.to_bits());
    });
    for failure in [get.unwrap_err(), update.unwrap_err()] {
        assert!(
            matches!(failure.kind(), ErrorKind::Astray { moves, .. } if *moves > 1000),
            "{failure}"
        );
    }
    // An inner page that is its own child.
    let mut top = GlobalAddr::NULL;
    let (get, update) = damaged(3, false, |cluster, loaded| {
        top = loaded.root;
        cluster.set_word(top.word(7), top.to_bits());
    });
    for failure in [get.unwrap_err(), update.unwrap_err()] {
        assert!(
            matches!(failure.kind(), ErrorKind::Astray { page, .. } if *page == top),
            "{failure}"
        );
        assert!(failure.to_string().contains("level"), "{failure}");
    }
    // A change that never ends: readers give up after the wait limit; a holder is alone and needs not wait.
    let mut leaf = GlobalAddr::NULL;
    let (get, update) = damaged(3, true, |cluster, _| {
        leaf = first_leaf(cluster);
        cluster.set_word(leaf, 1);
    });
    let failure = get.unwrap_err();
    let ErrorKind::Cluster(cause) = failure.kind() else {
        panic!("{failure}")
    };
    assert!(
        matches!(cause.kind(), ClusterErrorKind::WaitLimit { addr, .. } if *addr == leaf),
        "{failure}"
    );
    assert_eq!(update, Ok(true));
}
