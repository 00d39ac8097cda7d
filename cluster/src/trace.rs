//! What may be told of a run while it goes on: every chain, and what clients do with locks.
//!
//! A fabric that is given a [`TraceSink`] tells it of chains as they complete, and of what clients [`Mark`]. It costs
//! no time on the fabric's clock and changes no result.

use std::fmt;

use crate::{Chain, ClientId, GlobalAddr};

/// What a client does beside verbs, as [`crate::Endpoint::mark`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The lock that the client asks for next is to guard what lies there.
    Guards {
        /// The page (or other object).
        page: GlobalAddr,
    },
    /// The client has called a lock's acquire.
    Requested {
        /// The lock.
        lock: GlobalAddr,
    },
    /// The client has taken a ticket, its place in the lock's order; of locks that serve by ticket. Of a group it is the
    /// head that has: those behind it share the ticket and mark none.
    Ticket {
        /// The lock.
        lock: GlobalAddr,
    },
    /// The client knows that it holds the lock.
    Granted {
        /// The lock.
        lock: GlobalAddr,
    },
    /// The client is about to take the first step that can let the next one in.
    Released {
        /// The lock.
        lock: GlobalAddr,
    },
}

/// Is told what happens on a fabric, in the order in which it happens.
///
/// Times are in picoseconds of the fabric's clock. A client's calls come in the order of its time: a chain is told at
/// its completion, and what the client marks afterwards is not earlier than that.
pub trait TraceSink: fmt::Debug {
    /// `client`'s chain, posted at `posted_ps`, has completed at `completed_ps`: results are in it.
    fn chain(&mut self, client: ClientId, posted_ps: u64, completed_ps: u64, chain: &Chain);

    /// `client` marks something at `at_ps`: when it does it, or knows of it where verbs have done it. CPU time that the client still
    /// owes (see [`crate::sim`]) is not in it, so that what is marked of one lock has the order in which it happened.
    fn mark(&mut self, client: ClientId, at_ps: u64, mark: Mark);
}

/// Tells each of several sinks, one after the other.
impl TraceSink for Vec<Box<dyn TraceSink>> {
    fn chain(&mut self, client: ClientId, posted_ps: u64, completed_ps: u64, chain: &Chain) {
        for sink in self {
            sink.chain(client, posted_ps, completed_ps, chain);
        }
    }

    fn mark(&mut self, client: ClientId, at_ps: u64, mark: Mark) {
        for sink in self {
            sink.mark(client, at_ps, mark);
        }
    }
}
