//! Pages: geometry, header, and why a lock-free reader can trust what it read. (All of this is the format
//! [`PageFormat::Sound`]; where Sherman's differs, and why it cannot be trusted, is told in `sherman.rs`.)
//!
//! A page is `page_bytes` of memory, seen as 8-byte words:
//!
//! | word | leaf (level 0) | inner page (level > 0) |
//! |---|---|---|
//! | 0 | sequence: even = settled, odd = a structural change is under way | same |
//! | 1 | tag: that it is a page, of which format, its level | same |
//! | 2 | low fence: the least key it is responsible for | same |
//! | 3 | high fence: the least key beyond it; void without a right sibling | same |
//! | 4 | right sibling, or null | same |
//! | 5 … | occupancy bitmap, a bit a slot, [`PageLayout::bitmap_words`] words | number of entries, one word |
//! | … | slots of (key, value), UNSORTED | entries of (separator, child), sorted by separator |
//!
//! A 1 KB leaf has 61 slots: 18.6 bytes a key at a fill of 0.9. No value and no key is special: occupancy is in
//! the bitmap. The rightmost page of a level is responsible for everything from its low fence on, `u64::MAX`
//! included; it is exactly the page without a right sibling, so that null says both.
//!
//! # What a reader may trust
//! Writers of a page hold its lock, so there is one at a time; lock-free readers are the problem. All that
//! [the contract](dmtree_cluster#the-contract) grants them is that an aligned word is read at one instant, that
//! WRITE→anything and READ→READ are ordered on one queue pair, and the same of release stores and acquire loads
//! on the CPU. A long READ may mix old and new words in ANY way. So:
//!
//! 1. An **update** changes one aligned word, the value of an occupied slot, and nothing else. It needs no
//!    version: whatever mix a READ brings, that word is one of the values the key had while it was read.
//! 2. An **insert into a free slot** writes the slot's two words first, then the next even number into the
//!    sequence word, then the word of the bitmap with the slot's bit. In chain order (WRITE→WRITE) and within one
//!    WRITE (increasing addresses: the sequence word is word 0), or by release stores.
//! 3. A **structural change** (whatever else is written: a slot vacated, a split, fences, siblings)
//!    makes the sequence word odd, then writes, then makes it the next even number. By verbs these are two WRITEs:
//!    one of the page from the odd sequence word on (increasing addresses), one of the even sequence word.
//!    Sequence words only grow, over all writers and lives of the memory; 64 bits do not wrap.
//! 4. A **reader** sends one chain [READ sequence, READ page, READ sequence], or does the same by acquire loads,
//!    and accepts when both sequence words are equal and even ([`settled`]).
//!
//! *Claim*: what is accepted is the page as it was at every instant between the two sequence samples, but for
//! values, each of which is its own at some instant in between, and for at most one key that an insert has put in
//! meanwhile: it is there with its value, or not at all. *Proof*: let the samples be taken at t₁ and t₂; all words
//! of the body are read in [t₁, t₂] (READ→READ). Both samples are the even number s, and the word only grows, so
//! it is s throughout [t₁, t₂].
//!
//! Suppose a structural change writes some body word at t in [t₁, t₂]. It made the sequence odd before t, so
//! before t₁, and makes it even after its last body word, so after t: the word is odd at t₁. Contradiction.
//!
//! An insert writes its slot, makes the sequence word s', and sets the bit, at e < q < b. If b is in [t₁, t₂], q is
//! not, since the word would change: so q < t₁, and all of the slot was written before t₁; the bit is one word, read
//! at one instant. If b is not in [t₁, t₂], a slot that the insert writes in [t₁, t₂] is free throughout, and nobody
//! looks at it. Two inserts do not have their b in [t₁, t₂], for then the second one's q would be, too. And until b
//! the new entry's value is the one that was inserted: to update it takes the lock. ∎
//!
//! A removal is a structural change, since a slot whose bit was cleared after the last sequence word of its page
//! could be filled again while a reader still has the old bit. And of the six orders of an insert's steps no other
//! one is sound: `torn.rs` tries them.
//!
//! The holder of the lock reads by one plain READ: nobody else writes.
//!
//! *Both samples must be verbs of their own.* The sequence word inside the page's READ may be sampled at any
//! time relative to the other words. [READ page, READ sequence] accepts this: body words before the change,
//! the page's own sequence word and the other body words after it, then the same sequence word again.
//!
//! *Versions at the front and the rear of the page (Sherman, SIGMOD 2022, section 4.4) do not do.* They are words
//! of the page's own READ, and compared with one another only. Even with words read in increasing order a reader
//! can start behind the writer's front and overtake it: the front version is old, some words are new, the rear
//! version, not yet written, is old. With words read in any order nothing is left of it. An entry with versions
//! of its own that is longer than a word has the same hole, and readers that skip entries whose versions differ
//! tell "not found" of keys that are only being updated. Checksums would be sound with high probability, yet
//! cost a pass over the page for every READ and every update. The tests of this crate (`torn.rs`) exhibit the
//! holes, and check the claim for readers that mix words in any way.

