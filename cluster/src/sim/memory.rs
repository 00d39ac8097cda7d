//! Memory of a simulated node: words, watched lines, and who has which line in its cache.
//!
//! Accesses that take time are in `pending.rs`.

use memmap2::MmapMut;

use super::pending::{BUCKETS, Counts, Pending, bucket};
use super::queue::Time;
use crate::LINE_BYTES;

/// A client that waits for a line to change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    line: usize,
    pub client: u32,
}

/// Buckets that watched lines are counted in.
const WATCH_BUCKETS: usize = 1024;

/// Who has a line in its cache.
mod owner {
    use super::LineState;

    /// No core, as far as is known.
    pub(super) const NONE: u8 = 0;
    /// More than one core; an exclusive owner is its core's number plus 1.
    pub(super) const SHARED: u8 = u8::MAX;

    /// Core `me` accesses the line of `owner`.
    #[inline]
    pub(super) fn touch(owner: &mut u8, me: u8, writes: bool) -> LineState {
        let state = match *owner {
            own if own == me => LineState::Hit,
            NONE => LineState::Memory,
            SHARED if !writes => LineState::Hit,
            _ => LineState::Elsewhere,
        };
        *owner = match state {
            LineState::Elsewhere if !writes => SHARED,
            LineState::Hit if !writes => *owner,
            _ => me,
        };
        state
    }

    /// [`touch`] for each of these, counted in `found` by what it finds.
    pub(super) fn touch_each(owners: &mut [u8], me: u8, writes: bool, found: &mut [u64; 3]) {
        for owner in owners {
            found[touch(owner, me, writes) as usize] += 1;
        }
    }

    /// As [`touch_each`]: for the lines of a page, which nearly always are in one state but for a few.
    #[inline]
    pub(super) fn touch_many(owners: &mut [u8; 16], me: u8, writes: bool, found: &mut [u64; 3]) {
        let (low, high) = owners.split_at_mut(8);
        for eight in [low, high] {
            let first = eight[0];
            if eight
                .iter()
                .fold(0, |differ, owner| differ | (owner ^ first))
                == 0
            {
                let state = touch(&mut eight[0], me, writes);
                eight.fill(eight[0]);
                found[state as usize] += 8;
            } else {
                touch_each(eight, me, writes, found);
            }
        }
    }
}

/// One memory, host or device, of one node.
#[derive(Debug)]
pub(crate) struct Space {
    pub(super) memory: MmapMut,
    pub(super) len: usize,
    /// Pending accesses by block.
    pub(super) counts: Box<[Counts; BUCKETS]>,
    pub(super) pending: Vec<Pending>,
    /// Numbers of pending accesses.
    pub(super) live: Vec<u32>,
    pub(super) free: Vec<u32>,
    pub(super) sequence: u64,
    pub(super) watch_counts: Box<[u16; WATCH_BUCKETS]>,
    pub(super) watchers: Vec<Watcher>,
    /// Clients whose line has changed since they were last taken.
    pub(super) woken: Vec<u32>,
    /// Owners of lines; empty for device memory.
    pub(super) owners: Vec<u8>,
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
            counts: Box::new([Counts::default(); BUCKETS]),
            pending: Vec::new(),
            live: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            watch_counts: Box::new([0; WATCH_BUCKETS]),
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

    /// The CPU reads the aligned word at `start` at the instant `now`.
    #[inline]
    pub(crate) fn cpu_load(&mut self, start: usize, now: Time) -> u64 {
        if self.counts[bucket(start)].writes > 0 {
            self.settle(start, 8, now, Reader::Cpu);
        }
        self.word(start)
    }

    /// The CPU writes the aligned word at `start` at the instant `now`; says whether somebody may have to be woken.
    #[inline]
    pub(crate) fn cpu_store(&mut self, start: usize, value: u64, now: Time) -> bool {
        let counts = self.counts[bucket(start)];
        if counts.reads > 0 || counts.writes > 0 {
            self.store(start, &value.to_ne_bytes(), now, Reader::Cpu);
            return true;
        }
        self.memory[start..start + 8].copy_from_slice(&value.to_ne_bytes());
        let line = start / LINE_BYTES;
        let watched = self.watch_counts[line % WATCH_BUCKETS] > 0;
        if watched {
            self.wake(line);
        }
        watched
    }

    /// The bytes of one line that nobody else reads, writes or watches now: to be accessed as they are.
    #[inline(always)]
    pub(crate) fn quiet(&mut self, start: usize, len: usize) -> Option<&mut [u8]> {
        let counts = self.counts[bucket(start)];
        if counts.reads > 0
            || counts.writes > 0
            || self.watch_counts[start / LINE_BYTES % WATCH_BUCKETS] > 0
        {
            return None;
        }
        self.memory.get_mut(start..start + len)
    }

    /// As [`Space::quiet`], for core `core` when it has the aligned words of one line in its cache as the access
    /// wants them. No bytes of the null line, which no core ever has.
    #[inline(always)]
    pub(crate) fn at_hand(
        &mut self,
        start: usize,
        len: usize,
        core: u8,
        writes: bool,
    ) -> Option<&mut [u8]> {
        let owner = *self.owners.get(start / LINE_BYTES)?;
        let hits = owner == core + 1 || owner == owner::SHARED && !writes;
        let fits = start.is_multiple_of(8) && start % LINE_BYTES + len <= LINE_BYTES;
        if !hits || !fits || start + len > self.len {
            return None;
        }
        self.quiet(start, len)
    }

