//! FARLock, basic protocol (Hu, Zhou, Wang, Vora, OSDI 2026, Algorithms 1 and 2): one ticket order over both
//! cohorts, tickets taken under Peterson's algorithm by the heads of two queues.
//!
//! # Words
//! One lock is one 64-byte line in its node's host memory; all zero is free.
//!
//! | word | name | changed by | read by |
//! |---|---|---|---|
//! | 0 | `local_tail` | local clients, by CPU (swap, compare-exchange) | |
//! | 1 | `remote_tail` | remote clients, through the RNIC (swap, CAS) | |
//! | 2 | `remote_flag` | the remote contender, by WRITE | the local contender, CPU |
//! | 3 | `victim` | both contenders: CPU store, WRITE | both contenders |
//! | 4 | `local_flag` | the local contender, by CPU store | the remote contender, READ |
//! | 5 | `next_ticket` | who has won Peterson: CPU fetch-add or RNIC FAA | |
//! | 6 | `ticket_owner` | the holder: CPU store, WRITE | the queues' heads |
//! | 7 | `version` | kept for optimistic readers (section 4.4) | |
//!
//! Words 2 to 4 are those of `peterson.rs`, which tells why it works.
//!
//! A descriptor is one line in its client's own host memory:
//!
//! | word | name | changed by |
//! |---|---|---|
//! | 0 | `next` | the successor, once: its own address |
//! | 1 | `release` | the successor, once, after it has read `ticket`: 1 |
//! | 2 | `ticket` | its owner: INVALID (2⁶⁴ − 1), then its ticket |
//! | 3 | – | 0; FARLock-G's `group` |
//! | 4 | `proceed` | the predecessor, at most once: 1 |
//! | 5 | `qgrant` | the predecessor, once, after any `proceed`: 1 |
//!
//! `farlock_g.rs` adds groups to this protocol and takes its other steps from here.
//!
//! # States of a request
//!
//! | state | left when | to |
//! |---|---|---|
//! | joining | the swap of the tail has returned | contending (it found 0) or linking |
//! | linking | `next`, then `ticket`, then `release` of the predecessor are done | contending (its ticket was there) or barred |
//! | barred | `proceed` = 1 | contending |
//! | contending | the other flag is 0 or `victim` is the other cohort | ticketing |
//! | ticketing | `next_ticket` is incremented and the own flag's 0 has been acknowledged | telling |
//! | telling | `ticket` is published; if `next` is there, its `proceed` is set | queued (with a predecessor) or polling |
//! | queued | `qgrant` = 1 | polling |
//! | polling | `ticket_owner` is the own ticket | holding |
//! | holding | release | done (CAS of the tail won) or handing over |
//! | handing over | `release` = 1, then `next`'s `qgrant` is written | done |
//!
//! # Invariants
//! 1. **No word is changed atomically by both a CPU and an RNIC at a time.** Tails belong to one cohort each,
//!    flags and `ticket_owner` are only stored, and `next_ticket` is changed under Peterson only (4).
//! 2. **A cohort has at most one contender.** A request may contend when it has no predecessor in the queue, or
//!    its predecessor has left Peterson. The predecessor publishes `ticket`, and sends `proceed`, only after its
//!    flag's 0 has been ACKNOWLEDGED: a 0 on its way could land on the successor's 1, and a third would get in.
//! 3. **A successor is told.** It writes `next` and then reads `ticket`; the predecessor writes `ticket` and
//!    then reads `next` (Dekker): at least one of them sees the other.
//! 4. **At most one client is between Peterson's entry and its exit** (with 2). Own flag and then `victim` are
//!    set before the look at the other side, and `next_ticket` has been incremented before the flag is cleared.
//! 5. **Consistent ordering:** within a cohort, queue order is ticket order (from 2).
//! 6. **Mutual exclusion:** tickets are unique (from 4), the holder alone advances `ticket_owner`, by one.
//! 7. **The write-back has taken effect before `ticket_owner` is advanced.** Whoever gets in has seen
//!    `ticket_owner`; so `qgrant`, on another queue pair, carries no data.
//! 8. **`proceed` lands before `qgrant`:** it was waited for. So a request whose `qgrant` came hears nothing more
//!    of its predecessor.
//! 9. **A descriptor is reused only when nobody can touch it:** the predecessor by 8; the successor's last access
//!    is the `release` that was waited for, behind its read of `ticket`; without a successor the CAS of the tail
//!    won, so that nobody ever learnt its address.
//!
//! # Orders
//!
//! | step | CPU | verbs |
//! |---|---|---|
//! | `next` → `ticket` read (3) | both `SeqCst`: a store-buffer pattern | chain WRITE, READ: ordered |
//! | `ticket` read → `release` (9) | `Release` store | READ→WRITE: fence |
//! | `ticket` store → `next` load (3) | both `SeqCst`, always by CPU: it is the own descriptor | – |
//! | flag → `victim` → look (4) | all `SeqCst` | chain of one WRITE in increasing order, READ: ordered |
//! | `next_ticket` → flag 0 (4) | `Release` store | atomic→WRITE: fence |
//! | flag 0 → `ticket`, `proceed` (2) | `Release`, program order | the chain's completion is waited for |
//! | write-back → `ticket_owner` (7) | `Release` store | one chain, WRITE→WRITE is ordered and becomes visible to the CPU in order |
//! | `ticket_owner`, CAS of the tail | any order would do | same chain |
//!
//! Why 7 holds along a line of holders on different queue pairs when the last reads the page by CPU: each holder
//! has seen the `ticket_owner` that the one before it wrote behind its write-back, and then stores to the same
//! word; the CPU that sees the last of these stores has all of them, and what was written before each.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, WaitFor};

