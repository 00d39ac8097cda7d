//! ALock (Baran et al., SPAA 2024): two cohorts, an MCS queue each, Peterson's algorithm between their heads.
//!
//! # Words
//! One lock is one 64-byte line in its node's host memory; all zero is free.
//!
//! | word | name | changed by | read by |
//! |---|---|---|---|
//! | 0 | `remote_tail` | remote clients, through the RNIC (swap, CAS) | local leader, CPU |
//! | 1 | `victim` | leaders: local by CPU store, remote by WRITE | both leaders |
//! | 2 | `local_tail` | local clients, by CPU (swap, compare-exchange) | remote leader, READ |
//!
//! A tail is the address of the last descriptor of its cohort's queue, 0 when the queue is empty. The tails are
//! the flags of Peterson's algorithm (`peterson.rs` tells why it works and what `victim` holds).
//!
//! A descriptor is one line in its client's own host memory:
//!
//! | word | name | changed by |
//! |---|---|---|
//! | 0 | `next` | the successor, once: its own address |
//! | 1 | `grant` | the predecessor, once: the budget that is left, plus 1 |
//!
//! # States of a request
//!
//! | state | left when | to |
//! |---|---|---|
//! | joining | the swap of the tail has returned | leading (it found 0) or waiting |
//! | waiting | `grant` ≠ 0 | holding (budget > 0) or leading (budget 0) |
//! | leading | the other tail is 0 or `victim` is the other cohort | holding, budget refilled |
//! | holding | release | done (CAS of the tail won) or handing over |
//! | handing over | `next` ≠ 0 and `next`'s `grant` is written | done |
//!
//! # Two ways to release
//! A holder looks at `next` first, and sends the CAS of the tail only when nobody is linked there. The published code
//! sends the CAS with every release (`alock:cas-release`, `alock:LOCAL,REMOTE:cas-release`): a remote holder's
//! write-back then travels in one chain with it, and the hand-over waits for one more atomic.
//!
//! # Invariants
//! 1. **No word is changed atomically by both a CPU and an RNIC.** Each cohort changes its own tail only;
//!    `victim` is only ever stored.
//! 2. **A cohort has at most one leader or holder:** the head of its queue. Only the swap that finds 0, and only
//!    a `grant`, make a client the head; a head goes by making the tail 0 or by one `grant`.
//! 3. **The tail is the cohort's Peterson flag:** non-zero from before its leader makes itself the victim until
//!    after its last holder's write-back.
//! 4. **Mutual exclusion:** a leader sets `victim` AFTER its tail was swapped in, and looks at the other side
//!    after that (Peterson, with invariants 2 and 3).
//! 5. **A budget of b is at most b grants in a row:** a head that is handed 0 makes its cohort the victim again,
//!    which lets a waiting leader of the other cohort in first.
//! 6. **The write-back has taken effect before anybody is let in.**
//! 7. **A descriptor is reused only when nobody can touch it:** its predecessor's one access is the `grant` that
//!    was waited for; its successor's one access is the `next` that was seen, and without a successor the CAS of
//!    the tail won, so that nobody ever learnt its address.
//!
//! # Orders
//!
//! | step | CPU | verbs |
//! |---|---|---|
//! | swap tail → store victim → load other tail, victim (4) | all `SeqCst`: a store-buffer pattern | swap completed; chain WRITE, READ: ordered |
//! | store `next` | `Release`, after own set-up | CPU stores precede a post |
//! | wait for `grant`, `next` | acquire loads | – |
//! | write-back → compare-exchange of the tail (6) | `SeqCst` (part of 4 for the other side) | one chain, WRITE→atomic is ordered |
//! | write-back → `grant` (6) | stores, then `Release` | other queue pair: after completion, made visible to the CPU too |

use std::rc::Rc;
use std::sync::atomic::Ordering;

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, WaitFor};

use crate::descriptor::Pool;
use crate::held::Held;
use crate::member::{Member, sabotaged};
use crate::monitor::Monitor;
use crate::peterson::Peterson;
use crate::queue::{Place, join};
use crate::side::{OfCohort, Steps};
use crate::{Budgets, Cohort, LockProtocol, Release, Result, WriteBack};

/// Bytes of one lock: a line.
pub(crate) const LOCK_BYTES: u64 = 64;

/// Where the words of Peterson's algorithm begin: all three, with tails for flags.
const PETERSON: u64 = 0;

const NEXT: u64 = 0;
const GRANT: u64 = 1;

/// A cohort's tail, which is its flag in Peterson's algorithm (invariant 3).
fn tail(lock: GlobalAddr, cohort: Cohort) -> GlobalAddr {
    Peterson::new(lock.word(PETERSON)).flag(cohort)
}

/// A client of ALock.
#[derive(Debug)]
pub struct Alock {
    member: Rc<Member>,
    pool: Pool,
    budgets: Budgets,
    release: Release,
}

/// Holds a lock of [`Alock`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
pub struct AlockGuard {
    held: Held,
    me: GlobalAddr,
    /// Grants that the cohort has left, this one among them.
    budget: u64,
}

impl AlockGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        self.held.lock()
    }
}

impl Alock {
    pub(crate) fn new(
        client: ClientId,
        monitor: Option<Rc<Monitor>>,
        budgets: Budgets,
        release: Release,
        descriptors: GlobalAddr,
        count: usize,
    ) -> Self {
        Self {
            member: Member::new(client, monitor),
            pool: Pool::new(client, descriptors, count),
            budgets,
            release,
        }
    }

