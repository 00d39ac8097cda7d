//! The simulated cluster: its nodes, clients and clock, and the loop that lets events happen.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::costs::Costs;
use super::debt::Debt;
use super::freedoms::Freedoms;
use super::memory::Space;
use super::node::Node;
use super::pending::WordOrder;
use super::queue::{Event, EventQueue, Time};
use super::requester::{InFlight, NO_QP, QueuePair};
use super::{SimConfig, SimError, SimStats};
use crate::{
    Chain, ClientId, ErrorKind, GlobalAddr, MemoryKind, MemoryMap, NodeId, Op, Result, TraceSink,
    WaitFor,
};

/// What a client waits for on a line of its own memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) wait: WaitFor,
    pub(super) since: Time,
    pub(super) reported: bool,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) node: u16,
    /// Number of the thread over the whole cluster.
    pub(super) thread: u32,
    /// Its CPU core's number within the node.
    pub(super) core: u8,
    pub(super) rng: Xoshiro256PlusPlus,
    pub(super) debt: Debt,
    pub(super) waiting: Option<Waiting>,
    pub(super) woken: bool,
    pub(super) timed_out: bool,
    pub(super) chains: Vec<Chain>,
    pub(super) spawned: bool,
    pub(super) finished: bool,
}

/// A thread of clients, which share its queue pairs.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) clients: u32,
    /// By the node that they go to.
    pub(super) queue_pairs: Vec<u32>,
}

/// Everything of the simulation but the clients' futures.
pub(super) struct World {
    pub(super) now: Time,
    /// The fast path of a delay may not pass this.
    pub(super) horizon: Time,
    pub(super) queue: EventQueue,
    pub(super) costs: Costs,
    pub(super) config: SimConfig,
    pub(super) nodes: Vec<Node>,
    pub(super) qps: Vec<QueuePair>,
    /// Operations, and places for them.
    pub(super) ops: Vec<InFlight>,
    pub(super) free_ops: Vec<u32>,
    pub(super) clients: Vec<Client>,
    pub(super) threads: Vec<Thread>,
    /// Their numbers, by node and number within the node.
    thread_numbers: BTreeMap<(u16, u16), u32>,
    pub(super) freedoms: Freedoms,
    /// The window of time in which queue pairs are counted as active, and when it ends.
    pub(super) window: u64,
    pub(super) window_end: Time,
    pub(super) stats: SimStats,
    pub(super) sweeping: bool,
    pub(super) trace: Option<Box<dyn TraceSink>>,
}

/// What an event asks the executor to do.
pub(super) enum Step {
    /// Poll this client's future.
    Poll(u32),
    /// Nothing is left to happen.
    Idle,
    /// The horizon is reached.
    Horizon,
}

/// Nodes that a simulation may have: more than anybody has measured. An event would have room for 32,768.
pub(super) const NODE_LIMIT: u16 = 256;

impl World {
    pub(super) fn new(config: &SimConfig, map: &MemoryMap) -> std::result::Result<Self, SimError> {
        if map.nodes() > NODE_LIMIT {
            return Err(SimError::TooManyNodes { nodes: map.nodes() });
        }
        let costs = Costs::new(&config.profile, config.hostile);
        let has = u64::from(config.profile.device_bytes.value);
        let mut nodes = Vec::new();
        for id in 0..map.nodes() {
            let node = NodeId(id);
            let bytes = map.bytes(node, MemoryKind::Device);
            if bytes > has {
                let profile = config.profile.name;
                return Err(SimError::DeviceMemory {
                    node,
                    bytes,
                    has,
                    profile,
                });
            }
            let space = |kind, lines| {
                let bytes = map.bytes(node, kind);
                Space::new(bytes as usize, lines).map_err(|error| SimError::Memory {
                    node,
                    bytes,
                    error,
                })
            };
            let spaces = [
                space(MemoryKind::Host, true)?,
                space(MemoryKind::Device, false)?,
            ];
            nodes.push(Node::new(spaces, &costs));
        }
        Ok(Self {
            now: 0,
            horizon: Time::MAX,
            queue: EventQueue::new(),
            costs,
            config: config.clone(),
            nodes,
            qps: Vec::new(),
            ops: Vec::new(),
            free_ops: Vec::new(),
            clients: Vec::new(),
            threads: Vec::new(),
            thread_numbers: BTreeMap::new(),
            freedoms: Freedoms::new(config),
            window: 0,
            window_end: 0,
            stats: SimStats::default(),
            sweeping: false,
            trace: None,
        })
    }