use crate::descriptor::Pool;
use crate::held::Held;
use crate::member::{Member, sabotaged};
use crate::monitor::Monitor;
use crate::peterson::Peterson;
use crate::queue::{Place, join};
use crate::side::{OfCohort, Steps, wait};
use crate::{Cohort, LockProtocol, Result, WriteBack};

/// Bytes of one lock: a line.
pub(crate) const LOCK_BYTES: u64 = 64;

const LOCAL_TAIL: u64 = 0;
const REMOTE_TAIL: u64 = 1;
/// Where the words of Peterson's algorithm begin: remote flag, victim, local flag.
const PETERSON: u64 = 2;
pub(crate) const NEXT_TICKET: u64 = 5;
pub(crate) const TICKET_OWNER: u64 = 6;

pub(crate) const NEXT: u64 = 0;
const RELEASE: u64 = 1;
pub(crate) const TICKET: u64 = 2;
/// FARLock-G's: in front of `proceed`, so that one WRITE sets both in this order.
pub(crate) const GROUP: u64 = 3;
pub(crate) const PROCEED: u64 = 4;
const QGRANT: u64 = 5;

/// What `proceed` says to a request that is to contend for a ticket of its own.
pub(crate) const CONTEND: u64 = 1;

/// A ticket that is not there yet.
const INVALID: u64 = u64::MAX;

fn tail(lock: GlobalAddr, cohort: Cohort) -> GlobalAddr {
    lock.word(match cohort {
        Cohort::Local => LOCAL_TAIL,
        Cohort::Remote => REMOTE_TAIL,
    })
}

pub(crate) fn peterson(lock: GlobalAddr) -> Peterson {
    Peterson::new(lock.word(PETERSON))
}

/// A client of FARLock.
#[derive(Debug)]
pub struct Farlock {
    pub(crate) member: Rc<Member>,
    pool: Pool,
}

/// Holds a lock of [`Farlock`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
pub struct FarlockGuard {
    pub(crate) held: Held,
    pub(crate) me: GlobalAddr,
    ticket: u64,
}

