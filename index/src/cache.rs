//! [`IndexCache`]: what a compute server remembers of the pages above the leaves.
//!
//! The clients of a compute server share one cache. With every inner page in it an operation goes straight to the
//! leaf; what is missing is READ and added. Nobody invalidates it when pages change: an entry that is out of date
//! leads to a page whose fences do not cover the key, which finds it out (Sherman, SIGMOD 2022, section 4.2.3),
//! and it is dropped. Who splits a page puts what it has written into its own node's cache.
//!
//! The whole index of a loaded tree can be shared by any number of caches ([`IndexCache::prefilled`]); a cache
//! gets pieces of its own where it changes something, the pages stay shared.

mod level;
mod page;
mod pages;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dmtree_cluster::GlobalAddr;
use parking_lot::RwLock;

pub(crate) use page::CachedPage;
pub use page::{CacheId, Hit};
pub use pages::IndexPages;

use crate::page::PageView;
use level::Place;

/// Bytes of a cache where nothing else is said: 500 MiB (Sherman, SIGMOD 2022, section 5.1).
pub const DEFAULT_CACHE_BYTES: usize = 500 << 20;

/// Where in a cache the way to a key is found, as long as the cache does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foresight {
    pub key: u64,
    /// The page's among those of level 1.
    place: Option<Place>,
    /// Of the cache's pages.
    version: u64,
}

/// The index cache of a compute server, shared by its clients.
#[derive(Debug)]
pub struct IndexCache {
    pages: RwLock<Arc<IndexPages>>,
    /// That of the pages, to be looked at without the lock: it can be late, as what is cached can.
    version: AtomicU64,
    budget: usize,
}

impl Default for IndexCache {
    /// As [`IndexCache::new`].
    fn default() -> Self {
        Self::new()
    }
}

impl IndexCache {
    /// A cache that knows nothing, with the budget [`DEFAULT_CACHE_BYTES`].
    pub fn new() -> Self {
        Self::with_budget(DEFAULT_CACHE_BYTES)
    }

    /// A cache that knows nothing yet, and takes `budget` bytes at most for pages below the tree's top two levels:
    /// those two stay in any case, also with a budget of 0.
    pub fn with_budget(budget: usize) -> Self {
        Self::prefilled_with_budget(Arc::default(), budget)
    }

    /// A cache that knows `pages` ([`crate::LoadedTree::index`]), with the budget [`DEFAULT_CACHE_BYTES`]. They
    /// are shared until it changes.
    pub fn prefilled(pages: Arc<IndexPages>) -> Self {
        Self::prefilled_with_budget(pages, DEFAULT_CACHE_BYTES)
    }

    /// A cache that knows as many of `pages` as `budget` allows ([`IndexCache::with_budget`]).
    pub fn prefilled_with_budget(pages: Arc<IndexPages>, budget: usize) -> Self {
        let cache = Self {
            version: AtomicU64::new(pages.version()),
            pages: RwLock::new(pages),
            budget,
        };
        cache.changed(&mut cache.pages.write());
        cache
    }

    /// The bytes that it may take, see [`IndexCache::with_budget`].
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// After every change: keeps the budget, and tells whoever has foreseen something.
    fn changed(&self, pages: &mut Arc<IndexPages>) {
        if pages.is_beyond(self.budget) {
            Arc::make_mut(pages).trim(self.budget);
        }
        self.version.store(pages.version(), Ordering::Relaxed);
    }

    /// The pages that it has now.
    pub(crate) fn pages(&self) -> Arc<IndexPages> {
        Arc::clone(&self.pages.read())
    }

    /// The way to `key` from the lowest cached page above level `above` that covers it.
    #[inline]
    pub fn lookup(&self, key: u64, above: u8) -> Option<Hit> {
        self.pages.read().lookup(key, above)
    }

    /// The cached page of level `level` that covers `key`.
    pub(crate) fn page(&self, key: u64, level: u8) -> Option<CacheId> {
        self.pages.read().page(key, level)
    }

    /// Finds the page that leads to `key`'s leaf, ahead of its use: brings it near, and
    /// [`IndexCache::lookup_foreseen`] need not search for it.
    #[inline]
    pub(crate) fn foresee(&self, key: u64) -> Foresight {
        self.pages.read().foresee(key)
    }

    /// What [`IndexCache::lookup`] of that key, from the lowest level up, says now; none also where it has to be
    /// asked.
    #[inline]
    pub(crate) fn lookup_foreseen(&self, foresight: &Foresight) -> Option<Hit> {
        self.pages.read().lookup_foreseen(foresight)
    }

    /// Whether the pages are still those of `foresight`.
    #[inline]
    pub(crate) fn is_as_foreseen(&self, foresight: &Foresight) -> bool {
        self.version.load(Ordering::Relaxed) == foresight.version
    }

