//! The target's side of a verb: arrival, order of effects, the atomic unit, responses.

use rand::RngExt;

use super::memory::Reader;
use super::pending::{Interval, WordOrder};
use super::queue::{Event, Time};
use super::requester::InFlight;
use super::world::World;
use crate::Op;

/// A first-come-first-served stage of an RNIC.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stage {
    pub(super) free_at: Time,
}

impl Stage {
    /// Enters at `now` and holds the stage for `hold`; returns when service begins.
    #[inline]
    pub(super) fn enter(&mut self, now: Time, hold: Time) -> Time {
        let start = now.max(self.free_at);
        self.free_at = start + hold;
        start
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AtomicWindow {
    pub(super) start: usize,
    pub(super) op: u32,
    pub(super) verb: u32,
    pub(super) before: u64,
    pub(super) changed: bool,
}

/// Entries of the table by which atomics of one address are serialised: 512 slots by the low bits of the
/// address (published for ConnectX-6: Fusa; assumed for others).
pub(super) const ATOMIC_SLOTS: usize = 512;

/// No pending access.
const NO_ACCESS: u32 = u32::MAX;
/// The access ends by an event of its own.
const LANDS_ALONE: u32 = u32::MAX - 1;

impl World {
    pub(super) fn arrive(&mut self, id: u32, end: u32) {
        let mut op = self.ops[id as usize].take().expect("in flight");
        let begin = op.arrived;
        op.arrived = end;
        for number in begin..end {
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
                            let memory = (target * 2 + space_index) as u16;
                            self.queue.push(landed, Event::Land(pending, memory));
                            access = LANDS_ALONE;
                        } else {
                            // A loopback WRITE is visible to the host when it completes.
                            effect = landed;
                            access = pending;
                        }
                    }
                    self.qps[op.qp as usize].last_write = effect;
                    self.queue.push(effect, Event::Effect(id, number as u16));
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
                        if self.config.hostile {
                            self.queue.push(begin, Event::Look(id, number as u16));
                        }
                    }
                    self.queue.push(interval.end(), Event::Effect(id, number as u16));
                }
                Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => {
                    let late = self.hostile();
                    let state = &self.qps[op.qp as usize];
                    let ready = (received + self.costs.pcie_read + late)
                        .max(state.last_write)
                        .max(state.last_atomic);
                    let node = &mut self.nodes[target];
                    let slot = start / 8 % ATOMIC_SLOTS;
                    // Who waits for its address does not keep the unit from others.
                    let accepted = node.atomic_unit.enter(ready, self.costs.atomic_unit);
                    let begin =
                        node.atomic_addresses[slot].enter(accepted, self.costs.atomic_address);
                    let done = begin + self.costs.atomic_address;
                    if self.costs.atomics_block {
                        node.receive.free_at = node.receive.free_at.max(done);
                    }
                    self.qps[op.qp as usize].last_atomic = done;
                    if self.config.hostile {
                        self.queue.push(begin, Event::Look(id, number as u16));
                    }
                    self.queue.push(done, Event::Effect(id, number as u16));
                }
            }
            op.chain.verbs_mut()[number as usize].note = access;
        }
        self.ops[id as usize] = Some(op);
    }

    /// Over what time an access of `bytes` is spread.
    pub(super) fn span(&mut self, bytes: u32) -> Time {
        if bytes <= 8 {
            0
        } else if self.config.hostile {
            self.upto(self.hostile_limit())
        } else {
            self.costs.transfer(bytes)
        }
    }

    pub(super) fn word_order(&mut self) -> WordOrder {
        if !self.config.hostile {
            return WordOrder::Ascending;
        }
        match self.faults.random_range(0..3u32) {
            0 => WordOrder::Ascending,
            1 => WordOrder::Descending,
            _ => WordOrder::Scattered(self.faults.random()),
        }
    }

    /// A long READ or an atomic begins to look at memory (hostile mode): what was acknowledged before is in
    /// memory, as is what its own queue pair wrote before it, for everybody.
    ///
    /// An atomic reads its word; until its write, a CPU's change of that word is lost.
    pub(super) fn look(&mut self, id: u32, number: u32) {
        let op = self.ops[id as usize].as_ref().expect("in flight");
        let (verb, qp) = (op.chain.verbs()[number as usize], op.qp);
        let start = verb.addr.offset() as usize;
        let len = verb.op.remote_bytes() as usize;
        let target = usize::from(verb.addr.node().0);
        let now = self.now;
        for space in &mut self.nodes[target].spaces {
            space.push_queue_pair(qp, now);
        }
        self.space(verb.addr).settle(start, len, now, Reader::Nic);
        self.wake_watchers(target);
        if verb.op.is_atomic() && !verb.addr.is_device() {
            let before = self.space(verb.addr).word(start);
            let node = &mut self.nodes[target];
            node.atomics.push(AtomicWindow {
                start,
                op: id,
                verb: number,
                before,
                changed: false,
            });
        }
    }

    pub(super) fn effect(&mut self, id: u32, number: u32) {
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
        if self.config.hostile && matches!(verb.op, Op::Write { .. }) {
            self.lose_atomics(target, start, len);
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
                    if window.changed {
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
    pub(super) fn respond(&mut self, id: u32, op: &mut InFlight, number: u32, verb: Op) {
        let qp = op.qp;
        let (from, to) = (self.qps[qp as usize].from, self.qps[qp as usize].to);
        let last = number as usize + 1 == op.chain.verbs().len();
        op.remaining -= 1;
        // WRITEs within a chain are acknowledged with what follows them.
        let is_write = matches!(verb, Op::Write { .. });
        let back = if let Op::Read { len } = verb { len } else { 0 };
        if !is_write || last {
            let node = &mut self.nodes[usize::from(to)];
            let miss = if last || self.costs.miss_each_verb {
                node.miss
            } else {
                0
            };
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
}
