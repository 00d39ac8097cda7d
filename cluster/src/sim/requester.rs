//! The requester's side of a verb: queue pairs, posting, sending in order, completions.

use std::collections::VecDeque;

use super::queue::{Event, Time};
use super::world::World;
use crate::{Chain, Op, Result, Verb};

/// One direction of a queue pair: the verbs that one thread sends to one node.
#[derive(Debug)]
pub(super) struct QueuePair {
    pub(super) from: u16,
    pub(super) to: u16,
    /// Posted and not yet wholly sent; the first may be in part.
    pub(super) pending: VecDeque<u32>,
    /// READs and atomics sent whose response has not reached the requester's RNIC.
    pub(super) reads: u32,
    pub(super) atomics: u32,
    /// A `Resume` is scheduled for every response as long as something waits.
    pub(super) stalled: bool,
    /// Arrivals of responses that are known: (time, atomic?), by time.
    pub(super) responses: VecDeque<(Time, bool)>,
    /// Order at the target: when the last of each took effect.
    pub(super) last_arrival: Time,
    pub(super) last_write: Time,
    pub(super) last_write_cpu: Time,
    pub(super) last_read: Time,
    pub(super) last_atomic: Time,
    /// From when on the next atomic may begin.
    pub(super) next_atomic: Time,
    pub(super) last_response: Time,
    /// The window of time in which it was last used.
    pub(super) window: u64,
}

impl QueuePair {
    /// Whether its order allows the next verb to be sent, which then is outstanding.
    #[inline]
    fn admit(&mut self, verb: &Verb, atomics_per_qp: u32) -> bool {
        // A fence waits for every READ and atomic before it, those of its chain among them. The RNIC limits how many
        // atomics of a queue pair are outstanding.
        let atomic = verb.op.is_atomic();
        if verb.fenced && self.reads + self.atomics > 0 || atomic && self.atomics >= atomics_per_qp
        {
            return false;
        }
        self.atomics += u32::from(atomic);
        self.reads += u32::from(matches!(verb.op, Op::Read { .. }));
        true
    }

    /// Takes responses that have arrived by `now` out of what is outstanding; says whether there were any.
    #[inline]
    fn forget_arrived(&mut self, now: Time) -> bool {
        let mut freed = false;
        while let Some((time, atomic)) = self.responses.front().copied()
            && time <= now
        {
            freed = true;
            self.responses.pop_front();
            if atomic {
                self.atomics -= 1;
            } else {
                self.reads -= 1;
            }
        }
        freed
    }
}

/// A chain in flight, or a place for the next one.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pub(super) chain: Chain,
    pub(super) client: u32,
    pub(super) qp: u32,
    /// First verb not sent.
    pub(super) next: u16,
    /// First verb that has not arrived.
    pub(super) arrived: u16,
    /// Verbs that have not taken effect.
    pub(super) remaining: u16,
    /// When its doorbell was rung.
    pub(super) posted_at: Time,
    /// When the last response so far reaches the requester's RNIC.
    pub(super) response_at: Time,
    /// How long its responses hold the requester's receive engine.
    pub(super) response_hold: Time,
    /// The requester's RNIC has taken the responses.
    pub(super) taken: bool,
    pub(super) done: bool,
    /// Its future is gone: nobody collects it.
    pub(super) orphan: bool,
}

/// How much of what a verb accesses is brought near when it is sent: half of the default page. Of 16 lines at once some
/// wait for others, since a core has about as many misses outstanding.
pub(super) const FIRST_BYTES: usize = 512;

/// No queue pair yet.
pub(super) const NO_QP: u32 = u32::MAX;

impl World {
    #[inline]
    fn queue_pair(&mut self, client: u32, to: u16) -> u32 {
        let thread = self.clients[client as usize].thread;
        match self.threads[thread as usize].queue_pairs[usize::from(to)] {
            NO_QP => self.new_queue_pair(client, to),
            known => known,
        }
    }

