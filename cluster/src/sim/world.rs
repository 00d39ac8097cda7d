//! The simulated cluster: nodes, queue pairs, chains in flight, and what each event does.

use std::collections::{BTreeMap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::costs::Costs;
use super::memory::{Interval, Reader, Space, WordOrder};
use super::queue::{CHAIN_LIMIT, Event, EventQueue, INDEX_LIMIT, Time, from_ns};
use super::{SimConfig, SimError, SimStats};
use crate::{
    Chain, ClientId, Error, GlobalAddr, MemoryKind, MemoryMap, NodeId, Op, Result, WaitFor,
};

/// Hostile mode: the longest time over which a long access is spread, by which an access that the contract
/// does not order is late, and by which a WRITE reaches the CPU after its acknowledgement. A little more than a
/// round trip, so that any two accesses of two clients can change places.
const HOSTILE: Time = from_ns(3_000);

/// A first-come-first-served stage of an RNIC.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    free_at: Time,
}

impl Stage {
    /// Enters at `now` and holds the stage for `hold`; returns when service begins.
    #[inline]
    fn enter(&mut self, now: Time, hold: Time) -> Time {
        let start = now.max(self.free_at);
        self.free_at = start + hold;
        start
    }
}

/// A node: its RNIC and its memory.
#[derive(Debug)]
struct Node {
    send: Stage,
    receive: Stage,
    atomic_unit: Stage,
    /// When the atomic unit is done with an address, by a hash of it.
    atomic_addresses: Vec<Stage>,
    /// Queue-pair ends in use here.
    queue_pairs: u32,
    /// What a miss of queue-pair state adds with that many of them.
    miss: Time,
    spaces: [Space; 2],
    /// Words under an RNIC atomic between its read and its write (hostile mode): offset, operation, verb, and
    /// whether a CPU has changed the word since.
    atomics: Vec<AtomicWindow>,
}

#[derive(Clone, Copy, Debug)]
struct AtomicWindow {
    start: usize,
    op: u32,
    verb: u32,
    before: u64,
    cpu_changed: bool,
}

/// Entries of the table by which atomics of one address are serialised: 512 slots by the low bits of the
/// address (published for ConnectX-6: Fusa; assumed for others).
const ATOMIC_SLOTS: usize = 512;

/// One direction of a queue pair: the verbs that one thread sends to one node.
#[derive(Debug)]
struct QueuePair {
    from: u16,
    to: u16,
    /// Posted and not yet wholly sent; the first may be in part.
    pending: VecDeque<u32>,
    /// READs and atomics sent whose response has not reached the requester's RNIC.
    reads: u32,
    atomics: u32,
    /// A `Resume` is scheduled for every response as long as something waits.
    stalled: bool,
    /// Arrivals of responses that are known: (time, atomic?), by time.
    responses: VecDeque<(Time, bool)>,
    /// Order at the target: when the last of each took effect.
    last_arrival: Time,
    last_write: Time,
    last_write_cpu: Time,
    last_read: Time,
    last_atomic: Time,
    last_response: Time,
}

/// A chain in flight.
#[derive(Debug)]
struct InFlight {
    chain: Chain,
    client: u32,
    qp: u32,
    /// First verb not sent.
    next: u32,
    /// First verb that has not arrived. The last verb of each segment that was sent carries [`SEGMENT_END`].
    arrived: u32,
    /// When its doorbell was rung.
    posted_at: Time,
    /// Verbs that have not taken effect.
    remaining: u32,
    /// When the last response so far reaches the requester's RNIC.
    response_at: Time,
    done: bool,
    /// Its future is gone: nobody collects it.
    orphan: bool,
}

/// What a client waits for on a line of its own memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub wait: WaitFor,
    pub since: Time,
    pub reported: bool,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub node: u16,
    /// Number of the thread over the whole cluster.
    thread: u32,
    /// Its CPU core's number within the node.
    core: u8,
    pub rng: Xoshiro256PlusPlus,
    /// CPU time of cache hits that is not yet in the clock.
    pub debt: Time,
    pub waiting: Option<Waiting>,
    pub woken: bool,
    pub timed_out: bool,
    pub chains: Vec<Chain>,
    pub spawned: bool,
    pub finished: bool,
}

