//! [`ClientThread`]: the executor of one thread's clients, and its queue pairs.
//!
//! Clients that wait for a verb are polled when its response comes, those that sleep when their time has come. Those that
//! wait for their own node's memory are polled again and again, as nobody tells when a word changes: in turn with the
//! sockets, at first without a pause, then giving the core away, then sleeping for longer and longer up to a bound, so
//! that others get the cores: the servers that would change the word, for example.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use slab::Slab;

use super::abort::Abort;
use super::endpoint::WallEndpoint;
use super::queue_pairs::{Answers, QueuePairs, Request, RequestId};
use crate::region::Regions;
use crate::{Chain, ClientId, Error, ErrorKind, Result, WaitBounds};

/// Rounds without anything new that are made without a pause. A response on one machine takes some ten of them.
const SPINS: u32 = 20;
/// Those after which the core is no longer given away only, but left for a while.
const YIELDS: u32 = 60;
/// The first pause, and the longest: what a hand-over by memory may cost on top when nothing has happened for long.
const FIRST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_micros(200);
/// Rounds without anything new, each of which gives the core away, before the thread sleeps until an answer comes.
const ANSWER_YIELDS: u32 = 300;
/// How often answers that are overdue are looked for.
const EXPIRY: Duration = Duration::from_millis(50);

/// What a client thread is told, whatever its fabric.
#[derive(Clone, Debug)]
pub struct ThreadOptions {
    /// From when on their clocks count: one for all threads of a process.
    pub origin: Instant,
    /// Seed of the clients' random numbers, which also depend on the client.
    pub seed: u64,
    /// Bounds on waiting.
    pub waits: WaitBounds,
    /// A node that owes an answer for longer than this is gone.
    pub answer_limit: Duration,
    /// Whether [`crate::Chain::swap`] may be used.
    pub native_swap: bool,
    /// Ends what its clients wait for.
    pub abort: Abort,
}

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// For a response, or nothing.
    Event,
    /// For memory: to be polled again and again.
    Memory,
    /// For a time.
    Until(Instant),
}

/// One client of the thread.
pub(super) struct Client {
    pub(super) rng: Xoshiro256PlusPlus,
    pub(super) chains: Vec<Chain>,
    pub(super) waiting: Waiting,
    pub(super) is_ready: bool,
}

/// What the clients of a thread share.
pub(super) struct Reactor<Q> {
    pub(super) own: Arc<Regions>,
    pub(super) options: ThreadOptions,
    pub(super) clients: Vec<Client>,
    pub(super) requests: Slab<Request>,
    queue_pairs: Q,
    ready: VecDeque<usize>,
    /// Of whichever node was lost first: what a client waits for in memory may never come then.
    pub(super) lost: Option<Error>,
    verbs: u64,
}

impl<Q: QueuePairs> Reactor<Q> {
    /// Posts `chain`, which it takes the contents of, for `client`.
    pub(super) fn post(&mut self, client: usize, chain: &mut Chain) -> Result<RequestId> {
        let node = chain.node().unwrap_or(self.own.node());
        self.queue_pairs.check(node, chain)?;
        if !self.options.native_swap {
            refuse_swaps(chain)?;
        }
        self.verbs += chain.verbs().len() as u64;
        let entry = self.requests.vacant_entry();
        let request = entry.key();
        self.queue_pairs.post(node, chain, request);
        entry.insert(Request::Posted {
            client,
            chain: std::mem::take(chain),
        });
        self.clients[client].waiting = Waiting::Event;
        Ok(request)
    }

    fn wake(&mut self, client: usize) {
        let state = &mut self.clients[client];
        if !std::mem::replace(&mut state.is_ready, true) {
            self.ready.push_back(client);
        }
    }

    fn split(&mut self) -> (&mut Q, Answers<'_>) {
        let answers = Answers {
            requests: &mut self.requests,
            clients: &mut self.clients,
            ready: &mut self.ready,
            lost: &mut self.lost,
        };
        (&mut self.queue_pairs, answers)
    }

    fn receive(&mut self) -> bool {
        let (queue_pairs, mut answers) = self.split();
        queue_pairs.receive(false, &mut answers)
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        let (queue_pairs, mut answers) = self.split();
        queue_pairs.wait(timeout, &mut answers)
    }

