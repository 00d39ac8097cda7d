//! What a split makes of a page: two images, from the page as its lock's holder has read it.
//!
//! Nothing here touches the fabric; [`crate::tree`] tells in which order the images are written.

use dmtree_cluster::GlobalAddr;

use crate::page::{self, ENTRY_WORDS, INNER_HEADER, OCCUPANCY, PageLayout, SEQ};
use crate::{Inner, Leaf, PageFormat, PageView, inner, leaf, sherman};

/// Images of pages that are about to be written, and what it takes to make them; reused from split to split.
#[derive(Debug)]
pub(crate) struct Images {
    layout: PageLayout,
    /// The page that was there before.
    pub left: Box<[u64]>,
    /// The new page.
    pub right: Box<[u64]>,
    entries: Vec<(u64, u64)>,
}

impl Images {
    pub(crate) fn new(layout: PageLayout) -> Self {
        let page = || vec![0; layout.words()].into_boxed_slice();
        Self {
            layout,
            left: page(),
            right: page(),
            entries: Vec::new(),
        }
    }

    /// Splits a full leaf in halves, with `key` in the one that it belongs to; `right` is where the upper half
    /// goes. Returns the least key of that half, the separator: beyond the leaf's low fence and below its high
    /// one, since a smaller and no greater key than those of the leaf and `key` itself remain on either side.
    pub(crate) fn split_leaf(
        &mut self,
        page: &PageView<'_>,
        leaf: &Leaf<'_>,
        (key, value): (u64, u64),
        right: GlobalAddr,
    ) -> u64 {
        self.entries.clear();
        self.entries.extend(leaf.entries());
        self.entries.push((key, value));
        self.entries.sort_unstable();
        let (left, separator) = self.halve(page, right);
        let (layout, entries) = (&self.layout, &self.entries);
        for (slot, (key, value)) in entries[..left].iter().enumerate() {
            leaf::put(layout, &mut self.left, slot, *key, *value);
        }
        for (slot, (key, value)) in entries[left..].iter().enumerate() {
            leaf::put(layout, &mut self.right, slot, *key, *value);
        }
        separator
    }

    /// Splits a full inner page in halves, with the entry (`separator`, `child`) in the one that it belongs to.
    /// Returns the first separator of the upper half, which is that page's low fence.
    pub(crate) fn split_inner(
        &mut self,
        page: &PageView<'_>,
        inner: &Inner<'_>,
        (separator, child): (u64, GlobalAddr),
        right: GlobalAddr,
    ) -> u64 {
        self.gather(inner, separator, child);
        let (left, separator) = self.halve(page, right);
        for (separator, child) in &self.entries[..left] {
            inner::push(&mut self.left, *separator, GlobalAddr::from_bits(*child));
        }
        for (separator, child) in &self.entries[left..] {
            inner::push(&mut self.right, *separator, GlobalAddr::from_bits(*child));
        }
        separator
    }

    /// Makes `left` the inner page with one entry more, for which it has room.
    pub(crate) fn add_child(
        &mut self,
        page: &PageView<'_>,
        inner: &Inner<'_>,
        separator: u64,
        child: GlobalAddr,
    ) {
        self.gather(inner, separator, child);
        page::begin(&mut self.left, page.level(), page.low());
        if let Some((high, right)) = page.high().zip(page.right()) {
            page::set_right(&mut self.left, high, right);
        }
        for (separator, child) in &self.entries {
            inner::push(&mut self.left, *separator, GlobalAddr::from_bits(*child));
        }
    }

    /// The entries of an inner page and another one, in order.
    fn gather(&mut self, inner: &Inner<'_>, separator: u64, child: GlobalAddr) {
        self.entries.clear();
        let entries = inner.entries();
        self.entries
            .extend(entries.map(|(separator, child)| (separator, child.to_bits())));
        let place = self
            .entries
            .partition_point(|(other, _)| *other < separator);
        self.entries.insert(place, (separator, child.to_bits()));
    }

    /// Begins both images. Returns how many entries stay on the left, and the separator.
    fn halve(&mut self, page: &PageView<'_>, right: GlobalAddr) -> (usize, u64) {
        let left = self.entries.len().div_ceil(2);
        let separator = self.entries[left].0;
        page::begin(&mut self.left, page.level(), page.low());
        page::set_right(&mut self.left, separator, right);
        page::begin(&mut self.right, page.level(), separator);
        if let Some((high, beyond)) = page.high().zip(page.right()) {
            page::set_right(&mut self.right, high, beyond);
        }
        (left, separator)
    }
}

/// The words of an image that mean something: those behind them belong to no entry, and need not be written. All
/// of them in Sherman's format, whose rear version is the last.
pub(crate) fn used<'a>(layout: &PageLayout, image: &'a [u64]) -> &'a [u64] {
    if layout.format() == PageFormat::Sherman {
        return image;
    }
    let words = match PageView::parse(*layout, image) {
        Ok(page) if page.level() == 0 => {
            let bitmap = &image[OCCUPANCY..layout.leaf_header()];
            let slots = bitmap
                .iter()
                .rposition(|word| *word != 0)
                .map_or(0, |word| {
                    word * 64 + 64 - bitmap[word].leading_zeros() as usize
                });
            layout.leaf_header() + slots * ENTRY_WORDS
        }
        Ok(_) => INNER_HEADER + image[OCCUPANCY] as usize * ENTRY_WORDS,
        Err(_) => image.len(),
    };
    &image[..words]
}

