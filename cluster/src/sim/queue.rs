//! The event queue: events by virtual time, ties by the order in which they were scheduled.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;

/// Virtual time in picoseconds. 64 bits last for 213 days.
pub(crate) type Time = u64;

/// Picoseconds of `ns` nanoseconds.
pub(crate) const fn from_ns(ns: u64) -> Time {
    ns.saturating_mul(1000)
}

/// What happens. The second number is short, so that an event is 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Poll a client's future.
    Wake(u32),
    /// A segment of a chain reaches its target's RNIC: operation, the segment's end.
    Arrive(u32, u16),
    /// A verb of a chain has taken effect: operation, verb.
    Effect(u32, u16),
    /// A long READ or an atomic begins to look at memory (hostile mode only): operation, verb.
    Look(u32, u16),
    /// A posted write becomes visible to the host's CPU (hostile mode only): pending access, memory.
    Land(u32, u16),
    /// Responses have freed what a queue pair's next verb waits for.
    Resume(u32),
    /// A chain's completion reaches its client.
    Complete(u32),
    /// Long waits are looked for.
    Sweep,
}

const _: () = assert!(size_of::<Event>() == 8 && crate::verb::MAX_VERBS <= u16::MAX as usize);

/// A bucket's width as a power of two of picoseconds: 16 ns. Of the 100 to 300 events that a run has pending
/// within some tens of microseconds, a bucket rarely holds more than two.
const BUCKET_BITS: u32 = 14;
/// Buckets: together 67 us, more than nearly every verb takes in a saturated cluster. Later events wait in a heap.
/// A word of bits tells which words of bits are not empty, so it is the square of the bits in a word.
const BUCKETS: usize = 64 * 64;

/// In place of an entry's number: none.
const NONE: u32 = u32::MAX;

/// The bucket of a time, where only the next [`BUCKETS`] numbers of buckets occur.
#[inline]
const fn bucket(time: Time) -> usize {
    (time >> BUCKET_BITS) as usize % BUCKETS
}

/// An event of the near future.
#[derive(Clone, Copy)]
struct Entry {
    time: Time,
    event: Event,
    /// The next of its bucket, or of the free ones.
    next: u32,
}

/// An event of the far future. The heap does not keep the order of equal times by itself.
#[derive(PartialEq, Eq)]
struct Far {
    time: Time,
    sequence: u64,
    event: Event,
}

impl Ord for Far {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time, self.sequence).cmp(&(other.time, other.sequence))
    }
}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A priority queue of events: a calendar of buckets for the near future, a heap for the far one.
///
/// A bucket is a list of entries by time; a new one goes behind those of the same time, which makes runs
/// reproducible. The entries of all buckets are one small array whose places are used again, last freed first: the
/// queue's own memory stays in the CPU's nearest cache. A far event was scheduled before every near one of the
/// same time, because the calendar only moves forwards: it goes first.
pub(crate) struct EventQueue {
    /// The first entry of each bucket.
    heads: Box<[u32; BUCKETS]>,
    /// A bit a bucket that is not empty, and a bit a word of these that is not 0.
    filled: [u64; BUCKETS / 64],
    filled_words: u64,
    /// Number of the bucket of the last popped event: none is earlier, near events lie within [`BUCKETS`] of it.
    current: u64,
    entries: Vec<Entry>,
    /// The first entry that is not in use.
    free: u32,
    far: BinaryHeap<Reverse<Far>>,
    /// Far events so far.
    far_sequence: u64,
    /// The time of the first far event, and of the first of all; `Time::MAX` without any.
    far_next: Time,
    next: Time,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self {
            heads: Box::new([NONE; BUCKETS]),
            filled: [0; BUCKETS / 64],
            filled_words: 0,
            current: 0,
            entries: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            far_sequence: 0,
            far_next: Time::MAX,
            next: Time::MAX,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filled_words == 0 && self.far.is_empty()
    }

    /// The time of the earliest event; `Time::MAX` without any.
    #[inline]
    pub(crate) fn next_time(&self) -> Time {
        self.next
    }

