//! [`Monitor`]: the invariants that the protocols claim, asserted while they run.
//!
//! One monitor watches all clients of a simulated cluster. Protocols tell it what they do at the instant they do
//! it; it costs no virtual time and reads no protocol memory, so it cannot hide a race. On real fabrics, where
//! clients are in different processes, there is none.
//!
//! 1. **Mutual exclusion**: nobody is granted a lock that somebody holds.
//! 2. **Ticket order**: the tickets of one lock are granted in the order 0, 1, 2 …, and none is taken twice.
//! 3. **Consistent ordering**: within a cohort, queue order = ticket order (FARLock, section 4.2), and nobody is
//!    granted before its predecessor.
//! 4. **Descriptors**: none is reused while somebody may still touch it, none is touched after its owner has
//!    taken it back, and none has two successors.
//! 5. **Progress**: as long as clients wait for a lock, grants happen ([`Monitor::stalled`]).
//! 6. **Peterson**: at most one client of a cohort contends at a time.
//! 7. **Groups** (FARLock-G): a group has one ticket and at most its budget of members, each the successor of the
//!    one before; it is granted in this order, with no other ticket in between; only the last of it ends its turn.
//!
//! # What is known when
//! A client learns of its own verbs' effects late, and others may act on them before. So
//! * holding begins when the holder knows, and ends right before the first step that can let the next one in;
//! * the order of a queue is rebuilt from who found whom at the tail, not from when it was told. What a
//!   predecessor is asked for here (its ticket, its grant) it has told before it did what lets the successor on;
//! * two clients of different cohorts may tell of their tickets in either order, those of one cohort may not;
//! * a descriptor is on loan to its predecessor and its successor until their last access is known to have
//!   happened: to the borrower by the verb's completion, or, often earlier, to the owner by the word it wrote.

mod descriptors;
mod groups;
mod lock_state;
mod report;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt;

use dmtree_cluster::{ClientId, GlobalAddr};

use crate::{Cohort, ErrorKind, LockTable, Result};
pub(crate) use descriptors::Borrow;
use descriptors::{Descriptors, Key};
pub use lock_state::LockCounters;
use lock_state::{LockState, NOBODY};

/// A broken invariant, with everything needed to look for the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant, in words.
    pub invariant: &'static str,
    /// Of which lock.
    pub lock: GlobalAddr,
    /// Who noticed.
    pub client: ClientId,
    /// When, in nanoseconds of the fabric's clock.
    pub at_ns: u64,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: lock {}, {}, at {} ns: {}",
            self.invariant, self.lock, self.client, self.at_ns, self.detail
        )
    }
}

/// Who does something to which lock, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub lock: GlobalAddr,
    pub client: ClientId,
    pub now_ns: u64,
}

impl Moment {
    /// What is told of it is put together here, out of the way of the steps that are right.
    #[cold]
    #[inline(never)]
    fn violation<T>(self, invariant: &'static str, detail: impl FnOnce() -> String) -> Result<T> {
        let Moment {
            lock,
            client,
            now_ns,
        } = self;
        Err(ErrorKind::Violation(Violation {
            invariant,
            lock,
            client,
            at_ns: now_ns,
            detail: detail(),
        })
        .into())
    }
}

const EXCLUSION: &str = "mutual exclusion";
const TICKETS: &str = "ticket order";
const ORDER: &str = "consistent ordering";
const DESCRIPTORS: &str = "descriptors";
const PETERSON: &str = "one contender a cohort";
const GROUPS: &str = "groups";
const SEQUENCE: &str = "a client's own sequence";

const NOT_ASKED: &str = "it has not asked for this lock";

/// A client's request that is not granted.
#[derive(Clone, Copy, Debug)]
struct Request {
    lock: GlobalAddr,
    cohort: Cohort,
    since_ns: u64,
    ticket: Option<u64>,
    descriptor: Option<Key>,
}