use dmtree_cluster::GlobalAddr;

use crate::{ErrorKind, PageFormat, Result, inner::Inner, leaf::Leaf, sherman};

/// Bytes of a page where nothing else is said (Sherman, SIGMOD 2022, section 5.1).
pub const DEFAULT_PAGE_BYTES: u32 = 1024;
/// The smallest page: five slots.
pub const MIN_PAGE_BYTES: u32 = 128;
/// The largest page.
pub const MAX_PAGE_BYTES: u32 = 64 << 10;

/// More levels than any tree has: pages have room for two children at least, and there are 2⁶⁴ keys.
pub const MAX_LEVELS: u8 = 65;

pub(crate) const SEQ: usize = 0;
const TAG: usize = 1;
const LOW: usize = 2;
const HIGH: usize = 3;
const RIGHT: usize = 4;
/// The leaf's bitmap or the inner page's count.
pub(crate) const OCCUPANCY: usize = 5;

/// Words of a (key, value) or (separator, child).
pub(crate) const ENTRY_WORDS: usize = 2;
/// The header of an inner page, in words.
pub(crate) const INNER_HEADER: usize = OCCUPANCY + 1;

/// `"dmtr"`, then the format's number, then the level: so that memory which never was a page is told from one.
const MAGIC: u64 = 0x646d_7472 << 32 | 1 << 8;
const LEVEL_MASK: u64 = 0xff;

/// Geometry of a tree's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    format: PageFormat,
    // Small, since it goes wherever a page goes.
    words: u16,
    bitmap_words: u16,
    leaf_slots: u16,
    inner_slots: u16,
}

const _: () = assert!(size_of::<PageLayout>() <= 16 && MAX_PAGE_BYTES / 8 <= u16::MAX as u32);

impl PageLayout {
    /// Words of a page of [`DEFAULT_PAGE_BYTES`].
    pub(crate) const DEFAULT_WORDS: usize = DEFAULT_PAGE_BYTES as usize / 8;

    /// Pages of `page_bytes` bytes in the format that is sound.
    ///
    /// # Errors
    /// As [`PageLayout::with_format`].
    pub fn new(page_bytes: u32) -> Result<Self> {
        Self::with_format(page_bytes, PageFormat::Sound)
    }

    /// Pages of `page_bytes` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] when it is not a multiple of 64 from [`MIN_PAGE_BYTES`] to [`MAX_PAGE_BYTES`].
    pub fn with_format(page_bytes: u32, format: PageFormat) -> Result<Self> {
        if !(MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&page_bytes)
            || !page_bytes.is_multiple_of(64)
        {
            return Err(ErrorKind::Options {
                option: "page_bytes",
                why: format!(
                    "{page_bytes} is not a multiple of 64 from {MIN_PAGE_BYTES} to {MAX_PAGE_BYTES}"
                ),
            }
            .into());
        }
        Ok(Self::of_words(page_bytes as usize / 8, format))
    }

    const fn of_words(words: usize, format: PageFormat) -> Self {
        match format {
            PageFormat::Sound => Self::sound(words),
            PageFormat::Sherman => {
                let inner_slots = (words - INNER_HEADER - sherman::REAR_WORDS) / ENTRY_WORDS;
                Self::made_of(format, words, 0, sherman::slots(words), inner_slots)
            }
        }
    }

    const fn sound(words: usize) -> Self {
        // The least bitmap that has a bit for each slot that then fits.
        let mut bitmap_words = 1;
        while (words - OCCUPANCY - bitmap_words) / ENTRY_WORDS > bitmap_words * 64 {
            bitmap_words += 1;
        }
        let leaf_slots = (words - OCCUPANCY - bitmap_words) / ENTRY_WORDS;
        let inner_slots = (words - INNER_HEADER) / ENTRY_WORDS;
        let format = PageFormat::Sound;
        Self::made_of(format, words, bitmap_words, leaf_slots, inner_slots)
    }

