//! [`IndexCache`]: what a compute server remembers of the pages above the leaves.
//!
//! The clients of a compute server share one cache. With every inner page in it an operation goes straight to the
//! leaf; what is missing is READ and added. Nobody invalidates it when pages change: an entry that is out of date
//! leads to a page whose fences do not cover the key, which finds it out (Sherman, SIGMOD 2022, section 4.2.3),
//! and it is dropped.
//!
//! Pages are ordered by low fence, a map a level. The whole index of a loaded tree can be shared by any number of
//! caches ([`IndexCache::prefilled`]); a cache gets a map of its own with its first change, the pages stay shared.
//! A byte budget belongs into [`IndexCache::insert`], the one place where the cache grows; which pages are in
//! use is seen in [`IndexCache::lookup`], the one place where it is asked.

use std::sync::Arc;

use dmtree_cluster::GlobalAddr;
use parking_lot::RwLock;

use crate::Inner;
use crate::page::PageView;

/// A copy of an inner page's used part, in one piece of memory: a search waits for little more than one access to
/// it, however cold it is.
///
/// Words: address, sequence word when it was copied, low fence, high fence, 1 when there is a high fence, the
/// separators, as many children.
#[derive(Clone, Debug)]
struct CachedPage(Arc<[u64]>);

const ADDR: usize = 0;
const COPIED_SEQ: usize = 1;
const LOW: usize = 2;
const HIGH: usize = 3;
const HAS_HIGH: usize = 4;
const HEADER: usize = 5;

impl CachedPage {
    fn new(addr: GlobalAddr, page: &PageView<'_>, inner: &Inner<'_>) -> Self {
        let high = page.high();
        let header = [
            addr.to_bits(),
            page.seq(),
            page.low(),
            high.unwrap_or(0),
            u64::from(high.is_some()),
        ];
        let separators = inner.entries().map(|(separator, _)| separator);
        let children = inner.entries().map(|(_, child)| child.to_bits());
        Self(
            header
                .into_iter()
                .chain(separators)
                .chain(children)
                .collect(),
        )
    }

    fn addr(&self) -> GlobalAddr {
        GlobalAddr::from_bits(self.0[ADDR])
    }

    fn seq(&self) -> u64 {
        self.0[COPIED_SEQ]
    }

    fn low(&self) -> u64 {
        self.0[LOW]
    }

    fn covers(&self, key: u64) -> bool {
        self.low() <= key && (self.0[HAS_HIGH] == 0 || key < self.0[HIGH])
    }

    fn child(&self, key: u64) -> GlobalAddr {
        let entries = &self.0[HEADER..];
        let (separators, children) = entries.split_at(entries.len() / 2);
        // Counting reads all the lines at once; halving would wait for one after the other.
        let index: usize = separators
            .iter()
            .map(|separator| usize::from(*separator <= key))
            .sum();
        GlobalAddr::from_bits(children[index.saturating_sub(1)])
    }

    fn id(&self, level: u8) -> CacheId {
        CacheId {
            level,
            low: self.low(),
            addr: self.addr(),
            seq: self.seq(),
        }
    }

    /// Bytes that it takes, its place in the map (a key and a pointer) and its reference counts included.
    fn bytes(&self) -> usize {
        size_of_val(&*self.0) + size_of::<u64>() + size_of::<Self>() + 2 * size_of::<usize>()
    }
}

/// The cached pages of one level by low fence.
///
/// Fences and pages lie apart, so that a search runs over a few dense lines: half the time of one in a `BTreeMap`
/// with a tree of 10 M keys. A page that is added in the middle moves those behind it; they are thousands.
#[derive(Clone, Debug, Default)]
struct Level {
    lows: Vec<u64>,
    pages: Vec<CachedPage>,
}

impl Level {
    fn get(&self, low: u64) -> Option<&CachedPage> {
        let place = self.lows.binary_search(&low).ok()?;
        Some(&self.pages[place])
    }

