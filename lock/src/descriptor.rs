//! [`Pool`]: a client's descriptors.
//!
//! A descriptor is one cache line in the host memory of its client's node, so that the client waits on it by
//! CPU, and others reach it by CPU on that node and by verbs from elsewhere. A client has several because it may
//! hold several locks at once.

use dmtree_cluster::{ClientId, GlobalAddr, LINE_BYTES};

use crate::{ErrorKind, Result};

/// Bytes of a descriptor: one cache line.
pub(crate) const DESCRIPTOR_BYTES: u64 = LINE_BYTES as u64;

/// The descriptors of one client that are not in use.
#[derive(Debug)]
pub(crate) struct Pool {
    client: ClientId,
    all: usize,
    free: Vec<GlobalAddr>,
}

impl Pool {
    /// `count` descriptors from `start` on.
    pub(crate) fn new(client: ClientId, start: GlobalAddr, count: usize) -> Self {
        // Last in, first out: the line used last is the one still in the cache. Reusing at once is also what
        // brings out a descriptor that was taken back too early.
        let free = (0..count as u64)
            .rev()
            .map(|index| start.add(index * DESCRIPTOR_BYTES))
            .collect();
        Self {
            client,
            all: count,
            free,
        }
    }

    /// The descriptor that [`Pool::take`] will take, for its owner to set up before anything can fail.
    pub(crate) fn next(&self) -> Result<GlobalAddr> {
        self.free.last().copied().ok_or_else(|| {
            ErrorKind::TooManyGuards {
                client: self.client,
                held: self.all,
            }
            .into()
        })
    }

    /// Takes [`Pool::next`] out.
    pub(crate) fn take(&mut self) {
        self.free.pop();
    }

    /// Takes `descriptor` back: nobody touches it any more.
    pub(crate) fn put(&mut self, descriptor: GlobalAddr) {
        debug_assert!(self.free.len() < self.all && !self.free.contains(&descriptor));
        self.free.push(descriptor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmtree_cluster::NodeId;

    #[test]
    fn descriptors_are_lines_of_their_own_and_run_out() {
        let start = GlobalAddr::new(NodeId(1), 640);
        let mut pool = Pool::new(ClientId(3), start, 2);
        let first = pool.next().expect("two left");
        pool.take();
        let second = pool.next().expect("one left");
        pool.take();
        assert_eq!((first, second), (start, start.add(64)));
        assert_eq!(
            pool.next(),
            Err(ErrorKind::TooManyGuards {
                client: ClientId(3),
                held: 2
            }
            .into())
        );
        pool.put(first);
        assert_eq!(pool.next(), Ok(first));
    }
}
