//! The requester's side of a verb: queue pairs, posting, sending in order, completions.

use std::collections::VecDeque;

use super::queue::{Event, Time};
use super::world::World;
use crate::{Chain, Op, Result};

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
    pub(super) last_response: Time,
    /// The window of time in which it was last used.
    pub(super) window: u64,
}

/// A chain in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) chain: Chain,
    pub(super) client: u32,
    pub(super) qp: u32,
    /// First verb not sent.
    pub(super) next: u32,
    /// First verb that has not arrived.
    pub(super) arrived: u32,
    /// When its doorbell was rung.
    pub(super) posted_at: Time,
    /// Verbs that have not taken effect.
    pub(super) remaining: u32,
    /// When the last response so far reaches the requester's RNIC.
    pub(super) response_at: Time,
    pub(super) done: bool,
    /// Its future is gone: nobody collects it.
    pub(super) orphan: bool,
}

/// No queue pair yet.
pub(super) const NO_QP: u32 = u32::MAX;

impl World {
    pub(super) fn queue_pair(&mut self, client: u32, to: u16) -> u32 {
        let thread = self.clients[client as usize].thread as usize;
        let known = self.qp_of[thread][usize::from(to)];
        if known != NO_QP {
            return known;
        }
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
            last_response: 0,
            window: u64::MAX,
        });
        self.qp_of[thread][usize::from(to)] = id;
        id
    }

    /// Counts the queue pair as active at both ends, for the RNICs' caches of queue-pair state. Each end is state
    /// in its own RNIC; a loopback queue pair has both in one.
    fn use_queue_pair(&mut self, qp: u32) {
        let window = self.now / self.costs.qp_window;
        let state = &mut self.qps[qp as usize];
        let counted = std::mem::replace(&mut state.window, window) == window;
        for end in [state.from, state.to] {
            let node = &mut self.nodes[usize::from(end)];
            if node.window != window {
                let over = std::mem::take(&mut node.active);
                node.active_before = if node.window + 1 == window { over } else { 0 };
                node.window = window;
                node.miss = self.costs.miss(node.active_before);
            }
            if !counted {
                node.active += 1;
                if node.active > node.active_before {
                    node.miss = self.costs.miss(node.active);
                }
            }
        }
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
        let op = InFlight {
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
        };
        self.ops[id as usize] = Some(match self.spare_ops.pop() {
            Some(mut spare) => {
                *spare = op;
                spare
            }
            None => Box::new(op),
        });
        self.qps[qp as usize].pending.push_back(id);
        if !self.qps[qp as usize].stalled {
            self.send(qp);
        }
        Ok(id)
    }

    /// Sends what the queue pair's order allows; the rest waits for responses.
    pub(super) fn send(&mut self, qp: u32) {
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
        self.qps[qp as usize].stalled = false;
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
        if self.forget_arrived(qp) && self.qps[qp as usize].stalled {
            self.send(qp);
        }
    }

    /// Takes responses that have arrived out of what is outstanding; says whether there were any.
    fn forget_arrived(&mut self, qp: u32) -> bool {
        let state = &mut self.qps[qp as usize];
        let mut freed = false;
        while let Some((time, atomic)) = state.responses.front().copied()
            && time <= self.now
        {
            freed = true;
            state.responses.pop_front();
            if atomic {
                state.atomics -= 1;
            } else {
                state.reads -= 1;
            }
        }
        freed
    }

    /// Puts the operation's segment through the send engine and onto the wire.
    pub(super) fn transmit(&mut self, id: u32, verbs: std::ops::Range<usize>) {
        let qp = self.ops[id as usize].as_ref().expect("in flight").qp;
        let (from, to) = (self.qps[qp as usize].from, self.qps[qp as usize].to);
        self.use_queue_pair(qp);
        let op = self.ops[id as usize].as_mut().expect("in flight");
        let node = &mut self.nodes[usize::from(from)];
        // The doorbell's latency is put behind the engine instead of before it: the sum is the same, and the
        // engine is then entered in the order of events.
        let mut start = Time::MAX;
        let end = verbs.end as u16;
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
        self.queue.push(state.last_arrival, Event::Arrive(id, end));
    }

    /// Whether operation `id` is complete.
    pub(super) fn is_done(&self, id: u32) -> bool {
        self.ops[id as usize].as_ref().is_some_and(|op| op.done)
    }

    /// Gives the completed operation's chain back.
    pub(super) fn collect(&mut self, id: u32) -> Chain {
        let mut op = self.ops[id as usize].take().expect("in flight");
        debug_assert!(op.done, "collected when complete");
        self.free_ops.push(id);
        let chain = std::mem::take(&mut op.chain);
        self.spare_ops.push(op);
        chain
    }

    /// The operation's future was dropped: its verbs go on, its result is nobody's.
    pub(super) fn abandon(&mut self, id: u32) {
        // Called by a destructor, also while a panic in the middle of an event unwinds.
        let Some(op) = self.ops[id as usize].as_mut() else {
            return;
        };
        op.orphan = true;
        if op.done {
            self.ops[id as usize] = None;
            self.free_ops.push(id);
        }
    }

    /// A chain's completion: the requester's receive engine, then the client. Returns the client to poll.
    pub(super) fn complete(&mut self, id: u32) -> Option<u32> {
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
        if !self.qps[qp as usize].stalled {
            // Otherwise a `Resume` of its own is scheduled for each.
            self.forget_arrived(qp);
        }
        (!orphan).then_some(client)
    }
}
