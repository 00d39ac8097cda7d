//! Histories of registers, and whether they are linearizable.

#![allow(unreachable_pub)] // Test binaries have no outside.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// One read or write of a key, as its client saw it. Every write of a key writes another value.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub key: u64,
    /// None where the key is not there: read by a get that finds nothing or an update that is refused, "written"
    /// before all else of keys that are not there at first.
    pub value: Option<u64>,
    pub write: bool,
    /// Whether the write found no key: an insert's that adds it.
    pub adds: bool,
    /// Just before the call and just after its return.
    pub begin: u64,
    pub end: u64,
}

/// All operations on one value: its write and the reads that returned it.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    write: Op,
    first_end: u64,
    last_begin: u64,
}

impl Cluster {
    /// Whether some operation of it ends before one of `other` begins, so that all of it comes first.
    fn precedes(&self, other: &Self) -> bool {
        self.first_end < other.last_begin
    }

    /// What its place among the key's values has to be: absent, then the value that was added, then all others.
    fn rank(&self) -> u8 {
        match (self.write.value, self.write.adds) {
            (None, _) => 0,
            (_, true) => 1,
            _ => 2,
        }
    }
}

/// Whether the keys are linearizable registers, all of whose values are written in `ops`; absent at first or not,
/// and never removed.
///
/// Exact and fast for distinct values (Gibbons, Korach, "Testing Shared Memories", SIAM J. Comput. 1997): the
/// operations of one value stand together in a linearization, the write first; some operation of value a precedes
/// one of value b, and some operation of b one of a, for no pair of values. A value that has to come first, as
/// absence and what was added do, comes after no other one.
pub fn check(ops: &[Op]) -> Result<(), String> {
    let mut clusters: BTreeMap<(u64, Option<u64>), Cluster> = BTreeMap::new();
    for write in ops.iter().filter(|op| op.write) {
        let cluster = Cluster {
            write: *write,
            first_end: write.end,
            last_begin: write.begin,
        };
        if clusters.insert((write.key, write.value), cluster).is_some() {
            return Err(format!("{write:?}: the value is not written once"));
        }
    }
    for read in ops.iter().filter(|op| !op.write) {
        let Some(cluster) = clusters.get_mut(&(read.key, read.value)) else {
            return Err(format!("{read:?}: nobody has written that"));
        };
        if read.end < cluster.write.begin {
            return Err(format!("{read:?}: read before {:?}", cluster.write));
        }
        cluster.first_end = cluster.first_end.min(read.end);
        cluster.last_begin = cluster.last_begin.max(read.begin);
    }
    for ((key, value), one) in &clusters {
        let mut ranks = [0; 3];
        ranks[usize::from(one.rank())] += 1;
        let beyond = (
            Bound::Excluded((*key, *value)),
            Bound::Included((*key, Some(u64::MAX))),
        );
        for (_, other) in clusters.range(beyond) {
            ranks[usize::from(other.rank())] += 1;
            let (before, after) = (one.precedes(other), other.precedes(one));
            let wrong = match one.rank().cmp(&other.rank()) {
                Ordering::Less => after,
                Ordering::Equal => before && after,
                Ordering::Greater => before,
            };
            if wrong {
                return Err(format!("no order of {one:?} and {other:?}"));
            }
        }
        let first = clusters.range(..(*key, *value)).next_back();
        let is_first = first.is_none_or(|((other, _), _)| other != key);
        // Added once if it was absent and is not any more, else never.
        let added = u64::from(ranks[0] == 1 && ranks[1] + ranks[2] > 0);
        if is_first && ranks[1] != added {
            return Err(format!(
                "key {key} was added {} times, not {added}",
                ranks[1]
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(write: bool, value: u64, begin: u64, end: u64) -> Op {
        Op {
            key: 1,
            value: Some(value),
            write,
            adds: false,
            begin,
            end,
        }
    }

    fn absent(write: bool, begin: u64, end: u64) -> Op {
        Op {
            value: None,
            ..op(write, 0, begin, end)
        }
    }

    fn add(value: u64, begin: u64, end: u64) -> Op {
        Op {
            adds: true,
            ..op(true, value, begin, end)
        }
    }

    #[test]
    fn keys_are_added_once_and_first() {
        let begin = absent(true, 0, 0);
        let good: &[&[Op]] = &[
            &[],
            &[absent(false, 1, 2)],
            &[add(1, 10, 20), absent(false, 5, 15), op(false, 1, 12, 13)],
            // The write that found the key may have returned before the one that has added it.
            &[add(1, 10, 20), op(true, 2, 11, 12), op(false, 2, 30, 31)],
        ];
        for ops in good {
            assert_eq!(check(&[&[begin], *ops].concat()), Ok(()), "{ops:?}");
        }
        let wrong: &[&[Op]] = &[
            // Never added, twice, or not before what has found it.
            &[op(true, 2, 11, 12)],
            &[add(1, 10, 20), add(2, 10, 20)],
            &[add(1, 10, 20), op(true, 2, 5, 6)],
            &[
                add(1, 10, 20),
                op(true, 2, 11, 30),
                op(false, 2, 12, 13),
                op(false, 1, 14, 15),
            ],
            // Gone again.
            &[add(1, 10, 20), absent(false, 21, 22)],
            &[add(1, 10, 20), op(false, 1, 11, 12), absent(false, 13, 14)],
        ];
        for ops in wrong {
            assert!(check(&[&[begin], *ops].concat()).is_err(), "{ops:?}");
        }
        assert!(
            check(&[op(true, 0, 0, 0), add(1, 10, 20)]).is_err(),
            "it was there"
        );
    }

    #[test]
    fn orders_that_cannot_be_are_found() {
        let write = |value, begin, end| op(true, value, begin, end);
        let read = |value, begin, end| op(false, value, begin, end);
        // A read may return the old or the new value of a write that it overlaps.
        let base = [write(0, 0, 0), write(1, 10, 20)];
        for value in [0, 1] {
            assert!(check(&[&base[..], &[read(value, 15, 16)]].concat()).is_ok());
        }
        let wrong: &[&[Op]] = &[
            // Stale, from the future, out of thin air.
            &[read(0, 21, 22)],
            &[read(1, 5, 9)],
            &[read(7, 5, 9)],
            // Two reads, the new value first.
            &[read(1, 12, 13), read(0, 14, 15)],
            // Two concurrent writes, seen in both orders.
            &[
                write(2, 10, 20),
                read(1, 21, 22),
                read(2, 23, 24),
                read(1, 25, 26),
            ],
        ];
        for ops in wrong {
            assert!(check(&[&base[..], ops].concat()).is_err(), "{ops:?}");
        }
        assert!(
            check(
                &[
                    &base[..],
                    &[write(2, 10, 20), read(1, 21, 22), read(1, 25, 26)]
                ]
                .concat()
            )
            .is_ok()
        );
    }
}
