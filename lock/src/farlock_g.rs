//! FARLock-G: FARLock with fairness-preserving grouping (Hu, Zhou, Wang, Vora, OSDI 2026, Algorithm 3). Neighbours in
//! a cohort's queue share one ticket, and with it one turn: up to a budget of grants in a row that cost the cohort
//! one visit to Peterson's algorithm and one look at `ticket_owner`.
//!
//! Only what differs from `farlock.rs` is told here. Who gets in as a *head* takes a ticket, as there. Instead of
//! leaving Peterson's algorithm it hands the ticket and its stay there on to its successor, a *member*, which may do
//! the same. The *last* one leaves for all of them. With budgets of 1 nobody hands on, and every step is FARLock's.
//!
//! # Words
//! The lock's are FARLock's. A descriptor is FARLock's with two words that say more:
//!
//! | word | name | changed by |
//! |---|---|---|
//! | 0 | `next` | the successor, once: its own address |
//! | 1 | `release` | the successor, once, after it has read `ticket`: 1 |
//! | 2 | `ticket` | its owner: INVALID; the ticket, once it has left Peterson for its group |
//! | 3 | `group` | the predecessor, at most once, before `proceed`: the ticket that is handed on |
//! | 4 | `proceed` | the predecessor, at most once: 1 to be a head, 1 + b to be a member when b grants are left |
//! | 5 | `qgrant` | the predecessor, once, after any `proceed`: 1 |
//!
//! # States of a request
//!
//! | state | left when | to |
//! |---|---|---|
//! | joining, linking | as in FARLock | contending (no predecessor, or its ticket was there) or barred |
//! | barred | `proceed` ≠ 0 | contending (1) or deciding (more) |
//! | contending | the other flag is 0 or `victim` is the other cohort | ticketing |
//! | ticketing | `next_ticket` is incremented | deciding |
//! | deciding | `next` was looked at, if the budget left is more than 1 | handing on (it was there) or leaving |
//! | handing on | `next`'s `group` and `proceed` have landed | queued (with a predecessor) or polling |
//! | leaving | the cohort's flag's 0 has been acknowledged | telling |
//! | telling | `ticket` is published; if `next` is there, its `proceed` is 1 | queued (with a predecessor) or polling |
//! | queued | `qgrant` = 1 | holding (a member) or polling (a head) |
//! | polling | `ticket_owner` is the own ticket | holding |
//! | holding | release | ending (the last) or passing (who has handed on) |
//! | ending | as FARLock's release: `ticket_owner` is advanced | done, by CAS of the tail or by `qgrant` |
//! | passing | the write-back is visible, `release` = 1, then `next`'s `qgrant` is written | done |
//!
//! A head decides before it sends for its ticket, so that by verbs a head without a successor takes its ticket and
//! leaves in one chain, as in FARLock; the paper's looks at `next` when the ticket has come.
//!
//! # Invariants
//! 1. **FARLock's 1, 3, 5 and 8 as they are;** 5 reads: queue order is the order of tickets, then of the group.
//! 2. **A cohort has at most one contender,** which is one client at a time: the head from its flag's 1 on, then
//!    whom it is handed on to. Who hands on does not touch Peterson's words any more, and it never publishes its
//!    `ticket`: its successor, which reads INVALID for ever, does nothing before its `proceed`. Only the last
//!    publishes and says 1, after its flag's 0 has been ACKNOWLEDGED (FARLock's 2).
//! 3. **At most one client is between Peterson's entry and its exit** (FARLock's 4 with 2). The head's flag, `victim`
//!    and increment have taken effect before it hands on, so they are in order with the last one's 0, which
//!    another queue pair or core writes.
//! 4. **A successor is told once:** as a member when `next` was seen in time; else as a head, by `ticket` or by the look
//!    at `next` that follows its publication (FARLock's 3). No link is missed because a group was about to end.
//! 5. **A member knows its ticket:** `group` is set before `proceed`, and read after it.
//! 6. **A group has at most its cohort's budget of grants:** each hands on one less than it was handed, and 1 is not
//!    handed on. It is the same for the queue behind it: the successor of the last takes a later ticket.
//! 7. **Mutual exclusion:** within a group the lock goes along the queue by `qgrant`; only its head waits for
//!    `ticket_owner`, and only its last, which knows itself from 2 on, advances it, by one.
//! 8. **The write-back has taken effect, for CPUs too, before `qgrant` within a group:** the member that gets it looks
//!    at nothing else, and lets in somebody who reads the page by CPU, without having touched it itself. Between
//!    groups FARLock's 7 holds: the last one's write-back precedes `ticket_owner`, everybody else's was visible.
//! 9. **A descriptor is reused only when nobody can touch it:** for the last as in FARLock; who has handed on has a
//!    successor, whose last access is the `release` that is waited for; the predecessor's last is `qgrant`, and what
//!    it wrote before, `group` and `proceed`, it has waited for.
//!
//! # Orders
//!
//! Beside FARLock's:
//!
//! | step | CPU | verbs |
//! |---|---|---|
//! | successor's set-up → `next` → look at it | acquire load, always by CPU: it is the own descriptor | – |
//! | flag, `next_ticket` → `group`, `proceed` (3) | `Release` store | the chain's completion is waited for |
//! | `group` → `proceed` (5) | both `Release` stores | one WRITE, in increasing order |
//! | `proceed` → load of `group` (5) | acquire load first | always by CPU: it is the own descriptor |
//! | `proceed` → the last's flag 0 (3) | acquire load, `Release` store | seen before it is posted |
//! | write-back → `qgrant` in a group (8) | stores, then `Release` | other queue pair: after completion, and flushed |

