//! [`InsertVerbs`]: what an insert costs, by purpose.

use std::fmt::Write as _;

use dmtree_index::GrowthStats;
use serde::Serialize;

use crate::mix::{Mix, Operation};
use crate::report::{Class, RunRow};
use crate::table::NOTHING;

/// Verbs an insert, on average over all of a run's inserts: those of warm-up and cool-down included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct InsertVerbs {
    /// Of the lock protocol, waiting included. Only where inserts are all that is done: locks do not know what they
    /// are taken for. What the protocol sends together with a write-back is the lock's where it is the lock's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<f64>,
    /// READs of the leaf that is responsible for the key.
    pub read: f64,
    /// WRITEs to it.
    pub write_back: f64,
    /// New pages, separators, new roots and chunks of memory.
    pub split: f64,
    /// Finding the leaf: inner pages that the cache did not have, and pages that it led astray to.
    pub stale_cache: f64,
    /// Everything that is told above; only where the lock's verbs are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Locks taken.
    pub locks_taken: f64,
    /// Keys that were added.
    pub added: u64,
    /// Keys that were there already.
    pub replaced: u64,
    /// Pages split, of all levels.
    pub splits: u64,
}

impl InsertVerbs {
    /// Of a run that sent `verbs` verbs in all; none of one without inserts.
    pub fn of(growth: &GrowthStats, verbs: u64, mix: &Mix) -> Option<Self> {
        let inserts = growth.added + growth.replaced;
        if inserts == 0 {
            return None;
        }
        let each = |count: u64| count as f64 / inserts as f64;
        let (leaf, split, way) = (&growth.leaf, &growth.split, &growth.way);
        let of_tree = leaf.total() + split.total() + way.total();
        let only_inserts = mix.share(Operation::Insert) == 1.0;
        let lock = only_inserts.then(|| each(verbs.saturating_sub(of_tree)));
        Some(Self {
            lock,
            read: each(leaf.reads),
            write_back: each(leaf.writes),
            split: each(split.total()),
            stale_cache: each(way.total()),
            total: lock.map(|lock| lock + each(of_tree)),
            locks_taken: each(leaf.locks + split.locks + way.locks),
            added: growth.added,
            replaced: growth.replaced,
            splits: growth.splits,
        })
    }
}

/// A line for each run that inserted.
pub fn inserts_text(rows: &[RunRow]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.class == Class::All) {
        let Some(verbs) = row.verbs_per_insert else {
            continue;
        };
        let [total, lock] = [verbs.total, verbs.lock]
            .map(|verbs| verbs.map_or_else(|| NOTHING.to_owned(), |verbs| format!("{verbs:.2}")));
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{}, {}: verbs an insert {total}: lock {lock}, read {:.2}, write-back {:.2}, split {:.2}, stale cache {:.2}; \
             {} added, {} replaced, {} splits",
            row.lock,
            row.setting(),
            verbs.read,
            verbs.write_back,
            verbs.split,
            verbs.stale_cache,
            verbs.added,
            verbs.replaced,
            verbs.splits
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tree_did_not_send_is_the_locks() {
        let mut growth = GrowthStats {
            added: 8,
            replaced: 2,
            ..GrowthStats::default()
        };
        growth.leaf.reads = 10;
        growth.leaf.writes = 20;
        growth.split.writes = 5;
        growth.way.reads = 1;
        growth.leaf.locks = 11;
        let only: Mix = "insert".parse().expect("a mix");
        let verbs = InsertVerbs::of(&growth, 56, &only).expect("inserts");
        assert_eq!(
            (verbs.lock, verbs.read, verbs.write_back),
            (Some(2.0), 1.0, 2.0)
        );
        assert_eq!((verbs.split, verbs.stale_cache), (0.5, 0.1));
        assert_eq!((verbs.total, verbs.locks_taken), (Some(5.6), 1.1));
        let mixed: Mix = "insert:50,get:50".parse().expect("a mix");
        let verbs = InsertVerbs::of(&growth, 56, &mixed).expect("inserts");
        assert_eq!((verbs.lock, verbs.total), (None, None));
        assert_eq!(InsertVerbs::of(&GrowthStats::default(), 9, &only), None);
    }
}