impl FarlockGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        self.held.lock()
    }

    /// Its place in the lock's order, from 0.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl Farlock {
    pub(crate) fn new(
        client: ClientId,
        monitor: Option<Rc<Monitor>>,
        descriptors: GlobalAddr,
        count: usize,
    ) -> Self {
        Self {
            member: Member::new(client, monitor),
            pool: Pool::new(client, descriptors, count),
        }
    }

    pub(crate) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// Joins the queue of the client's cohort.
    pub(crate) async fn join<E: Endpoint>(&mut self, ep: &E, lock: GlobalAddr) -> Result<Place> {
        let tail = OfCohort(tail(lock, Cohort::of(ep.node(), lock)));
        let initial = [0, 0, INVALID, 0, 0, 0];
        join(&self.member, &mut self.pool, ep, lock, tail, initial).await
    }

    /// Links behind `ahead` and waits until it has left Peterson; returns what it has said: [`CONTEND`], or what
    /// else a `proceed` may be.
    pub(crate) async fn link<E: Endpoint>(
        &self,
        ep: &E,
        place: &Place,
        ahead: GlobalAddr,
    ) -> Result<u64> {
        let lock = place.held.lock();
        let watch = self.member.watch(ep, lock);
        let loan = place.ahead.and_then(|(_, loan)| loan);
        watch.tell(|monitor, at| monitor.touched(at, loan))?;
        let mut steps = Steps::new(ep, ahead);
        // Invariant 3: link, then look.
        steps
            .write(ahead.word(NEXT), place.me.to_bits(), Ordering::SeqCst)
            .await?;
        let ticket = steps.read(ahead.word(TICKET), Ordering::SeqCst).await?;
        // Invariant 9: `release` allows the descriptor's reuse, so it must not overtake that look.
        if !sabotaged!(self.member, FarlockUnfencedRelease) {
            steps.fence();
        }
        steps
            .write(ahead.word(RELEASE), 1, Ordering::Release)
            .await?;
        steps.run().await?;
        let ticket = steps.value(ticket);
        drop(steps);
        watch.tell(|monitor, _| monitor.returned(loan))?;
        if ticket != INVALID {
            return Ok(CONTEND);
        }
        let what = WaitFor::new("farlock: proceed", lock);
        let line = ep
            .wait_until(place.me.word(PROCEED), 1, what, |words| words[0] != 0)
            .await?;
        Ok(line[0])
    }

    /// Enters Peterson (invariant 4).
    pub(crate) async fn enter<E: Endpoint>(&self, ep: &E, lock: GlobalAddr) -> Result<()> {
        let cohort = Cohort::of(ep.node(), lock);
        self.member
            .watch(ep, lock)
            .tell(|monitor, at| monitor.contends(at, cohort))?;
        let what = WaitFor::new("farlock: Peterson", lock);
        peterson(lock)
            .enter(ep, &self.member, cohort, true, what)
            .await
    }

    /// Takes a ticket, leaves Peterson, and lets the successor contend.
    pub(crate) async fn ticket<E: Endpoint>(
        &self,
        ep: &E,
        lock: GlobalAddr,
        me: GlobalAddr,
    ) -> Result<u64> {
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member.watch(ep, lock);
        #[cfg(any(test, feature = "faults"))]
        if let Some(ticket) = self.ticket_wrongly(ep, lock, me).await? {
            return Ok(ticket);
        }
        let mut steps = Steps::new(ep, lock);
        // Behind the look that let this client in, and so behind the other side's increment. Nobody else changes
        // the word now (invariants 1 and 4), so the CPU's atomic or the RNIC's will do.
        let taken = steps
            .faa(lock.word(NEXT_TICKET), 1, Ordering::AcqRel)
            .await?;
        // Invariant 4: the increment is done before the flag says so.
        if !sabotaged!(self.member, FarlockUnfencedLeave) {
            steps.fence();
        }
        steps
            .write(peterson(lock).flag(cohort), 0, Ordering::Release)
            .await?;
        // Invariant 2: this returns when the 0 is acknowledged.
        steps.run().await?;
        let ticket = steps.value(taken);
        drop(steps);
        watch.took_ticket();
        watch.tell(|monitor, at| {
            monitor.decided(at, cohort)?;
            monitor.ticket_taken(at, cohort, ticket)
        })?;
        self.publish(ep, lock, me, ticket).await?;
        Ok(ticket)
    }

    /// Lets the successor contend: Peterson is left, and its flag's 0 acknowledged.
    pub(crate) async fn publish<E: Endpoint>(
        &self,
        ep: &E,
        lock: GlobalAddr,
        me: GlobalAddr,
        ticket: u64,
    ) -> Result<()> {
        // Invariant 3: publish, then look. `SeqCst` twice, or the look may be made first.
        ep.store(me.word(TICKET), ticket, Ordering::SeqCst).await?;
        self.tell_next(ep, lock, me).await
    }

    /// Sets `proceed` of the successor, if there is one already, and waits until it has landed (invariant 8).
    async fn tell_next<E: Endpoint>(&self, ep: &E, lock: GlobalAddr, me: GlobalAddr) -> Result<()> {
        let next = GlobalAddr::from_bits(ep.load(me.word(NEXT), Ordering::SeqCst).await?);
        if !next.is_null() {
            let watch = self.member.watch(ep, lock);
            let loan = watch.tell(|monitor, at| monitor.learned(at, me, next))?;
            watch.tell(|monitor, at| monitor.touched(at, loan))?;
            let mut steps = Steps::new(ep, next);
            steps
                .write(next.word(PROCEED), CONTEND, Ordering::Release)
                .await?;
            steps.run().await?;
        }
        Ok(())
    }

    /// Waits until the lock is the client's: for its turn in the queue, and if `polls`, for that of its ticket.
    pub(crate) async fn settle<E: Endpoint>(
        &self,
        ep: &E,
        place: Place,
        ticket: u64,
        polls: bool,
    ) -> Result<FarlockGuard> {
        let lock = place.held.lock();
        let watch = self.member.watch(ep, lock);
        if place.ahead.is_some() {
            let what = WaitFor::new("farlock: qgrant", lock);
            ep.wait_until(place.me.word(QGRANT), 1, what, |words| words[0] == 1)
                .await?;
            watch.tell(|monitor, at| monitor.ahead_is_done(at, place.me))?;
        }
        if polls {
            // Invariants 6 and 7: an acquire load, or a READ that sees the word, sees what was written before it.
            let what = WaitFor::new("farlock: ticket_owner", lock);
            wait(ep, lock.word(TICKET_OWNER), 1, what, |words| {
                words[0] == ticket
            })
            .await?;
        }
        watch.granted(Cohort::of(ep.node(), lock))?;
        let Place { mut held, me, .. } = place;
        held.granted();
        Ok(FarlockGuard { held, me, ticket })
    }

    /// Waits until the successor is done with `me` and lets it be the head of the queue; `next` is null when it
    /// is not known yet. `hasty` leaves out what the wait is for.
    pub(crate) async fn hand_over<E: Endpoint>(
        &self,
        ep: &E,
        lock: GlobalAddr,
        me: GlobalAddr,
        mut next: GlobalAddr,
        hasty: bool,
    ) -> Result<()> {
        let watch = self.member.watch(ep, lock);
        let what = WaitFor::new("farlock: release", lock);
        let word = me.word(if hasty { NEXT } else { RELEASE });
        ep.wait_until(word, 1, what, |words| words[0] != 0).await?;
        if next.is_null() {
            // Written before `release`, so visible with it.
            next = GlobalAddr::from_bits(ep.load(me.word(NEXT), Ordering::Acquire).await?);
        }
        if !hasty {
            watch.tell(|monitor, at| monitor.behind_is_done(at, me))?;
        }
        let loan = watch.tell(|monitor, at| monitor.learned(at, me, next))?;
        watch.tell(|monitor, at| monitor.touched(at, loan))?;
        let mut steps = Steps::new(ep, next);
        steps.write(next.word(QGRANT), 1, Ordering::Release).await?;
        steps.run().await?;
        drop(steps);
        watch.tell(|monitor, _| monitor.returned(loan))
    }

    /// The release is over (invariant 9).
    pub(crate) fn retire<E: Endpoint>(&mut self, ep: &E, held: Held, me: GlobalAddr) -> Result<()> {
        self.member
            .watch(ep, held.lock())
            .tell(|monitor, at| monitor.retired(at, me))?;
        self.pool.put(me);
        held.disarm();
        Ok(())
    }
}

