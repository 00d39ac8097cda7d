//! The event queue: events by virtual time, ties by the order in which they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

/// Virtual time in picoseconds. 64 bits last for 213 days.
pub(crate) type Time = u64;

/// Picoseconds of `ns` nanoseconds.
pub(crate) const fn from_ns(ns: u64) -> Time {
    ns.saturating_mul(1000)
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Poll a client's future.
    Wake(u32),
    /// A segment of a chain reaches its target's RNIC.
    Arrive(u32),
    /// A verb of a chain has taken effect: operation, verb.
    Effect(u32, u32),
    /// A long READ or an atomic begins to look at memory (hostile mode only): operation, verb.
    Look(u32, u32),
    /// A posted write becomes visible to the host's CPU (hostile mode only): node, pending access.
    Land(u32, u32),
    /// Responses have freed what a queue pair's next verb waits for.
    Resume(u32),
    /// A chain's completion reaches its client.
    Complete(u32),
    /// Long waits are looked for.
    Sweep,
}

/// Operation and pending-access numbers fit 20 bits: a client has few operations in flight.
pub(crate) const INDEX_LIMIT: u32 = 1 << 20;
/// Verbs a chain fit 9 bits.
pub(crate) const CHAIN_LIMIT: u32 = 1 << 9;

impl Event {
    fn pack(self) -> u32 {
        let (kind, a, b) = match self {
            Event::Wake(client) => (0, client, 0),
            Event::Arrive(op) => (1, op, 0),
            Event::Effect(op, verb) => (2, op, verb),
            Event::Look(op, verb) => (3, op, verb),
            Event::Land(node, access) => (4, access, node),
            Event::Resume(qp) => (5, qp, 0),
            Event::Complete(op) => (6, op, 0),
            Event::Sweep => (7, 0, 0),
        };
        debug_assert!(a < INDEX_LIMIT && b < CHAIN_LIMIT);
        kind << 29 | b << 20 | a
    }

    fn unpack(bits: u32) -> Self {
        let (a, b) = (bits & (INDEX_LIMIT - 1), bits >> 20 & (CHAIN_LIMIT - 1));
        match bits >> 29 {
            0 => Event::Wake(a),
            1 => Event::Arrive(a),
            2 => Event::Effect(a, b),
            3 => Event::Look(a, b),
            4 => Event::Land(b, a),
            5 => Event::Resume(a),
            6 => Event::Complete(a),
            _ => Event::Sweep,
        }
    }
}

/// A bucket's width as a power of two of picoseconds: 16 ns. The busiest runs have an event every 12 ns.
const BUCKET_BITS: u32 = 14;
/// Buckets: together 67 us, about what a verb takes in a saturated cluster. Later events wait in a heap.
const BUCKETS: usize = 4096;
/// In place of a bucket: the heap.
const HEAP: usize = BUCKETS;
/// Keys that a bucket has room for: a line with their number.
const BUCKET_KEYS: usize = 3;

/// Some keys of one span of time, the latest first.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket {
    keys: [u128; BUCKET_KEYS],
    len: usize,
}

const _: () = assert!(size_of::<Bucket>() == crate::LINE_BYTES);

impl Bucket {
    /// Adds a key; says whether there was room for it.
    #[inline]
    fn push(&mut self, key: u128) -> bool {
        if self.len >= BUCKET_KEYS {
            return false;
        }
        let mut place = self.len;
        self.len += 1;
        while place > 0 && self.keys[place - 1] < key {
            self.keys[place] = self.keys[place - 1];
            place -= 1;
        }
        self.keys[place] = key;
        true
    }

    /// The earliest key.
    #[inline]
    fn first(&self) -> Option<u128> {
        self.keys[..self.len].last().copied()
    }
}

