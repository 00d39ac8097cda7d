//! [`IndexPages`]: cached pages of all levels, and which of them go when there are too many.
//!
//! Which page goes is decided by the clock algorithm (second chance; Corbató, "A Paging Experiment with the
//! Multics System", 1968): a hand goes over the pages, lowest level first, in the order of their low fences, and
//! takes the first one that was not looked up since it came by last. It is deterministic. The top two levels stay
//! always.

use dmtree_cluster::GlobalAddr;

use super::Foresight;
use super::level::Level;
use super::page::{CacheId, CachedPage, Hit};
use crate::page::PageView;

/// The pages above the leaves of a tree, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct IndexPages {
    /// From level 1 up.
    levels: Vec<Level>,
    root: Option<(GlobalAddr, u8)>,
    /// The highest level that was seen to exist: a page with a right sibling is no root, and has one above it.
    highest: u8,
    bytes: usize,
    /// How often a page was added or dropped.
    version: u64,
    /// Where the clock's hand is: index of a level, low fence.
    hand: (usize, u64),
    /// Whether a page ever had to go. Until then nobody needs to know which ones are in use.
    evicting: bool,
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
        let above = id.level + u8::from(page.high().is_some());
        self.highest = self.highest.max(above);
        let copy = CachedPage::new(addr, page, &inner);
        self.version += 1;
        self.bytes += copy.bytes();
        if let Some(old) = self.levels[level].insert(copy) {
            self.bytes -= old.bytes();
        }
        Some(id)
    }

    pub(super) fn remove(&mut self, id: &CacheId) {
        self.version += 1;
        let old = self.levels[usize::from(id.level) - 1].remove(id.low);
        self.bytes -= old.map_or(0, |old| old.bytes());
    }

    pub(super) fn root(&self) -> Option<(GlobalAddr, u8)> {
        self.root
    }

    pub(crate) fn set_root(&mut self, addr: GlobalAddr, level: u8) {
        self.root = Some((addr, level));
        self.highest = self.highest.max(level);
    }

    pub(super) fn forget_root(&mut self) {
        self.root = None;
        // Perhaps that of another tree.
        self.highest = 0;
    }

    /// Its pages with their levels, lowest level first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &CachedPage)> {
        let levels = (1..).zip(&self.levels);
        levels.flat_map(|(number, level)| level.iter().map(move |page| (number, page)))
    }

    pub(crate) fn len(&self) -> usize {
        self.levels.iter().map(Level::len).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The way to `key` from the lowest page above level `above` that covers it.
    #[inline]
    pub(super) fn lookup(&self, key: u64, above: u8) -> Option<Hit> {
        let mut levels = self.levels.iter().enumerate().skip(usize::from(above));
        levels.find_map(|(index, level)| {
            let (place, page) = level.find(key)?;
            let hit = page.hit(index as u8 + 1, key)?;
            if self.evicting {
                level.note(place);
            }
            Some(hit)
        })
    }

    /// The page of level `level` that covers `key`.
    pub(super) fn page(&self, key: u64, level: u8) -> Option<CacheId> {
        let pages = self.levels.get(usize::from(level).checked_sub(1)?)?;
        let (_, page) = pages.find(key)?;
        page.covers(key).then(|| page.id(level))
    }

    #[inline]
    pub(super) fn foresee(&self, key: u64) -> Foresight {
        let found = self.levels.first().and_then(|level| level.find(key));
        if let Some((_, page)) = found {
            page.prefetch();
        }
        Foresight {
            key,
            place: found.map(|(place, _)| place),
            version: self.version,
        }
    }

    #[inline]
    pub(super) fn lookup_foreseen(&self, foresight: &Foresight) -> Option<Hit> {
        if self.version != foresight.version {
            return None;
        }
        let (level, place) = (self.levels.first()?, foresight.place?);
        let hit = level.at(place)?.hit(1, foresight.key)?;
        if self.evicting {
            level.note(place);
        }
        Some(hit)
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn is_current(&self, id: &CacheId) -> bool {
        let level = self.levels.get(usize::from(id.level).wrapping_sub(1));
        let page = level.and_then(|level| level.get(id.low));
        page.is_some_and(|page| page.addr() == id.addr && page.seq() == id.seq)
    }

    /// Index of the lowest level that stays: the second one of the tree, as far as is known.
    fn stays(&self) -> usize {
        let highest = self.levels.iter().rposition(|level| level.len() > 0);
        let highest = highest.map_or(0, |index| index + 1);
        highest.max(usize::from(self.highest)).saturating_sub(2)
    }

    /// Whether pages have to go, and can, to take no more than `budget` bytes.
    pub(super) fn is_beyond(&self, budget: usize) -> bool {
        self.bytes > budget
            && self
                .levels
                .iter()
                .take(self.stays())
                .any(|level| level.len() > 0)
    }

    /// Lets pages go until no more than `budget` bytes are taken or nothing but the top two levels is left.
    pub(super) fn trim(&mut self, budget: usize) {
        if !self.evicting {
            self.evicting = true;
            self.levels.iter_mut().for_each(Level::unshare);
        }
        while self.is_beyond(budget) {
            let (level, low) = self.hand;
            // A root that has grown by several levels elsewhere is known before any page between is.
            if level >= self.stays().min(self.levels.len()) {
                self.hand = (0, 0);
                continue;
            }
            match self.levels[level].sweep(low) {
                Some(page) => {
                    self.version += 1;
                    self.bytes -= page.bytes();
                    self.hand = match page.low().checked_add(1) {
                        Some(next) => (level, next),
                        None => (level + 1, 0),
                    };
                }
                None => self.hand = (level + 1, 0),
            }
        }
    }
}