/// Ways to take a ticket that break invariant 2.
#[cfg(any(test, feature = "faults"))]
impl Farlock {
    async fn ticket_wrongly<E: Endpoint>(
        &self,
        ep: &E,
        lock: GlobalAddr,
        me: GlobalAddr,
    ) -> Result<Option<u64>> {
        let early = sabotaged!(self.member, FarlockPublishBeforeLeaving);
        if !early && !sabotaged!(self.member, FarlockTellBeforeAcknowledged) {
            return Ok(None);
        }
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member.watch(ep, lock);
        let mut steps = Steps::new(ep, lock);
        let taken = steps
            .faa(lock.word(NEXT_TICKET), 1, Ordering::AcqRel)
            .await?;
        steps.run().await?;
        let ticket = steps.value(taken);
        drop(steps);
        watch.tell(|monitor, at| monitor.ticket_taken(at, cohort, ticket))?;
        watch.took_ticket();
        let mut steps = Steps::new(ep, lock);
        if early {
            ep.store(me.word(TICKET), ticket, Ordering::SeqCst).await?;
            steps
                .write(peterson(lock).flag(cohort), 0, Ordering::Release)
                .await?;
            steps.run().await?;
            watch.tell(|monitor, at| monitor.decided(at, cohort))?;
            self.tell_next(ep, lock, me).await?;
        } else {
            steps
                .write(peterson(lock).flag(cohort), 0, Ordering::Release)
                .await?;
            let (cleared, told) =
                crate::fault::both(steps.run(), self.tell_next(ep, lock, me)).await;
            cleared.and(told)?;
            watch.tell(|monitor, at| monitor.decided(at, cohort))?;
            ep.store(me.word(TICKET), ticket, Ordering::SeqCst).await?;
            self.tell_next(ep, lock, me).await?;
        }
        Ok(Some(ticket))
    }
}

