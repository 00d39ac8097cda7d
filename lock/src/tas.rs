//! Test and set: a word that everybody spins on by CAS, the paper's TS (Hu et al., "FARLock", OSDI 2026, section 5).
//!
//! # Words
//! The table has one 8-byte word a lock, in host memory. Only RNICs touch it: clients on the lock's node go through
//! loopback. All zero is free.
//!
//! | word | name | changed by |
//! |---|---|---|
//! | 0 | `owner`: 0 is free, else the number of the client that won it, plus 1 | CAS to take, WRITE 0 to free |
//!
//! # States of a request
//!
//! | state | left when | to |
//! |---|---|---|
//! | spinning | a CAS of `owner` found 0 | holding |
//! | holding | release | freeing |
//! | freeing | the chain [write-back, WRITE `owner` = 0] has completed | done |
//!
//! # Invariants
//! 1. **No CPU touches `owner`**, so RNIC atomics are all that change it but for the WRITE of 0. That WRITE is made by
//!    the holder, while every CAS that meets it fails and stores nothing.
//! 2. **Mutual exclusion:** `owner` is not 0 from the CAS that won until the holder's WRITE, and a CAS wins on 0 only.
//! 3. **The write-back has taken effect before anybody is let in**, by the order of the freeing chain (command
//!    combination).
//!
//! There is no order among requests and no bound on how often one is overtaken.
//!
//! # Orders
//!
//! | step | CPU | verbs |
//! |---|---|---|
//! | write-back → `owner` = 0 (3) | CPU stores precede a post | one chain, WRITE→WRITE is ordered |
//!
//! Why a client on the lock's node, which reads pages by CPU, sees the write-back: its own CAS of `owner`, a loopback
//! verb, is visible to its CPU, and with it the WRITE of 0 to the same word before it, and what the same queue pair
//! wrote before that.

use std::rc::Rc;

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, WaitFor};

use crate::backoff::Pauses;
use crate::held::Held;
use crate::member::{Member, sabotaged};
use crate::monitor::Monitor;
use crate::side::Patience;
use crate::{Cohort, LockProtocol, Result, WriteBack};

/// Bytes of one lock: a word, as Sherman's.
pub(crate) const LOCK_BYTES: u64 = 8;

/// A client of the test-and-set lock.
#[derive(Debug)]
pub struct Tas {
    member: Rc<Member>,
}

/// Holds a lock of [`Tas`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
pub struct TasGuard {
    held: Held,
}

impl TasGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        self.held.lock()
    }
}

impl Tas {
    pub(crate) fn new(client: ClientId, monitor: Option<Rc<Monitor>>) -> Self {
        Self {
            member: Member::new(client, monitor),
        }
    }

    pub(crate) fn member(&self) -> &Rc<Member> {
        &self.member
    }
}

impl<E: Endpoint> LockProtocol<E> for Tas {
    type Guard = TasGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<TasGuard> {
        self.member.check()?;
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member.watch(ep, lock);
        watch.asks();
        let mut held = Held::arm(&self.member, lock);
        watch.tell(|monitor, at| monitor.requested(at, cohort))?;
        let mut patience = Patience::new(WaitFor::new("tas: the lock's word", lock));
        let mut pauses = Pauses::new(self.member.backoff());
        let mine = u64::from(self.member.client().0) + 1;
        // Invariants 1 and 2: through the RNIC also on the lock's own node.
        while ep.rdma_cas(lock, 0, mine).await? != 0 {
            patience.check(ep)?;
            pauses.pass(ep).await;
        }
        watch.granted(cohort)?;
        held.granted();
        Ok(TasGuard { held })
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        self.member.hint(ep, lock, lock);
    }

    async fn release(&mut self, ep: &E, guard: TasGuard, write_back: WriteBack<'_>) -> Result<()> {
        let TasGuard { mut held } = guard;
        held.releasing(&self.member)?;
        let lock = held.lock();
        let late = sabotaged!(self.member, TasFreesBeforeWriteBack);
        let mut chain = ep.take_chain();
        if !late {
            write_back.store(ep, lock).await?;
            // Invariant 3: command combination.
            write_back.append(ep, lock, &mut chain);
        }
        chain.write_words(lock, &[0]);
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
