//! Accesses that take time, and what becomes of them where they overlap.
//!
//! A verb or CPU access of more than a word is an interval: each of its words is read or written at an instant
//! of its own. Nothing happens at those instants unless two accesses overlap; an access that takes time is
//! *pending* here, and whoever touches the same words meanwhile resolves what has to be resolved:
//!
//! * a pending READ, before a word changes that it has read already, takes the old word (*capture*); at its end
//!   it copies the rest;
//! * a pending WRITE, before somebody looks at a word that it has written already, is carried out up to then
//!   (*settling*); at its end it writes the rest.
//!
//! A pending WRITE has two times: from `nic_at` on, verbs see all of it (they push posted writes to memory
//! before them); the host's CPU sees each word when it is placed, possibly later. Pushed or not, WRITEs of one
//! queue pair are placed in order.

use std::ops::Range;

use super::memory::{Instants, Reader, Space};
use super::queue::Time;

/// In which order a long READ or CPU copy reads its words. A READ "may mix old and new words" in any way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordOrder {
    Ascending,
    Descending,
    /// By a hash of the word's number and this seed.
    Scattered(u64),
}

/// When each word of an access is read or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub begin: Time,
    /// From the first to the last word.
    pub span: Time,
    pub order: WordOrder,
}

impl Interval {
    pub(crate) fn end(&self) -> Time {
        self.begin + self.span
    }

    /// When word `word` of `words` is accessed.
    fn at(&self, word: usize, words: usize) -> Time {
        if words <= 1 {
            return self.begin;
        }
        let last = words as u64 - 1;
        let step = match self.order {
            WordOrder::Ascending => word as u64,
            WordOrder::Descending => last - word as u64,
            WordOrder::Scattered(seed) => {
                (seed ^ word as u64)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(17)
                    % words as u64
            }
        };
        self.begin + self.span * step / last
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    Read {
        /// Who reads.
        reader: Reader,
    },
    Write {
        /// Verbs see all of it from here on; `Time::MAX` for a CPU's copy.
        nic_at: Time,
        /// Whose order it is in.
        qp: u32,
        /// Words placed so far.
        placed: usize,
    },
}

/// An access that is pending, or memory that waits for the next one: it is kept where it is, buffers and all.
#[derive(Debug)]
pub(super) struct Pending {
    /// Bytes.
    start: usize,
    len: usize,
    interval: Interval,
    access: Access,
    /// Order of registration.
    sequence: u64,
    /// Where `Space::live` has it.
    place: usize,
    /// A WRITE's payload; what a READ has captured.
    data: Vec<u8>,
    /// Words that a READ has taken before they changed: a bit each; empty without any.
    captured: Vec<u64>,
}

impl Pending {
    pub(super) fn first_word(&self) -> usize {
        self.start / 8
    }

    pub(super) fn words(&self) -> usize {
        (self.start + self.len).div_ceil(8) - self.first_word()
    }

    pub(super) fn overlaps(&self, start: usize, len: usize) -> bool {
        self.start < start + len && start < self.start + self.len
    }

    /// The bytes of word `word` (counted from the access's first), as (offset in memory, offset in data, length):
    /// the first and the last word may be partial.
    pub(super) fn piece(&self, word: usize) -> (usize, usize, usize) {
        let from = ((self.first_word() + word) * 8).max(self.start);
        let to = ((self.first_word() + word + 1) * 8).min(self.start + self.len);
        (from, from - self.start, to - from)
    }
}

/// Buckets that pending accesses are counted in, by 1 KB block: a power of two a few times the number of
/// accesses that are in flight at a node, so that an empty bucket is the rule.
pub(super) const BUCKETS: usize = 4096;
/// Bytes a bucket's block has.
const BLOCK_BYTES: usize = 1024;

/// The bucket of an aligned word.
#[inline]
pub(super) const fn bucket(start: usize) -> usize {
    start / BLOCK_BYTES % BUCKETS
}

/// The blocks of these bytes.
#[inline]
fn blocks(start: usize, len: usize) -> Range<usize> {
    start / BLOCK_BYTES..(start + len - 1) / BLOCK_BYTES + 1
}

/// Accesses that are pending in a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) reads: u16,
    pub(super) writes: u16,
}

impl Space {
    /// Whether an access of these bytes may overlap a pending one that `which` counts.
    #[inline]
    pub(super) fn crowded(&self, start: usize, len: usize, which: impl Fn(&Counts) -> u16) -> bool {
        blocks(start, len).any(|block| which(&self.counts[block % BUCKETS]) > 0)
    }

    /// Counts an access of these bytes in, or out.
    #[inline]
    fn count(&mut self, start: usize, len: usize, access: &Access, change: i16) {
        let reads = matches!(access, Access::Read { .. });
        for block in blocks(start, len) {
            let counts = &mut self.counts[block % BUCKETS];
            let count = if reads {
                &mut counts.reads
            } else {
                &mut counts.writes
            };
            *count = count.strict_add_signed(change);
        }
    }