impl<E: Endpoint> LockProtocol<E> for Farlock {
    type Guard = FarlockGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<FarlockGuard> {
        self.member.check()?;
        let place = self.join(ep, lock).await?;
        if let Some((ahead, _)) = place.ahead {
            self.link(ep, &place, ahead).await?;
        }
        self.enter(ep, lock).await?;
        let ticket = self.ticket(ep, lock, place.me).await?;
        self.settle(ep, place, ticket, true).await
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        self.member.hint(ep, lock, lock);
    }

    async fn release(
        &mut self,
        ep: &E,
        guard: FarlockGuard,
        write_back: WriteBack<'_>,
    ) -> Result<()> {
        let FarlockGuard {
            mut held,
            me,
            ticket,
        } = guard;
        held.releasing(&self.member)?;
        let lock = held.lock();
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member.watch(ep, lock);
        // Acquire: the successor set its descriptor up before it linked itself.
        let next = GlobalAddr::from_bits(ep.load(me.word(NEXT), Ordering::Acquire).await?);
        let mut steps = Steps::new(ep, lock);
        let late = sabotaged!(self.member, FarlockOwnerBeforeWriteBack);
        if !late {
            // Invariant 7.
            steps.write_back(write_back, lock).await?;
        }
        watch.released()?;
        steps
            .write(lock.word(TICKET_OWNER), ticket + 1, Ordering::Release)
            .await?;
        // Without a known successor the queue may end here. Its CAS rides along: no step of its own when it wins.
        let cas = if next.is_null() {
            let tail = tail(lock, cohort);
            Some(steps.cas(tail, me.to_bits(), 0, Ordering::SeqCst).await?)
        } else {
            None
        };
        steps.run().await?;
        let alone = cas.is_some_and(|cas| steps.value(cas) == me.to_bits());
        drop(steps);
        if late {
            write_back.complete(ep, lock, true).await?;
        }
        if !alone {
            let hasty = sabotaged!(self.member, FarlockNoReleaseHandshake);
            self.hand_over(ep, lock, me, next, hasty).await?;
        }
        self.retire(ep, held, me)
    }
}