    /// The numbers are of a page of at most [`MAX_PAGE_BYTES`].
    const fn made_of(
        format: PageFormat,
        words: usize,
        bitmap_words: usize,
        leaf_slots: usize,
        inner_slots: usize,
    ) -> Self {
        Self {
            format,
            words: words as u16,
            bitmap_words: bitmap_words as u16,
            leaf_slots: leaf_slots as u16,
            inner_slots: inner_slots as u16,
        }
    }

    /// Their format.
    pub const fn format(&self) -> PageFormat {
        self.format
    }

    /// Bytes of a page.
    pub const fn page_bytes(&self) -> u64 {
        self.words as u64 * 8
    }

    /// 8-byte words of a page.
    pub const fn words(&self) -> usize {
        self.words as usize
    }

    /// Words of a leaf's occupancy bitmap; none in Sherman's format.
    pub const fn bitmap_words(&self) -> usize {
        self.bitmap_words as usize
    }

    /// Keys that a leaf has room for.
    pub const fn leaf_slots(&self) -> usize {
        self.leaf_slots as usize
    }

    /// Children that an inner page has room for.
    pub const fn inner_slots(&self) -> usize {
        self.inner_slots as usize
    }

    /// The word at which a leaf's slots begin.
    pub(crate) const fn leaf_header(&self) -> usize {
        OCCUPANCY + self.bitmap_words as usize
    }
}

const _: () = {
    let default = PageLayout::sound(PageLayout::DEFAULT_WORDS);
    assert!(
        default.leaf_slots() == 61 && default.bitmap_words() == 1 && default.leaf_header() == 6
    );
    assert!(default.leaf_header() + default.leaf_slots() * ENTRY_WORDS == default.words());
    // At most 20 bytes a key in leaves filled to 0.9.
    assert!(default.page_bytes() <= 20 * (default.leaf_slots() as u64 * 9 / 10));
    // Any size: what is there fits, each slot has its bit, and a split leaves both halves room.
    let mut words = MIN_PAGE_BYTES as usize / 8;
    while words <= MAX_PAGE_BYTES as usize / 8 {
        let layout = PageLayout::sound(words);
        assert!(layout.leaf_slots() <= layout.bitmap_words() * 64 && layout.leaf_slots() >= 4);
        assert!(layout.leaf_header() + layout.leaf_slots() * ENTRY_WORDS <= words);
        assert!(
            INNER_HEADER + layout.inner_slots() * ENTRY_WORDS <= words && layout.inner_slots() >= 4
        );
        let sherman = PageLayout::of_words(words, PageFormat::Sherman);
        assert!(sherman.leaf_slots() >= 4 && sherman.inner_slots() >= 4);
        words += 8;
    }
};

/// Whether two samples of a page's sequence word, taken before and after its body, vouch for the body.
pub const fn settled(before: u64, after: u64) -> bool {
    before == after && before & 1 == 0
}

/// On which side of a page a key is, by the page's fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Below the low fence.
    Left,
    /// The page is responsible for it.
    Here,
    /// At or beyond the high fence: with the right sibling at this address.
    Right(GlobalAddr),
}

/// The words of a page, held for one.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    layout: PageLayout,
    words: &'a [u64],
}

impl<'a> PageView<'a> {
    /// Looks at `words` as a page; says why when they are none.
    ///
    /// # Panics
    /// When `words` are not as many as `layout` says.
    pub fn parse(layout: PageLayout, words: &'a [u64]) -> std::result::Result<Self, &'static str> {
        assert_eq!(words.len(), layout.words(), "a page's words");
        if words[TAG] & !LEVEL_MASK != MAGIC {
            return Err("it bears no page's tag");
        }
        let view = Self { layout, words };
        if view.level() >= MAX_LEVELS {
            return Err("its level is beyond any tree's");
        }
        // Entries are counted on: none may be beyond the page, and a descent needs one to go on.
        if view.level() > 0 && !(1..=u64::from(layout.inner_slots)).contains(&words[OCCUPANCY]) {
            return Err("its number of entries is impossible");
        }
        Ok(view)
    }

    /// Its geometry.
    pub(crate) fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// Its words.
    pub(crate) fn words(&self) -> &'a [u64] {
        self.words
    }

    /// The sequence word, as it was when the body was read.
    pub fn seq(&self) -> u64 {
        self.words[SEQ]
    }

    /// Whether nobody is in the middle of changing it, as far as the page itself can tell.
    pub fn is_settled(&self) -> bool {
        match self.layout.format {
            PageFormat::Sound => self.seq() & 1 == 0,
            PageFormat::Sherman => sherman::is_settled(self.words),
        }
    }

