//! [`TicketLock`]: first come, first served among the clients of one node.
//!
//! | word | name | changed by |
//! |---|---|---|
//! | 0 | `next` | everybody, by fetch-add |
//! | 1 | `grant`: `serving` (48 bits), `note` (16 bits) | the holder, by a store |
//!
//! All zero is free, with note 0.
//!
//! 1. Tickets are given out once and in order (`next` only grows, by an atomic).
//! 2. At most one client holds the ticket that is served: the holder alone changes `grant`, to the ticket after
//!    its own. So the store needs no atomic read-modify-write.
//! 3. What the holder did, and the note it leaves, is seen by the next one: `grant` is stored with release
//!    order and loaded with acquire order, and ticket and note are one word.
//!
//! Tickets wrap after 2⁴⁸, more than a lock serves in a century.

use std::sync::atomic::Ordering;

use dmtree_cluster::{Endpoint, GlobalAddr, WaitFor};

use crate::Result;

const NEXT: u64 = 0;
const GRANT: u64 = 1;

const NOTE_BITS: u32 = 16;
/// Tickets are counted modulo this.
const TICKETS: u64 = 1 << (64 - NOTE_BITS);

fn served(grant: u64) -> u64 {
    grant >> NOTE_BITS
}

/// A FIFO lock whose holder leaves a note for the next one; two words of one line of the node's host memory,
/// and no word of it is ever touched by an RNIC.
#[derive(Clone, Copy, Debug)]
pub struct TicketLock {
    at: GlobalAddr,
}

impl TicketLock {
    /// Bytes of the lock with its line to itself, so that neighbours' waiters do not disturb each other.
    pub const BYTES: u64 = dmtree_cluster::LINE_BYTES as u64;

    /// The lock at `at`, in the host memory of the node of every client that uses it.
    pub const fn new(at: GlobalAddr) -> Self {
        Self { at }
    }

    /// Draws the ticket that says when it is this client's turn.
    ///
    /// # Errors
    /// When the lock is not in the own node's host memory.
    pub async fn take<E: Endpoint>(&self, ep: &E) -> Result<u64> {
        // Invariant 1. Relaxed: a ticket carries no data, the data comes with the grant.
        Ok(ep
            .fetch_add(self.at.word(NEXT), 1, Ordering::Relaxed)
            .await?
            % TICKETS)
    }

    /// Waits for the turn of `ticket`; returns the note of the holder before.
    ///
    /// # Errors
    /// As [`TicketLock::take`], and when the wait passes its limit.
    pub async fn wait<E: Endpoint>(&self, ep: &E, ticket: u64, wait: WaitFor) -> Result<u16> {
        // Invariant 3: waits read by acquire loads.
        let line = ep
            .wait_until(self.at.word(GRANT), 1, wait, |words| {
                served(words[0]) == ticket
            })
            .await?;
        Ok(line[0] as u16)
    }

    /// Whether somebody waits behind the holder of `ticket`. One that comes at this instant may be missed.
    ///
    /// # Errors
    /// As [`TicketLock::take`].
    pub async fn has_waiter<E: Endpoint>(&self, ep: &E, ticket: u64) -> Result<bool> {
        // Relaxed: only the number counts, and it never goes back.
        Ok(
            ep.load(self.at.word(NEXT), Ordering::Relaxed).await? % TICKETS
                != (ticket + 1) % TICKETS,
        )
    }

    /// Lets the next one in, with a note.
    ///
    /// # Errors
    /// As [`TicketLock::take`].
    pub async fn pass<E: Endpoint>(&self, ep: &E, ticket: u64, note: u16) -> Result<()> {
        let next = (ticket + 1) % TICKETS;
        let grant = next << NOTE_BITS | u64::from(note);
        // Invariants 2 and 3.
        Ok(ep
            .store(self.at.word(GRANT), grant, Ordering::Release)
            .await?)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use dmtree_cluster::sim::{Profile, Sim, SimConfig};
    use dmtree_cluster::{MemoryKind, MemoryMap, NodeId};

    use super::*;

    #[test]
    fn clients_are_served_in_the_order_of_their_tickets_and_get_the_note() {
        for seed in 0..50 {
            let mut map = MemoryMap::new(1);
            let lock =
                TicketLock::new(map.reserve(NodeId(0), MemoryKind::Host, TicketLock::BYTES, 64));
            let mut config = SimConfig::new(Profile::by_name("cx3-fdr").expect("a profile"));
            (config.seed, config.hostile) = (seed, true);
            let mut sim = Sim::new(&config, &map).expect("memory");
            // Nearly all tickets have been given out already: they wrap.
            let first = TICKETS - 3;
            sim.host_words(NodeId(0))[lock.at.offset() as usize / 8] = first;
            sim.host_words(NodeId(0))[lock.at.offset() as usize / 8 + 1] = first << NOTE_BITS;
            let served = Rc::new(RefCell::new(Vec::new()));
            let drawn = Rc::new(RefCell::new(Vec::new()));
            for client in 0..6 {
                let ep = sim.endpoint(NodeId(0), client);
                let (served, drawn) = (Rc::clone(&served), Rc::clone(&drawn));
                sim.spawn(&ep.clone(), async move {
                    for _ in 0..5 {
                        let ticket = lock.take(&ep).await.expect("own memory");
                        drawn.borrow_mut().push(ticket);
                        let wait = WaitFor::new("test", lock.at);
                        let note = lock.wait(&ep, ticket, wait).await.expect("its turn");
                        assert_eq!(usize::from(note), served.borrow().len());
                        served.borrow_mut().push(ticket);
                        ep.work(ep.random() % 500).await;
                        let others = drawn.borrow().len() > served.borrow().len();
                        // Who has drawn is seen; more may have drawn that do not know yet.
                        assert!(!others || lock.has_waiter(&ep, ticket).await.expect("own memory"));
                        lock.pass(&ep, ticket, note + 1).await.expect("own memory");
                    }
                });
            }
            sim.run().expect("everybody gets its turn");
            let expected: Vec<u64> = (0..30).map(|nth| (first + nth) % TICKETS).collect();
            assert_eq!(*served.borrow(), expected, "seed {seed}");
        }
    }
}