use std::rc::Rc;
use std::sync::atomic::Ordering;

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr};

use crate::farlock::{
    CONTEND, Farlock, FarlockGuard, GROUP, NEXT, NEXT_TICKET, PROCEED, TICKET, TICKET_OWNER,
    peterson,
};
use crate::member::{Member, sabotaged};
use crate::monitor::Monitor;
use crate::side::Steps;
use crate::{Budgets, Cohort, LockProtocol, Result, WriteBack};

/// A client of FARLock-G.
#[derive(Debug)]
pub struct FarlockG {
    /// Whose steps these are, apart from groups.
    basic: Farlock,
    budgets: Budgets,
}

/// Holds a lock of [`FarlockG`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
pub struct FarlockGGuard {
    basic: FarlockGuard,
    /// Whose turn is next within the group; nobody's when this is its last.
    heir: Option<GlobalAddr>,
}

impl FarlockGGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        self.basic.lock()
    }

    /// Its group's place in the lock's order, from 0.
    pub fn ticket(&self) -> u64 {
        self.basic.ticket()
    }
}

/// A ticket, and the successor that it was handed on to.
type Part = (u64, Option<GlobalAddr>);

impl FarlockG {
    pub(crate) fn new(
        client: ClientId,
        monitor: Option<Rc<Monitor>>,
        budgets: Budgets,
        descriptors: GlobalAddr,
        count: usize,
    ) -> Self {
        Self {
            basic: Farlock::new(client, monitor, descriptors, count),
            budgets,
        }
    }

    pub(crate) fn member(&self) -> &Rc<Member> {
        self.basic.member()
    }

    /// The successor to whom a turn with `left` grants, the own one among them, is to be handed on.
    async fn heir<E: Endpoint>(
        &self,
        ep: &E,
        me: GlobalAddr,
        left: u64,
    ) -> Result<Option<GlobalAddr>> {
        // Invariant 6.
        if left <= 1 {
            return Ok(None);
        }
        // Acquire: the successor set its descriptor up before it linked itself.
        let next = GlobalAddr::from_bits(ep.load(me.word(NEXT), Ordering::Acquire).await?);
        Ok((!next.is_null()).then_some(next))
    }

    /// Begins a group: takes a ticket under Peterson, and hands it on or leaves.
    async fn begin<E: Endpoint>(&self, ep: &E, lock: GlobalAddr, me: GlobalAddr) -> Result<Part> {
        let cohort = Cohort::of(ep.node(), lock);
        self.basic.enter(ep, lock).await?;
        let budget = self.budgets.of(cohort);
        let Some(heir) = self.heir(ep, me, budget).await? else {
            return Ok((self.basic.ticket(ep, lock, me).await?, None));
        };
        let mut steps = Steps::new(ep, lock);
        // FARLock's invariants 1 and 4 let the CPU's atomic or the RNIC's do.
        let taken = steps
            .faa(lock.word(NEXT_TICKET), 1, Ordering::AcqRel)
            .await?;
        // Invariant 3: this returns when the increment has taken effect.
        steps.run().await?;
        let ticket = steps.value(taken);
        drop(steps);
        let watch = self.member().watch(ep, lock);
        watch.tell(|monitor, at| monitor.ticket_taken(at, cohort, ticket))?;
        watch.took_ticket();
        self.hand_on(ep, lock, me, heir, ticket, budget).await?;
        Ok((ticket, Some(heir)))
    }

    /// Goes on with a group of which `left` grants are left: hands it on, or leaves Peterson for it.
    async fn go_on<E: Endpoint>(
        &self,
        ep: &E,
        lock: GlobalAddr,
        me: GlobalAddr,
        left: u64,
    ) -> Result<Part> {
        let cohort = Cohort::of(ep.node(), lock);
        let watch = self.member().watch(ep, lock);
        // Invariant 5: the load of `proceed` came first.
        let ticket = ep.load(me.word(GROUP), Ordering::Acquire).await?;
        if !sabotaged!(self.member(), FarlockGOverBudget) {
            watch.tell(|monitor, at| {
                monitor.joined_group(at, me, ticket, left, self.budgets.of(cohort))
            })?;
        }
        let heir = self.heir(ep, me, left).await?;
        if let Some(heir) = heir {
            self.hand_on(ep, lock, me, heir, ticket, left).await?;
            return Ok((ticket, Some(heir)));
        }
        let mut steps = Steps::new(ep, lock);
        // Invariant 3: the head's increment had taken effect before it handed on.
        steps
            .write(peterson(lock).flag(cohort), 0, Ordering::Release)
            .await?;
        // Invariant 2: this returns when the 0 is acknowledged.
        steps.run().await?;
        drop(steps);
        watch.tell(|monitor, at| monitor.decided(at, cohort))?;
        if sabotaged!(self.member(), FarlockGNoSecondLook) {
            ep.store(me.word(TICKET), ticket, Ordering::SeqCst).await?;
        } else {
            // Invariant 4.
            self.basic.publish(ep, lock, me, ticket).await?;
        }
        Ok((ticket, None))
    }

