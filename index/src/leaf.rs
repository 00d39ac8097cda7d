//! Leaves: unsorted slots of (key, value), told occupied by a bitmap.

use std::ops::Range;

use crate::page::{ENTRY_WORDS, OCCUPANCY, PageLayout, SEQ};
use crate::{PageFormat, PageView, sherman};

/// A leaf.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    layout: PageLayout,
    words: &'a [u64],
}

impl<'a> Leaf<'a> {
    pub(crate) fn new(layout: PageLayout, words: &'a [u64]) -> Self {
        Self { layout, words }
    }

    fn is_shermans(&self) -> bool {
        self.layout.format() == PageFormat::Sherman
    }

    fn slots(&self) -> &'a [u64] {
        &self.words[self.layout.leaf_header()..][..self.layout.leaf_slots() * ENTRY_WORDS]
    }

    fn occupied(&self, slot: usize) -> bool {
        if self.is_shermans() {
            return sherman::is_occupied(sherman::entry(self.words, slot));
        }
        self.words[OCCUPANCY + slot / 64] >> (slot % 64) & 1 == 1
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        // Bits beyond the last slot mean nothing.
        (0..self.layout.leaf_slots())
            .filter(|slot| self.occupied(*slot))
            .count()
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot of `key`.
    #[inline] // Most of what an operation does with a page.
    pub fn find(&self, key: u64) -> Option<usize> {
        if self.is_shermans() {
            return sherman::find(self.words, self.layout.leaf_slots(), key);
        }
        // A vacated slot keeps its key, so that the bitmap has to be asked each time.
        let mut slots = self.slots().chunks_exact(ENTRY_WORDS).enumerate();
        slots.find_map(|(slot, entry)| (entry[0] == key && self.occupied(slot)).then_some(slot))
    }

    /// A slot that is free, if there is one.
    pub fn free_slot(&self) -> Option<usize> {
        if self.is_shermans() {
            return (0..self.layout.leaf_slots()).find(|slot| !self.occupied(*slot));
        }
        let bitmap = &self.words[OCCUPANCY..self.layout.leaf_header()];
        let word = bitmap.iter().position(|word| *word != u64::MAX)?;
        let slot = word * 64 + bitmap[word].trailing_ones() as usize;
        (slot < self.layout.leaf_slots()).then_some(slot)
    }

    /// The value in `slot`.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn value(&self, slot: usize) -> u64 {
        if self.is_shermans() {
            return sherman::value(sherman::entry(self.words, slot));
        }
        self.words[value_word(&self.layout, slot)]
    }

    /// Whether what is in `slot` can have been written by one client. Always, but in Sherman's format, where a
    /// reader without the lock has to read again what is not.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn is_whole(&self, slot: usize) -> bool {
        !self.is_shermans() || sherman::is_whole(sherman::entry(self.words, slot))
    }

    /// The key in `slot`, whether it is occupied or not.
    fn key(&self, slot: usize) -> u64 {
        if self.is_shermans() {
            return sherman::key(sherman::entry(self.words, slot));
        }
        self.words[value_word(&self.layout, slot) - 1]
    }

    /// The (key, value) pairs in the order of their slots.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let leaf = *self;
        let slots = (0..leaf.layout.leaf_slots()).filter(move |slot| leaf.occupied(*slot));
        slots.map(move |slot| (leaf.key(slot), leaf.value(slot)))
    }
}

/// The word of a leaf in which `slot`'s value lies: all that an update writes. Not in Sherman's format.
pub(crate) fn value_word(layout: &PageLayout, slot: usize) -> usize {
    layout.leaf_header() + slot * ENTRY_WORDS + 1
}

/// Fills a slot of an image.
pub(crate) fn put(layout: &PageLayout, words: &mut [u64], slot: usize, key: u64, value: u64) {
    if layout.format() == PageFormat::Sherman {
        return sherman::put(words, slot, key, value);
    }
    let word = value_word(layout, slot);
    words[word - 1] = key;
    words[word] = value;
    words[OCCUPANCY + slot / 64] |= 1 << (slot % 64);
}

