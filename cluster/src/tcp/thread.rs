//! [`ClientThread`]: the executor of one thread's clients, and its queue pairs.
//!
//! Clients that wait for a verb are polled when its response comes, those that sleep when their time has come. Those that
//! wait for their own node's memory are polled again and again, as nobody tells when a word changes: in turn with the
//! sockets, at first without a pause, then giving the core away, then sleeping for longer and longer up to a bound, so
//! that others get the cores: the servers that would change the word, for example.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use slab::Slab;

use super::abort::Abort;
use super::endpoint::TcpEndpoint;
use super::handshake::{Cluster, Hello};
use super::key::Key;
use super::link::{Link, RequestId};
use super::wire::{DEFAULT_FRAME_LIMIT, Malformed, decode_response};
use crate::region::{Regions, Sizes};
use crate::{Chain, ClientId, Error, ErrorKind, NodeId, Result, WaitBounds};

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

/// What a client thread is told.
#[derive(Clone, Debug)]
pub struct ThreadConfig {
    /// Where each node's server is; none of nodes that serve no memory.
    pub peers: Vec<Option<SocketAddr>>,
    /// The cluster's key.
    pub key: Key,
    /// What servers have to have in common with it.
    pub cluster: Cluster,
    /// From when on their clocks count: one for all threads of a process.
    pub origin: Instant,
    /// Seed of the clients' random numbers, which also depend on the client.
    pub seed: u64,
    /// Bounds on waiting.
    pub waits: WaitBounds,
    /// A server that is not there within this time is given up.
    pub connect_limit: Duration,
    /// A node that owes an answer for longer than this is gone.
    pub answer_limit: Duration,
    /// The longest frame that is sent or taken, in bytes.
    pub frame_limit: usize,
    /// Whether [`crate::Chain::swap`] may be used; a loop of CAS is what RDMA has.
    pub native_swap: bool,
    /// Whether connections are below TLS; servers have to say the same.
    pub tls: bool,
    /// Ends its attempts to connect, and what its clients wait for.
    pub abort: Abort,
}

impl ThreadConfig {
    /// With the usual bounds.
    pub fn new(peers: Vec<Option<SocketAddr>>, key: Key, cluster: Cluster) -> Self {
        Self {
            peers,
            key,
            cluster,
            origin: Instant::now(),
            seed: 1,
            waits: WaitBounds::default(),
            connect_limit: Duration::from_secs(10),
            answer_limit: Duration::from_secs(5),
            frame_limit: DEFAULT_FRAME_LIMIT,
            native_swap: false,
            tls: false,
            abort: Abort::default(),
        }
    }
}

/// What became of a posted chain.
pub(super) enum Request {
    /// Nothing yet. Its client, and the chain while its future is not polled: results go there.
    Posted {
        client: usize,
        chain: Chain,
    },
    Answered(Chain),
    Failed(Chain, Error),
    /// Its future was dropped: the answer is for nobody.
    Dropped(Chain),
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
    is_ready: bool,
}

/// What the clients of a thread share.
pub(super) struct Reactor {
    pub(super) own: Arc<Regions>,
    pub(super) origin: Instant,
    pub(super) waits: WaitBounds,
    pub(super) native_swap: bool,
    pub(super) clients: Vec<Client>,
    pub(super) requests: Slab<Request>,
    links: Vec<Option<Link>>,
    ready: VecDeque<usize>,
    answer_limit: Duration,
    /// Of whichever node was lost first: what a client waits for in memory may never come then.
    pub(super) lost: Option<Error>,
    verbs: u64,
}