    /// The root page and its level, as far as is known. A root that has grown since still leads everywhere, by
    /// its right sibling.
    pub fn root(&self) -> Option<(GlobalAddr, u8)> {
        self.pages.read().root()
    }

    /// Remembers the root page and its level, unless it knows a higher one: trees grow, and whoever tells of a
    /// lower root has read it before.
    pub fn set_root(&self, addr: GlobalAddr, level: u8) {
        let is_news = |known: (GlobalAddr, u8)| known.1 <= level && known != (addr, level);
        if self.root().is_none_or(is_news) {
            let mut pages = self.pages.write();
            Arc::make_mut(&mut pages).set_root(addr, level);
            // A level that was one of the top two may be so no more.
            self.changed(&mut pages);
        }
    }

    /// Forgets the root page, if it is the one at `addr`.
    pub fn forget_root(&self, addr: GlobalAddr) {
        let mut pages = self.pages.write();
        if pages.root().is_some_and(|(root, _)| root == addr) {
            Arc::make_mut(&mut pages).forget_root();
        }
    }

    /// Adds the inner page that was read at `addr`, in the place of an older copy, and lets others go if that is
    /// beyond the budget; a leaf is ignored. Returns how to take it back.
    pub fn insert(&self, addr: GlobalAddr, page: &PageView<'_>) -> Option<CacheId> {
        let mut pages = self.pages.write();
        let id = Arc::make_mut(&mut pages).insert(addr, page);
        self.changed(&mut pages);
        id
    }

    /// Drops the copy that led astray, unless it has been replaced meanwhile. Says whether it was there.
    pub fn invalidate(&self, id: &CacheId) -> bool {
        let mut pages = self.pages.write();
        let is_current = pages.is_current(id);
        if is_current {
            Arc::make_mut(&mut pages).remove(id);
            self.changed(&mut pages);
        }
        is_current
    }

    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.pages.read().len()
    }

    /// Whether it holds no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that its pages take, shared ones included.
    pub fn bytes(&self) -> usize {
        self.pages.read().bytes()
    }
}

#[cfg(test)]
mod tests {
    use dmtree_cluster::NodeId;

    use super::*;
    use crate::page::SEQ;
    use crate::{PageLayout, inner, page};

    fn at(number: u64) -> GlobalAddr {
        GlobalAddr::new(NodeId(1), 128 * (number + 1))
    }

    /// A page of level 1 for the keys from `low` to below `high`, with one child.
    fn words(seq: u64, low: u64, high: u64, child: u64) -> [u64; 16] {
        let mut words = [0; 16];
        page::begin(&mut words, 1, low);
        page::set_right(&mut words, high, at(99));
        inner::push(&mut words, low, at(child));
        words[SEQ] = seq;
        words
    }

    fn insert(cache: &IndexCache, addr: GlobalAddr, words: &[u64]) -> Option<CacheId> {
        let layout = PageLayout::new(128).expect("a size");
        cache.insert(addr, &PageView::parse(layout, words).expect("a page"))
    }

    #[test]
    fn a_late_copy_does_not_replace_a_newer_one_and_takes_back_nothing() {
        let cache = IndexCache::new();
        let newer = insert(&cache, at(0), &words(4, 0, 10, 2)).expect("an inner page");
        let bytes = cache.bytes();
        let late = insert(&cache, at(0), &words(2, 0, 20, 1)).expect("an inner page");
        assert_eq!(
            cache.lookup(5, 0).map(|hit| (hit.child, hit.parent)),
            Some((at(2), newer))
        );
        assert_eq!(cache.lookup(15, 0), None);
        assert!(!cache.invalidate(&late) && cache.bytes() == bytes);
        // Another page in its place is no older copy, whatever its sequence number.
        let other = insert(&cache, at(1), &words(0, 0, 10, 3)).expect("an inner page");
        assert_eq!(cache.lookup(5, 0).map(|hit| hit.child), Some(at(3)));
        assert!(!cache.invalidate(&newer) && cache.invalidate(&other));
        assert_eq!((cache.bytes(), cache.len()), (0, 0));
    }

    #[test]
    fn what_was_foreseen_holds_until_the_cache_changes() {
        let cache = IndexCache::new();
        assert_eq!(cache.lookup_foreseen(&cache.foresee(5)), None);
        let first = insert(&cache, at(0), &words(0, 0, 10, 2)).expect("an inner page");
        let (within, beyond) = (cache.foresee(5), cache.foresee(15));
        assert_eq!(cache.lookup_foreseen(&within), cache.lookup(5, 0));
        assert!(cache.lookup_foreseen(&within).is_some() && cache.is_as_foreseen(&within));
        assert_eq!(cache.lookup_foreseen(&beyond), None);
        insert(&cache, at(1), &words(0, 10, 20, 3));
        assert!(!cache.is_as_foreseen(&within) && cache.lookup_foreseen(&within).is_none());
        let again = cache.foresee(5);
        assert!(cache.invalidate(&first));
        assert!(!cache.is_as_foreseen(&again) && cache.lookup_foreseen(&again).is_none());
    }