    /// `node`'s host memory; `over` says that nobody is left to see acknowledged WRITEs come late.
    pub(super) fn host_words(&mut self, node: NodeId, over: bool) -> &mut [u64] {
        let now = self.now;
        let space = &mut self.nodes[usize::from(node.0)].spaces[0];
        if over {
            space.push_all(now);
        }
        space.words_mut()
    }

    pub(super) fn add_client(&mut self, node: NodeId, thread: u16) -> u32 {
        assert!(
            usize::from(node.0) < self.nodes.len(),
            "{node} does not exist"
        );
        let id = self.clients.len() as u32;
        let next_thread = self.threads.len() as u32;
        let numbers = &mut self.thread_numbers;
        let thread_id = *numbers.entry((node.0, thread)).or_insert(next_thread);
        if thread_id == next_thread {
            self.threads.push(Thread {
                clients: 0,
                queue_pairs: vec![NO_QP; self.nodes.len()],
            });
        }
        self.threads[thread_id as usize].clients += 1;
        self.clients.push(Client {
            node: node.0,
            thread: thread_id,
            core: (thread % 254) as u8,
            rng: Xoshiro256PlusPlus::seed_from_u64(
                self.config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    ^ (u64::from(id) << 32 | 0x636c),
            ),
            debt: Debt::NONE,
            waiting: None,
            woken: false,
            timed_out: false,
            chains: Vec::new(),
            spawned: false,
            finished: false,
        });
        id
    }

    /// A random time up to `max`, both ends included; no draw for 0.
    pub(super) fn upto(&mut self, max: Time) -> Time {
        self.freedoms.upto(max)
    }

    /// In which order a long access reads its words.
    pub(super) fn word_order(&mut self) -> WordOrder {
        self.freedoms.word_order()
    }

    /// What has to pass before the client posts: what it owes, where its queue pairs are others' as well.
    #[inline]
    pub(super) fn owed_before_post(&mut self, client: u32) -> Time {
        let client = &mut self.clients[client as usize];
        if self.threads[client.thread as usize].clients > 1 {
            client.debt.settle()
        } else {
            0
        }
    }

    pub(super) fn space(&mut self, addr: GlobalAddr) -> &mut Space {
        &mut self.nodes[usize::from(addr.node().0)].spaces[usize::from(addr.is_device())]
    }

    pub(super) fn check(
        &self,
        what: &'static str,
        addr: GlobalAddr,
        len: u64,
        word: bool,
    ) -> Result<()> {
        let Some(node) = self.nodes.get(usize::from(addr.node().0)) else {
            return Err(ErrorKind::PeerGone {
                node: addr.node(),
                why: format!("the cluster has {} nodes", self.nodes.len()),
            }
            .into());
        };
        let limit = node.spaces[usize::from(addr.is_device())].len() as u64;
        if len == 0 || addr.offset() + len > limit {
            return Err(ErrorKind::OutOfBounds {
                what,
                addr,
                len,
                limit,
            }
            .into());
        }
        if word && !addr.offset().is_multiple_of(8) {
            return Err(ErrorKind::Misaligned { what, addr }.into());
        }
        if !addr.is_device() && addr.offset() < crate::LINE_BYTES as u64 {
            let why = "nothing is kept at offset 0: a null address";
            return Err(ErrorKind::NotPermitted { what, addr, why }.into());
        }
        Ok(())
    }