    fn insert(&mut self, start: usize, len: usize, interval: Interval, access: Access) -> u32 {
        self.count(start, len, &access, 1);
        self.sequence += 1;
        let place = self.live.len();
        let id = self.free.pop().unwrap_or(self.pending.len() as u32);
        if let Some(free) = self.pending.get_mut(id as usize) {
            (free.start, free.len) = (start, len);
            free.interval = interval;
            free.access = access;
            (free.sequence, free.place) = (self.sequence, place);
            free.data.clear();
            free.captured.clear();
        } else {
            self.pending.push(Pending {
                start,
                len,
                interval,
                access,
                sequence: self.sequence,
                place,
                data: Vec::new(),
                captured: Vec::new(),
            });
        }
        self.live.push(id);
        id
    }

    /// Takes an access out. What it held may still be read before the next one comes.
    fn remove(&mut self, id: u32) {
        let Pending {
            start,
            len,
            access,
            place,
            ..
        } = self.pending[id as usize];
        debug_assert_eq!(self.live[place], id, "pending until it is removed");
        self.count(start, len, &access, -1);
        self.live.swap_remove(place);
        if let Some(moved) = self.live.get(place) {
            self.pending[*moved as usize].place = place;
        }
        self.free.push(id);
    }

    /// Begins an access that reads; [`Space::end_read`] ends it.
    pub(crate) fn begin_read(
        &mut self,
        start: usize,
        len: usize,
        interval: Interval,
        reader: Reader,
    ) -> u32 {
        self.insert(start, len, interval, Access::Read { reader })
    }

    /// Ends an access that reads, at its interval's end: fills `out`.
    pub(crate) fn end_read(&mut self, id: u32, out: &mut [u8]) {
        let read = &self.pending[id as usize];
        let (start, len, end) = (read.start, read.len, read.interval.end());
        let Access::Read { reader } = read.access else {
            unreachable!("a read")
        };
        self.settle(start, len, end, reader);
        self.remove(id);
        out.copy_from_slice(&self.memory[start..start + len]);
        let read = &self.pending[id as usize];
        for (index, mut bits) in read.captured.iter().copied().enumerate() {
            while bits != 0 {
                let (_, at, len) = read.piece(index * 64 + bits.trailing_zeros() as usize);
                out[at..at + len].copy_from_slice(&read.data[at..at + len]);
                bits &= bits - 1;
            }
        }
    }

    /// Takes back an access that reads, before its end.
    pub(crate) fn cancel_read(&mut self, id: u32) {
        self.remove(id);
    }

    /// Begins an access that writes; [`Space::end_write`] ends it. The interval is that of its placement, which
    /// starts no earlier than that of WRITEs to the same bytes that verbs already see (coherence), whatever the
    /// caller asked for; the actual end is returned with the access.
    pub(crate) fn begin_write(
        &mut self,
        start: usize,
        payload: &[u8],
        mut interval: Interval,
        nic_at: Time,
        qp: u32,
    ) -> (u32, Time) {
        if self.crowded(start, payload.len(), |counts| counts.writes) {
            for id in &self.live {
                let other = &self.pending[*id as usize];
                if let Access::Write {
                    nic_at: seen_at, ..
                } = other.access
                    && seen_at <= nic_at
                    && nic_at != Time::MAX
                    && other.overlaps(start, payload.len())
                {
                    interval.begin = interval.begin.max(other.interval.end());
                }
            }
        }
        let access = Access::Write {
            nic_at,
            qp,
            placed: 0,
        };
        let id = self.insert(start, payload.len(), interval, access);
        self.pending[id as usize].data.extend_from_slice(payload);
        (id, interval.end())
    }

    /// Ends an access that writes: places what is left of it, at `now`.
    pub(crate) fn end_write(&mut self, id: u32, now: Time) {
        self.place_rest(id, now);
        self.remove(id);
    }

    /// Places all words of pending write `id` that are not placed yet.
    pub(super) fn place_rest(&mut self, id: u32, now: Time) {
        let words = self.pending[id as usize].words();
        loop {
            let write = &self.pending[id as usize];
            let Access::Write { placed, .. } = write.access else {
                unreachable!("only writes are placed")
            };
            if placed >= words {
                return;
            }
            let at = write.interval.at(placed, words).min(now);
            self.place_next(id, at);
        }
    }

