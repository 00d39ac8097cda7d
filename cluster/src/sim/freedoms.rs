//! What the contract leaves open, drawn at random.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::SimConfig;
use super::costs::Costs;
use super::pending::WordOrder;
use super::queue::{Time, from_ns};

/// Hostile mode: the longest time over which a long access is spread, by which an access that the contract
/// does not order is late, and by which a WRITE reaches the CPU after its acknowledgement. A little more than a
/// round trip, so that any two accesses of two clients can change places; jitter adds to it.
const HOSTILE: Time = from_ns(3_000);

/// Draws delays and orders; nothing is drawn where a run has no such freedom.
#[derive(Debug)]
pub(super) struct Freedoms {
    pub(super) hostile: bool,
    jitter: Time,
    rng: Xoshiro256PlusPlus,
}

impl Freedoms {
    pub(super) fn new(config: &SimConfig) -> Self {
        Self {
            hostile: config.hostile,
            jitter: from_ns(config.jitter_ns),
            rng: Xoshiro256PlusPlus::seed_from_u64(config.seed ^ 0x6661_756c_7473),
        }
    }

    /// A random time up to `max`, both ends included; no draw for 0.
    #[inline]
    pub(super) fn upto(&mut self, max: Time) -> Time {
        if max == 0 {
            0
        } else {
            self.rng.random_range(0..=max)
        }
    }

    /// By how much a message is delayed.
    #[inline]
    pub(super) fn jitter(&mut self) -> Time {
        self.upto(self.jitter)
    }

    /// By how much an access is late.
    #[inline]
    pub(super) fn late(&mut self) -> Time {
        if self.hostile { self.long() } else { 0 }
    }

    /// Hostile mode's lateness: the longest grows with the jitter of a round trip, so that messages that are late
    /// cannot outlast it.
    #[inline(never)]
    fn long(&mut self) -> Time {
        self.upto(HOSTILE + 2 * self.jitter)
    }

    /// Over what time an access of `bytes` is spread.
    #[inline]
    pub(super) fn span(&mut self, costs: &Costs, bytes: u32) -> Time {
        if bytes <= 8 {
            0
        } else if self.hostile {
            self.long()
        } else {
            costs.transfer(bytes)
        }
    }

    /// In which order a long access reads its words.
    #[inline]
    pub(super) fn word_order(&mut self) -> WordOrder {
        if self.hostile {
            self.any_order()
        } else {
            WordOrder::Ascending
        }
    }

    #[inline(never)]
    fn any_order(&mut self) -> WordOrder {
        match self.rng.random_range(0..3u32) {
            0 => WordOrder::Ascending,
            1 => WordOrder::Descending,
            _ => WordOrder::Scattered(self.rng.random()),
        }
    }
}