    /// Checks a CPU access of `words` words.
    #[inline]
    pub(super) fn check_cpu(
        &self,
        client: u32,
        what: &'static str,
        addr: GlobalAddr,
        words: usize,
    ) -> Result<()> {
        let node = self.clients[client as usize].node;
        let end = addr.offset() + words as u64 * 8;
        if addr.node().0 == node
            && !addr.is_device()
            && addr.offset().is_multiple_of(8)
            && addr.offset() >= crate::LINE_BYTES as u64
            && words > 0
            && end <= self.nodes[usize::from(node)].spaces[0].len() as u64
        {
            return Ok(());
        }
        self.refuse_cpu(node, what, addr, words)
    }

    #[cold]
    fn refuse_cpu(
        &self,
        node: u16,
        what: &'static str,
        addr: GlobalAddr,
        words: usize,
    ) -> Result<()> {
        if addr.node().0 != node {
            let why = "a CPU accesses its own node's memory only";
            return Err(ErrorKind::NotPermitted { what, addr, why }.into());
        }
        if addr.is_device() {
            let why = "a CPU does not reach device memory";
            return Err(ErrorKind::NotPermitted { what, addr, why }.into());
        }
        self.check(what, addr, words as u64 * 8, true)
    }

    /// Checks the verbs of a chain that is not empty.
    #[inline]
    pub(super) fn check_chain(&self, chain: &Chain) -> Result<()> {
        let swaps = self.native_swap();
        let node = chain
            .node()
            .and_then(|id| self.nodes.get(usize::from(id.0)));
        if let Some(node) = node
            && chain.verbs().iter().all(|verb| node.serves(verb, swaps))
        {
            return Ok(());
        }
        self.refuse_chain(chain)
    }

    #[cold]
    fn refuse_chain(&self, chain: &Chain) -> Result<()> {
        for verb in chain.verbs() {
            let what = verb.op.name();
            self.check(
                what,
                verb.addr,
                u64::from(verb.op.remote_bytes()),
                verb.op.is_atomic(),
            )?;
            if matches!(verb.op, Op::Swap { .. }) && !self.native_swap() {
                let why = "this fabric has no native swap; use a loop of CAS";
                return Err(ErrorKind::NotPermitted {
                    what,
                    addr: verb.addr,
                    why,
                }
                .into());
            }
        }
        Ok(())
    }

    pub(super) fn native_swap(&self) -> bool {
        self.config.swap == super::SwapKind::Native
    }

    /// Lets events happen until a client is to be polled.
    pub(super) fn step(&mut self) -> Step {
        loop {
            let Some((time, event)) = self.queue.pop_until(self.horizon) else {
                if self.queue.is_empty() {
                    return Step::Idle;
                }
                self.now = self.now.max(self.horizon);
                return Step::Horizon;
            };
            debug_assert!(time >= self.now, "time runs forwards");
            self.now = time;
            self.stats.events += 1;
            match event {
                Event::Wake(client) => return Step::Poll(client),
                Event::Arrive(op, end) => self.arrive(op, end),
                Event::Effect(op, verb) => self.effect(op, verb),
                Event::Look(op, verb) => self.look(op, verb),
                Event::Land(access, space) => {
                    let (node, space) = (usize::from(space / 2), usize::from(space % 2));
                    let now = self.now;
                    self.nodes[node].spaces[space].end_write(access, now);
                    self.wake_watchers(node);
                }
                Event::Resume(qp) => self.resume(qp),
                Event::Complete(op) => {
                    if let Some(client) = self.complete(op) {
                        return Step::Poll(client);
                    }
                }
                Event::Sweep => self.sweep(),
            }
        }
    }

    /// Clients that were spawned and have not finished, each with what it waits for.
    pub(super) fn unfinished(&self) -> Vec<(ClientId, Option<WaitFor>)> {
        self.clients
            .iter()
            .enumerate()
            .filter(|(_, client)| client.spawned && !client.finished)
            .map(|(id, client)| {
                (
                    ClientId(id as u32),
                    client.waiting.map(|waiting| waiting.wait),
                )
            })
            .collect()
    }
}
