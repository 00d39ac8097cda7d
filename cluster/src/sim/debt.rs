//! [`Debt`]: CPU time of a client that the clock does not show yet.

use super::queue::{Time, from_ns};

/// CPU time of cache hits that may gather before the clock moves. Hits are 1.5 ns; a loop of nothing else must
/// not stop time.
const MAX_HITS: Time = from_ns(100);

/// CPU time that has been spent and costs no event of its own: it is added to the client's next delay.
///
/// Cache hits, and CPU time without memory access that is short enough, are *folded*: the accesses happen now, and
/// what they cost passes with the next access that misses, the next copy or the next post. Between two of these
/// a core's hits thus happen at one instant, early by what is owed. Nobody can tell when within a core's own cache
/// something happened; who takes the line away from it meanwhile finds it changed by up to that time too early. A post
/// enters its RNIC's send engine early by what is owed, though its message arrives when it should; where a thread
/// has several clients, whose posts share queue pairs, what is owed passes before the post instead. While a client
/// waits for a line, what it owes passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debt {
    owed: Time,
    /// No hit is folded when this much is owed. Time that was deferred raises it: it does not make hits rarer.
    limit: Time,
}

impl Debt {
    pub(super) const NONE: Self = Self {
        owed: 0,
        limit: MAX_HITS,
    };

    /// How much is owed.
    #[inline]
    pub(super) fn owed(&self) -> Time {
        self.owed
    }

    /// Whether another hit may be folded.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.owed < self.limit
    }

    /// Owes a hit's `cost` as well.
    #[inline]
    pub(super) fn fold(&mut self, cost: Time) {
        self.owed += cost;
    }

    /// Owes `cost` of CPU time without memory access as well, if that and what is owed already are no more than
    /// `most` each: a loop of nothing else must not stop time.
    #[inline]
    pub(super) fn defer(&mut self, cost: Time, most: Time) -> bool {
        let defers = cost <= most && self.owed < most;
        if defers {
            self.owed += cost;
            self.limit += cost;
        }
        defers
    }

    /// `time` has passed while the client waited: less is owed.
    #[inline]
    pub(super) fn run_down(&mut self, time: Time) {
        *self = Self {
            owed: self.owed.saturating_sub(time),
            ..Self::NONE
        };
    }

    /// What is owed, which passes now.
    #[inline]
    pub(super) fn settle(&mut self) -> Time {
        std::mem::replace(self, Self::NONE).owed
    }
}