    /// Places the next word of pending write `id`, at the instant `at`.
    pub(super) fn place_next(&mut self, id: u32, at: Time) {
        let write = &mut self.pending[id as usize];
        let Access::Write { placed, nic_at, .. } = &mut write.access else {
            unreachable!("only writes are placed")
        };
        let word = *placed;
        *placed += 1;
        // Verbs have seen it since it was acknowledged, whenever it is placed.
        let at = Instants {
            cpu: at,
            nic: at.min(*nic_at),
        };
        let by_nic = *nic_at != Time::MAX;
        let (to, from, len) = write.piece(word);
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&write.data[from..from + len]);
        self.put(to, &bytes[..len], at, by_nic);
    }

    /// Carries out, up to `now`, what pending writes have done to these bytes as `reader` sees it.
    #[inline]
    pub(super) fn settle(&mut self, start: usize, len: usize, now: Time, reader: Reader) {
        if self.crowded(start, len, |counts| counts.writes) {
            self.settle_overlapping(start, len, now, reader);
        }
    }

    #[inline(never)]
    fn settle_overlapping(&mut self, start: usize, len: usize, now: Time, reader: Reader) {
        if let Reader::Nic = reader {
            // A verb pushes the posted writes that it overlaps and that were acknowledged before, and with them
            // every earlier one of the same queue pair: WRITEs of one queue pair never change places.
            self.push(now, |write, _| write.overlaps(start, len));
        }
        // Word by word in the order of their instants, over all writes that overlap.
        loop {
            let mut next: Option<(Time, u64, u32)> = None;
            for id in &self.live {
                let write = &self.pending[*id as usize];
                if let Access::Write { placed, .. } = write.access
                    && write.overlaps(start, len)
                    && placed < write.words()
                {
                    let key = (
                        write.interval.at(placed, write.words()),
                        write.sequence,
                        *id,
                    );
                    if key.0 <= now && next.is_none_or(|least| key < least) {
                        next = Some(key);
                    }
                }
            }
            let Some((at, _, id)) = next else { return };
            self.place_next(id, at);
        }
    }

    /// Pushes every pending WRITE of queue pair `qp` that verbs already see: a READ or atomic of that queue
    /// pair takes effect after them, for everybody.
    pub(crate) fn push_queue_pair(&mut self, qp: u32, now: Time) {
        self.push(now, |_, of| of == qp);
    }

    /// Pushes every pending WRITE that verbs already see.
    pub(crate) fn push_all(&mut self, now: Time) {
        self.push(now, |_, _| true);
    }

    /// Pushes the pending WRITEs that verbs already see and `which` picks by access and queue pair, and before
    /// each what has to be placed before it: earlier ones of the same queue pair, and earlier ones to the same
    /// bytes, whoever sent them (else they would land on it later).
    fn push(&mut self, now: Time, which: impl Fn(&Pending, u32) -> bool) {
        let mut pushed: Vec<(u64, u32)> = Vec::new();
        for id in &self.live {
            let write = &self.pending[*id as usize];
            if let Access::Write { nic_at, qp, .. } = write.access
                && nic_at <= now
                && which(write, qp)
            {
                pushed.push((write.sequence, *id));
            }
        }
        let mut done = 0;
        while let Some((_, id)) = pushed.get(done).copied() {
            done += 1;
            let write = &self.pending[id as usize];
            let Access::Write { nic_at, qp, .. } = write.access else {
                continue;
            };
            for other in &self.live {
                let earlier = &self.pending[*other as usize];
                if let Access::Write {
                    nic_at: seen_at,
                    qp: of,
                    ..
                } = earlier.access
                    && seen_at <= nic_at
                    && earlier.sequence < write.sequence
                    && (of == qp || earlier.overlaps(write.start, write.len))
                    && !pushed.contains(&(earlier.sequence, *other))
                {
                    pushed.push((earlier.sequence, *other));
                }
            }
        }
        pushed.sort_unstable();
        for (_, id) in pushed {
            self.place_rest(id, now);
        }
    }

    /// Has pending READs take the words of these bytes that they have read before the instant `at`.
    pub(super) fn capture(&mut self, start: usize, len: usize, at: Instants) {
        for id in &self.live {
            let read = &mut self.pending[*id as usize];
            if !read.overlaps(start, len) {
                continue;
            }
            let changed_at = match read.access {
                Access::Read {
                    reader: Reader::Cpu,
                } => at.cpu,
                Access::Read {
                    reader: Reader::Nic,
                } => at.nic,
                Access::Write { .. } => continue,
            };
            let words = read.words();
            let first = (start / 8).max(read.first_word()) - read.first_word();
            let last = ((start + len - 1) / 8 - read.first_word()).min(words - 1);
            for word in first..=last {
                // A word read at the very instant of the change is read after it: a READ behind a WRITE or an
                // atomic of its queue pair may begin at the instant at which that takes effect.
                if read.interval.at(word, words) >= changed_at {
                    continue;
                }
                let (from, to, piece) = read.piece(word);
                let captured = &mut read.captured;
                if captured.is_empty() {
                    captured.resize(words.div_ceil(64), 0);
                    read.data.resize(read.len, 0);
                }
                if captured[word / 64] >> (word % 64) & 1 == 0 {
                    captured[word / 64] |= 1 << (word % 64);
                    read.data[to..to + piece].copy_from_slice(&self.memory[from..from + piece]);
                }
            }
        }
    }
}