/// Fills a free slot of the leaf `page` in an image, as far as that has to be written: these words, in this order,
/// each range by one WRITE (see [`crate::page`] and `sherman.rs`).
pub(crate) fn fill(
    page: &PageView<'_>,
    image: &mut [u64],
    slot: usize,
    (key, value): (u64, u64),
) -> [Range<usize>; 2] {
    let (layout, words) = (page.layout(), page.words());
    match layout.format() {
        PageFormat::Sound => {
            let header = SEQ..OCCUPANCY + slot / 64 + 1;
            image[header.clone()].copy_from_slice(&words[header.clone()]);
            put(layout, image, slot, key, value);
            image[SEQ] += 2;
            let value = value_word(layout, slot);
            [value - 1..value + 1, header]
        }
        PageFormat::Sherman => {
            let span = sherman::span(slot);
            image[span.clone()].copy_from_slice(&words[span.clone()]);
            put(layout, image, slot, key, value);
            [span.clone(), span.end..span.end]
        }
    }
}

/// Gives the key in `slot` of `leaf` another value: what has to be written, from which word on.
#[inline]
pub(crate) fn replace<'a>(
    leaf: &Leaf<'_>,
    slot: usize,
    value: u64,
    scratch: &'a mut [u64; sherman::ENTRY_SPAN],
) -> (u64, &'a [u64]) {
    if leaf.is_shermans() {
        let span = sherman::span(slot);
        let words = &mut scratch[..span.len()];
        words.copy_from_slice(&leaf.words[span.clone()]);
        sherman::put_in(words, span.start, slot, leaf.key(slot), value);
        return (span.start as u64, words);
    }
    scratch[0] = value;
    (value_word(&leaf.layout, slot) as u64, &scratch[..1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{self, PageView};

    #[test]
    fn every_slot_of_every_size_is_found_and_no_key_is_special() {
        for bytes in [128, 1024, 4096, 65_536] {
            let layout = PageLayout::new(bytes).unwrap();
            let mut words = vec![0; layout.words()];
            page::begin(&mut words, 0, 0);
            let view = |words: &[u64], key| {
                let page = PageView::parse(layout, words).unwrap();
                let leaf = page.leaf().unwrap();
                leaf.find(key).map(|slot| leaf.value(slot))
            };
            // Free slots hold zeros: key 0 must not be found in them.
            assert_eq!(view(&words, 0), None);
            let key = |slot: usize| {
                if slot == 0 {
                    u64::MAX
                } else {
                    (slot as u64 - 1) * 7
                }
            };
            for slot in 0..layout.leaf_slots() {
                let free = PageView::parse(layout, &words).unwrap().leaf().unwrap();
                assert_eq!(free.free_slot(), Some(slot));
                put(&layout, &mut words, slot, key(slot), 0);
            }
            for slot in 0..layout.leaf_slots() {
                words[value_word(&layout, slot)] = slot as u64;
                assert_eq!(view(&words, key(slot)), Some(slot as u64), "{bytes} {slot}");
            }
            assert_eq!(view(&words, 3), None);
            let page = PageView::parse(layout, &words).unwrap();
            let leaf = page.leaf().unwrap();
            assert_eq!((leaf.len(), leaf.free_slot()), (layout.leaf_slots(), None));
            assert!(
                leaf.entries()
                    .eq((0..layout.leaf_slots()).map(|slot| (key(slot), slot as u64)))
            );
            // Vacated, though its key still stands there.
            words[OCCUPANCY] &= !1;
            assert_eq!(view(&words, u64::MAX), None);
            let page = PageView::parse(layout, &words).unwrap();
            assert_eq!(page.leaf().unwrap().free_slot(), Some(0));
        }
    }
}