/// Marks an image as being written over a settled page whose sequence word is `seq`. Returns the word that settles
/// it when it is written in its turn; none in Sherman's format, where one WRITE brings all of it.
pub(crate) fn unsettle(layout: &PageLayout, image: &mut [u64], seq: u64) -> Option<u64> {
    match layout.format() {
        PageFormat::Sound => {
            image[SEQ] = seq + 1;
            Some(seq + 2)
        }
        PageFormat::Sherman => {
            sherman::stamp(image, seq);
            None
        }
    }
}

/// The image is written.
pub(crate) fn settle(image: &mut [u64], even: Option<u64>) {
    if let Some(even) = even {
        image[SEQ] = even;
    }
}

#[cfg(test)]
mod tests {
    use dmtree_cluster::NodeId;

    use super::*;

    fn at(number: u64) -> GlobalAddr {
        GlobalAddr::new(NodeId(1), 128 * (number + 1))
    }

    fn leaf_of(words: &[u64], layout: PageLayout) -> Vec<(u64, u64)> {
        let page = PageView::parse(layout, words).unwrap();
        page.leaf().unwrap().entries().collect()
    }

    #[test]
    fn a_split_leaf_keeps_every_key_once_wherever_the_new_one_is() {
        for bytes in [128, 1024, 4096] {
            let layout = PageLayout::new(bytes).unwrap();
            let slots = layout.leaf_slots() as u64;
            for new in 0..=slots {
                for fenced in [false, true] {
                    let mut words = vec![0; layout.words()];
                    page::begin(&mut words, 0, 0);
                    if fenced {
                        page::set_right(&mut words, slots * 2 + 2, at(7));
                    }
                    for slot in 0..slots {
                        // Odd keys in no order; the new one is even.
                        let key = slot * 7 % slots * 2 + 1;
                        leaf::put(&layout, &mut words, slot as usize, key, !key);
                    }
                    let page = PageView::parse(layout, &words).unwrap();
                    let mut images = Images::new(layout);
                    let leaf = page.leaf().unwrap();
                    let separator = images.split_leaf(&page, &leaf, (new * 2, !(new * 2)), at(3));
                    let left = PageView::parse(layout, &images.left).unwrap();
                    let right = PageView::parse(layout, &images.right).unwrap();
                    assert_eq!((left.low(), left.high()), (0, Some(separator)));
                    assert_eq!((left.right(), right.low()), (Some(at(3)), separator));
                    assert_eq!((right.high(), right.right()), (page.high(), page.right()));
                    let (low, high) = (
                        leaf_of(&images.left, layout),
                        leaf_of(&images.right, layout),
                    );
                    assert!(low.len().abs_diff(high.len()) <= 1);
                    assert!(low.iter().all(|(key, _)| *key < separator));
                    assert!(high.iter().all(|(key, _)| *key >= separator));
                    let all: Vec<_> = low.into_iter().chain(high).collect();
                    assert_eq!(all.len() as u64, slots + 1);
                    assert!(all.is_sorted() && all.iter().all(|(key, value)| *value == !*key));
                    assert_eq!(
                        used(&layout, &images.left).len(),
                        layout.leaf_header() + 2 * all.len().div_ceil(2)
                    );
                }
            }
        }
    }

    #[test]
    fn a_split_inner_page_keeps_every_child_and_the_separators_are_low_fences() {
        let layout = PageLayout::new(192).unwrap();
        let slots = layout.inner_slots() as u64;
        for new in 0..slots {
            for room in [false, true] {
                let mut words = vec![0; layout.words()];
                page::begin(&mut words, 2, 10);
                page::set_right(&mut words, 1000, at(50));
                for child in 0..slots - u64::from(room) {
                    inner::push(&mut words, 10 + child * 10, at(child));
                }
                let page = PageView::parse(layout, &words).unwrap();
                let inner = page.inner().unwrap();
                let (added, mut images) = ((15 + new * 10, at(99)), Images::new(layout));
                let mut expected: Vec<_> = inner.entries().chain([added]).collect();
                expected.sort_unstable();
                if room {
                    images.add_child(&page, &inner, added.0, added.1);
                    let left = PageView::parse(layout, &images.left).unwrap();
                    assert_eq!(
                        (left.level(), left.low(), left.right()),
                        (2, 10, Some(at(50)))
                    );
                    assert!(left.inner().unwrap().entries().eq(expected.iter().copied()));
                    continue;
                }
                let separator = images.split_inner(&page, &inner, added, at(60));
                let left = PageView::parse(layout, &images.left).unwrap();
                let right = PageView::parse(layout, &images.right).unwrap();
                assert_eq!(
                    (left.low(), left.high(), left.right()),
                    (10, Some(separator), Some(at(60)))
                );
                assert_eq!(
                    (right.low(), right.high(), right.right()),
                    (separator, Some(1000), Some(at(50)))
                );
                let (low, high) = (left.inner().unwrap(), right.inner().unwrap());
                assert_eq!(high.entries().next().map(|entry| entry.0), Some(separator));
                assert!(low.entries().chain(high.entries()).eq(expected));
            }
        }
    }
}