#[derive(Debug)]
struct State {
    table: LockTable,
    locks: Vec<LockState>,
    /// Whose request or guard of which lock got lost.
    lost: Vec<(GlobalAddr, ClientId)>,
    /// By client.
    requests: Vec<Option<Request>>,
    descriptors: Descriptors,
}

impl State {
    #[inline]
    fn request(&mut self, client: ClientId) -> &mut Option<Request> {
        let index = client.0 as usize;
        if self.requests.len() <= index {
            self.requests.resize(index + 1, None);
        }
        &mut self.requests[index]
    }

    #[inline]
    fn lock(&mut self, lock: GlobalAddr) -> &mut LockState {
        &mut self.locks[self.table.index_of(lock)]
    }

    /// The request that something is told of.
    #[inline]
    fn requesting(&mut self, at: Moment) -> Result<&mut Request> {
        match self.request(at.client) {
            Some(request) if request.lock == at.lock => Ok(request),
            _ => at.violation(SEQUENCE, || NOT_ASKED.to_owned()),
        }
    }

    /// Checks among the requests that nobody else has `ticket`.
    #[cold]
    fn taken_once(&self, at: Moment, ticket: u64) -> Result<()> {
        let has_it = |request: &Request| request.lock == at.lock && request.ticket == Some(ticket);
        let other = self.requests.iter().enumerate().find(|(client, request)| {
            *client != at.client.0 as usize && request.as_ref().is_some_and(has_it)
        });
        match other {
            Some((other, _)) => {
                let other = ClientId(other as u32);
                at.violation(TICKETS, move || {
                    format!("took ticket {ticket}, which {other} has")
                })
            }
            None => Ok(()),
        }
    }
}

/// Watches the locks of one table.
#[derive(Debug)]
pub struct Monitor {
    state: RefCell<State>,
}

// What every acquire tells is inlined by force: each is a few instructions, and their callers are large.
impl Monitor {
    /// A monitor of the locks of `table`, none of which anybody has asked for yet.
    pub fn new(table: &LockTable) -> Self {
        let state = State {
            locks: vec![LockState::NEW; table.index_end()],
            lost: Vec::new(),
            table: table.clone(),
            requests: Vec::new(),
            descriptors: Descriptors::default(),
        };
        Self {
            state: RefCell::new(state),
        }
    }

    /// Tells of `count` descriptors from `start` on; before anybody uses them.
    pub(crate) fn watch_descriptors(&self, start: GlobalAddr, count: usize) {
        self.state.borrow_mut().descriptors.add(start, count);
    }

    /// Brings what is known of `lock` near, which is somewhere in megabytes.
    pub(crate) fn hint(&self, lock: GlobalAddr) {
        let state = self.state.borrow();
        if let Some(known) = state.locks.get(state.table.index_of(lock)) {
            dmtree_cluster::prefetch(std::slice::from_ref(known));
        }
    }

