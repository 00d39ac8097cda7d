//! The target's side of a verb: arrival, order of effects, the atomic unit, responses.

use super::costs::Costs;
use super::freedoms::Freedoms;
use super::memory::{Reader, Space};
use super::node::{AtomicWindow, Node};
use super::pending::{Interval, WordOrder};
use super::queue::{Event, EventQueue, Time};
use super::requester::{FIRST_BYTES, InFlight, QueuePair};
use super::world::World;
use crate::{GlobalAddr, Op, Verb};

/// No pending access.
const NO_ACCESS: u32 = u32::MAX;
/// The access ends by an event of its own.
const LANDS_ALONE: u32 = u32::MAX - 1;

/// A chain in flight, and what it meets at its target.
struct AtTarget<'a> {
    id: u32,
    now: Time,
    op: &'a mut InFlight,
    qp: &'a mut QueuePair,
    node: &'a mut Node,
    costs: &'a Costs,
    freedoms: &'a mut Freedoms,
    queue: &'a mut EventQueue,
}

impl World {
    /// Operation `id` at its target.
    #[inline]
    fn at_target(&mut self, id: u32) -> AtTarget<'_> {
        let op = &mut self.ops[id as usize];
        let qp = &mut self.qps[op.qp as usize];
        let node = &mut self.nodes[usize::from(qp.to)];
        AtTarget {
            id,
            now: self.now,
            op,
            qp,
            node,
            costs: &self.costs,
            freedoms: &mut self.freedoms,
            queue: &mut self.queue,
        }
    }

    /// A segment arrives: the verbs before `end` that have not.
    #[inline]
    pub(super) fn arrive(&mut self, id: u32, end: u16) {
        self.at_target(id).arrive(end);
    }

    /// A long READ or an atomic begins to look at memory (hostile mode).
    pub(super) fn look(&mut self, id: u32, number: u16) {
        self.at_target(id).look(number);
        self.wake_watchers(usize::from(self.qps[self.ops[id as usize].qp as usize].to));
    }

    /// A verb takes effect, and its response is sent.
    #[inline]
    pub(super) fn effect(&mut self, id: u32, number: u16) {
        let mut at = self.at_target(id);
        at.effect(number);
        if at.node.has_woken() {
            let node = usize::from(at.qp.to);
            self.wake_watchers(node);
            at = self.at_target(id);
        }
        at.respond(number);
    }
}