    #[test]
    fn leaves_are_not_kept() {
        let cache = IndexCache::new();
        let mut leaf = [0; 16];
        page::begin(&mut leaf, 0, 0);
        assert_eq!(insert(&cache, at(0), &leaf), None);
        assert!(cache.is_empty());
    }

    #[test]
    fn only_the_root_that_misled_is_forgotten() {
        let cache = IndexCache::new();
        cache.set_root(at(1), 2);
        cache.forget_root(at(0));
        assert_eq!(cache.root(), Some((at(1), 2)));
        cache.forget_root(at(1));
        assert_eq!(cache.root(), None);
    }

    /// Level `level`'s pages for 10 keys each, from key 0 on, and those above them that are needed.
    fn tree(cache: &IndexCache, keys: u64, levels: u8) {
        cache.set_root(at(1000), levels);
        for level in (1..=levels).rev() {
            let width = 10 * 4u64.pow(u32::from(level) - 1);
            for low in (0..keys).step_by(width as usize) {
                let mut words = words(0, low, low + width, 1);
                page::begin(&mut words, level, low);
                if level < levels {
                    page::set_right(&mut words, low + width, at(99));
                }
                inner::push(&mut words, low, at(7));
                insert(cache, at(u64::from(level) * 1000 + low), &words);
            }
        }
    }

    #[test]
    fn a_budget_is_kept_but_for_the_top_two_levels() {
        let page = {
            let cache = IndexCache::new();
            insert(&cache, at(0), &words(0, 0, 10, 1));
            cache.bytes()
        };
        // 16 pages of level 1, 4 of level 2, one above.
        for (budget, pages) in [(0, 5), (5 * page, 5), (8 * page, 8), (usize::MAX, 21)] {
            let cache = IndexCache::with_budget(budget);
            tree(&cache, 160, 3);
            assert_eq!(
                (cache.len(), cache.bytes()),
                (pages, pages * page),
                "{budget}"
            );
            for key in 0..160 {
                assert!(cache.lookup(key, 1).is_some() && cache.lookup(key, 2).is_some());
            }
            let hits = (0..160).filter(|key| cache.lookup(*key, 0).unwrap().child_level == 0);
            assert_eq!(hits.count(), (pages - 5) * 10);
            // A tree that grows has other top levels.
            cache.set_root(at(5000), 4);
            assert_eq!(cache.len(), (budget / page).clamp(1, 21));
        }
        // A tree of two levels of inner pages is not below any.
        let cache = IndexCache::with_budget(0);
        tree(&cache, 160, 2);
        assert_eq!(cache.len(), 20);
    }

    #[test]
    fn a_root_far_above_the_known_pages_does_not_lead_beyond_them() {
        for budget in [0, 1, 400] {
            let cache = IndexCache::with_budget(budget);
            tree(&cache, 160, 1);
            cache.set_root(at(5000), 6);
            for key in (0..160).step_by(10) {
                let page = words(2, key, key + 10, 1);
                insert(&cache, at(1000 + key), &page);
                assert!(cache.bytes() <= budget);
            }
        }
    }

    #[test]
    fn what_is_looked_up_stays_and_a_smaller_cache_begins_with_a_part() {
        let full = IndexCache::new();
        tree(&full, 640, 4);
        // Of 64 pages of level 1 and 16 of level 2 with 5 above: room for 20 of the 80.
        let budget = full.bytes() / 85 * 25;
        let (pages, bytes) = (Arc::clone(&full.pages.read()), full.bytes());
        let small = IndexCache::prefilled_with_budget(pages, budget);
        assert_eq!((small.len(), small.budget()), (25, budget));
        let hot = [33, 234, 555];
        for round in 0..1000 {
            for key in hot {
                if round > 0 {
                    let hit = small.lookup(key, 0).unwrap();
                    assert_eq!(hit.child_level, 0, "a hot page is there in round {round}");
                } else {
                    insert(
                        &small,
                        at(key),
                        &words(0, key / 10 * 10, key / 10 * 10 + 10, 1),
                    );
                }
            }
            let other = round * 37 % 64 * 10;
            insert(&small, at(other), &words(0, other, other + 10, 1));
            assert!(small.bytes() <= budget);
        }
        // The one that it began with has not changed.
        assert_eq!((full.len(), full.bytes()), (85, bytes));
    }
}
