//! The simulated cluster: every client, RNIC and memory in one thread and in virtual time.
//!
//! A discrete-event simulation. A client is a future; a verb is a handful of events whatever its length; memory
//! really holds what is written. The same seed gives the same bytes: ties in time are broken by the order of
//! scheduling, and nothing depends on a real clock, thread or hash order.
//!
//! **What is modelled** (parameters in [`Profile`], each with its source): an RNIC's send and receive engines
//! (first come first served, shared by requests and responses), its PCIe reads, its device memory, its atomic unit
//! (by kind of memory: total rate, rate per address; rate and atomics outstanding a queue pair), the cache of
//! queue-pair state, loopback, links, the switch, and the transfer of lines between CPU caches. **What is not**:
//! packets and MTU, congestion control, PCIe bandwidth apart from the engines, NUMA, CPU store buffers, operating
//! systems.
//!
//! **Freedoms of the contract.** In every run, verbs of more than a word take time and may be torn, and a READ's
//! memory access is later than a WRITE's, so an unfenced WRITE behind a READ can overtake it. `jitter_ns` delays
//! every message by a random time up to it, which reorders queue pairs. `hostile` draws long random times for
//! everything that the contract leaves open: tearing in any word order, READs and atomics that come late behind
//! unfenced WRITEs, WRITEs acknowledged long before the CPU sees them, and RNIC atomics whose read and write are
//! apart, so that a CPU's store or read-modify-write between them is lost.

mod copy;
mod costs;
mod debt;
mod endpoint;
mod execution;
mod freedoms;
mod host;
mod memory;
mod node;
mod pending;
mod profile;
mod queue;
mod requester;
mod target;
mod trace;
mod word;
mod world;

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub use endpoint::SimEndpoint;
pub use profile::{MissCharge, Param, ParameterError, Profile, QpTable, UnknownProfile};

use crate::{ClientId, MemoryMap, NodeId, TraceSink, WaitBounds, WaitFor};
use queue::{Event, from_ns};
use world::{Step, World};

/// How a swap is made through the RNIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwapKind {
    /// A loop of CAS.
    Cas,
    /// One verb: masked CAS with an empty compare mask, where the RNIC has it.
    Native,
}

/// How a simulated cluster behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct SimConfig {
    /// RNIC and CPU parameters.
    pub profile: Profile,
    /// Everything random follows from it.
    pub seed: u64,
    /// The longest random delay of a message, in nanoseconds.
    pub jitter_ns: u64,
    /// Whether the contract's freedoms are taken as far as they go.
    pub hostile: bool,
    /// How swaps are made. Natively also with a profile whose RNIC has no masked CAS
    /// ([`Profile::masked_cas`]): what a protocol would gain by it is worth asking; that such a swap costs as
    /// much as a CAS is assumed.
    pub swap: SwapKind,
    /// Bounds on waiting.
    pub waits: WaitBounds,
}

impl SimConfig {
    /// A cluster of `profile` hardware with seed 0 and neither jitter nor hostility.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            seed: 0,
            jitter_ns: 0,
            hostile: false,
            swap: SwapKind::Cas,
            waits: WaitBounds::default(),
        }
    }
}

/// Counts of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimStats {
    /// Timers and wake-ups taken from the event queue, or passed at once because nothing came before them.
    pub events: u64,
    /// Delays of clients, CPU time, that took no event: they passed together with a later delay. A simulator that
    /// has a timer for every delay, as a plain one does, pops `events + folded` of them or more.
    pub folded: u64,
    /// Verbs posted.
    pub verbs: u64,
}

/// Why a simulation ended before its clients had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The host's memory does not suffice.
    #[error("no memory for {node}'s {bytes} bytes: {error}")]
    Memory {
        /// The simulated node.
        node: NodeId,
        /// What it serves.
        bytes: u64,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// More nodes than the simulator numbers.
    #[error(
        "{nodes} nodes are more than the {} that can be simulated",
        Sim::MAX_NODES
    )]
    TooManyNodes {
        /// What was asked for.
        nodes: u16,
    },
    /// More device memory than an RNIC of the profile has.
    #[error("{bytes} bytes of device memory on {node}; an RNIC of profile {profile} has {has}")]
    DeviceMemory {
        /// The simulated node.
        node: NodeId,
        /// What it was to serve.
        bytes: u64,
        /// What there is.
        has: u64,
        /// The profile's name.
        profile: &'static str,
    },
    /// Nothing can happen any more and clients still wait.
    #[error("stalled at {at_ns} ns: {}", Stalled(.waiting))]
    Stalled {
        /// Virtual time, in nanoseconds.
        at_ns: u64,
        /// Who waits, for what (nothing when it is no wait of the fabric's).
        waiting: Vec<(ClientId, Option<WaitFor>)>,
    },
}

struct Stalled<'a>(&'a [(ClientId, Option<WaitFor>)]);

impl fmt::Display for Stalled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} clients wait for ever", self.0.len())?;
        for (client, wait) in self.0.iter().take(8) {
            match wait {
                Some(wait) => write!(f, "; {client} for {} at {}", wait.what, wait.addr)?,
                None => write!(f, "; {client}")?,
            }
        }
        if self.0.len() > 8 {
            f.write_str("; …")
        } else {
            Ok(())
        }
    }
}

type ClientFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A simulated cluster.
///
/// ```
/// use dmtree_cluster::sim::{Profile, Sim, SimConfig};
/// use dmtree_cluster::{Endpoint, MemoryKind, MemoryMap, NodeId};
///
/// let mut map = MemoryMap::new(2);
/// let word = map.reserve(NodeId(0), MemoryKind::Host, 8, 8);
/// let mut sim = Sim::new(&SimConfig::new(Profile::by_name("cx3-fdr")?), &map)?;
/// let remote = sim.endpoint(NodeId(1), 0);
/// sim.spawn(&remote.clone(), async move {
///     assert_eq!(remote.rdma_faa(word, 5).await, Ok(0));
///     assert_eq!(remote.read_u64(word).await, Ok(5));
/// });
/// sim.run()?;
/// assert!(sim.now_ns() > 4_000, "two round trips");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sim {
    world: Rc<RefCell<World>>,
    futures: Vec<Option<ClientFuture>>,
    running: usize,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Sim({} clients running at {} ns)",
            self.running,
            self.now_ns()
        )
    }
}

impl Sim {
    /// The most nodes a cluster can have.
    pub const MAX_NODES: u16 = world::NODE_LIMIT;

    /// A cluster that serves what `map` has reserved, all of it zero.
    ///
    /// # Errors
    /// [`SimError::Memory`] when the host refuses the memory, [`SimError::DeviceMemory`] when the profile's RNIC
    /// has less than a node is to serve, [`SimError::TooManyNodes`].
    pub fn new(config: &SimConfig, map: &MemoryMap) -> Result<Self, SimError> {
        Ok(Self {
            world: Rc::new(RefCell::new(World::new(config, map)?)),
            futures: Vec::new(),
            running: 0,
        })
    }

    /// Tells `sink` of every chain and every mark from now on.
    ///
    /// # Panics
    /// When there are endpoints already, which know whether there is a trace.
    pub fn trace(&mut self, sink: Box<dyn TraceSink>) {
        let mut world = self.world.borrow_mut();
        assert!(world.clients.is_empty(), "a trace is there before clients");
        world.trace = Some(sink);
    }

    /// A new client on thread `thread` of `node`. Clients of one thread share its queue pairs. Clients are
    /// numbered in the order of these calls.
    ///
    /// # Panics
    /// When `node` does not exist.
    pub fn endpoint(&mut self, node: NodeId, thread: u16) -> SimEndpoint {
        let client = self.world.borrow_mut().add_client(node, thread);
        SimEndpoint::new(Rc::clone(&self.world), client, node)
    }

    /// Makes `program` the client's; it starts at the present virtual time.
    ///
    /// # Panics
    /// When the endpoint is of another simulation, or its client has a program.
    pub fn spawn(&mut self, endpoint: &SimEndpoint, program: impl Future<Output = ()> + 'static) {
        assert!(
            endpoint.is_of(&self.world),
            "an endpoint of this simulation"
        );
        let id = endpoint.number() as usize;
        if self.futures.len() <= id {
            self.futures.resize_with(id + 1, || None);
        }
        let mut world = self.world.borrow_mut();
        assert!(!world.clients[id].spawned, "a client runs one program");
        world.clients[id].spawned = true;
        let now = world.now;
        world.queue.push(now, Event::Wake(id as u32));
        self.futures[id] = Some(Box::pin(program));
        self.running += 1;
    }

    /// Runs until every client has finished.
    ///
    /// # Errors
    /// [`SimError::Stalled`] when nothing can happen any more and clients still wait.
    pub fn run(&mut self) -> Result<(), SimError> {
        self.advance(u64::MAX).map(|_| ())
    }

    /// Runs until every client has finished, or until virtual time `ns`; says whether they have.
    ///
    /// # Errors
    /// As [`Sim::run`].
    pub fn run_until(&mut self, ns: u64) -> Result<bool, SimError> {
        self.advance(from_ns(ns))
    }

    fn advance(&mut self, horizon: u64) -> Result<bool, SimError> {
        self.world.borrow_mut().horizon = horizon;
        let mut context = Context::from_waker(Waker::noop());
        while self.running > 0 {
            let step = self.world.borrow_mut().step();
            match step {
                Step::Poll(client) => {
                    let Some(future) = &mut self.futures[client as usize] else {
                        continue;
                    };
                    if let Poll::Ready(()) = future.as_mut().poll(&mut context) {
                        self.futures[client as usize] = None;
                        self.world.borrow_mut().clients[client as usize].finished = true;
                        self.running -= 1;
                    }
                }
                Step::Horizon => return Ok(false),
                Step::Idle => {
                    let waiting = self.world.borrow().unfinished();
                    return Err(SimError::Stalled {
                        at_ns: self.now_ns(),
                        waiting,
                    });
                }
            }
        }
        Ok(true)
    }

    /// Virtual time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.world.borrow().now / 1000
    }

    /// What has happened so far.
    pub fn stats(&self) -> SimStats {
        self.world.borrow().stats
    }

    /// `node`'s whole host memory as words (index = offset / 8), to set it up before a run or to inspect it
    /// after one. No virtual time passes. While clients run, words that a long access has in hand, or that are
    /// acknowledged and late, are not in it.
    ///
    /// # Panics
    /// When `node` does not exist.
    pub fn host_words(&mut self, node: NodeId) -> std::cell::RefMut<'_, [u64]> {
        let over = self.running == 0;
        std::cell::RefMut::map(self.world.borrow_mut(), |world| {
            world.host_words(node, over)
        })
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Futures hold endpoints, endpoints hold the world: break the circle, and let futures' destructors still
        // find it.
        self.futures.clear();
    }
}