impl AtTarget<'_> {
    fn space(&mut self, addr: GlobalAddr) -> &mut Space {
        &mut self.node.spaces[usize::from(addr.is_device())]
    }

    #[inline]
    fn arrive(&mut self, end: u16) {
        let begin = std::mem::replace(&mut self.op.arrived, end);
        for number in begin..end {
            let verb = self.op.chain.verbs()[usize::from(number)];
            // The segment's later verbs arrive behind the first by what the sender's engine took for each; the
            // receiving engine takes as long, so only the first can wait for its arrival.
            let miss = if number == begin || self.costs.miss_each_verb {
                self.node.miss
            } else {
                0
            };
            let hold = self.costs.engine(verb.op.sent_bytes()) + miss;
            let entered = self.node.receive.enter(self.now, hold);
            let received = entered + miss + self.costs.message;
            let bytes = verb.op.remote_bytes() as usize;
            if bytes > FIRST_BYTES {
                let start = verb.addr.offset() as usize + FIRST_BYTES;
                self.space(verb.addr).prefetch(start, bytes - FIRST_BYTES);
            }
            let (effect, access) = match verb.op {
                Op::Write { len } => self.write_arrives(verb, len, received),
                Op::Read { len } => self.read_arrives(number, verb.addr, len, received),
                Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => {
                    (self.atomic_arrives(number, verb, received), NO_ACCESS)
                }
            };
            self.op.chain.verbs_mut()[usize::from(number)].note = access;
            self.queue.push(effect, Event::Effect(self.id, number));
        }
    }

    /// When a WRITE that the RNIC has received takes effect for verbs, and its pending access.
    #[inline]
    fn write_arrives(&mut self, verb: Verb, len: u32, received: Time) -> (Time, u32) {
        let span = self.freedoms.span(self.costs, len);
        let late = self.freedoms.late();
        let begin = received.max(self.qp.last_write);
        let seen = begin + span;
        let (mut effect, mut access) = (seen, NO_ACCESS);
        if self.freedoms.hostile || len > 8 {
            let interval = Interval {
                begin: (begin + late).max(self.qp.last_write_cpu),
                span,
                order: WordOrder::Ascending,
            };
            let data = &self.op.chain.data()[verb.data_word()..];
            let payload = &bytemuck::cast_slice(data)[..len as usize];
            let space = &mut self.node.spaces[usize::from(verb.addr.is_device())];
            let start = verb.addr.offset() as usize;
            let (pending, landed) = space.begin_write(start, payload, interval, seen, self.op.qp);
            self.qp.last_write_cpu = landed;
            if self.freedoms.hostile && self.qp.from != self.qp.to {
                // Acknowledged, and seen by verbs, before the CPU sees it.
                let memory = self.qp.to * 2 + u16::from(verb.addr.is_device());
                self.queue.push(landed, Event::Land(pending, memory));
                access = LANDS_ALONE;
            } else {
                // A loopback WRITE is visible to the host when it completes.
                (effect, access) = (landed, pending);
            }
        }
        self.qp.last_write = effect;
        (effect, access)
    }

    /// When a READ that the RNIC has received has been carried out, and its pending access.
    #[inline]
    fn read_arrives(
        &mut self,
        number: u16,
        addr: GlobalAddr,
        len: u32,
        received: Time,
    ) -> (Time, u32) {
        let span = self.freedoms.span(self.costs, len);
        let late = self.freedoms.late();
        let order = self.freedoms.word_order();
        let costs = &self.costs.spaces[usize::from(addr.is_device())];
        let mut begin = (received + costs.read + late)
            .max(self.qp.last_write)
            .max(self.qp.last_read)
            .max(self.qp.last_atomic);
        if self.costs.read_address > 0 && !addr.is_device() {
            let start = addr.offset() as usize;
            begin = self.node.read_line(start, begin, self.costs.read_address);
        }
        let interval = Interval { begin, span, order };
        self.qp.last_read = interval.end();
        let mut access = NO_ACCESS;
        if len > 8 {
            let start = addr.offset() as usize;
            access = self
                .space(addr)
                .begin_read(start, len as usize, interval, Reader::Nic);
            if self.freedoms.hostile {
                self.queue.push(begin, Event::Look(self.id, number));
            }
        }
        (interval.end(), access)
    }

    /// When an atomic that the RNIC has received has been carried out.
    #[inline]
    fn atomic_arrives(&mut self, number: u16, verb: Verb, received: Time) -> Time {
        let late = self.freedoms.late();
        let space = usize::from(verb.addr.is_device());
        let costs = &self.costs.spaces[space];
        let ready = (received + costs.read + late)
            .max(self.qp.last_write)
            .max(self.qp.last_atomic)
            .max(self.qp.next_atomic);
        let atomic = costs.atomic(verb.op);
        let start = verb.addr.offset() as usize;
        let node = &mut *self.node;
        let begin = node.atomic_units[space].enter(start, ready, costs.unit, atomic.address);
        let done = begin + atomic.response;
        self.qp.last_atomic = done;
        self.qp.next_atomic = begin + self.costs.atomic_qp;
        if self.costs.atomics_block {
            node.receive.free_at = node.receive.free_at.max(done);
        }
        if self.freedoms.hostile {
            self.queue.push(begin, Event::Look(self.id, number));
        }
        done
    }

    /// What was acknowledged before is in memory, as is what its own queue pair wrote before it, for everybody.
    ///
    /// An atomic reads its word; until its write, a CPU's change of that word is lost.
    fn look(&mut self, number: u16) {
        let (verb, qp) = (self.op.chain.verbs()[usize::from(number)], self.op.qp);
        let (start, now) = (verb.addr.offset() as usize, self.now);
        for space in &mut self.node.spaces {
            space.push_queue_pair(qp, now);
        }
        let len = verb.op.remote_bytes() as usize;
        let space = self.space(verb.addr);
        space.settle(start, len, now, Reader::Nic);
        if verb.op.is_atomic() {
            let before = space.word(start);
            self.node.atomics.push(AtomicWindow {
                start,
                op: self.id,
                verb: number,
                before,
                changed: false,
            });
        }
    }

    #[inline]
    fn effect(&mut self, number: u16) {
        if self.freedoms.hostile {
            let verb = &self.op.chain.verbs()[usize::from(number)];
            self.node.prepare(verb, self.op.qp, self.now);
        }
        let (verbs, data) = self.op.chain.parts_mut();
        let verb = &verbs[usize::from(number)];
        let data = &mut data[verb.data_word()..];
        let (start, now) = (verb.addr.offset() as usize, self.now);
        let space = &mut self.node.spaces[usize::from(verb.addr.is_device())];
        match verb.op {
            Op::Write { len } => match verb.note {
                NO_ACCESS => {
                    let payload = &bytemuck::cast_slice(data)[..len as usize];
                    space.store(start, payload, now, Reader::Nic);
                }
                LANDS_ALONE => {}
                access => space.end_write(access, now),
            },
            Op::Read { len } => {
                let out = &mut bytemuck::cast_slice_mut(data)[..len as usize];
                match verb.note {
                    NO_ACCESS => space.copy(start, out, now, Reader::Nic),
                    access => space.end_read(access, out),
                }
            }
            Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => {
                let mut found = space.load(start, now, Reader::Nic);
                if self.freedoms.hostile
                    && let Some(before) = self.node.close_atomic(self.id, number)
                {
                    found = before;
                }
                let stored = match verb.op {
                    Op::Cas { expected, new } => (found == expected).then_some(new),
                    Op::Faa { add } => Some(found.wrapping_add(add)),
                    Op::Swap { new } => Some(new),
                    Op::Read { .. } | Op::Write { .. } => None,
                };
                data[0] = found;
                if let Some(value) = stored {
                    let space = &mut self.node.spaces[usize::from(verb.addr.is_device())];
                    space.store(start, &value.to_ne_bytes(), now, Reader::Nic);
                }
            }
        }
    }

    /// Sends a verb's response, and schedules the chain's completion when it was the last to take effect.
    #[inline]
    fn respond(&mut self, number: u16) {
        let verbs = self.op.chain.verbs();
        let verb = verbs[usize::from(number)].op;
        let last = usize::from(number) + 1 == verbs.len();
        let costs = self.costs;
        // WRITEs within a chain are acknowledged with what follows them.
        let is_write = matches!(verb, Op::Write { .. });
        if !is_write || last {
            let miss = if last || costs.miss_each_verb {
                self.node.miss
            } else {
                0
            };
            let back = verb.returned_bytes();
            let hold = costs.engine(back);
            self.op.response_hold += hold;
            let entered = self.node.send.enter(self.now, hold + miss);
            let sent = entered + miss + costs.message;
            let wire = costs.wire(self.qp.from == self.qp.to);
            let arrival = sent + wire + costs.read_bytes(back) + self.freedoms.jitter();
            let arrival = arrival.max(self.qp.last_response);
            self.qp.last_response = arrival;
            self.op.response_at = self.op.response_at.max(arrival);
            if !is_write {
                // The requester's RNIC takes the response in one more engine pass.
                let taken = arrival + costs.message;
                self.qp.responses.push_back((taken, verb.is_atomic()));
                if self.qp.stalled {
                    self.queue.push(taken, Event::Resume(self.op.qp));
                }
            }
        }
        self.op.remaining -= 1;
        if self.op.remaining == 0 {
            // As with the doorbell, the completion's latency is put before the engine's pass.
            let at = self.op.response_at + costs.message + costs.completion;
            self.queue.push(at, Event::Complete(self.id));
        }
    }
}