impl Reactor {
    /// Posts `chain`, which it takes the contents of, for `client`.
    pub(super) fn post(&mut self, client: usize, chain: &mut Chain) -> Result<RequestId> {
        let node = chain.node().unwrap_or(self.own.node());
        let link = self.links.get_mut(usize::from(node.0));
        let Some(link) = link.and_then(Option::as_mut) else {
            let why = "there is no such memory server in this cluster".to_owned();
            return Err(ErrorKind::PeerGone { node, why }.into());
        };
        link.check(chain)?;
        if !self.native_swap {
            refuse_swaps(chain)?;
        }
        self.verbs += chain.verbs().len() as u64;
        let entry = self.requests.vacant_entry();
        let request = entry.key();
        link.post(chain, request);
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

    /// Sends what was posted; whether anything was.
    fn send(&mut self) -> bool {
        let mut has_sent = false;
        for link in self.links.iter_mut().flatten() {
            if link.has_unsent() {
                link.send();
                has_sent = true;
            }
        }
        has_sent
    }

    /// Takes what has come, of those links that owe something; whether anything has.
    fn receive(&mut self, all: bool) -> bool {
        let mut came = false;
        for number in 0..self.links.len() {
            let Some(link) = &mut self.links[number] else {
                continue;
            };
            if !(all || link.is_waiting()) {
                continue;
            }
            let (requests, clients, ready) =
                (&mut self.requests, &mut self.clients, &mut self.ready);
            came |= link.receive(|response| {
                let client = complete(requests, response.request, response.frame)?;
                if let Some(client) = client
                    && !std::mem::replace(&mut clients[client].is_ready, true)
                {
                    ready.push_back(client);
                }
                Ok(())
            });
            self.fail(number);
        }
        came
    }

    /// Fails what a lost link will not answer.
    fn fail(&mut self, number: usize) {
        let Some((error, posted)) = self.links[number].as_mut().and_then(Link::failed) else {
            return;
        };
        for request in posted {
            let Some(state) = self.requests.get_mut(request) else {
                continue;
            };
            match std::mem::replace(state, Request::Dropped(Chain::new())) {
                Request::Posted { client, chain } => {
                    *state = Request::Failed(chain, error.clone());
                    self.wake(client);
                }
                _ => drop(self.requests.remove(request)),
            }
        }
        if self.lost.is_none() {
            self.lost = Some(error);
        }
    }

    /// Fails everything, as nobody is to wait any more.
    #[cold]
    fn abandon(&mut self, why: &Error) {
        if self.lost.is_none() {
            self.lost = Some(why.clone());
        }
        for number in 0..self.links.len() {
            if let Some(link) = &mut self.links[number] {
                link.abandon(why);
                self.fail(number);
            }
        }
    }

    fn expire(&mut self) {
        let limit = self.answer_limit;
        for number in 0..self.links.len() {
            if let Some(link) = &mut self.links[number] {
                link.expire(limit);
                self.fail(number);
            }
        }
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

    fn has_unsent(&self) -> bool {
        self.links.iter().flatten().any(Link::has_unsent)
    }

    fn is_waiting(&self) -> bool {
        self.links.iter().flatten().any(Link::is_waiting)
    }
}

/// Brings a response into its request; the client that waits for it, if one does.
fn complete(
    requests: &mut Slab<Request>,
    request: RequestId,
    frame: &[u8],
) -> std::result::Result<Option<usize>, Malformed> {
    let Some(state) = requests.get_mut(request) else {
        return Ok(None);
    };
    match state {
        Request::Posted { client, chain } => {
            decode_response(frame, chain)?;
            let client = *client;
            *state = Request::Answered(std::mem::take(chain));
            Ok(Some(client))
        }
        Request::Dropped(chain) => {
            decode_response(frame, chain)?;
            requests.remove(request);
            Ok(None)
        }
        // One that was answered or failed is not posted any more.
        Request::Answered(_) | Request::Failed(..) => Ok(None),
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
pub struct ClientThread {
    reactor: Rc<RefCell<Reactor>>,
    config: ThreadConfig,
    poll: Poll,
    tasks: Vec<Option<Task>>,
}

impl std::fmt::Debug for ClientThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let node = self.reactor.borrow().own.node();
        write!(f, "ClientThread({node}, {} clients)", self.tasks.len())
    }
}

impl ClientThread {
    /// Connects a thread of the node whose memory is `own` to every memory server, its own one among them.
    ///
    /// # Errors
    /// [`ErrorKind::PeerGone`] naming the node that cannot be reached, or that is of another cluster.
    pub fn connect(config: ThreadConfig, own: Arc<Regions>) -> Result<Self> {
        let lost = |error: std::io::Error| {
            let node = own.node();
            let why = format!("cannot wait for sockets: {error}");
            Error::from(ErrorKind::PeerGone { node, why })
        };
        let poll = Poll::new().map_err(lost)?;
        let mut links = Vec::new();
        for (number, peer) in config.peers.iter().enumerate() {
            let Some(peer) = *peer else {
                links.push(None);
                continue;
            };
            let node = NodeId(number as u16);
            let hello = Hello::of(own.node(), node, &config.cluster, Sizes::default());
            let mut link = Link::connect(node, peer, hello, &config)?;
            poll.registry()
                .register(
                    link.socket(),
                    Token(number),
                    Interest::READABLE | Interest::WRITABLE,
                )
                .map_err(lost)?;
            links.push(Some(link));
        }
        let reactor = Reactor {
            own,
            origin: config.origin,
            waits: config.waits,
            native_swap: config.native_swap,
            clients: Vec::new(),
            requests: Slab::new(),
            links,
            ready: VecDeque::new(),
            answer_limit: config.answer_limit,
            lost: None,
            verbs: 0,
        };
        Ok(Self {
            reactor: Rc::new(RefCell::new(reactor)),
            config,
            poll,
            tasks: Vec::new(),
        })
    }

    /// The same, ended by `abort` from now on, and not by what it was connected with.
    #[must_use]
    pub fn with_abort(mut self, abort: Abort) -> Self {
        self.config.abort = abort;
        self
    }

    /// A handle for `client`, one of this thread's.
    pub fn endpoint(&mut self, client: ClientId) -> TcpEndpoint {
        let mut reactor = self.reactor.borrow_mut();
        let number = reactor.clients.len();
        // Clients draw different numbers, the same ones in every run.
        let seed = self.config.seed ^ (u64::from(client.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        reactor.clients.push(Client {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            chains: Vec::new(),
            waiting: Waiting::Event,
            is_ready: false,
        });
        self.tasks.push(None);
        let own = Arc::clone(&reactor.own);
        TcpEndpoint::new(Rc::clone(&self.reactor), own, number, client)
    }

    /// Makes `program` what the client of `endpoint` does; begins with [`ClientThread::run`].
    ///
    /// # Panics
    /// When the endpoint is of another thread, or has a program already.
    pub fn spawn(&mut self, endpoint: &TcpEndpoint, program: impl Future<Output = ()> + 'static) {
        assert!(
            endpoint.is_of(&self.reactor),
            "the endpoint is of another thread"
        );
        let task = &mut self.tasks[endpoint.number()];
        assert!(task.is_none(), "a client has one program");
        *task = Some(Box::pin(program));
        self.reactor.borrow_mut().wake(endpoint.number());
    }

    /// Which run `node` was in when this was connected to it; none of nodes that serve nothing.
    pub fn epoch_of(&self, node: NodeId) -> Option<u64> {
        let reactor = self.reactor.borrow();
        let link = reactor.links.get(usize::from(node.0))?;
        link.as_ref().map(Link::epoch)
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
        let mut events = Events::with_capacity(64);
        let mut context = Context::from_waker(Waker::noop());
        let mut live: Vec<usize> = (0..self.tasks.len())
            .filter(|client| self.tasks[*client].is_some())
            .collect();
        let (mut idle, mut expired, mut aborted) = (0u32, Instant::now(), false);
        while !live.is_empty() {
            if let (false, Some(why)) = (aborted, self.config.abort.asked()) {
                aborted = true;
                self.reactor.borrow_mut().abandon(why);
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
            let has_sent = self.reactor.borrow_mut().send();
            // What was asked for just now takes a while.
            if !has_sent && self.reactor.borrow_mut().receive(false) {
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
                self.pause(idle, next, &mut events)?;
            } else if idle < ANSWER_YIELDS && self.reactor.borrow().is_waiting() {
                std::thread::yield_now();
            } else {
                self.block(next, &mut events)?;
            }
        }
        Ok(())
    }

    /// Between two looks at memory: how long depends on how many were in vain.
    fn pause(&mut self, idle: u32, next: Option<Instant>, events: &mut Events) -> Result<()> {
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
                self.look(Some(Duration::ZERO), events)?;
            }
        }
        Ok(())
    }

    /// Until a socket has something, or the next client's time has come.
    fn block(&mut self, next: Option<Instant>, events: &mut Events) -> Result<()> {
        let reactor = self.reactor.borrow();
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        let bound = (reactor.is_waiting() || reactor.has_unsent()).then_some(EXPIRY);
        drop(reactor);
        let timeout = match (left, bound) {
            (Some(left), Some(bound)) => left.min(bound),
            (Some(left), None) => left,
            (None, bound) => bound.unwrap_or(EXPIRY),
        };
        // Sockets are waited for to the millisecond. Less than that is slept.
        if timeout < Duration::from_millis(1) {
            if self.reactor.borrow().is_waiting() {
                self.look(Some(Duration::ZERO), events)?;
                std::thread::yield_now();
            } else {
                std::thread::sleep(timeout);
            }
            return Ok(());
        }
        self.look(Some(timeout), events)
    }

    fn look(&mut self, timeout: Option<Duration>, events: &mut Events) -> Result<()> {
        if let Err(error) = self.poll.poll(events, timeout)
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            let node = self.reactor.borrow().own.node();
            let why = format!("cannot wait for sockets: {error}");
            return Err(ErrorKind::PeerGone { node, why }.into());
        }
        let mut reactor = self.reactor.borrow_mut();
        if events.iter().any(|event| event.is_writable()) {
            reactor.send();
        }
        if events.iter().any(|event| event.is_readable()) {
            reactor.receive(true);
        }
        Ok(())
    }
}