    /// Fails everything, as nobody is to wait any more.
    #[cold]
    fn abandon(&mut self, why: &Error) {
        let (queue_pairs, mut answers) = self.split();
        answers.lose(why.clone());
        queue_pairs.abandon(why, &mut answers);
    }

    fn expire(&mut self) {
        let limit = self.options.answer_limit;
        let (queue_pairs, mut answers) = self.split();
        queue_pairs.expire(limit, &mut answers);
    }

    /// Makes those ready whose time has come, and those that wait for memory; when the next is due, and whether any
    /// waits for memory.
    fn wake_waiting(&mut self, live: &[usize]) -> (Option<Instant>, bool) {
        let now = Instant::now();
        let (mut next, mut spins) = (None, false);
        for client in live.iter().copied() {
            match self.clients[client].waiting {
                Waiting::Event => {}
                Waiting::Memory => {
                    spins = true;
                    self.wake(client);
                }
                Waiting::Until(at) if at <= now => self.wake(client),
                Waiting::Until(at) => {
                    next = Some(next.map_or(at, |next: Instant| next.min(at)));
                }
            }
        }
        (next, spins)
    }
}

#[cold]
fn refuse_swaps(chain: &Chain) -> Result<()> {
    for verb in chain.verbs() {
        if matches!(verb.op, crate::Op::Swap { .. }) {
            return Err(ErrorKind::NotPermitted {
                what: verb.op.name(),
                addr: verb.addr,
                why: "this fabric has no native swap; use a loop of CAS",
            }
            .into());
        }
    }
    Ok(())
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A thread's clients, their queue pairs, and the executor that runs them.
pub struct ClientThread<Q> {
    reactor: Rc<RefCell<Reactor<Q>>>,
    tasks: Vec<Option<Task>>,
}

impl<Q> std::fmt::Debug for ClientThread<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let node = self.reactor.borrow().own.node();
        write!(f, "ClientThread({node}, {} clients)", self.tasks.len())
    }
}

impl<Q: QueuePairs> ClientThread<Q> {
    /// Of the node whose memory is `own`, by these queue pairs.
    pub fn over(queue_pairs: Q, own: Arc<Regions>, options: ThreadOptions) -> Self {
        let reactor = Reactor {
            own,
            options,
            clients: Vec::new(),
            requests: Slab::new(),
            queue_pairs,
            ready: VecDeque::new(),
            lost: None,
            verbs: 0,
        };
        Self {
            reactor: Rc::new(RefCell::new(reactor)),
            tasks: Vec::new(),
        }
    }

    /// The same, ended by `abort` from now on, and not by what it was connected with.
    #[must_use]
    pub fn with_abort(self, abort: Abort) -> Self {
        self.reactor.borrow_mut().options.abort = abort;
        self
    }

    pub(crate) fn with_queue_pairs<T>(&self, what: impl FnOnce(&Q) -> T) -> T {
        what(&self.reactor.borrow().queue_pairs)
    }