    /// 0 for leaves.
    pub fn level(&self) -> u8 {
        (self.words[TAG] & LEVEL_MASK) as u8
    }

    /// The least key that the page is responsible for.
    pub fn low(&self) -> u64 {
        self.words[LOW]
    }

    /// The least key beyond the page; none on the right edge of its level.
    pub fn high(&self) -> Option<u64> {
        self.right().map(|_| self.words[HIGH])
    }

    /// The next page of the level.
    pub fn right(&self) -> Option<GlobalAddr> {
        let right = GlobalAddr::from_bits(self.words[RIGHT]);
        (!right.is_null()).then_some(right)
    }

    /// Where `key` is, seen from this page.
    pub fn side(&self, key: u64) -> Side {
        match self.right() {
            _ if key < self.low() => Side::Left,
            Some(right) if key >= self.words[HIGH] => Side::Right(right),
            _ => Side::Here,
        }
    }

    /// The page as a leaf; none when it is above the leaves.
    pub fn leaf(&self) -> Option<Leaf<'a>> {
        (self.level() == 0).then(|| Leaf::new(self.layout, self.words))
    }

    /// The page as an inner page; none when it is a leaf.
    pub fn inner(&self) -> Option<Inner<'a>> {
        (self.level() > 0).then(|| Inner::new(self.words))
    }
}

/// Makes `words` an empty page of `level`, responsible for all keys from `low` on, settled.
pub(crate) fn begin(words: &mut [u64], level: u8, low: u64) {
    words.fill(0);
    words[TAG] = MAGIC | u64::from(level);
    words[LOW] = low;
}

/// Ends the page's responsibility before `high`, from where on `right` has it.
pub(crate) fn set_right(words: &mut [u64], high: u64, right: GlobalAddr) {
    words[HIGH] = high;
    words[RIGHT] = right.to_bits();
}

#[cfg(test)]
mod tests {
    use dmtree_cluster::NodeId;

    use super::*;

    #[test]
    fn sizes_are_bounded_multiples_of_a_line() {
        for bad in [0, 64, 100, 1000, 1025, MAX_PAGE_BYTES + 64, u32::MAX] {
            let message = PageLayout::new(bad).unwrap_err().to_string();
            assert!(
                message.contains("page_bytes") && message.contains(&bad.to_string()),
                "{message}"
            );
        }
        for (bytes, slots, bitmap) in [
            (128, 5, 1),
            (192, 9, 1),
            (1024, 61, 1),
            (1088, 64, 2),
            (4096, 251, 4),
        ] {
            let layout = PageLayout::new(bytes).unwrap();
            assert_eq!(
                (layout.leaf_slots(), layout.bitmap_words()),
                (slots, bitmap),
                "{bytes}"
            );
            assert_eq!(layout.page_bytes(), u64::from(bytes));
        }
    }

    #[test]
    fn fences_reach_both_ends_of_the_keys() {
        let layout = PageLayout::new(128).unwrap();
        let mut words = [0; 16];
        begin(&mut words, 0, 5);
        let side = |words: &[u64], key| PageView::parse(layout, words).unwrap().side(key);
        assert_eq!(
            [4, 5, u64::MAX].map(|key| side(&words, key)),
            [Side::Left, Side::Here, Side::Here]
        );
        let right = GlobalAddr::new(NodeId(1), 128);
        set_right(&mut words, u64::MAX, right);
        assert_eq!(side(&words, u64::MAX - 1), Side::Here);
        assert_eq!(side(&words, u64::MAX), Side::Right(right));
    }

    #[test]
    fn what_is_no_page_is_told_so() {
        let layout = PageLayout::new(128).unwrap();
        let mut words = [0; 16];
        assert!(PageView::parse(layout, &words).is_err());
        begin(&mut words, 1, 0);
        assert!(PageView::parse(layout, &words).is_err(), "no entries");
        words[OCCUPANCY] = 6;
        assert!(PageView::parse(layout, &words).is_err(), "more than fit");
        words[OCCUPANCY] = 5;
        assert!(PageView::parse(layout, &words).is_ok());
        begin(&mut words, MAX_LEVELS, 0);
        assert!(PageView::parse(layout, &words).is_err(), "too high");
    }

    #[test]
    fn only_equal_and_even_samples_vouch() {
        assert!(settled(0, 0) && settled(8, 8));
        assert!(!settled(7, 7) && !settled(6, 8) && !settled(6, 7));
    }
}
