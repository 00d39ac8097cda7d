//! What an index cache may remember, and what it may not.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::sync::Arc;

use common::{Cluster, Setup};
use dmtree_cluster::{GlobalAddr, NodeId};
use dmtree_index::{Defect, IndexCache, LoadedTree, PageView, Survey, Tree, TreeOptions};
use dmtree_lock::DataPath;

// Header words and entries of an inner page, as the table at `dmtree_index::page` has them.
const SEQ: usize = 0;
const HIGH: usize = 3;
const RIGHT: usize = 4;
const COUNT: usize = 5;
const ENTRIES: usize = 6;

struct Loaded {
    cluster: Cluster,
    tree: LoadedTree,
    /// A page of level 1 that is not the last one, and the one right of it.
    pages: [GlobalAddr; 2],
}

/// A tree of 60 keys: 15 leaves, 4 pages above, a root.
fn loaded() -> Loaded {
    let mut cluster = Cluster::new(&Setup::growing("farlock", 1 << 17));
    let tree = cluster.load((0..60).map(|key| (key * 10, key)));
    let root = words(&mut cluster, tree.root);
    let child = |number: usize| GlobalAddr::from_bits(root[ENTRIES + 2 * number + 1]);
    Loaded {
        cluster,
        pages: [child(1), child(2)],
        tree,
    }
}

fn words(cluster: &mut Cluster, page: GlobalAddr) -> [u64; 16] {
    std::array::from_fn(|word| cluster.word(page.word(word as u64)))
}

impl Loaded {
    fn check(&mut self, cache: &IndexCache) -> Result<u64, Defect> {
        let (sim, meta) = (&mut self.cluster.sim, self.cluster.plan.meta());
        let mut read = |addr: GlobalAddr, words: &mut [u64]| {
            let at = addr.offset() as usize / 8;
            words.copy_from_slice(&sim.host_words(addr.node())[at..at + words.len()]);
            Ok(())
        };
        let survey = Survey::of(meta, &mut read, |_| ()).unwrap().unwrap();
        survey.check_cache(meta, cache, &mut read).unwrap()
    }

    /// Checks a cache with all pages, one of whose copies is as `change` makes it, of the page at `at`.
    fn changed(
        &mut self,
        at: impl Fn(&Self) -> GlobalAddr,
        change: impl Fn(&mut [u64; 16], &Self),
    ) -> Result<u64, Defect> {
        let mut copy = words(&mut self.cluster, self.pages[0]);
        change(&mut copy, self);
        let cache = IndexCache::prefilled(Arc::clone(&self.tree.index));
        let layout = *self.cluster.plan.meta().layout();
        let page = PageView::parse(layout, &copy).unwrap();
        cache.insert(at(self), &page).unwrap();
        self.check(&cache)
    }
}

#[test]
fn a_copy_that_leads_right_of_a_key_or_to_no_page_is_found() {
    let mut loaded = loaded();
    let cache = IndexCache::prefilled(Arc::clone(&loaded.tree.index));
    assert_eq!(loaded.check(&cache), Ok(5));
    let same = |loaded: &Loaded| loaded.pages[0];
    assert_eq!(loaded.changed(same, |_, _| ()), Ok(5));
    type Change = fn(&mut [u64; 16], &Loaded);
    let wrong: &[(&str, Change)] = &[
        // A child whose low fence is beyond the separator: the keys between are left of it.
        ("keys from", |copy, _| copy[ENTRIES + 2] -= 1),
        // Nor may it be elsewhere than at the separator: no split moves it.
        ("keys from", |copy, _| copy[ENTRIES + 2] += 1),
        ("keys from", |copy, loaded| {
            copy[ENTRIES + 1] = loaded.pages[0].to_bits()
        }),
        ("not in the tree", |copy, _| copy[ENTRIES + 1] += 64),
        ("out of place", |copy, _| copy[ENTRIES + 2] = copy[ENTRIES]),
        ("out of place", |copy, _| copy[HIGH] = copy[ENTRIES + 2]),
        // Fewer keys than the page has, a later life of the page, another page with the same number.
        ("pages do not grow", |copy, _| copy[HIGH] -= 1),
        ("sequence number", |copy, _| copy[SEQ] += 2),
        ("has not changed", |copy, _| copy[COUNT] -= 1),
        ("has not changed", |copy, _| {
            (copy[HIGH], copy[RIGHT]) = (0, 0)
        }),
    ];
    for (what, change) in wrong {
        let defect = loaded.changed(same, change).expect_err(what);
        assert_eq!(defect.page, loaded.pages[0]);
        assert!(defect.to_string().contains(what), "{what}: {defect}");
    }
    // A copy that is put where another page is, or none.
    let defect = loaded.changed(|loaded| loaded.pages[1], |_, _| ());
    assert!(defect.unwrap_err().what.contains("from key"));
    let defect = loaded.changed(|_| GlobalAddr::new(NodeId(2), 64), |_, _| ());
    assert!(defect.unwrap_err().what.contains("not in the tree"));
    for (root, level) in [(loaded.tree.root, 3), (loaded.pages[0], 1)] {
        let cache = IndexCache::new();
        cache.set_root(root, level);
        let defect = loaded.check(&cache).unwrap_err();
        assert!(defect.what.contains("remembered as a root"), "{defect}");
    }
}

#[test]
fn copies_from_before_splits_lead_left_and_are_sound() {
    let mut loaded = loaded();
    let caches = [0; 3].map(|_| Arc::new(IndexCache::prefilled(Arc::clone(&loaded.tree.index))));
    let options = TreeOptions::new(DataPath::Loopback);
    let mut trees = loaded.cluster.trees(&caches, options);
    // A client of node 0 alone splits leaves and the pages above, and makes a new root.
    let mut tree: Tree<_, _> = trees.swap_remove(0);
    let ep = tree.endpoint().clone();
    loaded.cluster.sim.spawn(&ep, async move {
        for key in 0..300 {
            tree.insert(key * 2 + 1, key).await.unwrap();
        }
    });
    loaded.cluster.sim.run().unwrap();
    let before = caches[1].len() as u64;
    assert_eq!(loaded.check(&caches[1]), Ok(before), "nobody has told it");
    let after = loaded.check(&caches[0]).unwrap();
    assert!(
        after > 2 * before,
        "{after} copies of a tree that has grown"
    );
    let stale = caches[1].lookup(95, 0).unwrap().child;
    assert_ne!(caches[0].lookup(95, 0).unwrap().child, stale);
}
