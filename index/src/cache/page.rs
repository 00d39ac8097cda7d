//! [`CachedPage`]: a copy of an inner page, and what leads to and from it.

use std::sync::Arc;

use dmtree_cluster::GlobalAddr;

use crate::Inner;
use crate::page::PageView;

/// A copy of an inner page's used part, in one piece of memory: a search waits for little more than one access to
/// it, however cold it is.
///
/// Words: address, sequence word when it was copied, low fence, high fence, 1 when there is a high fence, the
/// separators, as many children.
#[derive(Clone, Debug)]
pub(crate) struct CachedPage(Arc<[u64]>);

const ADDR: usize = 0;
const COPIED_SEQ: usize = 1;
const LOW: usize = 2;
const HIGH: usize = 3;
const HAS_HIGH: usize = 4;
const HEADER: usize = 5;

impl CachedPage {
    pub(super) fn new(addr: GlobalAddr, page: &PageView<'_>, inner: &Inner<'_>) -> Self {
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

    pub(crate) fn addr(&self) -> GlobalAddr {
        GlobalAddr::from_bits(self.0[ADDR])
    }

    pub(crate) fn seq(&self) -> u64 {
        self.0[COPIED_SEQ]
    }

    pub(crate) fn low(&self) -> u64 {
        self.0[LOW]
    }

    /// The high fence; none on the right edge of its level.
    pub(crate) fn high(&self) -> Option<u64> {
        (self.0[HAS_HIGH] != 0).then_some(self.0[HIGH])
    }

    /// The (separator, child) entries in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, GlobalAddr)> {
        let entries = &self.0[HEADER..];
        let (separators, children) = entries.split_at(entries.len() / 2);
        let children = children.iter().map(|child| GlobalAddr::from_bits(*child));
        separators.iter().copied().zip(children)
    }

    pub(crate) fn covers(&self, key: u64) -> bool {
        self.low() <= key && (self.0[HAS_HIGH] == 0 || key < self.0[HIGH])
    }

    pub(super) fn child(&self, key: u64) -> GlobalAddr {
        let entries = &self.0[HEADER..];
        let (separators, children) = entries.split_at(entries.len() / 2);
        // Counting reads all the lines at once; halving would wait for one after the other.
        let index: usize = separators
            .iter()
            .map(|separator| usize::from(*separator <= key))
            .sum();
        GlobalAddr::from_bits(children[index.saturating_sub(1)])
    }

    pub(super) fn id(&self, level: u8) -> CacheId {
        CacheId {
            level,
            low: self.low(),
            addr: self.addr(),
            seq: self.seq(),
        }
    }

    /// The way on from the page, which is of level `level`, if it covers `key`.
    pub(super) fn hit(&self, level: u8, key: u64) -> Option<Hit> {
        self.covers(key).then(|| Hit {
            child: self.child(key),
            child_level: level - 1,
            parent: self.id(level),
        })
    }

    /// Brings it near.
    pub(super) fn prefetch(&self) {
        dmtree_cluster::prefetch(&self.0);
    }

    /// Bytes that it takes, its place in the map (a fence, a pointer, whether it is in use) and its reference
    /// counts included.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
            + size_of::<u64>()
            + size_of::<Self>()
            + size_of::<bool>()
            + 2 * size_of::<usize>()
    }
}

/// Names a cached copy of a page, to take it back by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheId {
    pub(super) level: u8,
    pub(super) low: u64,
    pub(super) addr: GlobalAddr,
    pub(super) seq: u64,
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
