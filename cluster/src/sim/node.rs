//! A simulated node: the stages of its RNIC, and its memory.

use super::costs::Costs;
use super::memory::Space;
use super::queue::Time;
use crate::{Op, Verb};

/// A first-come-first-served stage of an RNIC.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stage {
    pub(super) free_at: Time,
}

impl Stage {
    /// Enters at `now` and holds the stage for `hold`; returns when service begins.
    #[inline]
    pub(super) fn enter(&mut self, now: Time, hold: Time) -> Time {
        let start = now.max(self.free_at);
        self.free_at = start + hold;
        start
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AtomicWindow {
    pub(super) start: usize,
    pub(super) op: u32,
    pub(super) verb: u16,
    pub(super) before: u64,
    pub(super) changed: bool,
}

/// Entries of the table by which atomics of one address are serialised: 512 slots by the low bits of the
/// address (published for ConnectX-6: Fusa; assumed for others).
const ATOMIC_SLOTS: usize = 512;

/// Logarithm of the entries of the table by which READs of one line are serialised: so many that two lines hardly
/// ever share one.
const READ_SLOT_BITS: u32 = 12;

/// The part of an RNIC that executes atomics on one kind of memory.
#[derive(Debug)]
pub(super) struct AtomicUnit {
    all: Stage,
    /// When it is done with an address, by a hash of it.
    addresses: Vec<Stage>,
}

impl AtomicUnit {
    fn new() -> Self {
        Self {
            all: Stage::default(),
            addresses: vec![Stage::default(); ATOMIC_SLOTS],
        }
    }

    /// An atomic on the word at `start` enters at `ready`, holds the unit for `unit` and its address for `address`;
    /// returns when it has its address. Who waits for that does not keep the unit from others.
    #[inline]
    pub(super) fn enter(&mut self, start: usize, ready: Time, unit: Time, address: Time) -> Time {
        let accepted = self.all.enter(ready, unit);
        self.addresses[start / 8 % ATOMIC_SLOTS].enter(accepted, address)
    }
}

/// A node: its RNIC and its memory.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) send: Stage,
    pub(super) receive: Stage,
    /// By kind of memory: host, device.
    pub(super) atomic_units: [AtomicUnit; 2],
    /// When a READ has left a line of host memory to the next, by a hash of the line; empty without such a limit.
    read_lines: Vec<Stage>,
    /// Queue-pair ends used here in this window of time.
    pub(super) active: u32,
    /// Those of the window before.
    pub(super) active_before: u32,
    /// The window of time that `active` is of.
    pub(super) window: u64,
    /// What a miss of queue-pair state adds with that many of them.
    pub(super) miss: Time,
    pub(super) spaces: [Space; 2],
    /// Words under an RNIC atomic between its read and its write (hostile mode): offset, operation, verb, and
    /// whether a CPU or a WRITE has changed the word since.
    pub(super) atomics: Vec<AtomicWindow>,
}

impl Node {
    /// With this host and device memory.
    pub(super) fn new(spaces: [Space; 2], costs: &Costs) -> Self {
        let read_lines = if costs.read_address > 0 {
            1 << READ_SLOT_BITS
        } else {
            0
        };
        Self {
            send: Stage::default(),
            receive: Stage::default(),
            atomic_units: [AtomicUnit::new(), AtomicUnit::new()],
            read_lines: vec![Stage::default(); read_lines],
            active: 0,
            active_before: 0,
            window: 0,
            miss: 0,
            spaces,
            atomics: Vec::new(),
        }
    }

    /// Whether a verb is to be carried out here: `World::check` as one condition. `swaps` says that the RNIC has
    /// a native swap.
    #[inline]
    pub(super) fn serves(&self, verb: &Verb, swaps: bool) -> bool {
        let (start, device) = (verb.addr.offset(), verb.addr.is_device());
        let len = u64::from(verb.op.remote_bytes());
        len > 0
            && start + len <= self.spaces[usize::from(device)].len() as u64
            && (device || start >= crate::LINE_BYTES as u64)
            && (!verb.op.is_atomic() || start.is_multiple_of(8))
            && (swaps || !matches!(verb.op, Op::Swap { .. }))
    }

    /// A READ of host memory at `start` may begin at `begin`: when it does, each of one line `hold` behind the other.
    #[inline]
    pub(super) fn read_line(&mut self, start: usize, begin: Time, hold: Time) -> Time {
        // Pages lie at multiples of their size: low bits would make them share entries.
        let line = (start / crate::LINE_BYTES) as u64;
        let slot = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - READ_SLOT_BITS);
        self.read_lines[slot as usize].enter(begin, hold)
    }

    /// Counts one end of a queue pair that is used for the first time in window of time `window`.
    pub(super) fn count_queue_pair(&mut self, window: u64, costs: &Costs) {
        if self.window != window {
            let over = std::mem::take(&mut self.active);
            self.active_before = if self.window + 1 == window { over } else { 0 };
            self.window = window;
            self.miss = costs.miss(self.active_before);
        }
        self.active += 1;
        if self.active > self.active_before {
            self.miss = costs.miss(self.active);
        }
    }

    /// A change of a word under an RNIC atomic, other than by another atomic, is lost when that writes.
    pub(super) fn lose_atomics(&mut self, start: usize, len: usize) {
        for window in &mut self.atomics {
            window.changed |= (start..start + len).contains(&window.start);
        }
    }

    /// Hostile mode: what has to be in memory before a verb of queue pair `qp` takes effect, and what a WRITE takes
    /// from atomics.
    pub(super) fn prepare(&mut self, verb: &Verb, qp: u32, now: Time) {
        if let Op::Write { len } = verb.op {
            self.lose_atomics(verb.addr.offset() as usize, len as usize);
        } else {
            // WRITE→READ and WRITE→atomic of a queue pair: the WRITEs are in memory first, for everybody.
            for space in &mut self.spaces {
                space.push_queue_pair(qp, now);
            }
        }
    }

    /// An atomic writes: what it had read, if a change since is lost.
    pub(super) fn close_atomic(&mut self, op: u32, verb: u16) -> Option<u64> {
        let place = self
            .atomics
            .iter()
            .position(|window| (window.op, window.verb) == (op, verb))?;
        let window = self.atomics.swap_remove(place);
        window.changed.then_some(window.before)
    }

    /// Whether clients are to be told that what they watch has changed.
    #[inline]
    pub(super) fn has_woken(&self) -> bool {
        self.spaces.iter().any(Space::has_woken)
    }
}