    /// A client asks for a lock.
    #[inline(always)]
    pub(crate) fn requested(&self, at: Moment, cohort: Cohort) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let request = Request {
            lock: at.lock,
            cohort,
            since_ns: at.now_ns,
            ticket: None,
            descriptor: None,
        };
        if let Some(other) = state.request(at.client).replace(request) {
            return at.violation(SEQUENCE, move || {
                format!("it still waits for the lock at {}", other.lock)
            });
        }
        Ok(())
    }

    /// The client's descriptor `me` is about to be swapped into the tail.
    #[inline(always)]
    pub(crate) fn linked(&self, at: Moment, me: GlobalAddr) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let key = state.descriptors.link(at, me)?;
        state.requesting(at)?.descriptor = Some(key);
        Ok(())
    }

    /// The swap brought `ahead`. The loan of its descriptor begins for the client, and that of the client's for
    /// its predecessor, who will learn of it.
    pub(crate) fn queued(
        &self,
        at: Moment,
        me: GlobalAddr,
        ahead: GlobalAddr,
    ) -> Result<Option<Borrow>> {
        self.state
            .borrow_mut()
            .descriptors
            .queue(at, me, ahead)
            .map(Some)
    }

    /// The owner of `me` has read from it that `next` is its successor.
    pub(crate) fn learned(
        &self,
        at: Moment,
        me: GlobalAddr,
        next: GlobalAddr,
    ) -> Result<Option<Borrow>> {
        self.state
            .borrow_mut()
            .descriptors
            .learn(at, me, next)
            .map(Some)
    }

    /// The client is about to access a descriptor that it has on loan.
    pub(crate) fn touched(&self, at: Moment, borrow: Option<Borrow>) -> Result<()> {
        match borrow {
            Some(borrow) => self.state.borrow().descriptors.touch(at, borrow),
            None => Ok(()),
        }
    }

    /// The client's last access has completed.
    pub(crate) fn returned(&self, borrow: Option<Borrow>) -> Result<()> {
        if let Some(borrow) = borrow {
            self.state.borrow_mut().descriptors.give_back(borrow);
        }
        Ok(())
    }

    /// The owner of `me` has seen its predecessor's last access.
    pub(crate) fn ahead_is_done(&self, at: Moment, me: GlobalAddr) -> Result<()> {
        self.state
            .borrow_mut()
            .descriptors
            .done(at, me, descriptors::Side::Ahead)
    }

    /// The owner of `me` has seen its successor's last access.
    pub(crate) fn behind_is_done(&self, at: Moment, me: GlobalAddr) -> Result<()> {
        self.state
            .borrow_mut()
            .descriptors
            .done(at, me, descriptors::Side::Behind)
    }

    /// The owner takes `me` back.
    #[inline(always)]
    pub(crate) fn retired(&self, at: Moment, me: GlobalAddr) -> Result<()> {
        self.state.borrow_mut().descriptors.retire(at, me)
    }

    /// The client is about to raise its flag, or to make itself the victim, for its cohort.
    #[inline(always)]
    pub(crate) fn contends(&self, at: Moment, cohort: Cohort) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let contender = &mut state.lock(at.lock).contender[cohort as usize];
        match std::mem::replace(contender, at.client.0) {
            NOBODY => Ok(()),
            other => {
                let other = ClientId(other);
                at.violation(PETERSON, move || {
                    format!("{other} of the {cohort} cohort contends already")
                })
            }
        }
    }

    /// The client contends no more: what it took down is known to be down.
    #[inline(always)]
    pub(crate) fn decided(&self, at: Moment, cohort: Cohort) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let contender = &mut state.lock(at.lock).contender[cohort as usize];
        let found = std::mem::replace(contender, NOBODY);
        if found == at.client.0 {
            return Ok(());
        }
        at.violation(PETERSON, move || {
            let who = if found == NOBODY {
                "nobody".to_owned()
            } else {
                ClientId(found).to_string()
            };
            format!("the {cohort} contender is {who}")
        })
    }

    /// The client has drawn `ticket` with an atomic: others may have drawn later ones and know it already.
    pub(crate) fn ticket_drawn(&self, at: Moment, ticket: u64) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let request = state.requesting(at)?;
        if let Some(other) = request.ticket.replace(ticket) {
            return at.violation(TICKETS, || format!("drew ticket {ticket}, and has {other}"));
        }
        let served = state.lock(at.lock).served;
        if ticket < served {
            return at.violation(TICKETS, || {
                format!("drew ticket {ticket}, and those below {served} are served")
            });
        }
        state.taken_once(at, ticket)
    }

    /// The client has taken `ticket`, and nobody of its cohort has been let on since.
    #[inline]
    pub(crate) fn ticket_taken(&self, at: Moment, cohort: Cohort, ticket: u64) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let request = state.requesting(at)?;
        if let Some(other) = request.ticket.replace(ticket) {
            return at.violation(TICKETS, || format!("took ticket {ticket}, and has {other}"));
        }
        if let Some(key) = request.descriptor {
            state.descriptors.ticket(at, key, ticket)?;
        }
        let lock = state.lock(at.lock);
        let served = lock.served;
        if ticket < served {
            return at.violation(TICKETS, move || {
                format!("took ticket {ticket}, and those below {served} are served")
            });
        }
        let bit = 1u64
            .checked_shl((ticket - served).min(64) as u32)
            .unwrap_or(0);
        // Half a number's range apart at most: ever more tickets, and those that wait are few.
        let is_behind = |last: u32| (ticket as u32).wrapping_sub(last) as i32 > 0;
        // Nobody has one that is behind all that were taken.
        let is_new = lock.taken.into_iter().all(is_behind);
        let last = std::mem::replace(&mut lock.taken[cohort as usize], ticket as u32);
        let unknown = !is_new && bit == 0 || lock.pending & bit != 0;
        lock.pending |= bit;
        if unknown {
            state.taken_once(at, ticket)?;
        }
        if !is_behind(last) {
            let detail = move || {
                format!("took ticket {ticket} after one of the {cohort} cohort took {last}")
            };
            return at.violation(ORDER, detail);
        }
        Ok(())
    }

    /// The client knows that it holds the lock.
    #[inline(always)]
    pub(crate) fn granted(&self, at: Moment, cohort: Cohort) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let asked = state.request(at.client);
        let Some(Request {
            ticket, descriptor, ..
        }) = asked.take_if(|request| request.lock == at.lock)
        else {
            return at.violation(SEQUENCE, || NOT_ASKED.to_owned());
        };
        let mut last = true;
        if let Some(key) = descriptor {
            last = state.descriptors.grant(at, key)?;
        }
        let lock = state.lock(at.lock);
        if let Some(holder) = lock.holder() {
            let since = lock.progress_ns;
            return at.violation(EXCLUSION, move || {
                format!("granted while {holder} holds it, since {since} ns")
            });
        }
        lock.holder = at.client.0;
        if let Some(ticket) = ticket {
            if ticket != lock.served {
                let next = lock.served;
                return at.violation(TICKETS, move || {
                    format!("granted with ticket {ticket}, the next one is {next}")
                });
            }
            if last {
                lock.served += 1;
                lock.pending >>= 1;
            }
        }
        lock.progress_ns = at.now_ns;
        lock.count(cohort);
        Ok(())
    }

    /// The holder is about to take the first step that can let the next one in.
    #[inline(always)]
    pub(crate) fn released(&self, at: Moment) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let lock = state.lock(at.lock);
        lock.progress_ns = at.now_ns;
        match lock.holder() {
            Some(holder) if holder == at.client => {
                lock.holder = NOBODY;
                Ok(())
            }
            Some(other) => at.violation(EXCLUSION, move || {
                format!("released while {other} holds it")
            }),
            None => at.violation(EXCLUSION, || "released while nobody holds it".to_owned()),
        }
    }

    /// Something of `client` and `lock` got lost: a request, a guard or a release.
    pub(crate) fn abandoned(&self, client: ClientId, lock: GlobalAddr) {
        let mut state = self.state.borrow_mut();
        state
            .request(client)
            .take_if(|request| request.lock == lock);
        state.lost.push((lock, client));
    }

    /// What has happened to `lock`.
    ///
    /// # Panics
    /// When it is none of the table's.
    pub fn counters(&self, lock: GlobalAddr) -> LockCounters {
        let state = self.state.borrow();
        state.locks[state.table.index_of(lock)].counters()
    }

    /// What has happened to all locks: grants added up, the longest run of any.
    pub fn totals(&self) -> LockCounters {
        let mut totals = LockCounters::default();
        for counters in self.state.borrow().locks.iter().map(LockState::counters) {
            for cohort in Cohort::ALL.map(|cohort| cohort as usize) {
                totals.grants[cohort] += counters.grants[cohort];
                totals.longest[cohort] = totals.longest[cohort].max(counters.longest[cohort]);
            }
        }
        totals
    }
}
