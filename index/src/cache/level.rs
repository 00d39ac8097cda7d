//! [`Level`]: the cached pages of one level, by low fence.
//!
//! A sorted array in pieces. Within a piece fences and pages lie apart, so that a search runs over a few dense
//! lines: half the time of one in a `BTreeMap` with a tree of 10 M keys. A page that is added moves those behind
//! it in its piece only; and caches that begin with the same pages share the pieces until they change them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::page::CachedPage;

/// Pages a piece: what an insert moves (17 KB at most, half a microsecond) and what a first change to a shared
/// piece copies.
const PIECE: usize = 1024;

/// Where a page is in a level, as long as that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    piece: u32,
    index: u32,
}

/// Pages that are next to each other, at least one.
#[derive(Debug, Default)]
struct Piece {
    lows: Vec<u64>,
    pages: Vec<CachedPage>,
    /// Whether a page was looked up since the clock's hand passed it.
    used: Vec<AtomicBool>,
}

impl Clone for Piece {
    fn clone(&self) -> Self {
        let used = self
            .used
            .iter()
            .map(|used| AtomicBool::new(used.load(Ordering::Relaxed)));
        Self {
            lows: self.lows.clone(),
            pages: self.pages.clone(),
            used: used.collect(),
        }
    }
}

impl Piece {
    fn insert(&mut self, index: usize, page: CachedPage) {
        self.lows.insert(index, page.low());
        self.pages.insert(index, page);
        self.used.insert(index, AtomicBool::new(true));
    }

    fn remove(&mut self, index: usize) -> CachedPage {
        self.lows.remove(index);
        self.used.remove(index);
        self.pages.remove(index)
    }

    /// Leaves its lower half here.
    fn split(&mut self) -> Self {
        let half = self.lows.len() / 2;
        Self {
            lows: self.lows.split_off(half),
            pages: self.pages.split_off(half),
            used: self.used.split_off(half),
        }
    }
}

/// The cached pages of one level by low fence.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// The least low fence of each piece.
    firsts: Vec<u64>,
    pieces: Vec<Arc<Piece>>,
    len: usize,
}

impl Level {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Its pages in the order of their low fences.
    pub(super) fn iter(&self) -> impl Iterator<Item = &CachedPage> {
        self.pieces.iter().flat_map(|piece| &piece.pages)
    }