    /// As [`Space::prefetch`], for bytes that may not exist, and for a CPU: with the state of their lines.
    pub(crate) fn hint(&self, start: usize, len: usize) {
        if let Some(bytes) = start
            .checked_add(len)
            .and_then(|end| self.memory.get(start..end))
        {
            crate::prefetch(bytes);
            let lines = start / LINE_BYTES..(start + len).div_ceil(LINE_BYTES);
            if let Some(owners) = self.owners.get(lines) {
                crate::prefetch(owners);
            }
        }
    }

    /// As [`Space::prefetch`], with what a verb that changes these bytes changes beside them.
    #[inline]
    pub(crate) fn prefetch_for_change(&self, start: usize, len: usize) {
        self.prefetch(start, len);
        if let Some(owner) = self.owners.get(start / LINE_BYTES) {
            crate::prefetch(std::slice::from_ref(owner));
        }
    }

    /// Hints that these bytes are needed soon; it has no effect but on the simulator's own speed.
    #[inline]
    pub(crate) fn prefetch(&self, start: usize, len: usize) {
        crate::prefetch(&self.memory[start..start + len]);
    }

    /// Changes these bytes at the instant `at`, after pending READs that had read them took the old ones.
    pub(super) fn put(&mut self, start: usize, bytes: &[u8], at: Instants, by_nic: bool) {
        if self.crowded(start, bytes.len(), |counts| counts.reads) {
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

    /// Reads the word at `start` at the instant `now`.
    #[inline]
    pub(crate) fn load(&mut self, start: usize, now: Time, reader: Reader) -> u64 {
        self.settle(start, 8, now, reader);
        self.word(start)
    }

    /// Copies bytes at the instant `now`.
    pub(crate) fn copy(&mut self, start: usize, out: &mut [u8], now: Time, reader: Reader) {
        self.settle(start, out.len(), now, reader);
        out.copy_from_slice(&self.memory[start..start + out.len()]);
    }

    /// Writes bytes at the instant `now`.
    #[inline]
    pub(crate) fn store(&mut self, start: usize, bytes: &[u8], now: Time, writer: Reader) {
        // Nearly all are an aligned word that nobody else has to do with now.
        if let Ok(word) = <[u8; 8]>::try_from(bytes)
            && start.is_multiple_of(8)
            && let Some(place) = self.quiet(start, 8)
        {
            place.copy_from_slice(&word);
            if writer == Reader::Nic
                && let Some(owner) = self.owners.get_mut(start / LINE_BYTES)
            {
                *owner = owner::NONE;
            }
            return;
        }
        self.store_any(start, bytes, now, writer);
    }

    #[inline(never)]
    fn store_any(&mut self, start: usize, bytes: &[u8], now: Time, writer: Reader) {
        self.settle(start, bytes.len(), now, writer);
        self.put(
            start,
            bytes,
            Instants { cpu: now, nic: now },
            writer == Reader::Nic,
        );
    }

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

    /// Whether there are clients whose watched line has changed.
    #[inline]
    pub(crate) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
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

    /// What core `core` of the node finds when it accesses the line at `start`, and from then on.
    #[inline]
    pub(crate) fn touch(&mut self, start: usize, core: u8, writes: bool) -> LineState {
        owner::touch(&mut self.owners[start / LINE_BYTES], core + 1, writes)
    }

    /// As [`Space::touch`], for all lines of these bytes: how many hit, are elsewhere, and are in memory.
    pub(crate) fn touch_all(
        &mut self,
        start: usize,
        len: usize,
        core: u8,
        writes: bool,
    ) -> [u64; 3] {
        let lines = start / LINE_BYTES..(start + len).div_ceil(LINE_BYTES);
        let mut found = [0; 3];
        let (chunks, rest) = self.owners[lines].as_chunks_mut::<16>();
        for lines in chunks {
            owner::touch_many(lines, core + 1, writes, &mut found);
        }
        owner::touch_each(rest, core + 1, writes, &mut found);
        found
    }
}

/// When a change happens, as CPU and verbs see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instants {
    pub(super) cpu: Time,
    pub(super) nic: Time,
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
    use super::super::pending::{Interval, WordOrder};
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
        assert!(space.live.is_empty() && space.counts.iter().all(|count| count.writes == 0));
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
    fn pushing_a_write_pushes_what_it_overwrites_first() {
        let mut space = space();
        let (first, end) = space.begin_write(64, &7u64.to_ne_bytes(), ascending(1000, 0), 100, 1);
        // Another queue pair's, to the same word, and one behind it; a verb looks at the latter only.
        let (second, _) = space.begin_write(64, &8u64.to_ne_bytes(), ascending(300, 0), 300, 2);
        let (third, _) = space.begin_write(4096, &9u64.to_ne_bytes(), ascending(400, 0), 400, 2);
        assert_eq!(space.load(4096, 450, NIC), 9);
        assert_eq!(space.load(64, 450, Reader::Cpu), 8);
        space.end_write(first, end);
        assert_eq!(
            space.word(64),
            8,
            "the older write must not land on the newer one"
        );
        space.end_write(second, 1000);
        space.end_write(third, 1100);
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
    fn many_lines_are_touched_as_each_is() {
        let all = [owner::NONE, 1, 2, 3, owner::SHARED];
        for writes in [false, true] {
            let mut space = space();
            let mut found = [0; 3];
            for (line, owner) in space.owners[..40].iter_mut().enumerate() {
                *owner = all[line * 7 / 3 % all.len()];
            }
            let mut expected = space.owners.clone();
            for owner in &mut expected[1..38] {
                found[owner::touch(owner, 2, writes) as usize] += 1;
            }
            assert_eq!(space.touch_all(64, 37 * 64, 1, writes), found);
            assert_eq!(space.owners, expected);
        }
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