    pub(crate) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// The head of its cohort's queue competes with the other cohort's head; it comes back with a full budget.
    async fn lead<E: Endpoint>(&self, ep: &E, lock: GlobalAddr) -> Result<u64> {
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member.watch(ep, lock);
        watch.tell(|monitor, at| monitor.contends(at, cohort))?;
        // Invariant 4: the tail is swapped in already.
        let what = WaitFor::new("alock: the other cohort", lock);
        Peterson::new(lock.word(PETERSON))
            .enter(ep, &self.member, cohort, false, what)
            .await?;
        watch.tell(|monitor, at| monitor.decided(at, cohort))?;
        Ok(self.budgets.of(cohort))
    }

    /// Links behind `ahead` and waits for its grant; returns the budget that it leaves.
    async fn follow<E: Endpoint>(&self, ep: &E, place: &Place, ahead: GlobalAddr) -> Result<u64> {
        let lock = place.held.lock();
        let watch = self.member.watch(ep, lock);
        let loan = place.ahead.and_then(|(_, loan)| loan);
        watch.tell(|monitor, at| monitor.touched(at, loan))?;
        let mut steps = Steps::new(ep, ahead);
        steps
            .write(ahead.word(NEXT), place.me.to_bits(), Ordering::Release)
            .await?;
        steps.run().await?;
        drop(steps);
        watch.tell(|monitor, _| monitor.returned(loan))?;
        let grant = place.me.word(GRANT);
        let line = ep
            .wait_until(grant, 1, WaitFor::new("alock: grant", lock), |words| {
                words[0] != 0
            })
            .await?;
        watch.tell(|monitor, at| monitor.ahead_is_done(at, place.me))?;
        Ok(line[0] - 1)
    }

    fn retire<E: Endpoint>(&mut self, ep: &E, held: Held, me: GlobalAddr) -> Result<()> {
        self.member
            .watch(ep, held.lock())
            .tell(|monitor, at| monitor.retired(at, me))?;
        self.pool.put(me);
        held.disarm();
        Ok(())
    }
}

impl<E: Endpoint> LockProtocol<E> for Alock {
    type Guard = AlockGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<AlockGuard> {
        self.member.check()?;
        let cohort = Cohort::of(ep.node(), lock);
        let place = join(
            &self.member,
            &mut self.pool,
            ep,
            lock,
            OfCohort(tail(lock, cohort)),
            [0, 0],
        )
        .await?;
        let left = match place.ahead {
            Some((ahead, _)) => self.follow(ep, &place, ahead).await?,
            None => 0,
        };
        // Invariant 5.
        let budget = if left > 0 {
            left
        } else {
            self.lead(ep, lock).await?
        };
        self.member.watch(ep, lock).granted(cohort)?;
        let Place { mut held, me, .. } = place;
        held.granted();
        Ok(AlockGuard { held, me, budget })
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        self.member.hint(ep, lock, lock);
    }

    async fn release(
        &mut self,
        ep: &E,
        guard: AlockGuard,
        write_back: WriteBack<'_>,
    ) -> Result<()> {
        let AlockGuard {
            mut held,
            me,
            budget,
        } = guard;
        held.releasing(&self.member)?;
        let lock = held.lock();
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member.watch(ep, lock);
        let mut next = match self.release {
            // Acquire: the successor set its descriptor up before it linked itself.
            Release::Look => {
                GlobalAddr::from_bits(ep.load(me.word(NEXT), Ordering::Acquire).await?)
            }
            Release::Cas => GlobalAddr::NULL,
        };
        let late = sabotaged!(self.member, AlockHandoverBeforeWriteBack) && !next.is_null();
        if next.is_null() {
            watch.released()?;
            let mut steps = Steps::new(ep, lock);
            // Invariant 6, in one chain: WRITE→atomic is ordered.
            steps.write_back(write_back, lock).await?;
            let found = steps
                .cas(tail(lock, cohort), me.to_bits(), 0, Ordering::SeqCst)
                .await?;
            steps.run().await?;
            let found = steps.value(found);
            drop(steps);
            if found == me.to_bits() || sabotaged!(self.member, NoWaitForSuccessor) {
                // Invariant 7: nobody ever learnt of it.
                return self.retire(ep, held, me);
            }
            let what = WaitFor::new("alock: the successor's link", lock);
            let line = ep
                .wait_until(me.word(NEXT), 1, what, |words| words[0] != 0)
                .await?;
            next = GlobalAddr::from_bits(line[0]);
        } else {
            if !late {
                // Invariant 6: the grant goes another way than the write-back.
                let flush = !sabotaged!(self.member, HandoverUnflushed);
                write_back.complete(ep, lock, flush).await?;
            }
            watch.released()?;
        }
        watch.tell(|monitor, at| monitor.behind_is_done(at, me))?;
        let loan = watch.tell(|monitor, at| monitor.learned(at, me, next))?;
        watch.tell(|monitor, at| monitor.touched(at, loan))?;
        let mut steps = Steps::new(ep, next);
        // The budget left, plus 1 so that it is not 0. Release: after the write-back's stores (invariant 6).
        steps
            .write(next.word(GRANT), budget, Ordering::Release)
            .await?;
        steps.run().await?;
        drop(steps);
        watch.tell(|monitor, _| monitor.returned(loan))?;
        if late {
            write_back.complete(ep, lock, true).await?;
        }
        // Invariant 7: the successor's one access was seen.
        self.retire(ep, held, me)
    }
}