    /// Schedules an event; `time` is no earlier than that of the last popped one.
    // Out of line, and the rare cases as calls at its end: it then saves no registers.
    #[inline(never)]
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        let number = time >> BUCKET_BITS;
        debug_assert!(number >= self.current, "events lie in the future");
        if number - self.current >= BUCKETS as u64 {
            return self.push_far(time, event);
        }
        self.next = self.next.min(time);
        let (index, place) = (bucket(time), self.free);
        let Some(entry) = self.entries.get_mut(place as usize) else {
            return self.grow_and_push(time, event);
        };
        if self.heads[index] != NONE {
            return self.push_among(time, event);
        }
        let next = NONE;
        self.free = entry.next;
        *entry = Entry { time, event, next };
        self.heads[index] = place;
        self.filled[index / 64] |= 1 << (index % 64);
        self.filled_words |= 1 << (index / 64);
    }

    /// Schedules an event of a bucket that is not empty, with an entry to spare.
    #[inline(never)]
    fn push_among(&mut self, time: Time, event: Event) {
        let (index, place) = (bucket(time), self.free);
        // Behind all that are not later.
        let mut before = NONE;
        let mut next = self.heads[index];
        while let Some(entry) = self.entries.get(next as usize)
            && entry.time <= time
        {
            before = next;
            next = entry.next;
        }
        let entry = &mut self.entries[place as usize];
        self.free = entry.next;
        *entry = Entry { time, event, next };
        match self.entries.get_mut(before as usize) {
            Some(before) => before.next = place,
            None => self.heads[index] = place,
        }
    }

    #[cold]
    #[inline(never)]
    fn grow_and_push(&mut self, time: Time, event: Event) {
        self.free = self.entries.len() as u32;
        self.entries.push(Entry {
            time,
            event,
            next: NONE,
        });
        self.push(time, event);
    }

    #[inline(never)]
    fn push_far(&mut self, time: Time, event: Event) {
        self.far_sequence += 1;
        self.far.push(Reverse(Far {
            time,
            sequence: self.far_sequence,
            event,
        }));
        self.far_next = self.far_next.min(time);
        self.next = self.next.min(time);
    }

    /// Takes the earliest event unless it is later than `horizon`.
    #[inline]
    pub(crate) fn pop_until(&mut self, horizon: Time) -> Option<(Time, Event)> {
        let time = self.next;
        if time > horizon {
            return None;
        }
        if time == self.far_next
            && let Some(event) = self.pop_far(time)
        {
            return Some((time, event));
        }
        let index = bucket(time);
        let place = self.heads[index];
        let first = self.entries.get_mut(place as usize)?;
        let (event, next) = (first.event, first.next);
        first.next = self.free;
        self.free = place;
        self.heads[index] = next;
        self.current = time >> BUCKET_BITS;
        let near = if let Some(next) = self.entries.get(next as usize) {
            next.time
        } else {
            let word = &mut self.filled[index / 64];
            *word &= !(1 << (index % 64));
            if *word == 0 {
                self.filled_words &= !(1 << (index / 64));
            }
            self.near_next(index)
        };
        self.next = near.min(self.far_next);
        Some((time, event))
    }

    #[inline(never)]
    fn pop_far(&mut self, time: Time) -> Option<Event> {
        let Reverse(first) = self.far.pop()?;
        self.far_next = self.far.peek().map_or(Time::MAX, |Reverse(far)| far.time);
        self.current = time >> BUCKET_BITS;
        self.next = self.near_next(bucket(time)).min(self.far_next);
        Some(first.event)
    }

    /// The time of the first event in a bucket from `start` on, all around; `Time::MAX` without any.
    #[inline]
    fn near_next(&self, start: usize) -> Time {
        let mut word = start / 64 % 64;
        let mut bits = self.filled[word] & (u64::MAX << (start % 64));
        if bits == 0 {
            // The words behind it, the last of them its own with the buckets before `start`.
            let behind = self.filled_words.rotate_right(word as u32 + 1);
            word = (word + 1 + behind.trailing_zeros() as usize) % 64;
            bits = self.filled[word];
        }
        let index = (word * 64 + bits.trailing_zeros() as usize) % BUCKETS;
        self.entries
            .get(self.heads[index] as usize)
            .map_or(Time::MAX, |entry| entry.time)
    }
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventQueue(next at {} ps)", self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn pops_by_time_then_by_order_of_scheduling() {
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        let mut queue = EventQueue::new();
        let mut model = std::collections::BTreeSet::new();
        let mut now = 0;
        for round in 0..100_000u32 {
            // Ties, near and far events, and quiet times longer than the calendar.
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
            assert_eq!(queue.is_empty(), model.is_empty());
        }
        while let Some((time, event)) = model.pop_first() {
            assert_eq!(queue.pop_until(Time::MAX), Some((time, Event::Wake(event))));
        }
        assert_eq!(
            (queue.pop_until(Time::MAX), queue.next_time()),
            (None, Time::MAX)
        );
    }

    #[test]
    fn equal_times_keep_the_order_of_scheduling_from_far_to_near() {
        const FAR: Time = 3 * ((BUCKETS as u64) << BUCKET_BITS);
        let mut queue = EventQueue::new();
        for client in [0, 1] {
            queue.push(FAR, Event::Wake(client));
        }
        queue.push(FAR - 5, Event::Sweep);
        assert_eq!(queue.pop_until(Time::MAX), Some((FAR - 5, Event::Sweep)));
        // Now the same time is near.
        for client in [2, 3] {
            queue.push(FAR, Event::Wake(client));
        }
        for client in 0..4 {
            assert_eq!(queue.pop_until(FAR), Some((FAR, Event::Wake(client))));
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn the_last_instant_there_is() {
        let mut queue = EventQueue::new();
        for client in 0..3 {
            queue.push(Time::MAX, Event::Wake(client));
        }
        for client in 0..3 {
            let popped = queue.pop_until(Time::MAX);
            assert_eq!(popped, Some((Time::MAX, Event::Wake(client))));
            queue.push(Time::MAX, Event::Sweep);
        }
        for _ in 0..3 {
            assert_eq!(queue.pop_until(Time::MAX), Some((Time::MAX, Event::Sweep)));
        }
        assert_eq!(queue.pop_until(Time::MAX), None);
        assert!(queue.is_empty());
    }
}