    /// Where the page with the highest low fence that is not beyond `key` is.
    fn place(&self, key: u64) -> Option<usize> {
        self.lows.partition_point(|low| *low <= key).checked_sub(1)
    }

    /// That page.
    fn before(&self, key: u64) -> Option<&CachedPage> {
        Some(&self.pages[self.place(key)?])
    }

    /// Adds a page, and returns the one in whose place it is.
    fn insert(&mut self, page: CachedPage) -> Option<CachedPage> {
        match self.lows.binary_search(&page.low()) {
            Ok(place) => Some(std::mem::replace(&mut self.pages[place], page)),
            Err(place) => {
                self.lows.insert(place, page.low());
                self.pages.insert(place, page);
                None
            }
        }
    }

    fn remove(&mut self, low: u64) -> Option<CachedPage> {
        let place = self.lows.binary_search(&low).ok()?;
        self.lows.remove(place);
        Some(self.pages.remove(place))
    }

    fn len(&self) -> usize {
        self.pages.len()
    }
}

/// The pages above the leaves of a tree, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct IndexPages {
    /// From level 1 up, by low fence.
    levels: Vec<Level>,
    root: Option<(GlobalAddr, u8)>,
    bytes: usize,
    /// How often a page was added or dropped.
    version: u64,
}

impl IndexPages {
    /// Adds an inner page, in the place of an older copy; a leaf is ignored. Returns how to take it back.
    pub(crate) fn insert(&mut self, addr: GlobalAddr, page: &PageView<'_>) -> Option<CacheId> {
        let inner = page.inner()?;
        let id = CacheId {
            level: page.level(),
            low: page.low(),
            addr,
            seq: page.seq(),
        };
        let level = usize::from(id.level) - 1;
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Level::default);
        }
        let known = self.levels[level].get(id.low);
        if known.is_some_and(|known| known.addr() == addr && known.seq() > id.seq) {
            // Somebody else read it later, and was faster here.
            return Some(id);
        }
        let copy = CachedPage::new(addr, page, &inner);
        self.version += 1;
        self.bytes += copy.bytes();
        if let Some(old) = self.levels[level].insert(copy) {
            self.bytes -= old.bytes();
        }
        Some(id)
    }

    pub(crate) fn set_root(&mut self, addr: GlobalAddr, level: u8) {
        self.root = Some((addr, level));
    }

    /// The way on from the page of level `level`, if it covers `key`.
    fn hit(page: &CachedPage, level: u8, key: u64) -> Option<Hit> {
        page.covers(key).then(|| Hit {
            child: page.child(key),
            child_level: level - 1,
            parent: page.id(level),
        })
    }

    fn is_current(&self, id: &CacheId) -> bool {
        let level = self.levels.get(usize::from(id.level).wrapping_sub(1));
        let page = level.and_then(|level| level.get(id.low));
        page.is_some_and(|page| page.addr() == id.addr && page.seq() == id.seq)
    }
}

/// Names a cached copy of a page, to take it back by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheId {
    level: u8,
    low: u64,
    addr: GlobalAddr,
    seq: u64,
}

impl CacheId {
    /// Where the page itself is.
    pub(crate) fn addr(&self) -> GlobalAddr {
        self.addr
    }
}

/// Where a cached page says that a key's way goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The page one level below the cached one.
    pub child: GlobalAddr,
    /// Its level.
    pub child_level: u8,
    /// The cached page that says so.
    pub parent: CacheId,
}

/// Where in a cache the way to a key is found, as long as the cache does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foresight {
    pub key: u64,
    /// The page's among those of level 1.
    place: Option<usize>,
    /// Of the cache's pages.
    version: u64,
}

/// The index cache of a compute server, shared by its clients.
#[derive(Debug, Default)]
pub struct IndexCache {
    pages: RwLock<Arc<IndexPages>>,
}

impl IndexCache {
    /// A cache that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A cache that knows `pages` ([`crate::LoadedTree::index`]); they are shared until it changes.
    pub fn prefilled(pages: Arc<IndexPages>) -> Self {
        Self {
            pages: RwLock::new(pages),
        }
    }