    #[cold]
    fn new_queue_pair(&mut self, client: u32, to: u16) -> u32 {
        let thread = self.clients[client as usize].thread;
        let from = self.clients[client as usize].node;
        let id = self.qps.len() as u32;
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
            next_atomic: 0,
            last_response: 0,
            window: u64::MAX,
        });
        self.threads[thread as usize].queue_pairs[usize::from(to)] = id;
        id
    }

    /// The window of time in which queue pairs are counted as active.
    #[inline]
    fn window(&mut self) -> u64 {
        if self.now >= self.window_end {
            self.window = self.now / self.costs.qp_window;
            self.window_end = (self.window + 1).saturating_mul(self.costs.qp_window);
        }
        self.window
    }

    /// Takes the chain and posts it; the operation's number is what [`World::collect`] wants back.
    #[inline]
    pub(super) fn post(&mut self, client: u32, chain: &mut Chain) -> Result<u32> {
        self.check_chain(chain)?;
        let to = chain.node().expect("not empty").0;
        let qp = self.queue_pair(client, to);
        let verbs = chain.verbs().len();
        self.stats.verbs += verbs as u64;
        let id = self.free_ops.pop().unwrap_or_else(|| {
            self.ops.push(InFlight::default());
            self.ops.len() as u32 - 1
        });
        let op = &mut self.ops[id as usize];
        // A free place's own chain is empty. The caller's is that one, until it is collected.
        std::mem::swap(&mut op.chain, chain);
        op.client = client;
        op.qp = qp;
        (op.next, op.arrived, op.remaining) = (0, 0, verbs as u16);
        op.posted_at = self.now + self.clients[client as usize].debt.owed();
        (op.response_at, op.response_hold) = (0, 0);
        (op.taken, op.done, op.orphan) = (false, false, false);
        if !self.qps[qp as usize].pending.is_empty() {
            self.qps[qp as usize].pending.push_back(id);
        } else if !self.transmit(id) {
            self.qps[qp as usize].pending.push_back(id);
            self.stall(qp);
        }
        Ok(id)
    }

    /// Has the queue pair try again with each response.
    fn stall(&mut self, qp: u32) {
        let state = &mut self.qps[qp as usize];
        if state.stalled {
            return; // Every response has its `Resume`: once is enough.
        }
        state.stalled = true;
        // Responses on their way already have their arrival; those to come schedule theirs.
        for (time, _) in &state.responses {
            self.queue.push((*time).max(self.now), Event::Resume(qp));
        }
    }

    /// Sends what waited for the responses that have arrived.
    pub(super) fn resume(&mut self, qp: u32) {
        let state = &mut self.qps[qp as usize];
        if !state.forget_arrived(self.now) || !state.stalled {
            return;
        }
        while let Some(id) = self.qps[qp as usize].pending.front().copied() {
            if !self.transmit(id) {
                return; // It stays stalled.
            }
            self.qps[qp as usize].pending.pop_front();
        }
        self.qps[qp as usize].stalled = false;
    }

    /// Puts what the queue pair's order allows of the operation, a segment, through the send engine and onto the
    /// wire; says whether nothing of the operation is left.
    fn transmit(&mut self, id: u32) -> bool {
        let window = self.window();
        let costs = &self.costs;
        let op = &mut self.ops[id as usize];
        let state = &mut self.qps[op.qp as usize];
        let verbs = &op.chain.verbs()[usize::from(op.next)..];
        let mut count = 0;
        let mut hold = 0;
        for verb in verbs {
            if !state.admit(verb, costs.atomics_per_qp) {
                break;
            }
            count += 1;
            hold += costs.engine(verb.op.sent_bytes());
            // Its first lines now, the rest when it arrives.
            let memory = usize::from(verb.addr.is_device());
            let space = &self.nodes[usize::from(state.to)].spaces[memory];
            let bytes = (verb.op.remote_bytes() as usize).min(FIRST_BYTES);
            if matches!(verb.op, Op::Read { .. }) {
                space.prefetch(verb.addr.offset() as usize, bytes);
            } else {
                space.prefetch_for_change(verb.addr.offset() as usize, bytes);
            }
        }
        if count == 0 {
            return false;
        }
        let whole = usize::from(count) == verbs.len();
        op.next += count;
        if state.window != window {
            // For the RNICs' caches of queue-pair state. Each end is state in its own RNIC; a loopback queue pair has
            // both in one.
            state.window = window;
            for end in [state.from, state.to] {
                self.nodes[usize::from(end)].count_queue_pair(window, costs);
            }
        }
        let node = &mut self.nodes[usize::from(state.from)];
        let misses = if costs.miss_each_verb {
            node.miss * Time::from(count)
        } else {
            node.miss
        };
        // The doorbell's latency is put behind the engine instead of before it: the sum is the same, and the
        // engine is then entered in the order of events. The verbs behind the first follow it at the engine's pace.
        let start = node.send.enter(self.now, hold + misses) + node.miss + costs.message;
        let post = (op.posted_at + costs.post).saturating_sub(self.now);
        let wire = costs.wire(state.from == state.to);
        let arrival = start + post + wire + self.freedoms.jitter();
        // A queue pair's packets stay in order.
        state.last_arrival = arrival.max(state.last_arrival);
        self.queue
            .push(state.last_arrival, Event::Arrive(id, op.next));
        whole
    }

    /// Gives the chain of operation `id` back, in the place of the one that it was taken in exchange for, if the
    /// operation is complete; says whether it is.
    #[inline]
    pub(super) fn collect(&mut self, id: u32, chain: &mut Chain) -> bool {
        let op = &mut self.ops[id as usize];
        if op.done {
            std::mem::swap(&mut op.chain, chain);
            self.free_ops.push(id);
        }
        op.done
    }

    /// The operation's future was dropped: its verbs go on, its result is nobody's.
    pub(super) fn abandon(&mut self, id: u32) {
        let op = &mut self.ops[id as usize];
        op.orphan = true;
        if op.done {
            self.forget(id);
        }
    }

    /// Nobody collects the completed operation.
    fn forget(&mut self, id: u32) {
        self.ops[id as usize].chain = Chain::new();
        self.free_ops.push(id);
    }

    /// A chain's completion: the requester's receive engine, then the client. Returns the client to poll.
    pub(super) fn complete(&mut self, id: u32) -> Option<u32> {
        let op = &mut self.ops[id as usize];
        let state = &mut self.qps[op.qp as usize];
        // The pass's own time is in the event's time already. Waiting for the engine comes on top, once.
        if !op.taken {
            op.taken = true;
            let node = &mut self.nodes[usize::from(state.from)];
            let hold = op.response_hold + node.miss;
            let start = node.receive.enter(self.now, hold) + node.miss;
            if start > self.now {
                self.queue.push(start, Event::Complete(id));
                return None;
            }
        }
        op.done = true;
        if !state.stalled {
            // Otherwise a `Resume` of its own is scheduled for each.
            state.forget_arrived(self.now);
        }
        let (client, orphan) = (op.client, op.orphan);
        if self.trace.is_some() {
            self.trace_chain(id);
        }
        if orphan {
            self.forget(id);
            return None;
        }
        Some(client)
    }
}
