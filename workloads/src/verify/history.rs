//! [`History`]: of each key that was written, what can still be its final value.
//!
//! A write is *overwritten* once another write of its key, which began after it had been acknowledged, has been
//! acknowledged as well: the other one took effect later, whatever the order within the two. So of each key there
//! are kept, and nothing more:
//!
//! * when the acknowledged write of it that began last began;
//! * the acknowledged writes that ended no earlier than that: the last one and those that overlap with it.
//!
//! That is exact: a write is kept if and only if some order of all writes that respects their times has it last. And
//! it is bounded. A client's next write of a key begins after its one before was acknowledged: there is one write a
//! key and client at most, and nearly always one a key.
//!
//! Writes that were never acknowledged, since they are in flight when the run ends or have failed, may or may not
//! have taken effect, and overwrite nothing; they are kept by client, each of which has one operation at a time.

use std::collections::BTreeMap;

use dmtree_cluster::ClientId;
use serde::{Deserialize, Serialize};

/// Bytes of memory for each key that is written: 64 were measured (uniform updates of 6.8 M keys, by the process's size),
/// the rest is for keys whose last writes overlap.
pub const HISTORY_BYTES_A_KEY: usize = 96;

/// An acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Write {
    /// What it wrote.
    pub value: u64,
    /// When it was acknowledged, in nanoseconds of the history's clock.
    pub end: u64,
}

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// When the acknowledged write that began last began.
    last_begin: u64,
    /// Nearly always the only write.
    first: Write,
    more: Option<Box<More>>,
}

/// Behind one pointer, since it is rare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct More(Vec<Write>);

const _: () = assert!(size_of::<Register>() == 32);

impl Register {
    fn new(begin: u64, write: Write) -> Self {
        Self {
            last_begin: begin,
            first: write,
            more: None,
        }
    }

    /// What can be the key's final value, if no write is in flight; at least one write.
    pub fn writes(&self) -> impl Iterator<Item = Write> + use<'_> {
        let more = self.more.iter().flat_map(|more| more.0.iter().copied());
        std::iter::once(self.first).chain(more)
    }

    /// Keeps `writes`; there is one at least.
    fn keep(&mut self, writes: impl IntoIterator<Item = Write>) {
        let mut writes = writes.into_iter();
        if let Some(first) = writes.next() {
            let rest: Vec<Write> = writes.collect();
            self.first = first;
            self.more = (!rest.is_empty()).then(|| Box::new(More(rest)));
        }
    }

    fn acknowledge(&mut self, begin: u64, write: Write) {
        self.last_begin = self.last_begin.max(begin);
        if self.more.is_none() && self.first.end < self.last_begin {
            self.first = write;
            return;
        }
        let last_begin = self.last_begin;
        let old: Vec<Write> = self.writes().collect();
        let kept = old.into_iter().chain([write]);
        self.keep(kept.filter(|write| write.end >= last_begin));
    }

    /// What both histories of the key together leave; see [`History::merge`].
    fn merge(&mut self, other: &Self, skew_ns: u64) {
        let is_kept =
            |write: &Write, others: &Self| write.end.saturating_add(skew_ns) >= others.last_begin;
        let of_this = self.writes().filter(|write| is_kept(write, other));
        let of_other = other.writes().filter(|write| is_kept(write, self));
        let mut kept: Vec<Write> = of_this.chain(of_other).collect();
        kept.sort_unstable();
        self.keep(kept);
        self.last_begin = self.last_begin.max(other.last_begin);
    }
}

/// A write that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    key: u64,
    value: u64,
    begin: u64,
}

/// What one process, or all of a run together, has written. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The clock: of what happens at the same nanosecond, what is told first is first.
    now: u64,
    /// Whether times are those of a clock that never shows the same twice.
    exact: bool,
    keys: BTreeMap<u64, Register>,
    open: BTreeMap<u32, Open>,
}

impl History {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing yet, by times none of which is told twice in any process: what a counter showed that all count up. Nothing
    /// needs to be known of how clocks differ then.
    pub fn of_ticks() -> Self {
        Self {
            exact: true,
            ..Self::default()
        }
    }

    /// `client` is about to give `key` the value `value`, which nobody else writes; the fabric's clock shows
    /// `now_ns`. To be told before the write can have any effect.
    pub fn begin(&mut self, client: ClientId, key: u64, value: u64, now_ns: u64) {
        let begin = self.tick(now_ns);
        self.open.insert(client.0, Open { key, value, begin });
    }

    /// The write of `client` that began last has been acknowledged; the fabric's clock shows `now_ns`. Without one
    /// nothing happens.
    pub fn acknowledge(&mut self, client: ClientId, now_ns: u64) {
        let end = self.tick(now_ns);
        let Some(Open { key, value, begin }) = self.open.remove(&client.0) else {
            return;
        };
        let write = Write { value, end };
        self.keys
            .entry(key)
            .and_modify(|register| register.acknowledge(begin, write))
            .or_insert_with(|| Register::new(begin, write));
    }

    /// Adds what another process has written, with other clients, whose clock and this one's show the same to
    /// within `skew_ns`: a write counts as overwritten by one of the other process only if it was acknowledged
    /// longer before than that. The order in which histories are merged does not matter.
    pub fn merge(&mut self, other: Self, skew_ns: u64) {
        self.now = self.now.max(other.now);
        self.exact |= other.exact;
        self.open.extend(other.open);
        for (key, register) in other.keys {
            self.keys
                .entry(key)
                .and_modify(|known| known.merge(&register, skew_ns))
                .or_insert(register);
        }
    }

    /// How many keys have acknowledged writes.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no write has been acknowledged.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys with acknowledged writes, in order.
    pub fn registers(&self) -> impl Iterator<Item = (u64, &Register)> {
        self.keys.iter().map(|(key, register)| (*key, register))
    }

    /// The (key, value) of each write that is not acknowledged, by client.
    pub fn open(&self) -> impl Iterator<Item = (u64, u64)> {
        self.open.values().map(|open| (open.key, open.value))
    }

    /// A time after all before. Virtual clocks stand still between events, and coarse ones for longer: what is
    /// told in order within a process has this order. By how much it runs ahead of the fabric's clock is bounded by
    /// the events of one reading of that.
    fn tick(&mut self, now_ns: u64) -> u64 {
        if self.exact {
            return now_ns;
        }
        self.now = now_ns.max(self.now + 1);
        self.now
    }
}

#[cfg(test)]
mod tests;
