//! Histories of registers, and whether they are linearizable.

#![allow(unreachable_pub)] // Test binaries have no outside.

use std::collections::BTreeMap;

/// One read or write of a key, as its client saw it. Every write of a key writes another value.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub key: u64,
    pub value: u64,
    pub write: bool,
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

/// Whether the keys are linearizable registers, all of whose values are written in `ops`.
///
/// Exact and fast for distinct values (Gibbons, Korach, "Testing Shared Memories", SIAM J. Comput. 1997): the
/// operations of one value stand together in a linearization, the write first; some operation of value a precedes
/// one of value b, and some operation of b one of a, for no pair of values.
pub fn check(ops: &[Op]) -> Result<(), String> {
    let mut clusters: BTreeMap<(u64, u64), Cluster> = BTreeMap::new();
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
        for ((_, other_value), other) in
            clusters.range((*key, value.saturating_add(1))..=(*key, u64::MAX))
        {
            if one.first_end < other.last_begin && other.first_end < one.last_begin {
                return Err(format!(
                    "key {key}: operations of {value:#x} come before and after those of {other_value:#x}: \
                     {one:?}, {other:?}"
                ));
            }
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
            value,
            write,
            begin,
            end,
        }
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
