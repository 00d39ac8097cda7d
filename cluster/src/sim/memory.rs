//! Memory of a simulated node, and accesses that take time.
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

use memmap2::MmapMut;

use super::queue::Time;
use crate::LINE_BYTES;

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

#[derive(Debug)]
enum Access {
    Read {
        /// Who reads.
        reader: Reader,
        /// Words taken before they changed: a bit each.
        captured: Vec<u64>,
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

#[derive(Debug)]
struct Pending {
    /// Bytes.
    start: usize,
    len: usize,
    interval: Interval,
    access: Access,
    /// A WRITE's payload; what a READ has captured.
    data: Vec<u8>,
    /// Order of registration.
    sequence: u64,
    /// Where `Space::live` has it.
    place: usize,
}

impl Pending {
    fn first_word(&self) -> usize {
        self.start / 8
    }

    fn words(&self) -> usize {
        (self.start + self.len).div_ceil(8) - self.first_word()
    }

    fn overlaps(&self, start: usize, len: usize) -> bool {
        self.start < start + len && start < self.start + self.len
    }

    /// The bytes of word `word` (counted from the access's first), as (offset in memory, offset in data, length):
    /// the first and the last word may be partial.
    fn piece(&self, word: usize) -> (usize, usize, usize) {
        let from = ((self.first_word() + word) * 8).max(self.start);
        let to = ((self.first_word() + word + 1) * 8).min(self.start + self.len);
        (from, from - self.start, to - from)
    }
}

/// A client that waits for a line to change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    line: usize,
    pub client: u32,
}

/// Buckets that pending accesses are counted in, by 1 KB block: a power of two a few times the number of
/// accesses that are in flight at a node, so that an empty bucket is the rule.
const BUCKETS: usize = 4096;
/// Bytes a bucket's block has.
const BLOCK_BYTES: usize = 1024;
/// Buckets that watched lines are counted in.
const WATCH_BUCKETS: usize = 1024;

/// Who has a line in its cache.
mod owner {
    /// No core, as far as is known.
    pub(super) const NONE: u8 = 0;
    /// More than one core; an exclusive owner is its core's number plus 1.
    pub(super) const SHARED: u8 = u8::MAX;
}

/// One memory, host or device, of one node.
#[derive(Debug)]
pub(crate) struct Space {
    memory: MmapMut,
    len: usize,
    /// Pending READs and WRITEs by block.
    read_counts: Vec<u16>,
    write_counts: Vec<u16>,
    pending: Vec<Option<Pending>>,
    /// Numbers of pending accesses.
    live: Vec<u32>,
    free: Vec<u32>,
    sequence: u64,
    /// Spare buffers of finished accesses.
    buffers: Vec<Vec<u8>>,
    watch_counts: Vec<u16>,
    watchers: Vec<Watcher>,
    /// Clients whose line has changed since they were last taken.
    woken: Vec<u32>,
    /// Owners of lines; empty for device memory.
    owners: Vec<u8>,
}

/// What a CPU access finds of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineState {
    /// In the core's own cache.
    Hit,
    /// In another core's.
    Elsewhere,
    /// In no core's.
    Memory,
}

impl Space {
    /// `len` bytes of zeros. `lines` says whether CPUs access it.
    pub(crate) fn new(len: usize, lines: bool) -> std::io::Result<Self> {
        let memory = MmapMut::map_anon(len.max(LINE_BYTES))?;
        #[cfg(target_os = "linux")]
        if len >= 2 << 20 {
            // A tree of gigabytes is accessed at random: without huge pages each access misses the TLB. Refusal
            // costs speed only.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        Ok(Self {
            memory,
            len,
            read_counts: vec![0; BUCKETS],
            write_counts: vec![0; BUCKETS],
            pending: Vec::new(),
            live: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            buffers: Vec::new(),
            watch_counts: vec![0; WATCH_BUCKETS],
            watchers: Vec::new(),
            woken: Vec::new(),
            owners: if lines {
                vec![owner::NONE; len.div_ceil(LINE_BYTES)]
            } else {
                Vec::new()
            },
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The whole memory as words, for set-up and inspection outside of virtual time.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        let len = self.len;
        bytemuck::cast_slice_mut(&mut self.memory[..len])
    }

    /// The word at `start`, as it is in memory now.
    #[inline]
    pub(crate) fn word(&self, start: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.memory[start..start + 8]);
        u64::from_ne_bytes(bytes)
    }

