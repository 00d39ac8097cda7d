//! The queue lock of Mellor-Crummey and Scott (TOCS 1991) over RDMA: a queue of descriptors, each waiting on its own
//! (Hu et al., "FARLock", OSDI 2026, section 5, has it as a baseline).
//!
//! # Words
//! The table has one 8-byte word a lock, in host memory. All zero is free.
//!
//! | word | name | changed by |
//! |---|---|---|
//! | 0 | `tail`: the last descriptor of the queue, 0 when it is empty | everybody, through the RNIC (swap, CAS) |
//!
//! A descriptor is one line in its client's own host memory:
//!
//! | word | name | changed by | read by |
//! |---|---|---|---|
//! | 0 | `next` | the successor, once: its own address, by WRITE | the owner, CPU |
//! | 1 | `grant` | the predecessor, once: 1, by WRITE | the owner, CPU |
//!
//! Both cohorts are in one queue, so its tail is changed through the RNIC alone, also by clients on its node; and so are
//! descriptors, also by clients of their own node: this is the lock that sends everybody the same way. Owners set theirs
//! up, wait on them and read them by CPU.
//!
//! # States of a request
//!
//! | state | left when | to |
//! |---|---|---|
//! | joining | the swap of `tail` has returned | holding (it found 0) or waiting |
//! | waiting | `grant` ≠ 0 | holding |
//! | holding | release | done (CAS of `tail` won) or handing over |
//! | handing over | `next` ≠ 0 and `next`'s `grant` is written | done |
//!
//! # Two ways to release
//! A holder looks at `next` first, and sends the CAS of `tail` only when nobody is linked there: its own memory is
//! nearer than the RNIC. The published code sends the CAS with every release (`mcs:cas-release`), which takes a round
//! trip of the atomic unit more in a crowd; in exchange the write-back travels in one chain with it.
//!
//! # Invariants
//! 1. **No CPU touches `tail`**, so that all that changes it is atomic.
//! 2. **Mutual exclusion:** the head of the queue holds the lock. Only the swap that finds 0, and only a `grant`, make a
//!    client the head; a head goes by making `tail` 0 or by one `grant`.
//! 3. **First come, first served over both cohorts**, in the order in which the swaps of `tail` took effect.
//! 4. **The write-back has taken effect before anybody is let in.**
//! 5. **A descriptor is reused only when nobody can touch it:** its predecessor's one access is the `grant` that was
//!    waited for; its successor's one access is the `next` that was seen, and without a successor the CAS of `tail` won,
//!    so that nobody ever learnt its address.
//!
//! # Orders
//!
//! | step | CPU | verbs |
//! |---|---|---|
//! | own set-up → swap of `tail`, WRITE of `next` | CPU stores precede a post | – |
//! | wait for `grant`, `next` | acquire loads | – |
//! | write-back → CAS of `tail` (4) | CPU stores precede a post | one chain, WRITE→atomic is ordered |
//! | write-back → `grant` (4) | CPU stores precede a post | another queue pair: after completion, made visible to the CPU too |
//!
//! Behind a CAS of `tail` that failed, nothing is left to be made visible: an atomic takes effect after the WRITEs that
//! its queue pair sent before it, for the node's CPU too.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, WaitFor};

use crate::descriptor::Pool;
use crate::held::Held;
use crate::member::{Member, sabotaged};
use crate::monitor::Monitor;
use crate::queue::{Place, join};
use crate::side::Shared;
use crate::{Cohort, LockProtocol, Release, Result, WriteBack};

/// Bytes of one lock: a word.
pub(crate) const LOCK_BYTES: u64 = 8;

const NEXT: u64 = 0;
const GRANT: u64 = 1;

/// A client of the MCS lock.
#[derive(Debug)]
pub struct Mcs {
    member: Rc<Member>,
    pool: Pool,
    release: Release,
}

/// Holds a lock of [`Mcs`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
pub struct McsGuard {
    held: Held,
    me: GlobalAddr,
}

impl McsGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        self.held.lock()
    }
}

impl Mcs {
    pub(crate) fn new(
        client: ClientId,
        monitor: Option<Rc<Monitor>>,
        release: Release,
        descriptors: GlobalAddr,
        count: usize,
    ) -> Self {
        Self {
            member: Member::new(client, monitor),
            pool: Pool::new(client, descriptors, count),
            release,
        }
    }

