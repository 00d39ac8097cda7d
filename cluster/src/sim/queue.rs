//! The event queue: events by virtual time, ties by the order in which they were scheduled.

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
    /// The RNIC atomic of a chain reads its word (hostile mode only; its write is the effect).
    AtomicRead(u32, u32),
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
            Event::AtomicRead(op, verb) => (3, op, verb),
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
            3 => Event::AtomicRead(a, b),
            4 => Event::Land(b, a),
            5 => Event::Resume(a),
            6 => Event::Complete(a),
            _ => Event::Sweep,
        }
    }
}

/// Children a heap entry has. With the 100–300 events of a run pending, 4 makes pop's path half as deep as 2
/// would, and a parent's children share cache lines.
const ARITY: usize = 4;

/// A priority queue of events. An entry is one 128-bit key, (time, sequence number, event), so that comparing
/// is one instruction pair and ties are broken by the order of scheduling, which makes runs reproducible.
pub(crate) struct EventQueue {
    heap: Vec<u128>,
    sequence: u32,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self {
            heap: Vec::with_capacity(1024),
            sequence: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The time of the earliest event; `Time::MAX` without any.
    #[inline]
    pub(crate) fn next_time(&self) -> Time {
        self.heap
            .first()
            .map_or(Time::MAX, |key| (key >> 64) as u64)
    }

    #[inline]
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        // The sequence number wraps after 4 G events; it only orders events of one picosecond, which are
        // scheduled close to each other, and a wrap between two of them still orders them reproducibly.
        self.sequence = self.sequence.wrapping_add(1);
        let key =
            u128::from(time) << 64 | u128::from(self.sequence) << 32 | u128::from(event.pack());
        let mut hole = self.heap.len();
        self.heap.push(key);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = key;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        let top = *self.heap.first()?;
        let last = self.heap.pop()?;
        let len = self.heap.len();
        if len > 0 {
            let mut hole = 0;
            loop {
                let first = hole * ARITY + 1;
                if first >= len {
                    break;
                }
                let end = (first + ARITY).min(len);
                let mut least = first;
                let mut least_key = self.heap[first];
                for child in first + 1..end {
                    let key = self.heap[child];
                    if key < least_key {
                        least = child;
                        least_key = key;
                    }
                }
                if last <= least_key {
                    break;
                }
                self.heap[hole] = least_key;
                hole = least;
            }
            self.heap[hole] = last;
        }
        Some(((top >> 64) as u64, Event::unpack(top as u32)))
    }
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventQueue({} events)", self.heap.len())
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
            Event::AtomicRead(1, 2),
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
        let mut expected = Vec::new();
        for round in 0..2000u32 {
            let time = rng.random_range(0..50u64);
            queue.push(time, Event::Wake(round));
            expected.push((time, round));
        }
        expected.sort();
        for (time, round) in expected {
            assert_eq!(queue.next_time(), time);
            assert_eq!(queue.pop(), Some((time, Event::Wake(round))));
        }
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.next_time(), Time::MAX);
    }
}