/// Everything of the simulation but the clients' futures.
pub(super) struct World {
    pub now: Time,
    /// The fast path of a delay may not pass this.
    pub horizon: Time,
    pub queue: EventQueue,
    pub costs: Costs,
    pub config: SimConfig,
    nodes: Vec<Node>,
    qps: Vec<QueuePair>,
    qp_of: Vec<Vec<u32>>,
    ops: Vec<Option<InFlight>>,
    free_ops: Vec<u32>,
    pub clients: Vec<Client>,
    threads: BTreeMap<(u16, u16), u32>,
    faults: Xoshiro256PlusPlus,
    pub stats: SimStats,
    sweeping: bool,
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

/// Nodes that event numbers have room for.
pub(super) const NODE_LIMIT: u16 = (CHAIN_LIMIT / 2) as u16;
/// No queue pair yet.
const NO_QP: u32 = u32::MAX;
/// No pending access.
const NO_ACCESS: u32 = u32::MAX;
/// The access ends by an event of its own.
const LANDS_ALONE: u32 = u32::MAX - 1;
/// The note of a segment's last verb while it is on its way.
const SEGMENT_END: u32 = u32::MAX - 2;
/// The pseudo queue pair of CPU copies.
const CPU_QP: u32 = u32::MAX;

impl World {
    pub(super) fn new(config: &SimConfig, map: &MemoryMap) -> std::result::Result<Self, SimError> {
        if map.nodes() > NODE_LIMIT {
            return Err(SimError::TooManyNodes { nodes: map.nodes() });
        }
        let mut nodes = Vec::new();
        for id in 0..map.nodes() {
            let space = |kind, lines| {
                let bytes = map.bytes(NodeId(id), kind);
                Space::new(bytes as usize, lines).map_err(|error| SimError::Memory {
                    node: NodeId(id),
                    bytes,
                    error,
                })
            };
            nodes.push(Node {
                send: Stage::default(),
                receive: Stage::default(),
                atomic_unit: Stage::default(),
                atomic_addresses: vec![Stage::default(); ATOMIC_SLOTS],
                queue_pairs: 0,
                miss: 0,
                spaces: [
                    space(MemoryKind::Host, true)?,
                    space(MemoryKind::Device, false)?,
                ],
                atomics: Vec::new(),
            });
        }
        Ok(Self {
            now: 0,
            horizon: Time::MAX,
            queue: EventQueue::new(),
            costs: Costs::new(&config.profile),
            config: config.clone(),
            nodes,
            qps: Vec::new(),
            qp_of: Vec::new(),
            ops: Vec::new(),
            free_ops: Vec::new(),
            clients: Vec::new(),
            threads: BTreeMap::new(),
            faults: Xoshiro256PlusPlus::seed_from_u64(config.seed ^ 0x6661_756c_7473),
            stats: SimStats::default(),
            sweeping: false,
        })
    }

    pub(super) fn host_words(&mut self, node: NodeId) -> &mut [u64] {
        self.nodes[usize::from(node.0)].spaces[0].words_mut()
    }