    /// Where the page with the highest low fence that is not beyond `key` is, and that page.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<(Place, &CachedPage)> {
        let number = self.firsts.partition_point(|first| *first <= key);
        let number = number.checked_sub(1)?;
        let piece = self.pieces.get(number)?;
        // Its first page is not beyond the key.
        let index = piece.lows.partition_point(|low| *low <= key) - 1;
        let place = Place {
            piece: number as u32,
            index: index as u32,
        };
        Some((place, piece.pages.get(index)?))
    }

    /// The page at a place that was found when the level was as it is.
    #[inline]
    pub(super) fn at(&self, place: Place) -> Option<&CachedPage> {
        let piece = self.pieces.get(place.piece as usize)?;
        piece.pages.get(place.index as usize)
    }

    /// The page with that low fence.
    pub(super) fn get(&self, low: u64) -> Option<&CachedPage> {
        let (_, page) = self.find(low)?;
        (page.low() == low).then_some(page)
    }

    /// Notes that the page at `place` was looked up.
    #[inline]
    pub(super) fn note(&self, place: Place) {
        self.pieces[place.piece as usize].used[place.index as usize].store(true, Ordering::Relaxed);
    }

    /// Sees to it that no piece is shared, so that [`Level::note`] is about this cache alone.
    pub(super) fn unshare(&mut self) {
        for piece in &mut self.pieces {
            Arc::make_mut(piece);
        }
    }

    /// Adds a page, and returns the one in whose place it is.
    pub(super) fn insert(&mut self, page: CachedPage) -> Option<CachedPage> {
        let low = page.low();
        let Some((Place { piece, index }, _)) = self.find(low) else {
            // In front of all others.
            match self.pieces.first_mut() {
                Some(first) if first.lows.len() < PIECE => {
                    Arc::make_mut(first).insert(0, page);
                    self.firsts[0] = low;
                }
                _ => self.insert_piece(0, page),
            }
            self.len += 1;
            return None;
        };
        let (number, index) = (piece as usize, index as usize);
        let is_last = number + 1 == self.pieces.len();
        let piece = &mut self.pieces[number];
        if piece.lows[index] == low {
            let piece = Arc::make_mut(piece);
            *piece.used[index].get_mut() = true;
            return Some(std::mem::replace(&mut piece.pages[index], page));
        }
        self.len += 1;
        if piece.lows.len() < PIECE {
            Arc::make_mut(piece).insert(index + 1, page);
        } else if is_last && index + 1 == PIECE {
            // Bulk load comes here: pieces become full.
            self.insert_piece(number + 1, page);
        } else {
            let low_half = Arc::make_mut(piece);
            let mut high_half = low_half.split();
            let kept = low_half.lows.len();
            if index < kept {
                low_half.insert(index + 1, page);
            } else {
                high_half.insert(index + 1 - kept, page);
            }
            self.firsts.insert(number + 1, high_half.lows[0]);
            self.pieces.insert(number + 1, Arc::new(high_half));
        }
        None
    }

    fn insert_piece(&mut self, number: usize, page: CachedPage) {
        let mut piece = Piece::default();
        self.firsts.insert(number, page.low());
        piece.insert(0, page);
        self.pieces.insert(number, Arc::new(piece));
    }

    /// Takes the page with that low fence out.
    pub(super) fn remove(&mut self, low: u64) -> Option<CachedPage> {
        let (place, page) = self.find(low)?;
        (page.low() == low).then(|| self.remove_at(place))
    }

    fn remove_at(&mut self, place: Place) -> CachedPage {
        let number = place.piece as usize;
        let piece = Arc::make_mut(&mut self.pieces[number]);
        let page = piece.remove(place.index as usize);
        if let Some(first) = piece.lows.first() {
            self.firsts[number] = *first;
        } else {
            self.firsts.remove(number);
            self.pieces.remove(number);
        }
        self.len -= 1;
        page
    }

    /// The clock's hand goes on from the page with low fence `from`: takes out the first page that was not looked
    /// up since it passed last, and notes of those before it that it has passed. None at the level's end.
    pub(super) fn sweep(&mut self, from: u64) -> Option<CachedPage> {
        let first = self.firsts.partition_point(|first| *first <= from);
        for number in first.saturating_sub(1)..self.pieces.len() {
            let piece = Arc::make_mut(&mut self.pieces[number]);
            let begin = piece.lows.partition_point(|low| *low < from);
            let unused = (begin..piece.lows.len()).find(|index| {
                let used = piece.used[*index].get_mut();
                !std::mem::take(used)
            });
            if let Some(index) = unused {
                return Some(self.remove_at(Place {
                    piece: number as u32,
                    index: index as u32,
                }));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dmtree_cluster::{GlobalAddr, NodeId};
    use proptest::prelude::*;

    use super::*;
    use crate::page::PageView;
    use crate::{PageLayout, inner, page};

    fn at(number: u64) -> GlobalAddr {
        GlobalAddr::new(NodeId(1), 128 * (number + 1))
    }

    fn copy(low: u64, addr: u64) -> CachedPage {
        let mut words = [0; 16];
        page::begin(&mut words, 1, low);
        inner::push(&mut words, low, at(addr));
        let layout = PageLayout::new(128).unwrap();
        let page = PageView::parse(layout, &words).unwrap();
        CachedPage::new(at(addr), &page, &page.inner().unwrap())
    }

    fn is_as(level: &Level, model: &BTreeMap<u64, u64>) {
        assert_eq!(level.len(), model.len());
        let pages = level.pieces.iter().flat_map(|piece| {
            assert_eq!(
                (piece.lows.len(), piece.pages.len()),
                (piece.used.len(), piece.used.len())
            );
            assert!((1..=PIECE).contains(&piece.lows.len()));
            piece.lows.iter().zip(&piece.pages)
        });
        assert!(
            pages
                .map(|(low, page)| (*low, page.addr()))
                .eq(model.iter().map(|(low, addr)| (*low, at(*addr))))
        );
        assert!(
            level
                .firsts
                .iter()
                .eq(level.pieces.iter().map(|piece| &piece.lows[0]))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Ascending as in a bulk load, then anywhere, with removals by key and by the clock.
        #[test]
        fn a_level_is_a_sorted_map(
            loaded in 0..5000u64,
            steps in prop::collection::vec((0..4u8, 0..20_000u64), 0..3000),
        ) {
            let (mut level, mut model) = (Level::default(), BTreeMap::new());
            for low in 0..loaded {
                assert!(level.insert(copy(low * 4, low)).is_none());
                model.insert(low * 4, low);
            }
            prop_assert_eq!(level.pieces.len() as u64, loaded.div_ceil(PIECE as u64));
            let shared = level.clone();
            let (before, model_before) = (shared.len(), model.clone());
            for (number, (step, low)) in steps.into_iter().enumerate() {
                let addr = number as u64 + 10_000;
                match step {
                    0 | 1 => {
                        let old = level.insert(copy(low, addr)).map(|old| old.addr());
                        prop_assert_eq!(old, model.insert(low, addr).map(at));
                    }
                    2 => {
                        let old = level.remove(low).map(|old| old.addr());
                        prop_assert_eq!(old, model.remove(&low).map(at));
                    }
                    _ => if let Some(old) = level.sweep(low) {
                        prop_assert!(old.low() >= low);
                        prop_assert_eq!(Some(old.addr()), model.remove(&old.low()).map(at));
                    }
                }
                let found = level.find(low);
                prop_assert!(found.is_none_or(|(place, page)| level.at(place).is_some_and(|at| at.low() == page.low())));
                let found = found.map(|(_, page)| page.low());
                prop_assert_eq!(found, model.range(..=low).next_back().map(|(low, _)| *low));
                prop_assert_eq!(level.get(low).map(CachedPage::addr), model.get(&low).copied().map(at));
            }
            is_as(&level, &model);
            // Whoever shares the pieces does not see what became of them.
            prop_assert_eq!(shared.len(), before);
            is_as(&shared, &model_before);
        }
    }

    #[test]
    fn the_hand_passes_what_was_looked_up_once() {
        let mut level = Level::default();
        (0..2400).for_each(|low| assert!(level.insert(copy(low, low)).is_none()));
        // All new: the first time round nothing goes.
        assert!(level.sweep(0).is_none());
        for low in [0, 1, 1300] {
            let (place, _) = level.find(low).unwrap();
            level.note(place);
        }
        let mut gone = Vec::new();
        let mut hand = 0;
        while let Some(page) = level.sweep(hand) {
            hand = page.low() + 1;
            gone.push(page.low());
        }
        assert!(
            gone.iter()
                .copied()
                .eq((0..2400).filter(|low| ![0, 1, 1300].contains(low)))
        );
        assert_eq!(level.sweep(1).map(|page| page.low()), Some(1));
        assert_eq!(level.len(), 2);
    }
}
