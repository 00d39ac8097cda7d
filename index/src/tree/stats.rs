//! What a handle has met and sent.

use std::ops::AddAssign;

/// What a handle has met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Inner pages that were not in the cache and had to be read.
    pub inner_reads: u64,
    /// READs of the root word.
    pub root_reads: u64,
    /// Siblings followed.
    pub moves: u64,
    /// Descents begun anew because a pointer led to a page that cannot lead to the key.
    pub restarts: u64,
    /// Times that a pointer led to what is no page at all. Splits lead to none: a page is whole before it is
    /// pointed to. A cache that is of another tree, and damaged memory, do.
    pub no_page: u64,
    /// Cached pages dropped as out of date.
    pub stale: u64,
    /// Lock-free reads made again because a structural change was under way.
    pub torn_reads: u64,
    /// Of inserts.
    pub growth: GrowthStats,
}

/// What a handle's inserts have done, and the verbs it took by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GrowthStats {
    /// Keys that were added.
    pub added: u64,
    /// Keys that were there, and whose value was replaced.
    pub replaced: u64,
    /// Pages split, of all levels.
    pub splits: u64,
    /// New roots made.
    pub roots: u64,
    /// New roots made in vain: somebody else was faster.
    pub roots_lost: u64,
    /// On the leaf that is responsible for the key: what every insert takes.
    pub leaf: Verbs,
    /// New pages, separators, roots and chunks of memory.
    pub split: Verbs,
    /// Finding the leaf: inner pages that were not in the cache, and leaves that were not the right ones because
    /// the cache was out of date.
    pub way: Verbs,
}

/// Verbs of one purpose, without those of the lock protocol; what is reached by CPU takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Verbs {
    /// Locks taken. How many verbs each takes is the lock's affair.
    pub locks: u64,
    /// READs.
    pub reads: u64,
    /// WRITEs.
    pub writes: u64,
    /// CAS of the root word, FAA of a chunk counter.
    pub atomics: u64,
}

impl Verbs {
    /// READs, WRITEs and atomics.
    pub fn total(&self) -> u64 {
        self.reads + self.writes + self.atomics
    }
}

impl AddAssign for Verbs {
    fn add_assign(&mut self, other: Self) {
        self.locks += other.locks;
        self.reads += other.reads;
        self.writes += other.writes;
        self.atomics += other.atomics;
    }
}

impl AddAssign for GrowthStats {
    /// What two clients' inserts have done together.
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.replaced += other.replaced;
        self.splits += other.splits;
        self.roots += other.roots;
        self.roots_lost += other.roots_lost;
        self.leaf += other.leaf;
        self.split += other.split;
        self.way += other.way;
    }
}