    pub(super) fn add_client(&mut self, node: NodeId, thread: u16) -> u32 {
        assert!(
            usize::from(node.0) < self.nodes.len(),
            "{node} does not exist"
        );
        let id = self.clients.len() as u32;
        assert!(id < INDEX_LIMIT, "more clients than event numbers");
        let next_thread = self.threads.len() as u32;
        let thread_id = *self.threads.entry((node.0, thread)).or_insert(next_thread);
        if thread_id == next_thread {
            self.qp_of.push(vec![NO_QP; self.nodes.len()]);
        }
        self.clients.push(Client {
            node: node.0,
            thread: thread_id,
            core: (thread % 254) as u8,
            rng: Xoshiro256PlusPlus::seed_from_u64(
                self.config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    ^ (u64::from(id) << 32 | 0x636c),
            ),
            debt: 0,
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
    fn upto(&mut self, max: Time) -> Time {
        if max == 0 {
            0
        } else {
            self.faults.random_range(0..=max)
        }
    }

    fn hostile(&mut self) -> Time {
        if self.config.hostile {
            self.upto(HOSTILE)
        } else {
            0
        }
    }

    fn jitter(&mut self) -> Time {
        self.upto(from_ns(self.config.jitter_ns))
    }

    // --- addresses --------------------------------------------------------------------------------------------

    fn space(&mut self, addr: GlobalAddr) -> &mut Space {
        &mut self.nodes[usize::from(addr.node().0)].spaces[usize::from(addr.is_device())]
    }

    fn check(&self, what: &'static str, addr: GlobalAddr, len: u64, word: bool) -> Result<()> {
        let Some(node) = self.nodes.get(usize::from(addr.node().0)) else {
            return Err(Error::PeerGone {
                node: addr.node(),
                why: format!("the cluster has {} nodes", self.nodes.len()),
            });
        };
        let limit = node.spaces[usize::from(addr.is_device())].len() as u64;
        if len == 0 || addr.offset() + len > limit {
            return Err(Error::OutOfBounds {
                what,
                addr,
                len,
                limit,
            });
        }
        if word && !addr.offset().is_multiple_of(8) {
            return Err(Error::Misaligned { what, addr });
        }
        Ok(())
    }

    /// Checks a CPU access of `words` words.
    pub(super) fn check_cpu(
        &self,
        client: u32,
        what: &'static str,
        addr: GlobalAddr,
        words: usize,
    ) -> Result<()> {
        if addr.node().0 != self.clients[client as usize].node {
            return Err(Error::NotPermitted {
                what,
                addr,
                why: "a CPU accesses its own node's memory only",
            });
        }
        if addr.is_device() {
            return Err(Error::NotPermitted {
                what,
                addr,
                why: "a CPU does not reach device memory",
            });
        }
        self.check(what, addr, words as u64 * 8, true)
    }

    fn check_chain(&self, chain: &Chain) -> Result<()> {
        assert!(
            chain.verbs().len() < CHAIN_LIMIT as usize,
            "a chain has less than {CHAIN_LIMIT} verbs"
        );
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
                return Err(Error::NotPermitted {
                    what,
                    addr: verb.addr,
                    why,
                });
            }
        }
        Ok(())
    }

    pub(super) fn native_swap(&self) -> bool {
        self.config.swap == super::SwapKind::Native
    }

    // --- the requester's side ---------------------------------------------------------------------------------

    fn queue_pair(&mut self, client: u32, to: u16) -> u32 {
        let thread = self.clients[client as usize].thread as usize;
        let known = self.qp_of[thread][usize::from(to)];
        if known != NO_QP {
            return known;
        }
        let from = self.clients[client as usize].node;
        let id = self.qps.len() as u32;
        assert!(id < INDEX_LIMIT, "more queue pairs than event numbers");
        self.qps.push(QueuePair {
            from,
            to,
            pending: VecDeque::new(),
            reads: 0,
            atomics: 0,
            stalled: false,
            responses: VecDeque::new(),
            last_arrival: 0,
            last_write: 0,
            last_write_cpu: 0,
            last_read: 0,
            last_atomic: 0,
            last_response: 0,
        });
        self.qp_of[thread][usize::from(to)] = id;
        // Each end is state in its own RNIC; a loopback queue pair has both in one.
        for end in [from, to] {
            let node = &mut self.nodes[usize::from(end)];
            node.queue_pairs += 1;
            node.miss = self.costs.miss(node.queue_pairs);
        }
        id
    }

    /// Takes the chain and posts it; the operation's number is what [`World::collect`] wants back.
    pub(super) fn post(&mut self, client: u32, chain: &mut Chain) -> Result<u32> {
        self.check_chain(chain)?;
        let to = chain.node().expect("not empty").0;
        let qp = self.queue_pair(client, to);
        let verbs = chain.verbs().len() as u32;
        self.stats.verbs += u64::from(verbs);
        let id = self.free_ops.pop().unwrap_or_else(|| {
            self.ops.push(None);
            self.ops.len() as u32 - 1
        });
        assert!(
            id < INDEX_LIMIT,
            "more operations in flight than event numbers"
        );
        self.ops[id as usize] = Some(InFlight {
            chain: std::mem::take(chain),
            client,
            qp,
            next: 0,
            arrived: 0,
            posted_at: self.now + self.clients[client as usize].debt,
            remaining: verbs,
            response_at: 0,
            done: false,
            orphan: false,
        });
        self.qps[qp as usize].pending.push_back(id);
        if !self.qps[qp as usize].stalled {
            self.send(qp);
        }
        Ok(id)
    }

    /// Sends what the queue pair's order allows; the rest waits for responses.
    fn send(&mut self, qp: u32) {
        while let Some(id) = self.qps[qp as usize].pending.front().copied() {
            let op = self.ops[id as usize].as_mut().expect("in flight");
            let state = &mut self.qps[qp as usize];
            let begin = op.next;
            let mut end = begin;
            for verb in &op.chain.verbs()[begin as usize..] {
                // A fence waits for every READ and atomic before it, those of this chain among them. The RNIC
                // limits how many atomics of a queue pair are outstanding.
                let atomic = verb.op.is_atomic();
                if verb.fenced && state.reads + state.atomics > 0
                    || atomic && state.atomics >= self.costs.atomics_per_qp
                {
                    break;
                }
                state.atomics += u32::from(atomic);
                state.reads += u32::from(matches!(verb.op, Op::Read { .. }));
                end += 1;
            }
            if end == begin {
                self.stall(qp);
                return;
            }
            op.next = end;
            op.chain.verbs_mut()[end as usize - 1].note = SEGMENT_END;
            let whole = end as usize == op.chain.verbs().len();
            if whole {
                state.pending.pop_front();
            }
            self.transmit(id, begin as usize..end as usize);
            if !whole {
                self.stall(qp);
                return;
            }
        }
    }

    fn stall(&mut self, qp: u32) {
        let state = &mut self.qps[qp as usize];
        state.stalled = true;
        // Responses on their way already have their arrival; those to come schedule theirs.
        for (time, _) in &state.responses {
            self.queue.push((*time).max(self.now), Event::Resume(qp));
        }
    }

    fn resume(&mut self, qp: u32) {
        let state = &mut self.qps[qp as usize];
        while let Some((time, atomic)) = state.responses.front().copied()
            && time <= self.now
        {
            state.responses.pop_front();
            if atomic {
                state.atomics -= 1;
            } else {
                state.reads -= 1;
            }
        }
        if state.stalled {
            state.stalled = false;
            self.send(qp);
        }
    }

    /// Puts the operation's segment through the send engine and onto the wire.
    fn transmit(&mut self, id: u32, verbs: std::ops::Range<usize>) {
        let op = self.ops[id as usize].as_mut().expect("in flight");
        let qp = op.qp;
        let (from, to) = (self.qps[qp as usize].from, self.qps[qp as usize].to);
        let node = &mut self.nodes[usize::from(from)];
        // The doorbell's latency is put behind the engine instead of before it: the sum is the same, and the
        // engine is then entered in the order of events.
        let mut start = Time::MAX;
        for (number, verb) in op.chain.verbs()[verbs].iter().enumerate() {
            let out = if let Op::Write { len } = verb.op {
                len
            } else {
                0
            };
            let miss = if number == 0 || self.costs.miss_each_verb {
                node.miss
            } else {
                0
            };
            let entered = node.send.enter(self.now, self.costs.engine(out) + miss);
            start = start.min(entered + miss + self.costs.message);
        }
        let post = (op.posted_at + self.costs.post).saturating_sub(self.now);
        let wire = if from == to {
            self.costs.loopback
        } else {
            self.costs.wire
        };
        let arrival = start + post + wire + self.jitter();
        let state = &mut self.qps[qp as usize];
        // A queue pair's packets stay in order.
        state.last_arrival = arrival.max(state.last_arrival);
        self.queue.push(state.last_arrival, Event::Arrive(id));
    }

    /// Whether operation `id` is complete.
    pub(super) fn is_done(&self, id: u32) -> bool {
        self.ops[id as usize].as_ref().is_some_and(|op| op.done)
    }

    /// Gives the completed operation's chain back.
    pub(super) fn collect(&mut self, id: u32) -> Chain {
        let op = self.ops[id as usize].take().expect("in flight");
        debug_assert!(op.done, "collected when complete");
        self.free_ops.push(id);
        op.chain
    }

    /// The operation's future was dropped: its verbs go on, its result is nobody's.
    pub(super) fn abandon(&mut self, id: u32) {
        let op = self.ops[id as usize].as_mut().expect("in flight");
        op.orphan = true;
        if op.done {
            self.ops[id as usize] = None;
            self.free_ops.push(id);
        }
    }

    // --- the target's side ------------------------------------------------------------------------------------

    fn arrive(&mut self, id: u32) {
        let mut op = self.ops[id as usize].take().expect("in flight");
        let begin = op.arrived;
        let end = op.chain.verbs()[begin as usize..]
            .iter()
            .position(|verb| verb.note == SEGMENT_END);
        op.arrived = begin + end.expect("the segment that was sent has an end") as u32 + 1;
        for number in begin..op.arrived {
            let verb = op.chain.verbs()[number as usize];
            let bytes = verb.op.remote_bytes();
            let inward = if let Op::Write { len } = verb.op {
                len
            } else {
                0
            };
            let target = usize::from(verb.addr.node().0);
            let space_index = usize::from(verb.addr.is_device());
            let start = verb.addr.offset() as usize;
            // The segment's later verbs arrive behind the first by what the sender's engine took for each; the
            // receiving engine takes as long, so only the first can wait for its arrival.
            let node = &mut self.nodes[target];
            let miss = if number == begin || self.costs.miss_each_verb {
                node.miss
            } else {
                0
            };
            let entered = node
                .receive
                .enter(self.now, self.costs.engine(inward) + miss);
            let received = entered + miss + self.costs.message;
            node.spaces[space_index].prefetch(start, bytes as usize);
            let span = self.span(bytes);
            let mut access = NO_ACCESS;
            match verb.op {
                Op::Write { .. } => {
                    let late = self.hostile();
                    let state = &mut self.qps[op.qp as usize];
                    let begin = received.max(state.last_write);
                    let seen = begin + span;
                    let mut effect = seen;
                    if self.config.hostile || bytes > 8 {
                        let begin = (begin + late).max(state.last_write_cpu);
                        let interval = Interval {
                            begin,
                            span,
                            order: WordOrder::Ascending,
                        };
                        let word = verb.data_word();
                        let payload =
                            &bytemuck::cast_slice(&op.chain.data()[word..])[..bytes as usize];
                        let space = &mut self.nodes[target].spaces[space_index];
                        let (pending, landed) =
                            space.begin_write(start, payload, interval, seen, op.qp);
                        state.last_write_cpu = landed;
                        if self.config.hostile && usize::from(state.from) != target {
                            // Acknowledged, and seen by verbs, before the CPU sees it.
                            let node = target as u32 * 2 + space_index as u32;
                            self.queue.push(landed, Event::Land(node, pending));
                            access = LANDS_ALONE;
                        } else {
                            // A loopback WRITE is visible to the host when it completes.
                            effect = landed;
                            access = pending;
                        }
                    }
                    self.qps[op.qp as usize].last_write = effect;
                    self.queue.push(effect, Event::Effect(id, number));
                }
                Op::Read { .. } => {
                    let late = self.hostile();
                    let order = self.word_order();
                    let state = &mut self.qps[op.qp as usize];
                    let begin = (received + self.costs.pcie_read + late)
                        .max(state.last_write)
                        .max(state.last_read)
                        .max(state.last_atomic);
                    let interval = Interval { begin, span, order };
                    state.last_read = interval.end();
                    if bytes > 8 {
                        let space = &mut self.nodes[target].spaces[space_index];
                        access = space.begin_read(start, bytes as usize, interval, Reader::Nic);
                    }
                    self.queue.push(interval.end(), Event::Effect(id, number));
                }
                Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => {
                    let late = self.hostile();
                    let state = &self.qps[op.qp as usize];
                    let ready = (received + self.costs.pcie_read + late)
                        .max(state.last_write)
                        .max(state.last_atomic);
                    let node = &mut self.nodes[target];
                    let slot = start / 8 % ATOMIC_SLOTS;
                    let ready = ready.max(node.atomic_addresses[slot].free_at);
                    let begin = node.atomic_unit.enter(ready, self.costs.atomic_unit);
                    let done = begin + self.costs.atomic_address;
                    node.atomic_addresses[slot].free_at = done;
                    if self.costs.atomics_block {
                        node.receive.free_at = node.receive.free_at.max(done);
                    }
                    self.qps[op.qp as usize].last_atomic = done;
                    if self.config.hostile {
                        self.queue.push(begin, Event::AtomicRead(id, number));
                    }
                    self.queue.push(done, Event::Effect(id, number));
                }
            }
            op.chain.verbs_mut()[number as usize].note = access;
        }
        self.ops[id as usize] = Some(op);
    }

    /// Over what time an access of `bytes` is spread.
    fn span(&mut self, bytes: u32) -> Time {
        if bytes <= 8 {
            0
        } else if self.config.hostile {
            self.upto(HOSTILE)
        } else {
            self.costs.transfer(bytes)
        }
    }

    fn word_order(&mut self) -> WordOrder {
        if !self.config.hostile {
            return WordOrder::Ascending;
        }
        match self.faults.random_range(0..3u32) {
            0 => WordOrder::Ascending,
            1 => WordOrder::Descending,
            _ => WordOrder::Scattered(self.faults.random()),
        }
    }

    /// An RNIC atomic reads its word; until its write, a CPU's change of that word is lost.
    fn atomic_read(&mut self, id: u32, number: u32) {
        let verb = self.ops[id as usize]
            .as_ref()
            .expect("in flight")
            .chain
            .verbs()[number as usize];
        let start = verb.addr.offset() as usize;
        let now = self.now;
        let before = self.space(verb.addr).load(start, now, Reader::Nic);
        let node = &mut self.nodes[usize::from(verb.addr.node().0)];
        if !verb.addr.is_device() {
            node.atomics.push(AtomicWindow {
                start,
                op: id,
                verb: number,
                before,
                cpu_changed: false,
            });
        }
    }

    fn effect(&mut self, id: u32, number: u32) {
        let mut op = self.ops[id as usize].take().expect("in flight");
        let verb = op.chain.verbs()[number as usize];
        let target = usize::from(verb.addr.node().0);
        let start = verb.addr.offset() as usize;
        let len = verb.op.remote_bytes() as usize;
        let word = verb.data_word();
        let access = verb.note;
        let now = self.now;
        let qp = op.qp;
        if self.config.hostile && !matches!(verb.op, Op::Write { .. }) {
            // WRITE→READ and WRITE→atomic of a queue pair: the WRITEs are in memory first, for everybody.
            for space in &mut self.nodes[target].spaces {
                space.push_queue_pair(qp, now);
            }
        }
        let space = &mut self.nodes[target].spaces[usize::from(verb.addr.is_device())];
        match verb.op {
            Op::Write { .. } if access == LANDS_ALONE => {}
            Op::Write { .. } if access != NO_ACCESS => space.end_write(access, now),
            Op::Write { .. } => {
                let payload = &bytemuck::cast_slice(&op.chain.data()[word..])[..len];
                space.store(start, payload, now, Reader::Nic);
            }
            Op::Read { .. } => {
                let out = &mut bytemuck::cast_slice_mut(&mut op.chain.data_mut()[word..])[..len];
                if access == NO_ACCESS {
                    space.copy(start, out, now, Reader::Nic);
                } else {
                    space.end_read(access, out);
                }
            }
            Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => {
                let mut found = space.load(start, now, Reader::Nic);
                let windows = &mut self.nodes[target].atomics;
                if let Some(place) = windows
                    .iter()
                    .position(|window| (window.op, window.verb) == (id, number))
                {
                    let window = windows.swap_remove(place);
                    if window.cpu_changed {
                        found = window.before;
                    }
                }
                let stored = match verb.op {
                    Op::Cas { expected, new } => (found == expected).then_some(new),
                    Op::Faa { add } => Some(found.wrapping_add(add)),
                    Op::Swap { new } => Some(new),
                    Op::Read { .. } | Op::Write { .. } => None,
                };
                if let Some(value) = stored {
                    let space = &mut self.nodes[target].spaces[usize::from(verb.addr.is_device())];
                    space.store(start, &value.to_ne_bytes(), now, Reader::Nic);
                }
                op.chain.data_mut()[word] = found;
            }
        }
        self.wake_watchers(target);
        self.respond(id, &mut op, number, verb.op);
        self.ops[id as usize] = Some(op);
    }

    /// Sends a verb's response, and schedules the chain's completion when it was the last to take effect.
    fn respond(&mut self, id: u32, op: &mut InFlight, number: u32, verb: Op) {
        let qp = op.qp;
        let (from, to) = (self.qps[qp as usize].from, self.qps[qp as usize].to);
        let last = number as usize + 1 == op.chain.verbs().len();
        op.remaining -= 1;
        // WRITEs within a chain are acknowledged with what follows them.
        let is_write = matches!(verb, Op::Write { .. });
        let back = if let Op::Read { len } = verb { len } else { 0 };
        if !is_write || last {
            let node = &mut self.nodes[usize::from(to)];
            let miss = node.miss;
            let entered = node.send.enter(self.now, self.costs.engine(back) + miss);
            let wire = if from == to {
                self.costs.loopback
            } else {
                self.costs.wire
            };
            let sent = entered + miss + self.costs.message;
            let arrival = sent + wire + self.costs.read_bytes(back) + self.jitter();
            let state = &mut self.qps[qp as usize];
            let arrival = arrival.max(state.last_response);
            state.last_response = arrival;
            op.response_at = op.response_at.max(arrival);
            if !is_write {
                // The requester's RNIC takes the response in one more engine pass.
                let taken = arrival + self.costs.message;
                state.responses.push_back((taken, verb.is_atomic()));
                if state.stalled {
                    self.queue.push(taken, Event::Resume(qp));
                }
            }
        }
        if op.remaining == 0 {
            // As with the doorbell, the completion's latency is put before the engine's pass.
            let at = op.response_at + self.costs.message + self.costs.completion;
            self.queue.push(at, Event::Complete(id));
        }
    }

    /// A chain's completion: the requester's receive engine, then the client. Returns the client to poll.
    fn complete(&mut self, id: u32) -> Option<u32> {
        let op = self.ops[id as usize].as_mut().expect("in flight");
        let node = &mut self.nodes[usize::from(self.qps[op.qp as usize].from)];
        // The pass's own time is in the event's time already. Waiting for the engine comes on top, once.
        if op.response_at != Time::MAX {
            let verbs = op.chain.verbs();
            let back: Time = verbs
                .iter()
                .enumerate()
                .filter(|(number, verb)| {
                    !matches!(verb.op, Op::Write { .. }) || number + 1 == verbs.len()
                })
                .map(|(_, verb)| {
                    self.costs.engine(if let Op::Read { len } = verb.op {
                        len
                    } else {
                        0
                    })
                })
                .sum();
            let miss = node.miss;
            let start = node.receive.enter(self.now, back + miss) + miss;
            op.response_at = Time::MAX;
            if start > self.now {
                self.queue.push(start, Event::Complete(id));
                return None;
            }
        }
        op.done = true;
        let (client, qp, orphan) = (op.client, op.qp, op.orphan);
        if orphan {
            self.ops[id as usize] = None;
            self.free_ops.push(id);
        }
        self.resume_quietly(qp);
        (!orphan).then_some(client)
    }

    /// Forgets responses that have arrived; nothing waits for them, or a `Resume` is scheduled.
    fn resume_quietly(&mut self, qp: u32) {
        let state = &mut self.qps[qp as usize];
        if state.stalled {
            return;
        }
        while let Some((time, atomic)) = state.responses.front().copied()
            && time <= self.now
        {
            state.responses.pop_front();
            if atomic {
                state.atomics -= 1;
            } else {
                state.reads -= 1;
            }
        }
    }

    // --- the CPU's side ---------------------------------------------------------------------------------------

    fn core(&self, client: u32) -> u8 {
        self.clients[client as usize].core
    }

    /// What a CPU access of `words` words from `addr` costs, and takes the lines.
    pub(super) fn cpu_cost(
        &mut self,
        client: u32,
        addr: GlobalAddr,
        words: usize,
        writes: bool,
    ) -> Time {
        use super::memory::LineState;
        let core = self.core(client);
        let start = addr.offset() as usize;
        let first = start / crate::LINE_BYTES;
        let last = (start + words * 8 - 1) / crate::LINE_BYTES;
        let space = &mut self.nodes[usize::from(addr.node().0)].spaces[0];
        let mut dearest = 0;
        let mut more = 0;
        for line in first..=last {
            let (cost, stream) = match space.touch(line * crate::LINE_BYTES, core, writes) {
                LineState::Hit => (self.costs.cpu_hit, self.costs.cpu_hit),
                LineState::Elsewhere => (self.costs.cpu_transfer, self.costs.cpu_stream),
                LineState::Memory => (self.costs.cpu_memory, self.costs.cpu_stream),
            };
            // The first miss is waited for, the prefetcher brings the lines behind it.
            if cost > dearest {
                more += if dearest > 0 { self.costs.cpu_hit } else { 0 };
                dearest = cost;
            } else {
                more += stream;
            }
        }
        let total = dearest + more;
        if self.config.hostile {
            total + self.upto(from_ns(200))
        } else {
            total
        }
    }

    pub(super) fn cpu_load(&mut self, addr: GlobalAddr) -> u64 {
        let now = self.now;
        self.space(addr)
            .load(addr.offset() as usize, now, Reader::Cpu)
    }

    pub(super) fn cpu_store(&mut self, addr: GlobalAddr, value: u64) {
        let now = self.now;
        let start = addr.offset() as usize;
        let node = usize::from(addr.node().0);
        self.lose_atomics(node, start, 8);
        self.space(addr)
            .store(start, &value.to_ne_bytes(), now, Reader::Cpu);
        self.wake_watchers(node);
    }

    /// A CPU's change of a word under an RNIC atomic is lost when that writes.
    fn lose_atomics(&mut self, node: usize, start: usize, len: usize) {
        for window in &mut self.nodes[node].atomics {
            window.cpu_changed |= (start..start + len).contains(&window.start);
        }
    }

    /// Begins a CPU copy out of `words` words that ends at `end`.
    pub(super) fn cpu_copy_begin(&mut self, addr: GlobalAddr, words: usize, end: Time) -> u32 {
        let order = self.word_order();
        let interval = Interval {
            begin: self.now,
            span: end.saturating_sub(self.now),
            order,
        };
        self.space(addr)
            .begin_read(addr.offset() as usize, words * 8, interval, Reader::Cpu)
    }

    /// Ends it.
    pub(super) fn cpu_copy_end(&mut self, addr: GlobalAddr, access: u32, out: &mut [u64]) {
        self.space(addr)
            .end_read(access, bytemuck::cast_slice_mut(out));
    }

    /// Takes it back, unfinished.
    pub(super) fn cpu_copy_cancel(&mut self, addr: GlobalAddr, access: u32) {
        self.space(addr).cancel_read(access);
    }

    /// Begins a CPU copy into memory that ends at `end`.
    pub(super) fn cpu_fill_begin(&mut self, addr: GlobalAddr, words: &[u64], end: Time) -> u32 {
        let span = end.saturating_sub(self.now);
        let interval = Interval {
            begin: self.now,
            span,
            order: WordOrder::Ascending,
        };
        let bytes = bytemuck::cast_slice(words);
        self.space(addr)
            .begin_write(addr.offset() as usize, bytes, interval, Time::MAX, CPU_QP)
            .0
    }

    /// Ends it.
    pub(super) fn cpu_fill_end(&mut self, addr: GlobalAddr, access: u32, words: usize) {
        let now = self.now;
        self.lose_atomics(
            usize::from(addr.node().0),
            addr.offset() as usize,
            words * 8,
        );
        self.space(addr).end_write(access, now);
        self.wake_watchers(usize::from(addr.node().0));
    }

    fn wake_watchers(&mut self, node: usize) {
        for space in &mut self.nodes[node].spaces {
            while let Some(client) = space.take_woken() {
                self.clients[client as usize].woken = true;
                self.queue.push(self.now, Event::Wake(client));
            }
        }
    }

    /// Has the client woken when the line at `addr` changes.
    pub(super) fn watch(&mut self, client: u32, addr: GlobalAddr) {
        self.clients[client as usize].woken = false;
        self.space(addr).watch(addr.offset() as usize, client);
        if !self.sweeping {
            self.sweeping = true;
            self.queue.push(self.now + self.sweep_every(), Event::Sweep);
        }
    }

    pub(super) fn unwatch(&mut self, client: u32, addr: GlobalAddr) {
        self.space(addr).unwatch(client);
    }

    fn sweep_every(&self) -> Time {
        (from_ns(self.config.waits.report_ns.min(self.config.waits.limit_ns)) / 2)
            .max(from_ns(1_000))
    }

    /// Reports long waits and ends those that are too long.
    fn sweep(&mut self) {
        let waits = self.config.waits;
        let now = self.now;
        let mut any = false;
        for id in 0..self.clients.len() {
            let client = &mut self.clients[id];
            let Some(waiting) = &mut client.waiting else {
                continue;
            };
            any = true;
            let waited = now - waiting.since;
            if waited > from_ns(waits.limit_ns) && !client.woken {
                client.timed_out = true;
                client.woken = true;
                self.queue.push(now, Event::Wake(id as u32));
            } else if waited > from_ns(waits.report_ns) && !waiting.reported {
                waiting.reported = true;
                tracing::warn!(
                    client = id,
                    node = client.node,
                    waiting_for = waiting.wait.what,
                    at = %waiting.wait.addr,
                    waited_us = waited / 1_000_000,
                    "long wait"
                );
            }
        }
        self.sweeping = any && self.queue.len() > 0;
        if self.sweeping {
            self.queue.push(now + self.sweep_every(), Event::Sweep);
        }
    }

    // --- the event loop ---------------------------------------------------------------------------------------

    /// Lets events happen until a client is to be polled.
    pub(super) fn step(&mut self) -> Step {
        loop {
            if self.queue.next_time() > self.horizon {
                if self.queue.len() == 0 {
                    return Step::Idle;
                }
                self.now = self.horizon;
                return Step::Horizon;
            }
            let Some((time, event)) = self.queue.pop() else {
                return Step::Idle;
            };
            debug_assert!(time >= self.now, "time runs forwards");
            self.now = time;
            self.stats.events += 1;
            match event {
                Event::Wake(client) => return Step::Poll(client),
                Event::Arrive(op) => self.arrive(op),
                Event::Effect(op, verb) => self.effect(op, verb),
                Event::AtomicRead(op, verb) => self.atomic_read(op, verb),
                Event::Land(node, access) => {
                    let (node, space) = ((node / 2) as usize, (node % 2) as usize);
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