/// A priority queue of events: a calendar of buckets for the near future, a heap for what is beyond it or finds
/// its bucket full.
///
/// An entry is one 128-bit key, (time, sequence number, event), so that comparing is one instruction pair and
/// ties are broken by the order of scheduling, which makes runs reproducible. The calendar makes push and pop
/// cost half of what a heap of all events does (with 120 and with 300 pending, already when buckets were two lines); a
/// bucket is one line, because a push touches one at random.
pub(crate) struct EventQueue {
    /// By time; the bucket of a time is its number modulo [`BUCKETS`].
    buckets: Box<[Bucket; BUCKETS]>,
    /// A bit a bucket that is not empty.
    filled: [u64; BUCKETS / 64],
    /// Number of the bucket of the last popped event: none is earlier, calendar events lie within
    /// [`BUCKETS`] of it.
    current: u64,
    heap: BinaryHeap<Reverse<u128>>,
    /// The first of `heap`; `u128::MAX` without any.
    heap_next: u128,
    /// The earliest key of all; `u128::MAX` without any.
    next: u128,
    /// Where it is: a bucket, or [`HEAP`].
    next_bucket: usize,
    sequence: u32,
    len: usize,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self {
            buckets: Box::new([Bucket::default(); BUCKETS]),
            filled: [0; BUCKETS / 64],
            current: 0,
            heap: BinaryHeap::new(),
            heap_next: u128::MAX,
            next: u128::MAX,
            next_bucket: HEAP,
            sequence: 0,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first bucket that is not empty, in the order of time.
    #[inline]
    fn first_bucket(&self) -> Option<usize> {
        let start = self.current as usize % BUCKETS;
        let mut word = start / 64;
        let mut bits = self.filled[word] & (u64::MAX << (start % 64));
        for _ in 0..=BUCKETS / 64 {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word = (word + 1) % (BUCKETS / 64);
            bits = self.filled[word];
        }
        None
    }

    /// Finds the earliest key anew.
    #[inline]
    fn find_next(&mut self) {
        (self.next, self.next_bucket) = (self.heap_next, HEAP);
        if let Some(bucket) = self.first_bucket()
            && let Some(key) = self.buckets[bucket].first()
            && key < self.heap_next
        {
            (self.next, self.next_bucket) = (key, bucket);
        }
    }

    /// The time of the earliest event; `Time::MAX` without any.
    #[inline]
    pub(crate) fn next_time(&self) -> Time {
        (self.next >> 64) as u64
    }

    /// Schedules an event; `time` is no earlier than that of the last popped one.
    #[inline]
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        // The sequence number wraps after 4 G events; it only orders events of one picosecond, which are
        // scheduled close to each other, and a wrap between two of them still orders them reproducibly.
        self.sequence = self.sequence.wrapping_add(1);
        let key =
            u128::from(time) << 64 | u128::from(self.sequence) << 32 | u128::from(event.pack());
        self.len += 1;
        let number = time >> BUCKET_BITS;
        debug_assert!(number >= self.current, "events lie in the future");
        let mut index = number as usize % BUCKETS;
        if number - self.current < BUCKETS as u64 && self.buckets[index].push(key) {
            self.filled[index / 64] |= 1 << (index % 64);
        } else {
            self.heap.push(Reverse(key));
            self.heap_next = self.heap_next.min(key);
            index = HEAP;
        }
        if key < self.next {
            (self.next, self.next_bucket) = (key, index);
        }
    }

    /// Takes the earliest event unless it is later than `horizon`.
    #[inline]
    pub(crate) fn pop_until(&mut self, horizon: Time) -> Option<(Time, Event)> {
        let (key, index) = (self.next, self.next_bucket);
        let time = (key >> 64) as u64;
        if self.len == 0 || time > horizon {
            return None;
        }
        self.len -= 1;
        self.current = time >> BUCKET_BITS;
        if let Some(bucket) = self.buckets.get_mut(index) {
            bucket.len -= 1;
            if bucket.len == 0 {
                self.filled[index / 64] &= !(1 << (index % 64));
            }
        } else {
            self.heap.pop();
            self.heap_next = self.heap.peek().map_or(u128::MAX, |Reverse(key)| *key);
        }
        self.find_next();
        Some((time, Event::unpack(key as u32)))
    }
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventQueue({} events)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn events_survive_packing() {
        for event in [
            Event::Wake(INDEX_LIMIT - 1),
            Event::Arrive(3),
            Event::Effect(7, CHAIN_LIMIT - 1),
            Event::Look(1, 2),
            Event::Land(500, 9),
            Event::Resume(12),
            Event::Complete(0),
            Event::Sweep,
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
        }
    }

    #[test]
    fn pops_by_time_then_by_order_of_scheduling() {
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        let mut queue = EventQueue::new();
        let mut model = std::collections::BTreeSet::new();
        let mut now = 0;
        for round in 0..100_000u32 {
            // Ties, full buckets, near and far events, and quiet times longer than the calendar.
            if model.is_empty() || model.len() < 200 && rng.random_bool(0.55) {
                let delay = match rng.random_range(0..4u32) {
                    0 => 0,
                    1 => rng.random_range(0..50),
                    2 => rng.random_range(0..200_000_000),
                    _ => rng.random_range(0..1_000_000_000_000),
                };
                queue.push(now + delay, Event::Wake(round));
                model.insert((now + delay, round));
            } else {
                let (time, event) = model.pop_first().expect("not empty");
                assert_eq!(queue.next_time(), time);
                if time > now {
                    assert_eq!(queue.pop_until(time - 1), None);
                }
                assert_eq!(queue.pop_until(time), Some((time, Event::Wake(event))));
                now = time;
            }
            assert_eq!(queue.len(), model.len());
        }
        while let Some((time, event)) = model.pop_first() {
            assert_eq!(queue.pop_until(Time::MAX), Some((time, Event::Wake(event))));
        }
        assert_eq!(
            (queue.pop_until(Time::MAX), queue.next_time()),
            (None, Time::MAX)
        );
    }
}
