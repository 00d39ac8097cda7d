//! Sherman's lock (Wang, Lu, Shu, SIGMOD 2022, sections 4.3 and 4.4): a word on the memory server that compute
//! servers take by RDMA CAS, and before it a queue on each compute server, so that its clients wait there and
//! not on the network.
//!
//! # Words
//! The table has one 8-byte word a lock, in host memory or, where the RNIC has enough of it, in device memory.
//! Only RNICs touch it: clients on the memory server itself go through loopback.
//!
//! | word | name | changed by |
//! |---|---|---|
//! | 0 | `global`: 0 is free, else the number of the client that won it, plus 1 | CAS to take, WRITE 0 to free |
//!
//! Each compute server has, in its own host memory, a [`TicketLock`] for every lock of every table. Its note is
//! the number of hand-overs since the compute server took `global`: 0 says that `global` is not held.
//!
//! # States of a request
//!
//! | state | left when | to |
//! |---|---|---|
//! | queued | the compute server's ticket lock serves it | holding (note > 0) or spinning (note 0) |
//! | spinning | a CAS of `global` found 0 | holding |
//! | holding | release | handing over or freeing |
//! | handing over | the write-back has taken effect; the note goes up by one | done |
//! | freeing | the chain [write-back, WRITE `global` = 0] has completed; the note becomes 0 | done |
//!
//! # Invariants
//! 1. **No CPU touches `global`**, so RNIC atomics are all that change it but for the WRITE of 0. That WRITE is
//!    made by the holder, while every CAS that meets it fails and stores nothing.
//! 2. **A compute server has at most one client that spins or holds:** who is served by its ticket lock.
//! 3. **`global` is not 0 exactly while a compute server holds it**, be it across hand-overs.
//! 4. **The write-back has taken effect before anybody is let in:** for other compute servers by the order of
//!    the freeing chain (WRITE→WRITE; command combination, section 4.5), for the next client of the own one by
//!    its completion, since that client has a queue pair of its own.
//! 5. **`global` = 0 has been acknowledged before the own ticket lock is passed on,** so that the next client's
//!    first CAS is not in vain and a WRITE that fails is the holder's to report. (Exclusion does not need it:
//!    nobody wins before the 0 has landed.)
//! 6. **At most `handover` hand-overs in a row**, so that no other compute server waits for ever.
//!
//! # Orders
//!
//! | step | CPU | verbs |
//! |---|---|---|
//! | write-back → `global` = 0 (4) | CPU stores precede a post | one chain, WRITE→WRITE is ordered; see below |
//! | write-back → hand-over (4) | stores, then a `Release` store of the note | completed, made visible to the CPU too |
//! | `global` = 0 → passing the ticket lock (5) | – | the chain's completion is waited for |
//! | hand-over → note's reader | `Release` store, acquire load, one word | – |
//!
//! Why a client on the memory server, which reads pages by CPU, sees the write-back: its own CAS of `global`, a
//! loopback verb, is visible to its CPU, and with it the WRITE of 0 to the same word before it, and what the same
//! queue pair wrote before that. In device memory that word is nothing to the CPU. There, and only when pages are
//! reached by CPU, the chain is [write-back, READ, fenced WRITE `global` = 0]: the READ takes effect after the
//! write-back for everybody.

use std::rc::Rc;
use std::sync::Arc;

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, WaitFor};

use crate::cpu::TicketLock;
use crate::held::Held;
use crate::member::{Member, sabotaged};
use crate::monitor::Monitor;
use crate::side::Patience;
use crate::{Cohort, DataPath, LockProtocol, LockTable, Result, WriteBack};

/// Bytes of one lock: a word.
pub(crate) const LOCK_BYTES: u64 = 8;

/// From this hand-over limit on there is none: hand-overs are counted in the 16 bits of a ticket lock's note.
pub(crate) const UNLIMITED: u32 = u16::MAX as u32;

/// A client of Sherman's lock.
#[derive(Debug)]
pub struct Sherman {
    member: Rc<Member>,
    table: Arc<LockTable>,
    /// Ticket locks of the own compute server, by the table's index.
    tier: GlobalAddr,
    handover: u32,
}

