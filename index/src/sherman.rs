//! Leaves in Sherman's format (Wang, Lu, Shu, SIGMOD 2022, section 4.4): [`crate::PageFormat::Sherman`].
//!
//! The words before the entries are those of [`crate::page`]. Of the first word's number the low 4 bits are the
//! page's front version; the last word holds the same number and so the rear version. Whoever writes the whole
//! page (a split) counts it up by one; one WRITE brings both.
//!
//! Entries are 18 bytes, one behind the other, not aligned:
//!
//! | byte | |
//! |---|---|
//! | 0 | front version (4 bits), and whether the slot is occupied (1 bit) |
//! | 1 … 8 | key |
//! | 9 … 16 | value |
//! | 17 | as byte 0: rear version |
//!
//! An insert or update writes one entry, its versions counted up by one, and nothing else: the 3 or 4 words that
//! it lies in, since memory is written by words; the neighbours' bytes in them are written as they are.
//!
//! A reader sends one READ, and reads again when the page's versions differ, or those of the entry that it looks
//! for. (The published code skips such an entry, and says of a key that is only being updated that it is not
//! there.)
//!
//! *This is not sound under the contract*, which lets a READ mix old and new words. The two versions lie in
//! different words than what is between them, and a value lies in two words itself. Of an entry in words a, b, c a
//! reader can have a and c from before an update and b from after it: equal versions, and a value that nobody has
//! written. So it is with pages: old versions at both ends, and in between keys that have moved away. Besides, 4
//! bits come round after 16 changes.

use crate::page::{OCCUPANCY, PageLayout, SEQ};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 18;
/// Words that an entry lies in, at most.
pub(crate) const ENTRY_SPAN: usize = 4;
/// Words of a page behind its entries.
pub(crate) const REAR_WORDS: usize = 1;

const VERSION: u8 = 0xf;
const OCCUPIED: u8 = 0x10;
const KEY: usize = 1;
const VALUE: usize = 9;
const REAR: usize = 17;

/// Whether front and rear versions of a page agree.
pub(crate) fn is_settled(words: &[u64]) -> bool {
    (words[SEQ] ^ words[words.len() - REAR_WORDS]) & u64::from(VERSION) == 0
}

/// Gives a page the version that follows that of the number `seq`.
pub(crate) fn stamp(words: &mut [u64], seq: u64) {
    words[SEQ] = seq + 1;
    words[words.len() - REAR_WORDS] = seq + 1;
}

/// The byte of a page at which the entry in `slot` begins.
const fn start(slot: usize) -> usize {
    OCCUPANCY * 8 + slot * ENTRY_BYTES
}

/// The bytes of the entry in `slot`.
pub(crate) fn entry(words: &[u64], slot: usize) -> &[u8] {
    &bytemuck::cast_slice(words)[start(slot)..][..ENTRY_BYTES]
}

fn number(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(number)
}

/// Whether an entry holds a key.
pub(crate) fn is_occupied(entry: &[u8]) -> bool {
    entry[0] & OCCUPIED != 0
}

/// Whether an entry's versions agree.
pub(crate) fn is_whole(entry: &[u8]) -> bool {
    entry[0] == entry[REAR]
}

pub(crate) fn key(entry: &[u8]) -> u64 {
    number(&entry[KEY..])
}

pub(crate) fn value(entry: &[u8]) -> u64 {
    number(&entry[VALUE..])
}

/// Writes the entry in `slot`, its version counted up by one.
pub(crate) fn put(words: &mut [u64], slot: usize, key: u64, value: u64) {
    put_in(words, 0, slot, key, value);
}

/// As [`put`], into the words of a page from word `first` on.
pub(crate) fn put_in(words: &mut [u64], first: usize, slot: usize, key: u64, value: u64) {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
    let entry = &mut bytes[start(slot) - first * 8..][..ENTRY_BYTES];
    let version = (entry[0] + 1) & VERSION | OCCUPIED;
    (entry[0], entry[REAR]) = (version, version);
    entry[KEY..VALUE].copy_from_slice(&key.to_le_bytes());
    entry[VALUE..REAR].copy_from_slice(&value.to_le_bytes());
}

/// The first one of `slots` slots that holds `key`.
pub(crate) fn find(words: &[u64], slots: usize, wanted: u64) -> Option<usize> {
    (0..slots).find(|slot| {
        let entry = entry(words, *slot);
        is_occupied(entry) && key(entry) == wanted
    })
}

/// The words that the entry in `slot` lies in.
pub(crate) const fn span(slot: usize) -> std::ops::Range<usize> {
    start(slot) / 8..(start(slot) + ENTRY_BYTES).div_ceil(8)
}

/// Slots of a leaf of `words` words.
pub(crate) const fn slots(words: usize) -> usize {
    (words - OCCUPANCY - REAR_WORDS) * 8 / ENTRY_BYTES
}

const _: () = assert!(
    slots(PageLayout::DEFAULT_WORDS) == 54,
    "the paper's 50-odd entries a leaf"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_lie_side_by_side_and_leave_their_neighbours_alone() {
        let mut words = [0; 128];
        for slot in 0..slots(128) {
            assert!(!is_occupied(entry(&words, slot)));
            put(&mut words, slot, slot as u64 * 3, !(slot as u64));
        }
        put(&mut words, 7, u64::MAX, 0);
        for slot in 0..slots(128) {
            let (key_there, value_there) = match slot {
                7 => (u64::MAX, 0),
                _ => (slot as u64 * 3, !(slot as u64)),
            };
            let entry = entry(&words, slot);
            assert!(is_occupied(entry) && is_whole(entry));
            assert_eq!((key(entry), value(entry)), (key_there, value_there));
            assert!((3..=ENTRY_SPAN).contains(&span(slot).len()) && span(slot).end <= 127);
        }
        assert!(words[..OCCUPANCY].iter().all(|word| *word == 0) && words[127] == 0);
    }

    #[test]
    fn versions_are_of_four_bits_and_come_round() {
        let mut words = [0; 16];
        for change in 1..40 {
            let before = words;
            put(&mut words, 1, 5, change);
            let mut half = before;
            half[span(1).start] = words[span(1).start];
            assert!(is_whole(entry(&words, 1)) && !is_whole(entry(&half, 1)));
            stamp(&mut words, change);
            assert!(is_settled(&words));
            words[15] = change + 17;
            assert!(is_settled(&words), "sixteen changes later");
            words[15] = change;
            assert!(!is_settled(&words));
        }
    }

    /// The hole: old words at both ends of an entry, a new one between them.
    #[test]
    fn old_versions_at_both_ends_vouch_for_a_value_that_was_never_written() {
        let mut old = [0; 16];
        put(&mut old, 0, 1, 0x1111_1111_1111_1111);
        let mut new = old;
        put(&mut new, 0, 1, 0x2222_2222_2222_2222);
        let mut read = old;
        read[span(0).start + 1] = new[span(0).start + 1];
        assert!(is_whole(entry(&read, 0)) && is_settled(&read));
        assert_eq!(value(entry(&read, 0)), 0x1122_2222_2222_2222);
    }
}
