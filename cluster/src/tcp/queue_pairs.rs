//! [`TcpQueuePairs`]: a thread's connections, one to each node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use super::handshake::{Cluster, Hello};
use super::key::Key;
use super::link::Link;
use super::wire::{DEFAULT_FRAME_LIMIT, decode_response};
use crate::region::{Regions, Sizes};
use crate::wall::{Abort, Answers, ClientThread, QueuePairs, RequestId, ThreadOptions};
use crate::{Chain, Error, ErrorKind, NodeId, Result, WaitBounds};

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

    /// What of it any fabric wants to know.
    pub fn options(&self) -> ThreadOptions {
        ThreadOptions {
            origin: self.origin,
            seed: self.seed,
            waits: self.waits,
            answer_limit: self.answer_limit,
            native_swap: self.native_swap,
            abort: self.abort.clone(),
        }
    }
}

/// A thread's connections, one to each node.
pub struct TcpQueuePairs {
    own: NodeId,
    links: Vec<Option<Link>>,
    poll: Poll,
    events: Events,
}

impl std::fmt::Debug for TcpQueuePairs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TcpQueuePairs({}, {} nodes)", self.own, self.links.len())
    }
}

fn unwaitable(own: NodeId, error: &std::io::Error) -> Error {
    let why = format!("cannot wait for sockets: {error}");
    ErrorKind::PeerGone { node: own, why }.into()
}

impl ClientThread<TcpQueuePairs> {
    /// Connects a thread of the node whose memory is `own` to every memory server, its own one among them.
    ///
    /// # Errors
    /// [`ErrorKind::PeerGone`] naming the node that cannot be reached, [`ErrorKind::PeerDiffers`] naming the one that is of
    /// another version, configuration or run.
    pub fn connect(config: ThreadConfig, own: Arc<Regions>) -> Result<Self> {
        let lost = |error: std::io::Error| unwaitable(own.node(), &error);
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
        let queue_pairs = TcpQueuePairs {
            own: own.node(),
            links,
            poll,
            events: Events::with_capacity(64),
        };
        Ok(Self::over(queue_pairs, own, config.options()))
    }

    /// Which run `node` was in when this was connected to it; none of nodes that serve nothing.
    pub fn epoch_of(&self, node: NodeId) -> Option<u64> {
        self.with_queue_pairs(|queue_pairs| {
            let link = queue_pairs.links.get(usize::from(node.0))?;
            link.as_ref().map(Link::epoch)
        })
    }
}

impl TcpQueuePairs {
    /// Which nodes it is connected to.
    #[cfg(feature = "verbs")]
    pub(crate) fn peers(&self) -> Vec<bool> {
        self.links.iter().map(Option::is_some).collect()
    }

    fn link(&mut self, node: NodeId) -> Option<&mut Link> {
        self.links.get_mut(usize::from(node.0))?.as_mut()
    }

    /// Fails what a lost link will not answer.
    fn fail(&mut self, number: usize, answers: &mut Answers<'_>) {
        let Some((error, posted)) = self.links[number].as_mut().and_then(Link::failed) else {
            return;
        };
        for request in posted {
            answers.fail(request, &error);
        }
        answers.lose(error);
    }
}

impl QueuePairs for TcpQueuePairs {
    fn check(&mut self, node: NodeId, chain: &Chain) -> Result<()> {
        match self.link(node) {
            Some(link) => link.check(chain),
            None => {
                let why = "there is no such memory server in this cluster".to_owned();
                Err(ErrorKind::PeerGone { node, why }.into())
            }
        }
    }

    fn post(&mut self, node: NodeId, chain: &Chain, request: RequestId) {
        if let Some(link) = self.link(node) {
            link.post(chain, request);
        }
    }

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

    fn receive(&mut self, all: bool, answers: &mut Answers<'_>) -> bool {
        let mut came = false;
        for number in 0..self.links.len() {
            let Some(link) = &mut self.links[number] else {
                continue;
            };
            if !(all || link.is_waiting()) {
                continue;
            }
            came |= link.receive(|response| {
                answers.answer(response.request, |chain| {
                    decode_response(response.frame, chain)
                })
            });
            self.fail(number, answers);
        }
        came
    }

    fn expire(&mut self, limit: Duration, answers: &mut Answers<'_>) {
        for number in 0..self.links.len() {
            if let Some(link) = &mut self.links[number] {
                link.expire(limit);
                self.fail(number, answers);
            }
        }
    }

    fn abandon(&mut self, why: &Error, answers: &mut Answers<'_>) {
        for number in 0..self.links.len() {
            if let Some(link) = &mut self.links[number] {
                link.abandon(why);
                self.fail(number, answers);
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.links.iter().flatten().any(Link::is_waiting)
    }

    fn has_unsent(&self) -> bool {
        self.links.iter().flatten().any(Link::has_unsent)
    }

    fn wait(&mut self, timeout: Duration, answers: &mut Answers<'_>) -> Result<()> {
        if let Err(error) = self.poll.poll(&mut self.events, Some(timeout))
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            return Err(unwaitable(self.own, &error));
        }
        if self.events.iter().any(|event| event.is_writable()) {
            self.send();
        }
        if self.events.iter().any(|event| event.is_readable()) {
            self.receive(true, answers);
        }
        Ok(())
    }
}
