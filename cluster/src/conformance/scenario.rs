//! A scenario: the cluster that a test wants, and its clients' programs.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use super::{Outcome, TestBed, Violation};
use crate::{
    Chain, Endpoint, GlobalAddr, LINE_BYTES, MemoryKind, MemoryMap, NodeId, PollBackoff,
    WaitBounds, WaitFor,
};

/// A client's program: made on the thread that runs it, of a handle on the fabric.
pub type Program<E> = Box<dyn FnOnce(E) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A client and its program.
pub struct ClientProgram<E> {
    /// The node it runs on.
    pub node: NodeId,
    /// The thread of the node. Clients of one thread share its queue pairs and its executor.
    pub thread: u16,
    /// What it does.
    pub program: Program<E>,
}

impl<E> fmt::Debug for ClientProgram<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientProgram({}, thread {})", self.node, self.thread)
    }
}

/// The cluster that a test wants, and its clients.
#[derive(Debug)]
pub struct Scenario<E> {
    /// What each node serves.
    pub map: MemoryMap,
    /// Words of host memory that are not zero at the start.
    pub initial: Vec<(GlobalAddr, u64)>,
    /// Bounds on waiting; the fabric's usual ones unless the test needs its own.
    pub waits: Option<WaitBounds>,
    /// The clients, in the order of their numbers.
    pub clients: Vec<ClientProgram<E>>,
    violations: Shared<Vec<Violation>>,
}

impl<E: 'static> Scenario<E> {
    /// A cluster of `nodes` nodes on `bed`, without memory and clients yet.
    pub(super) fn new<B: TestBed<Endpoint = E>>(_: &B, nodes: u16) -> Self {
        Self {
            map: MemoryMap::new(nodes),
            initial: Vec::new(),
            waits: None,
            clients: Vec::new(),
            violations: Shared::default(),
        }
    }

    /// `words` words of `node`'s host memory, in lines of their own.
    pub(super) fn host(&mut self, node: u16, words: u64) -> GlobalAddr {
        self.reserve(node, MemoryKind::Host, words)
    }

    /// `words` words of `node`'s device memory, in lines of their own.
    pub(super) fn device(&mut self, node: u16, words: u64) -> GlobalAddr {
        self.reserve(node, MemoryKind::Device, words)
    }

    fn reserve(&mut self, node: u16, kind: MemoryKind, words: u64) -> GlobalAddr {
        let line = LINE_BYTES as u64;
        self.map
            .reserve(NodeId(node), kind, (words * 8).next_multiple_of(line), line)
    }

    /// A place for `clients` clients to meet.
    pub(super) fn barrier(&mut self, clients: u64) -> Barrier {
        Barrier {
            addr: self.host(0, 1),
            clients,
        }
    }

    /// Adds a client.
    pub(super) fn client<F, P>(&mut self, node: u16, thread: u16, program: F)
    where
        F: FnOnce(E) -> P + Send + 'static,
        P: Future<Output = Outcome> + 'static,
    {
        let violations = self.violations.clone();
        let id = self.clients.len();
        self.clients.push(ClientProgram {
            node: NodeId(node),
            thread,
            program: Box::new(move |endpoint| {
                let program = program(endpoint);
                Box::pin(async move {
                    if let Err(Violation(what)) = program.await {
                        let who = format!("client {id} on node {node}: {what}");
                        violations.with(|all| all.push(Violation(who)));
                    }
                })
            }),
        });
    }

    /// Runs it; a client's violation goes before the fabric's own complaint, which may follow from it.
    pub(super) fn run<B: TestBed<Endpoint = E>>(self, bed: &B) -> Outcome<Memory> {
        let violations = self.violations.clone();
        let memory = bed.run(self);
        if let Some(violation) = violations.with(|all| all.first().cloned()) {
            return Err(violation);
        }
        memory.map_err(Violation)
    }
}

/// What nodes' host memory held when all clients had finished.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    nodes: Vec<Vec<u64>>,
}

impl Memory {
    /// The memory whose words are these, by node and by offset / 8.
    pub fn new(nodes: Vec<Vec<u64>>) -> Self {
        Self { nodes }
    }

    /// The word at `addr`.
    pub(super) fn word(&self, addr: GlobalAddr) -> u64 {
        self.nodes[usize::from(addr.node().0)][addr.offset() as usize / 8]
    }

    /// `count` words from `addr`.
    pub(super) fn words(&self, addr: GlobalAddr, count: usize) -> &[u64] {
        &self.nodes[usize::from(addr.node().0)][addr.offset() as usize / 8..][..count]
    }
}

/// What clients report to the test, from whatever thread they run in.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    /// Works on it.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Default> Shared<T> {
    /// Takes it out.
    pub fn take(&self) -> T {
        self.with(std::mem::take)
    }
}

/// A place where clients wait for each other. It uses RNIC atomics and READs only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    addr: GlobalAddr,
    clients: u64,
}

impl Barrier {
    pub(super) async fn meet(self, ep: &impl Endpoint) -> Outcome {
        let found = ep.rdma_faa(self.addr, 1).await?;
        let goal = (found / self.clients + 1) * self.clients;
        let backoff = PollBackoff {
            first_ns: 200,
            max_ns: 3_000,
        };
        let wait = WaitFor::new("conformance: barrier", self.addr);
        ep.poll_until(self.addr, 1, backoff, wait, |words| words[0] >= goal)
            .await?;
        Ok(())
    }
}

/// Bounds a loop that waits for something without the fabric's knowing.
pub(super) struct Patience {
    until: u64,
}

impl Patience {
    pub(super) fn new(ep: &impl Endpoint) -> Self {
        Self {
            until: ep.now().saturating_add(ep.wait_bounds().limit_ns),
        }
    }

    pub(super) fn check(&self, ep: &impl Endpoint, what: &str) -> Outcome {
        ensure!(ep.now() <= self.until, "{what} never came");
        Ok(())
    }
}

/// Lets a random time up to `max_ns` pass.
pub(super) async fn pause(ep: &impl Endpoint, max_ns: u64) {
    ep.sleep(ep.random() % (max_ns + 1)).await;
}

/// Posts the chain and does not wait for it. On a fabric that posts later than at the first poll, nothing
/// happens.
pub(super) async fn post_and_forget(ep: &impl Endpoint, mut chain: Chain) {
    let mut posted = pin!(ep.execute(&mut chain));
    poll_fn(|context| {
        let _ = posted.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
}