    /// The way to `key` from the lowest cached page above level `above` that covers it.
    pub fn lookup(&self, key: u64, above: u8) -> Option<Hit> {
        let pages = self.pages.read();
        let mut levels = pages.levels.iter().enumerate().skip(usize::from(above));
        levels.find_map(|(index, level)| IndexPages::hit(level.before(key)?, index as u8 + 1, key))
    }

    /// The cached page of level `level` that covers `key`.
    pub(crate) fn page(&self, key: u64, level: u8) -> Option<CacheId> {
        let pages = self.pages.read();
        let pages = pages.levels.get(usize::from(level).checked_sub(1)?)?;
        let page = pages.before(key)?;
        page.covers(key).then(|| page.id(level))
    }

    /// Finds the page that leads to `key`'s leaf, ahead of its use: brings it near, and
    /// [`IndexCache::lookup_foreseen`] need not search for it.
    pub(crate) fn foresee(&self, key: u64) -> Foresight {
        let pages = self.pages.read();
        let level = pages.levels.first();
        let place = level.and_then(|level| level.place(key));
        if let (Some(level), Some(place)) = (level, place) {
            dmtree_cluster::prefetch(&level.pages[place].0);
        }
        Foresight {
            key,
            place,
            version: pages.version,
        }
    }

    /// What [`IndexCache::lookup`] of that key, from the lowest level up, says now; none also where it has to be
    /// asked.
    pub(crate) fn lookup_foreseen(&self, foresight: &Foresight) -> Option<Hit> {
        let pages = self.pages.read();
        if pages.version != foresight.version {
            return None;
        }
        let page = pages.levels.first()?.pages.get(foresight.place?)?;
        IndexPages::hit(page, 1, foresight.key)
    }

    /// Whether the pages are still those of `foresight`.
    pub(crate) fn is_as_foreseen(&self, foresight: &Foresight) -> bool {
        self.pages.read().version == foresight.version
    }

    /// The root page and its level, as far as is known. A root that has grown since still leads everywhere, by
    /// its right sibling.
    pub fn root(&self) -> Option<(GlobalAddr, u8)> {
        self.pages.read().root
    }

    /// Remembers the root page and its level, unless it knows a higher one: trees grow, and whoever tells of a lower
    /// root has read it before.
    pub fn set_root(&self, addr: GlobalAddr, level: u8) {
        if self
            .root()
            .is_none_or(|known| known.1 <= level && known != (addr, level))
        {
            Arc::make_mut(&mut self.pages.write()).set_root(addr, level);
        }
    }

    /// Forgets the root page, if it is the one at `addr`.
    pub fn forget_root(&self, addr: GlobalAddr) {
        let mut pages = self.pages.write();
        if pages.root.is_some_and(|(root, _)| root == addr) {
            Arc::make_mut(&mut pages).root = None;
        }
    }

    /// Adds the inner page that was read at `addr`, in the place of an older copy; a leaf is ignored. Returns
    /// how to take it back.
    pub fn insert(&self, addr: GlobalAddr, page: &PageView<'_>) -> Option<CacheId> {
        Arc::make_mut(&mut self.pages.write()).insert(addr, page)
    }

    /// Drops the copy that led astray, unless it has been replaced meanwhile. Says whether it was there.
    pub fn invalidate(&self, id: &CacheId) -> bool {
        let mut pages = self.pages.write();
        if !pages.is_current(id) {
            return false;
        }
        let pages = Arc::make_mut(&mut pages);
        pages.version += 1;
        let old = pages.levels[usize::from(id.level) - 1].remove(id.low);
        pages.bytes -= old.map_or(0, |old| old.bytes());
        true
    }

    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.pages.read().levels.iter().map(Level::len).sum()
    }

    /// Whether it holds no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that its pages take, shared ones included.
    pub fn bytes(&self) -> usize {
        self.pages.read().bytes
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
}