    /// A handle for `client`, one of this thread's.
    pub fn endpoint(&mut self, client: ClientId) -> WallEndpoint<Q> {
        let mut reactor = self.reactor.borrow_mut();
        let number = reactor.clients.len();
        // Clients draw different numbers, the same ones in every run.
        let seed =
            reactor.options.seed ^ (u64::from(client.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        reactor.clients.push(Client {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            chains: Vec::new(),
            waiting: Waiting::Event,
            is_ready: false,
        });
        self.tasks.push(None);
        let own = Arc::clone(&reactor.own);
        WallEndpoint::new(Rc::clone(&self.reactor), own, number, client)
    }

    /// Makes `program` what the client of `endpoint` does; begins with [`ClientThread::run`].
    ///
    /// # Panics
    /// When the endpoint is of another thread, or has a program already.
    pub fn spawn(
        &mut self,
        endpoint: &WallEndpoint<Q>,
        program: impl Future<Output = ()> + 'static,
    ) {
        assert!(
            endpoint.is_of(&self.reactor),
            "the endpoint is of another thread"
        );
        let task = &mut self.tasks[endpoint.number()];
        assert!(task.is_none(), "a client has one program");
        *task = Some(Box::pin(program));
        self.reactor.borrow_mut().wake(endpoint.number());
    }

    /// Verbs that its clients have posted.
    pub fn verbs(&self) -> u64 {
        self.reactor.borrow().verbs
    }

    /// Runs all clients until they have ended.
    ///
    /// # Errors
    /// [`ErrorKind::PeerGone`] when the operating system does not let it wait for its sockets any more.
    pub fn run(&mut self) -> Result<()> {
        let mut context = Context::from_waker(Waker::noop());
        let mut live: Vec<usize> = (0..self.tasks.len())
            .filter(|client| self.tasks[*client].is_some())
            .collect();
        let (mut idle, mut expired, mut aborted) = (0u32, Instant::now(), false);
        while !live.is_empty() {
            if !aborted {
                let mut reactor = self.reactor.borrow_mut();
                if let Some(why) = reactor.options.abort.asked().cloned() {
                    aborted = true;
                    reactor.abandon(&why);
                }
            }
            let mut ended = false;
            let ready = std::mem::take(&mut self.reactor.borrow_mut().ready);
            for client in ready {
                self.reactor.borrow_mut().clients[client].is_ready = false;
                let Some(task) = &mut self.tasks[client] else {
                    continue;
                };
                if task.as_mut().poll(&mut context).is_ready() {
                    self.tasks[client] = None;
                    ended = true;
                }
            }
            if ended {
                live.retain(|client| self.tasks[*client].is_some());
                idle = 0;
            }
            let has_sent = self.reactor.borrow_mut().queue_pairs.send();
            // What was asked for just now takes a while.
            if !has_sent && self.reactor.borrow_mut().receive() {
                idle = 0;
            }
            let (next, spins) = {
                let mut reactor = self.reactor.borrow_mut();
                if expired.elapsed() > EXPIRY {
                    expired = Instant::now();
                    reactor.expire();
                }
                reactor.wake_waiting(&live)
            };
            let has_ready = !self.reactor.borrow().ready.is_empty();
            if has_ready && !spins {
                idle = 0;
                continue;
            }
            idle = idle.saturating_add(1);
            if spins {
                self.pause(idle, next)?;
            } else if idle < ANSWER_YIELDS && self.reactor.borrow().queue_pairs.is_waiting() {
                std::thread::yield_now();
            } else {
                self.block(next)?;
            }
        }
        Ok(())
    }

    /// Between two looks at memory: how long depends on how many were in vain.
    fn pause(&mut self, idle: u32, next: Option<Instant>) -> Result<()> {
        if idle < SPINS {
            std::hint::spin_loop();
        } else if idle < YIELDS {
            std::thread::yield_now();
        } else {
            let doublings = ((idle - YIELDS) / 8).min(6);
            let pause = (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE);
            let left = next.map(|next| next.saturating_duration_since(Instant::now()));
            std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
            // Links that owe nothing are looked at as well: a peer that dies is noticed though nobody asks it.
            if idle.is_multiple_of(64) {
                self.reactor.borrow_mut().wait(Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// Until a socket has something, or the next client's time has come.
    fn block(&mut self, next: Option<Instant>) -> Result<()> {
        let reactor = self.reactor.borrow();
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        let queue_pairs = &reactor.queue_pairs;
        let bound = (queue_pairs.is_waiting() || queue_pairs.has_unsent()).then_some(EXPIRY);
        drop(reactor);
        let timeout = match (left, bound) {
            (Some(left), Some(bound)) => left.min(bound),
            (Some(left), None) => left,
            (None, bound) => bound.unwrap_or(EXPIRY),
        };
        // Sockets are waited for to the millisecond. Less than that is slept.
        if timeout < Duration::from_millis(1) {
            if self.reactor.borrow().queue_pairs.is_waiting() {
                self.reactor.borrow_mut().wait(Duration::ZERO)?;
                std::thread::yield_now();
            } else {
                std::thread::sleep(timeout);
            }
            return Ok(());
        }
        self.reactor.borrow_mut().wait(timeout)
    }
}