    /// Makes the successor `heir` the next member of a group of which `left` grants are left, the own one among them,
    /// and waits until it has landed: `qgrant` comes later (FARLock's invariant 8).
    async fn hand_on<E: Endpoint>(
        &self,
        ep: &E,
        lock: GlobalAddr,
        me: GlobalAddr,
        heir: GlobalAddr,
        ticket: u64,
        left: u64,
    ) -> Result<()> {
        let watch = self.member().watch(ep, lock);
        if sabotaged!(self.member(), FarlockGMemberPublishes) {
            ep.store(me.word(TICKET), ticket, Ordering::SeqCst).await?;
        }
        let loan = watch.tell(|monitor, at| monitor.learned(at, me, heir))?;
        watch.tell(|monitor, at| monitor.touched(at, loan))?;
        let budget = self.budgets.of(Cohort::of(ep.node(), lock));
        watch.tell(|monitor, at| monitor.handed_on(at, me, heir, ticket, budget))?;
        // Invariant 6.
        let spent = u64::from(!sabotaged!(self.member(), FarlockGOverBudget));
        let proceed = CONTEND + left - spent;
        let mut steps = Steps::new(ep, heir);
        if sabotaged!(self.member(), FarlockGProceedBeforeGroup) {
            steps
                .write(heir.word(PROCEED), proceed, Ordering::Release)
                .await?;
            steps
                .write(heir.word(GROUP), ticket, Ordering::Release)
                .await?;
        } else {
            // Invariant 5.
            steps
                .write_two(heir.word(GROUP), [ticket, proceed], Ordering::Release)
                .await?;
        }
        steps.run().await
    }

    /// Releases within a group.
    async fn pass<E: Endpoint>(
        &mut self,
        ep: &E,
        guard: FarlockGuard,
        heir: GlobalAddr,
        write_back: WriteBack<'_>,
    ) -> Result<()> {
        let ticket = guard.ticket();
        let FarlockGuard { mut held, me, .. } = guard;
        held.releasing(self.member())?;
        let lock = held.lock();
        let watch = self.member().watch(ep, lock);
        let late = sabotaged!(self.member(), FarlockGHandoverBeforeWriteBack);
        if !late {
            // Invariant 8: the grant goes another way than the write-back.
            let flush = !sabotaged!(self.member(), HandoverUnflushed);
            write_back.complete(ep, lock, flush).await?;
        }
        if sabotaged!(self.member(), FarlockGMemberAdvances) {
            let mut steps = Steps::new(ep, lock);
            steps
                .write(lock.word(TICKET_OWNER), ticket + 1, Ordering::Release)
                .await?;
            steps.run().await?;
        }
        watch.released()?;
        let hasty = sabotaged!(self.member(), FarlockGNoReleaseHandshake);
        self.basic.hand_over(ep, lock, me, heir, hasty).await?;
        if late {
            write_back.complete(ep, lock, true).await?;
        }
        // Invariant 9.
        self.basic.retire(ep, held, me)
    }
}

impl<E: Endpoint> LockProtocol<E> for FarlockG {
    type Guard = FarlockGGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<FarlockGGuard> {
        self.member().check()?;
        let place = self.basic.join(ep, lock).await?;
        let proceed = match place.ahead {
            Some((ahead, _)) => self.basic.link(ep, &place, ahead).await?,
            None => CONTEND,
        };
        let head = proceed == CONTEND;
        let (ticket, heir) = if head {
            self.begin(ep, lock, place.me).await?
        } else {
            self.go_on(ep, lock, place.me, proceed - CONTEND).await?
        };
        // Invariant 7.
        let basic = self.basic.settle(ep, place, ticket, head).await?;
        Ok(FarlockGGuard { basic, heir })
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        self.basic.member().hint(ep, lock, lock);
    }

    async fn release(
        &mut self,
        ep: &E,
        guard: FarlockGGuard,
        write_back: WriteBack<'_>,
    ) -> Result<()> {
        let FarlockGGuard { basic, heir } = guard;
        if let Some(heir) = heir {
            return self.pass(ep, basic, heir, write_back).await;
        }
        // Invariant 7.
        self.member()
            .watch(ep, basic.lock())
            .tell(|monitor, at| monitor.ends_turn(at, basic.me))?;
        self.basic.release(ep, basic, write_back).await
    }
}