    pub(crate) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// Links behind `ahead` and waits for its grant.
    async fn follow<E: Endpoint>(&self, ep: &E, place: &Place, ahead: GlobalAddr) -> Result<()> {
        let lock = place.held.lock();
        let watch = self.member.watch(ep, lock);
        let loan = place.ahead.and_then(|(_, loan)| loan);
        watch.tell(|monitor, at| monitor.touched(at, loan))?;
        ep.write_words(ahead.word(NEXT), &[place.me.to_bits()])
            .await?;
        watch.tell(|monitor, _| monitor.returned(loan))?;
        let what = WaitFor::new("mcs: grant", lock);
        ep.wait_until(place.me.word(GRANT), 1, what, |words| words[0] != 0)
            .await?;
        watch.tell(|monitor, at| monitor.ahead_is_done(at, place.me))
    }

    fn retire<E: Endpoint>(&mut self, ep: &E, held: Held, me: GlobalAddr) -> Result<()> {
        self.member
            .watch(ep, held.lock())
            .tell(|monitor, at| monitor.retired(at, me))?;
        self.pool.put(me);
        held.disarm();
        Ok(())
    }

    /// Writes back and takes `me` off the queue, if it is the last one; returns what the tail was.
    async fn leave<E: Endpoint>(
        &self,
        ep: &E,
        lock: GlobalAddr,
        me: GlobalAddr,
        write_back: WriteBack<'_>,
    ) -> Result<GlobalAddr> {
        write_back.store(ep, lock).await?;
        let mut chain = ep.take_chain();
        // Invariant 4, in one chain: WRITE→atomic is ordered.
        write_back.append(ep, lock, &mut chain);
        if sabotaged!(self.member, McsFreesUnseen) {
            chain.write_words(lock, &[0]);
            let outcome = ep.execute(&mut chain).await;
            ep.put_chain(chain);
            return Ok(outcome.map(|()| me)?);
        }
        // Invariants 1 and 2: who joined since `next` was looked at is in the tail.
        let found = chain.cas(lock, me.to_bits(), 0);
        let outcome = ep.execute(&mut chain).await.map(|()| chain.value(found));
        ep.put_chain(chain);
        Ok(GlobalAddr::from_bits(outcome?))
    }
}

impl<E: Endpoint> LockProtocol<E> for Mcs {
    type Guard = McsGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<McsGuard> {
        self.member.check()?;
        let tail = Shared(lock);
        let place = join(&self.member, &mut self.pool, ep, lock, tail, [0, 0]).await?;
        if let Some((ahead, _)) = place.ahead {
            self.follow(ep, &place, ahead).await?;
        }
        let cohort = Cohort::of(ep.node(), lock);
        self.member.watch(ep, lock).granted(cohort)?;
        let Place { mut held, me, .. } = place;
        held.granted();
        Ok(McsGuard { held, me })
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        self.member.hint(ep, lock, lock);
    }

    async fn release(&mut self, ep: &E, guard: McsGuard, write_back: WriteBack<'_>) -> Result<()> {
        let McsGuard { mut held, me } = guard;
        held.releasing(&self.member)?;
        let lock = held.lock();
        let watch = self.member.watch(ep, lock);
        let mut next = match self.release {
            // Acquire: the successor set its descriptor up before it linked itself.
            Release::Look => {
                GlobalAddr::from_bits(ep.load(me.word(NEXT), Ordering::Acquire).await?)
            }
            Release::Cas => GlobalAddr::NULL,
        };
        let late = sabotaged!(self.member, McsHandoverBeforeWriteBack) && !next.is_null();
        if next.is_null() {
            watch.released()?;
            let last = self.leave(ep, lock, me, write_back).await?;
            if last == me || sabotaged!(self.member, NoWaitForSuccessor) {
                // Invariant 5: nobody ever learnt of it.
                return self.retire(ep, held, me);
            }
            if sabotaged!(self.member, McsHandsToTheTail) {
                next = last;
            } else {
                let what = WaitFor::new("mcs: the successor's link", lock);
                let line = ep
                    .wait_until(me.word(NEXT), 1, what, |words| words[0] != 0)
                    .await?;
                next = GlobalAddr::from_bits(line[0]);
            }
        } else {
            if !late {
                // Invariant 4: the grant goes another way than the write-back.
                let flush = !sabotaged!(self.member, HandoverUnflushed);
                write_back.complete(ep, lock, flush).await?;
            }
            watch.released()?;
        }
        watch.tell(|monitor, at| monitor.behind_is_done(at, me))?;
        let loan = watch.tell(|monitor, at| monitor.learned(at, me, next))?;
        watch.tell(|monitor, at| monitor.touched(at, loan))?;
        // Invariant 4: what the holder stored by CPU precedes this post.
        ep.write_words(next.word(GRANT), &[1]).await?;
        watch.tell(|monitor, _| monitor.returned(loan))?;
        if late {
            write_back.complete(ep, lock, true).await?;
        }
        // Invariant 5: the successor's one access was seen.
        self.retire(ep, held, me)
    }
}
