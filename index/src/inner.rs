//! Inner pages: (separator, child), sorted by separator.
//!
//! A child is responsible for the keys from its separator up to the next one. The first separator is the page's
//! own low fence, so that every key of the page has a child.

use dmtree_cluster::GlobalAddr;

use crate::page::{ENTRY_WORDS, INNER_HEADER, OCCUPANCY};

/// An inner page with at least one entry.
#[derive(Clone, Copy, Debug)]
pub struct Inner<'a> {
    entries: &'a [u64],
}

impl<'a> Inner<'a> {
    /// The caller has checked the number of entries ([`crate::PageView::parse`]).
    pub(crate) fn new(words: &'a [u64]) -> Self {
        Self {
            entries: &words[INNER_HEADER..][..words[OCCUPANCY] as usize * ENTRY_WORDS],
        }
    }

    /// How many children it has.
    #[allow(clippy::len_without_is_empty)] // It is never empty.
    pub fn len(&self) -> usize {
        self.entries.len() / ENTRY_WORDS
    }

    /// The child that is responsible for `key`, when the page is.
    pub fn child(&self, key: u64) -> GlobalAddr {
        let (mut from, mut to) = (0, self.len());
        // The last entry whose separator is not beyond the key; the first one, should there be none.
        while to - from > 1 {
            let middle = (from + to) / 2;
            if self.entries[middle * ENTRY_WORDS] <= key {
                from = middle;
            } else {
                to = middle;
            }
        }
        GlobalAddr::from_bits(self.entries[from * ENTRY_WORDS + 1])
    }

    /// The (separator, child) entries in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u64, GlobalAddr)> + use<'a> {
        let entries = self.entries.chunks_exact(ENTRY_WORDS);
        entries.map(|entry| (entry[0], GlobalAddr::from_bits(entry[1])))
    }
}

/// Appends an entry, whose separator is beyond all others.
pub(crate) fn push(words: &mut [u64], separator: u64, child: GlobalAddr) {
    let word = INNER_HEADER + words[OCCUPANCY] as usize * ENTRY_WORDS;
    words[word] = separator;
    words[word + 1] = child.to_bits();
    words[OCCUPANCY] += 1;
}

#[cfg(test)]
mod tests {
    use dmtree_cluster::NodeId;

    use super::*;
    use crate::page::{self, PageLayout, PageView};

    #[test]
    fn every_key_has_the_child_before_it() {
        let layout = PageLayout::new(256).unwrap();
        let child = |index: u64| GlobalAddr::new(NodeId(2), 256 * (index + 1));
        for len in 1..=layout.inner_slots() as u64 {
            let mut words = vec![0; layout.words()];
            page::begin(&mut words, 1, 100);
            (0..len).for_each(|index| push(&mut words, 100 + index * 10, child(index)));
            let page = PageView::parse(layout, &words).unwrap();
            let inner = page.inner().unwrap();
            assert_eq!(inner.len() as u64, len);
            for key in 100..100 + len * 10 {
                assert_eq!(inner.child(key), child((key - 100) / 10), "{len} {key}");
            }
            assert_eq!(inner.child(u64::MAX), child(len - 1));
            assert_eq!(inner.child(0), child(0));
        }
    }
}