    /// Hints that these bytes are needed soon; it has no effect but on the simulator's own speed.
    #[inline]
    pub(crate) fn prefetch(&self, start: usize, len: usize) {
        super::prefetch::lines(&self.memory[start..start + len]);
    }

    // --- pending accesses -------------------------------------------------------------------------------------

    fn blocks(start: usize, len: usize) -> impl Iterator<Item = usize> {
        (start / BLOCK_BYTES..=(start + len - 1) / BLOCK_BYTES).map(|block| block % BUCKETS)
    }

    /// Whether an access of these bytes may overlap an access that is counted in `counts`.
    #[inline]
    fn crowded(counts: &[u16], start: usize, len: usize) -> bool {
        Self::blocks(start, len).any(|bucket| counts[bucket] > 0)
    }

    fn counts_mut(&mut self, access: &Access) -> &mut [u16] {
        match access {
            Access::Read { .. } => &mut self.read_counts,
            Access::Write { .. } => &mut self.write_counts,
        }
    }

    fn insert(
        &mut self,
        start: usize,
        len: usize,
        interval: Interval,
        access: Access,
        data: Vec<u8>,
    ) -> u32 {
        let counts = self.counts_mut(&access);
        for bucket in Self::blocks(start, len) {
            counts[bucket] += 1;
        }
        self.sequence += 1;
        let place = self.live.len();
        let pending = Pending {
            start,
            len,
            interval,
            access,
            data,
            sequence: self.sequence,
            place,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() as u32 - 1
        });
        self.pending[id as usize] = Some(pending);
        self.live.push(id);
        id
    }

    fn remove(&mut self, id: u32) -> Pending {
        let pending = self.pending[id as usize]
            .take()
            .expect("pending until it is removed");
        let counts = self.counts_mut(&pending.access);
        for bucket in Self::blocks(pending.start, pending.len) {
            counts[bucket] -= 1;
        }
        self.live.swap_remove(pending.place);
        if let Some(moved) = self.live.get(pending.place) {
            self.pending[*moved as usize].as_mut().expect("live").place = pending.place;
        }
        self.free.push(id);
        pending
    }

    fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Begins an access that reads; [`Space::end_read`] ends it.
    pub(crate) fn begin_read(
        &mut self,
        start: usize,
        len: usize,
        interval: Interval,
        reader: Reader,
    ) -> u32 {
        let data = self.buffer();
        self.insert(
            start,
            len,
            interval,
            Access::Read {
                reader,
                captured: Vec::new(),
            },
            data,
        )
    }

    /// Ends an access that reads, at its interval's end: fills `out`.
    pub(crate) fn end_read(&mut self, id: u32, out: &mut [u8]) {
        let read = self.pending[id as usize].as_ref().expect("begun");
        let (start, len, end) = (read.start, read.len, read.interval.end());
        let Access::Read { reader, .. } = read.access else {
            unreachable!("a read")
        };
        self.settle(start, len, end, reader);
        let read = self.remove(id);
        out.copy_from_slice(&self.memory[start..start + len]);
        if let Access::Read { captured, .. } = &read.access {
            for (index, mut bits) in captured.iter().copied().enumerate() {
                while bits != 0 {
                    let (_, at, len) = read.piece(index * 64 + bits.trailing_zeros() as usize);
                    out[at..at + len].copy_from_slice(&read.data[at..at + len]);
                    bits &= bits - 1;
                }
            }
        }
        self.buffers.push(read.data);
    }

    /// Takes back an access that reads, before its end.
    pub(crate) fn cancel_read(&mut self, id: u32) {
        let read = self.remove(id);
        self.buffers.push(read.data);
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
        if Self::crowded(&self.write_counts, start, payload.len()) {
            for id in &self.live {
                let other = self.pending[*id as usize].as_ref().expect("live");
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
        let mut data = self.buffer();
        data.extend_from_slice(payload);
        let end = interval.end();
        (
            self.insert(
                start,
                payload.len(),
                interval,
                Access::Write {
                    nic_at,
                    qp,
                    placed: 0,
                },
                data,
            ),
            end,
        )
    }

    /// Ends an access that writes: places what is left of it, at `now`.
    pub(crate) fn end_write(&mut self, id: u32, now: Time) {
        self.place_rest(id, now);
        let write = self.remove(id);
        self.buffers.push(write.data);
    }

    /// Places all words of pending write `id` that are not placed yet.
    fn place_rest(&mut self, id: u32, now: Time) {
        let words = self.pending[id as usize].as_ref().expect("live").words();
        loop {
            let write = self.pending[id as usize].as_ref().expect("live");
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
    fn place_next(&mut self, id: u32, at: Time) {
        let write = self.pending[id as usize].as_mut().expect("live");
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
    fn settle(&mut self, start: usize, len: usize, now: Time, reader: Reader) {
        if !Self::crowded(&self.write_counts, start, len) {
            return;
        }
        if let Reader::Nic = reader {
            // A verb pushes the posted writes that it overlaps and that were acknowledged before, and with them
            // every earlier one of the same queue pair: WRITEs of one queue pair never change places.
            let mut pushed: Vec<(u64, u32)> = Vec::new();
            for id in &self.live {
                let write = self.pending[*id as usize].as_ref().expect("live");
                if let Access::Write { nic_at, qp, .. } = write.access
                    && nic_at <= now
                    && write.overlaps(start, len)
                {
                    let last = write.sequence;
                    for other in &self.live {
                        let earlier = self.pending[*other as usize].as_ref().expect("live");
                        if let Access::Write {
                            nic_at, qp: same, ..
                        } = earlier.access
                            && same == qp
                            && nic_at <= now
                            && earlier.sequence <= last
                            && !pushed.contains(&(earlier.sequence, *other))
                        {
                            pushed.push((earlier.sequence, *other));
                        }
                    }
                }
            }
            pushed.sort_unstable();
            for (_, id) in pushed {
                self.place_rest(id, now);
            }
        }
        // Word by word in the order of their instants, over all writes that overlap.
        loop {
            let mut next: Option<(Time, u64, u32)> = None;
            for id in &self.live {
                let write = self.pending[*id as usize].as_ref().expect("live");
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
        let mut pushed: Vec<(u64, u32)> = Vec::new();
        for id in &self.live {
            let write = self.pending[*id as usize].as_ref().expect("live");
            if let Access::Write {
                nic_at, qp: same, ..
            } = write.access
                && same == qp
                && nic_at <= now
            {
                pushed.push((write.sequence, *id));
            }
        }
        pushed.sort_unstable();
        for (_, id) in pushed {
            self.place_rest(id, now);
        }
    }

    // --- instants ---------------------------------------------------------------------------------------------

    /// Changes these bytes at the instant `at`, after pending READs that had read them took the old ones.
    fn put(&mut self, start: usize, bytes: &[u8], at: Instants, by_nic: bool) {
        if Self::crowded(&self.read_counts, start, bytes.len()) {
            self.capture(start, bytes.len(), at);
        }
        self.memory[start..start + bytes.len()].copy_from_slice(bytes);
        let first = start / LINE_BYTES;
        let last = (start + bytes.len() - 1) / LINE_BYTES;
        for line in first..=last {
            if by_nic && let Some(owner) = self.owners.get_mut(line) {
                *owner = owner::NONE;
            }
            if self.watch_counts[line % WATCH_BUCKETS] > 0 {
                self.wake(line);
            }
        }
    }

    fn capture(&mut self, start: usize, len: usize, at: Instants) {
        for id in &self.live {
            let read = self.pending[*id as usize].as_mut().expect("live");
            if !read.overlaps(start, len) {
                continue;
            }
            let changed_at = match read.access {
                Access::Read {
                    reader: Reader::Cpu,
                    ..
                } => at.cpu,
                Access::Read {
                    reader: Reader::Nic,
                    ..
                } => at.nic,
                Access::Write { .. } => continue,
            };
            let words = read.words();
            let first = (start / 8).max(read.first_word()) - read.first_word();
            let last = ((start + len - 1) / 8 - read.first_word()).min(words - 1);
            for word in first..=last {
                if read.interval.at(word, words) > changed_at {
                    continue;
                }
                let (from, to, piece) = read.piece(word);
                let Access::Read { captured, .. } = &mut read.access else {
                    break;
                };
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

    /// Reads the word at `start` at the instant `now`.
    #[inline]
    pub(crate) fn load(&mut self, start: usize, now: Time, reader: Reader) -> u64 {
        self.settle(start, 8, now, reader);
        self.word(start)
    }

    /// Copies bytes at the instant `now`.
    #[inline]
    pub(crate) fn copy(&mut self, start: usize, out: &mut [u8], now: Time, reader: Reader) {
        self.settle(start, out.len(), now, reader);
        out.copy_from_slice(&self.memory[start..start + out.len()]);
    }

    /// Writes bytes at the instant `now`.
    #[inline]
    pub(crate) fn store(&mut self, start: usize, bytes: &[u8], now: Time, writer: Reader) {
        self.settle(start, bytes.len(), now, writer);
        self.put(
            start,
            bytes,
            Instants { cpu: now, nic: now },
            writer == Reader::Nic,
        );
    }

    // --- waiting ----------------------------------------------------------------------------------------------

    /// Has `client` woken at the next change of the line at `start`.
    pub(crate) fn watch(&mut self, start: usize, client: u32) {
        let line = start / LINE_BYTES;
        self.watch_counts[line % WATCH_BUCKETS] += 1;
        self.watchers.push(Watcher { line, client });
    }

    /// Takes a client's watch back, if it is still there.
    pub(crate) fn unwatch(&mut self, client: u32) {
        if let Some(place) = self
            .watchers
            .iter()
            .position(|watcher| watcher.client == client)
        {
            let watcher = self.watchers.remove(place);
            self.watch_counts[watcher.line % WATCH_BUCKETS] -= 1;
        }
    }

    fn wake(&mut self, line: usize) {
        let counts = &mut self.watch_counts;
        let woken = &mut self.woken;
        self.watchers.retain(|watcher| {
            let stays = watcher.line != line;
            if !stays {
                counts[line % WATCH_BUCKETS] -= 1;
                woken.push(watcher.client);
            }
            stays
        });
    }

    /// The next client whose watched line has changed.
    #[inline]
    pub(crate) fn take_woken(&mut self) -> Option<u32> {
        // First watched, first woken.
        if self.woken.is_empty() {
            None
        } else {
            Some(self.woken.remove(0))
        }
    }

    // --- CPU caches -------------------------------------------------------------------------------------------

    /// What core `core` of the node finds when it accesses the line at `start`, and from then on.
    pub(crate) fn touch(&mut self, start: usize, core: u8, writes: bool) -> LineState {
        let owner = &mut self.owners[start / LINE_BYTES];
        let me = core + 1;
        let state = match *owner {
            own if own == me => LineState::Hit,
            owner::NONE => LineState::Memory,
            owner::SHARED if !writes => LineState::Hit,
            _ => LineState::Elsewhere,
        };
        *owner = match state {
            LineState::Elsewhere if !writes => owner::SHARED,
            LineState::Hit if !writes => *owner,
            _ => me,
        };
        state
    }
}

/// When a change happens, as CPU and verbs see it.
#[derive(Clone, Copy, Debug)]
struct Instants {
    cpu: Time,
    nic: Time,
}

/// Who looks at memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// The host's CPU: sees placed words only.
    Cpu,
    /// A verb: sees all that was acknowledged before.
    Nic,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIC: Reader = Reader::Nic;

    fn space() -> Space {
        Space::new(8192, true).expect("memory")
    }

    fn ascending(begin: Time, span: Time) -> Interval {
        Interval {
            begin,
            span,
            order: WordOrder::Ascending,
        }
    }

    #[test]
    fn a_long_read_mixes_old_and_new_words_by_their_instants() {
        for (order, expected) in [
            (WordOrder::Ascending, [0, 0, 7, 7]),
            (WordOrder::Descending, [7, 7, 0, 0]),
        ] {
            let mut space = space();
            let read = space.begin_read(
                64,
                32,
                Interval {
                    begin: 100,
                    span: 300,
                    order,
                },
                NIC,
            );
            // Words are read at 100, 200, 300, 400; everything changes at 250.
            space.store(64, bytemuck::cast_slice(&[7u64; 4]), 250, Reader::Cpu);
            // A second change must not replace what was captured.
            space.store(64, bytemuck::cast_slice(&[7u64; 4]), 260, Reader::Cpu);
            let mut out = [9u64; 4];
            space.end_read(read, bytemuck::cast_slice_mut(&mut out));
            assert_eq!(out, expected, "{order:?}");
        }
    }

    #[test]
    fn a_long_write_lands_word_by_word() {
        let mut space = space();
        let (write, end) = space.begin_write(
            64,
            bytemuck::cast_slice(&[7u64; 4]),
            ascending(100, 300),
            400,
            0,
        );
        assert_eq!(end, 400);
        let mut out = [9u64; 4];
        space.copy(64, bytemuck::cast_slice_mut(&mut out), 250, Reader::Cpu);
        assert_eq!(out, [7, 7, 0, 0]);
        space.end_write(write, 400);
        space.copy(64, bytemuck::cast_slice_mut(&mut out), 400, Reader::Cpu);
        assert_eq!(out, [7; 4]);
        assert!(space.live.is_empty() && space.write_counts.iter().all(|count| *count == 0));
    }

    #[test]
    fn unaligned_pieces_stay_in_their_bytes() {
        let mut space = space();
        space.store(64, &[1; 32], 0, Reader::Cpu);
        let (write, _) = space.begin_write(69, &[2; 18], ascending(10, 20), 30, 0);
        space.end_write(write, 30);
        let mut out = [0; 32];
        space.copy(64, &mut out, 40, Reader::Cpu);
        let mut expected = [1; 32];
        expected[5..23].fill(2);
        assert_eq!(out, expected);
        let read = space.begin_read(67, 7, ascending(50, 10), Reader::Cpu);
        space.store(64, &[3; 8], 55, Reader::Cpu);
        let mut out = [0; 7];
        space.end_read(read, &mut out);
        assert_eq!(out, [1, 1, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn verbs_push_acknowledged_writes_and_cpus_see_them_later() {
        let mut space = space();
        // Acknowledged at 100, visible to the CPU from 1000 on; the second is behind the first.
        let (first, end) = space.begin_write(64, &7u64.to_ne_bytes(), ascending(1000, 0), 100, 5);
        let (second, _) = space.begin_write(4096, &8u64.to_ne_bytes(), ascending(1100, 0), 150, 5);
        assert_eq!(end, 1000);
        assert_eq!(space.load(64, 200, Reader::Cpu), 0);
        // A verb that looks at the second pushes the first too.
        assert_eq!(space.load(4096, 200, NIC), 8);
        assert_eq!(space.load(64, 200, Reader::Cpu), 7);
        space.end_write(first, 1000);
        space.end_write(second, 1100);
        assert_eq!((space.word(64), space.word(4096)), (7, 8));
    }

    #[test]
    fn a_read_sees_what_was_acknowledged_before_it_began() {
        let mut space = space();
        let payload = [7u64, 8];
        let (write, end) = space.begin_write(
            64,
            bytemuck::cast_slice(&payload),
            ascending(1000, 50),
            100,
            5,
        );
        let read = space.begin_read(64, 16, ascending(150, 50), NIC);
        let late = space.begin_read(64, 16, ascending(150, 50), Reader::Cpu);
        let mut out = [0u64; 2];
        space.end_read(read, bytemuck::cast_slice_mut(&mut out));
        assert_eq!(out, payload);
        // The CPU, which looked before that READ pushed the write, has seen nothing of it.
        space.end_read(late, bytemuck::cast_slice_mut(&mut out));
        assert_eq!(out[0], 0);
        space.end_write(write, end);
    }

    #[test]
    fn a_later_write_of_another_queue_pair_stays_the_last() {
        let mut space = space();
        let (first, _) = space.begin_write(64, &7u64.to_ne_bytes(), ascending(1000, 0), 100, 1);
        let (second, end) = space.begin_write(64, &8u64.to_ne_bytes(), ascending(300, 0), 300, 2);
        assert!(end >= 1000);
        space.end_write(first, 1000);
        space.end_write(second, end);
        assert_eq!(space.word(64), 8);
    }

    #[test]
    fn watchers_wake_once_in_order_and_only_for_their_line() {
        let mut space = space();
        space.watch(64, 3);
        space.watch(64, 1);
        space.watch(128, 2);
        space.store(72, &1u64.to_ne_bytes(), 10, Reader::Cpu);
        assert_eq!(
            (space.take_woken(), space.take_woken(), space.take_woken()),
            (Some(3), Some(1), None)
        );
        space.store(72, &2u64.to_ne_bytes(), 20, Reader::Cpu);
        assert_eq!(space.take_woken(), None);
        space.unwatch(2);
        space.store(128, &2u64.to_ne_bytes(), 30, Reader::Cpu);
        assert_eq!(space.take_woken(), None);
        assert!(space.watch_counts.iter().all(|count| *count == 0));
    }

    #[test]
    fn lines_move_between_caches() {
        let mut space = space();
        assert_eq!(space.touch(64, 0, false), LineState::Memory);
        assert_eq!(space.touch(64, 0, true), LineState::Hit);
        assert_eq!(space.touch(64, 1, false), LineState::Elsewhere);
        assert_eq!(space.touch(64, 0, false), LineState::Hit);
        assert_eq!(space.touch(64, 0, true), LineState::Elsewhere);
        space.store(64, &[0; 8], 0, NIC);
        assert_eq!(space.touch(64, 0, false), LineState::Memory);
    }
}