/// Holds a lock of [`Sherman`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
pub struct ShermanGuard {
    held: Held,
    ticket: u64,
    /// Hand-overs since the compute server took the lock; more than the note can say are its largest number.
    handovers: u16,
}

impl ShermanGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        self.held.lock()
    }
}

impl Sherman {
    pub(crate) fn new(
        client: ClientId,
        monitor: Option<Rc<Monitor>>,
        table: Arc<LockTable>,
        tier: GlobalAddr,
        handover: u32,
    ) -> Self {
        Self {
            member: Member::new(client, monitor),
            table,
            tier,
            handover,
        }
    }

    pub(crate) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// Where the own compute server's ticket lock for `lock` lies.
    #[inline(always)] // A few instructions, with every hint and step.
    fn tier_at(&self, lock: GlobalAddr) -> GlobalAddr {
        self.tier
            .add(self.table.index_of(lock) as u64 * TicketLock::BYTES)
    }

    fn tier(&self, lock: GlobalAddr) -> TicketLock {
        TicketLock::new(self.tier_at(lock))
    }
}

impl<E: Endpoint> LockProtocol<E> for Sherman {
    type Guard = ShermanGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<ShermanGuard> {
        self.member.check()?;
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member.watch(ep, lock);
        let tier = self.tier(lock);
        watch.asks();
        let mut held = Held::arm(&self.member, lock);
        watch.tell(|monitor, at| monitor.requested(at, cohort))?;
        // Invariant 2.
        let ticket = tier.take(ep).await?;
        let handovers = tier
            .wait(
                ep,
                ticket,
                WaitFor::new("sherman: compute server's turn", lock),
            )
            .await?;
        if handovers == 0 {
            let mut patience = Patience::new(WaitFor::new("sherman: global word", lock));
            let mine = u64::from(self.member.client().0) + 1;
            // Invariant 1: through the RNIC also on the lock's own node. No pause: the round trip is one.
            while ep.rdma_cas(lock, 0, mine).await? != 0 {
                patience.check(ep)?;
            }
        }
        watch.granted(cohort)?;
        held.granted();
        Ok(ShermanGuard {
            held,
            ticket,
            handovers,
        })
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        self.member.hint(ep, lock, self.tier_at(lock));
    }

    async fn release(
        &mut self,
        ep: &E,
        guard: ShermanGuard,
        write_back: WriteBack<'_>,
    ) -> Result<()> {
        let ShermanGuard {
            mut held,
            ticket,
            handovers,
        } = guard;
        held.releasing(&self.member)?;
        let lock = held.lock();
        let watch = self.member.watch(ep, lock);
        let tier = self.tier(lock);
        // Invariant 6. A waiter that comes after this look waits until `global` is free again; no harm.
        let may = self.handover >= UNLIMITED || u32::from(handovers) < self.handover;
        if may && tier.has_waiter(ep, ticket).await? {
            let late = sabotaged!(self.member, ShermanHandoverBeforeWriteBack);
            if !late {
                // Invariant 4.
                let flush = !sabotaged!(self.member, HandoverUnflushed);
                write_back.complete(ep, lock, flush).await?;
            }
            watch.released()?;
            tier.pass(ep, ticket, handovers.saturating_add(1)).await?;
            if late {
                write_back.complete(ep, lock, true).await?;
            }
        } else {
            write_back.store(ep, lock).await?;
            let mut chain = ep.take_chain();
            // Invariant 4: command combination.
            write_back.append(ep, lock, &mut chain);
            let unseen = lock.is_device() && write_back.path == DataPath::Cpu;
            if unseen && !sabotaged!(self.member, ShermanDeviceUnflushed) {
                write_back.flush(&mut chain);
                chain.fence();
            }
            chain.write_words(lock, &[0]);
            watch.released()?;
            let outcome = ep.execute(&mut chain).await;
            ep.put_chain(chain);
            outcome?;
            // Invariant 5.
            tier.pass(ep, ticket, 0).await?;
        }
        held.disarm();
        Ok(())
    }
}
