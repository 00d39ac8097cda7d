//! The CPU's side: accesses to a node's own memory, what they cost, and waiting for a line to change.

use super::memory::{LineState, Reader};
use super::pending::{Interval, WordOrder};
use super::queue::{Event, Time, from_ns};
use super::world::World;
use crate::GlobalAddr;

/// The pseudo queue pair of CPU copies.
const CPU_QP: u32 = u32::MAX;

/// Hostile mode: the longest time by which a CPU access is late. Some transfers of a line.
const HOSTILE_CPU: Time = from_ns(200);

impl World {
    pub(super) fn core(&self, client: u32) -> u8 {
        self.clients[client as usize].core
    }

    /// Has the simulator's own CPU fetch what an access of these bytes will touch.
    pub(super) fn hint(&self, addr: GlobalAddr, bytes: usize) {
        let start = addr.offset() as usize;
        if let Some(node) = self.nodes.get(usize::from(addr.node().0)) {
            node.spaces[usize::from(addr.is_device())].hint(start, bytes);
        }
    }

    /// What a CPU access of the line at `addr` costs, and takes the line.
    #[inline]
    pub(super) fn line_cost(&mut self, client: u32, addr: GlobalAddr, writes: bool) -> Time {
        let core = self.core(client);
        let start = addr.offset() as usize;
        let space = &mut self.nodes[usize::from(addr.node().0)].spaces[0];
        // The access itself comes an event later, unless it hits.
        space.prefetch(start, 8);
        let cost = match space.touch(start, core, writes) {
            LineState::Hit => self.costs.cpu_hit,
            LineState::Elsewhere => self.costs.cpu_transfer,
            LineState::Memory => self.costs.cpu_memory,
        };
        cost + self.cpu_delay()
    }

    /// What a CPU access of `words` words from `addr` costs, and takes the lines.
    pub(super) fn cpu_cost(
        &mut self,
        client: u32,
        addr: GlobalAddr,
        words: usize,
        writes: bool,
    ) -> Time {
        let core = self.core(client);
        let start = addr.offset() as usize;
        let space = &mut self.nodes[usize::from(addr.node().0)].spaces[0];
        space.prefetch(start, words * 8);
        let [hits, elsewhere, memory] = space.touch_all(start, words * 8, core, writes);
        let misses = elsewhere + memory;
        let costs = &self.costs;
        // The dearest miss is waited for, the prefetcher brings the lines behind it.
        let wait = if elsewhere > 0 {
            costs.cpu_transfer
        } else if memory > 0 {
            costs.cpu_memory
        } else {
            0
        };
        let total = wait + misses.saturating_sub(1) * costs.cpu_stream + hits * costs.cpu_hit;
        total + self.cpu_delay()
    }

    /// In hostile mode, what a CPU access takes longer at random.
    #[inline]
    fn cpu_delay(&mut self) -> Time {
        if self.config.hostile {
            self.upto(HOSTILE_CPU)
        } else {
            0
        }
    }

    pub(super) fn cpu_load(&mut self, addr: GlobalAddr) -> u64 {
        let now = self.now;
        self.space(addr).cpu_load(addr.offset() as usize, now)
    }

    pub(super) fn cpu_store(&mut self, addr: GlobalAddr, value: u64) {
        let now = self.now;
        let start = addr.offset() as usize;
        let node = usize::from(addr.node().0);
        self.lose_atomics(node, start, 8);
        if self.nodes[node].spaces[0].cpu_store(start, value, now) {
            self.wake_watchers(node);
        }
    }

    /// The CPU writes words of one line at this instant.
    pub(super) fn cpu_store_line(&mut self, addr: GlobalAddr, words: &[u64]) {
        let start = addr.offset() as usize;
        let node = &mut self.nodes[usize::from(addr.node().0)];
        if node.atomics.is_empty()
            && let Some(bytes) = node.spaces[0].quiet(start, words.len() * 8)
        {
            bytes.copy_from_slice(bytemuck::cast_slice(words));
            return;
        }
        for (index, word) in words.iter().enumerate() {
            self.cpu_store(addr.word(index as u64), *word);
        }
    }

    /// A change of a word under an RNIC atomic, other than by another atomic, is lost when that writes.
    pub(super) fn lose_atomics(&mut self, node: usize, start: usize, len: usize) {
        self.nodes[node].lose_atomics(start, len);
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

    /// Wakes the clients whose line has changed.
    #[inline]
    pub(super) fn wake_watchers(&mut self, node: usize) {
        if self.nodes[node].has_woken() {
            self.wake_woken(node);
        }
    }

    #[cold]
    fn wake_woken(&mut self, node: usize) {
        for space in &mut self.nodes[node].spaces {
            while let Some(client) = space.take_woken() {
                self.clients[client as usize].woken = true;
                self.queue.push(self.now, Event::Wake(client));
            }
        }
    }

    /// Has the client woken when the line at `addr` changes.
    pub(super) fn watch(&mut self, client: u32, addr: GlobalAddr) {
        let state = &mut self.clients[client as usize];
        state.woken = false;
        // What was left of a wait that was dropped before it was told.
        state.timed_out = false;
        self.space(addr).watch(addr.offset() as usize, client);
        if !self.sweeping {
            self.sweeping = true;
            self.queue.push(self.now + self.sweep_every(), Event::Sweep);
        }
    }

    pub(super) fn unwatch(&mut self, client: u32, addr: GlobalAddr) {
        self.space(addr).unwatch(client);
    }

    pub(super) fn sweep_every(&self) -> Time {
        (from_ns(self.config.waits.report_ns.min(self.config.waits.limit_ns)) / 2)
            .max(from_ns(1_000))
    }

    /// Reports long waits and ends those that are too long.
    pub(super) fn sweep(&mut self) {
        let waits = self.config.waits;
        let now = self.now;
        let mut any = false;
        for id in 0..self.clients.len() {
            let client = &mut self.clients[id];
            let Some(waiting) = &mut client.waiting else {
                continue;
            };
            any = true;
            let waited = now.saturating_sub(waiting.since);
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
        self.sweeping = any && !self.queue.is_empty();
        if self.sweeping {
            self.queue.push(now + self.sweep_every(), Event::Sweep);
        }
    }
}
