//! The ticket lock over RDMA: draw a number, wait until it is served (Hu et al., "FARLock", OSDI 2026, section 5, has it
//! as a baseline).
//!
//! # Words
//! One lock is one 64-byte line in its node's host memory, so that those who poll it do not slow down those who poll its
//! neighbours. Only RNICs touch it: clients on the lock's node go through loopback. All zero is free.
//!
//! | word | name | changed by | read by |
//! |---|---|---|---|
//! | 0 | `next`: the ticket that is drawn next | everybody, by FAA | – |
//! | 1 | `serving`: the ticket whose turn it is | the holder, by FAA | everybody, READ |
//!
//! # States of a request
//!
//! | state | left when | to |
//! |---|---|---|
//! | drawing | the FAA of `next` has returned the ticket | waiting |
//! | waiting | a READ of `serving` brought the ticket | holding |
//! | holding | release | serving the next |
//! | serving the next | the chain [write-back, FAA `serving`] has completed | done |
//!
//! # Invariants
//! 1. **No CPU touches the two words**, so that all that changes them is atomic: each ticket is drawn once.
//! 2. **Mutual exclusion:** `serving` is changed by who holds its ticket alone, once, from that ticket to the next.
//! 3. **First come, first served over both cohorts:** grants are in the order of the tickets, and those in the order in
//!    which the FAAs of `next` took effect.
//! 4. **The write-back has taken effect before anybody is let in**, by the order of the last chain (command
//!    combination).
//!
//! Tickets do not wrap: 2⁶⁴ of them outlast any run.
//!
//! # Orders
//!
//! | step | CPU | verbs |
//! |---|---|---|
//! | write-back → FAA of `serving` (4) | CPU stores precede a post | one chain, WRITE→atomic is ordered |
//!
//! Why a client on the lock's node, which reads pages by CPU, sees the write-back: an atomic takes effect after the
//! WRITEs that its queue pair sent before it, for the node's CPU too, and the client's READ has seen that atomic's
//! effect.

use std::rc::Rc;

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, PollBackoff, WaitFor};

use crate::held::Held;
use crate::member::{Member, sabotaged};
use crate::monitor::Monitor;
use crate::{Cohort, LockProtocol, Result, WriteBack};

/// Bytes of one lock: a line.
pub(crate) const LOCK_BYTES: u64 = 64;

const NEXT: u64 = 0;
const SERVING: u64 = 1;

/// A client of the ticket lock.
#[derive(Debug)]
pub struct Ticket {
    member: Rc<Member>,
}

/// Holds a lock of [`Ticket`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
pub struct TicketGuard {
    held: Held,
    ticket: u64,
}

impl TicketGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        self.held.lock()
    }

    /// The ticket: how many grants of this lock were before this one.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl Ticket {
    pub(crate) fn new(client: ClientId, monitor: Option<Rc<Monitor>>) -> Self {
        Self {
            member: Member::new(client, monitor),
        }
    }

    pub(crate) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// Draws a ticket.
    async fn draw<E: Endpoint>(&self, ep: &E, lock: GlobalAddr) -> Result<u64> {
        let next = lock.word(NEXT);
        if sabotaged!(self.member, TicketLostIncrement) {
            let ticket = ep.read_u64(next).await?;
            ep.write_words(next, &[ticket + 1]).await?;
            return Ok(ticket);
        }
        // Invariant 1: through the RNIC also on the lock's own node.
        Ok(ep.rdma_faa(next, 1).await?)
    }
}

impl<E: Endpoint> LockProtocol<E> for Ticket {
    type Guard = TicketGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<TicketGuard> {
        self.member.check()?;
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member.watch(ep, lock);
        watch.asks();
        let mut held = Held::arm(&self.member, lock);
        watch.tell(|monitor, at| monitor.requested(at, cohort))?;
        let ticket = self.draw(ep, lock).await?;
        watch.tell(|monitor, at| monitor.ticket_drawn(at, ticket))?;
        // Invariants 2 and 3. Without a pause, as published; through the RNIC also on the lock's own node, where a
        // CPU load would do: this is the lock that sends everybody the same way.
        ep.poll_until(
            lock.word(SERVING),
            1,
            PollBackoff::NONE,
            WaitFor::new("ticket: its turn", lock),
            |words| words[0] == ticket,
        )
        .await?;
        watch.granted(cohort)?;
        held.granted();
        Ok(TicketGuard { held, ticket })
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        self.member.hint(ep, lock, lock);
    }

    async fn release(
        &mut self,
        ep: &E,
        guard: TicketGuard,
        write_back: WriteBack<'_>,
    ) -> Result<()> {
        let TicketGuard { mut held, .. } = guard;
        held.releasing(&self.member)?;
        let lock = held.lock();
        let late = sabotaged!(self.member, TicketServesBeforeWriteBack);
        let mut chain = ep.take_chain();
        if !late {
            write_back.store(ep, lock).await?;
            // Invariant 4: command combination.
            write_back.append(ep, lock, &mut chain);
        }
        chain.faa(lock.word(SERVING), 1);
        self.member.watch(ep, lock).released()?;
        let outcome = ep.execute(&mut chain).await;
        ep.put_chain(chain);
        outcome?;
        if late {
            write_back.complete(ep, lock, true).await?;
        }
        held.disarm();
        Ok(())
    }
}
