//! Nodes, clients and global addresses.

use std::fmt;

/// A machine of the cluster. One node can serve memory, run clients, or both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// One sequential actor with one operation in flight: a thread, or one of a thread's coroutines.
/// Numbered from 0 over the whole cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u32);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.0)
    }
}

/// Bytes in a cache line; descriptors and lock lines are one line each.
pub const LINE_BYTES: usize = 64;

/// Bits of a global address that are the offset in the node's memory.
const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// The offset bit that tells device memory from host memory.
const DEVICE_BIT: u64 = 1 << (OFFSET_BITS - 1);

/// A place in some node's remotely accessible memory: 16 bits of node, 48 bits of offset in bytes.
///
/// The highest bit of the offset chooses the node's device (on-chip) memory instead of its host memory.
/// Offset 0 of host memory is never handed out, so the all-zero address is free to mean "none"
/// ([`GlobalAddr::NULL`]): lock words that hold descriptor addresses rely on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalAddr(u64);

impl GlobalAddr {
    /// No address.
    pub const NULL: Self = Self(0);

    /// The address of `offset` bytes into `node`'s host memory.
    ///
    /// # Panics
    /// When `offset` does not fit 47 bits.
    pub const fn new(node: NodeId, offset: u64) -> Self {
        assert!(offset < DEVICE_BIT, "offset beyond 47 bits");
        Self((node.0 as u64) << OFFSET_BITS | offset)
    }

    /// The address of `offset` bytes into `node`'s device memory.
    ///
    /// # Panics
    /// When `offset` does not fit 47 bits.
    pub const fn device(node: NodeId, offset: u64) -> Self {
        assert!(offset < DEVICE_BIT, "offset beyond 47 bits");
        Self((node.0 as u64) << OFFSET_BITS | DEVICE_BIT | offset)
    }

    /// The word form, as stored in memory words.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The address whose word form is `bits`. Every bit pattern is some address; whether anything is there is
    /// found out by the verb that goes there.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The node it is on.
    pub const fn node(self) -> NodeId {
        NodeId((self.0 >> OFFSET_BITS) as u16)
    }

    /// Bytes into the node's host or device memory.
    pub const fn offset(self) -> u64 {
        self.0 & OFFSET_MASK & !DEVICE_BIT
    }

    /// Whether it lies in device memory.
    pub const fn is_device(self) -> bool {
        self.0 & DEVICE_BIT != 0
    }

    /// Whether it is [`GlobalAddr::NULL`].
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `bytes` further on, in the same memory of the same node.
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }

    /// The address `words` 8-byte words further on.
    pub const fn word(self, words: u64) -> Self {
        self.add(words * 8)
    }
}

impl fmt::Display for GlobalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            return f.write_str("null");
        }
        let kind = if self.is_device() { "device" } else { "host" };
        write!(f, "{}:{}+{:#x}", self.node().0, kind, self.offset())
    }
}

impl fmt::Debug for GlobalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_the_word_form() {
        for (node, offset) in [(0, 64), (9, 1 << 40), (u16::MAX, DEVICE_BIT - 8)] {
            let host = GlobalAddr::new(NodeId(node), offset);
            assert_eq!(
                (host.node(), host.offset(), host.is_device()),
                (NodeId(node), offset, false)
            );
            let device = GlobalAddr::device(NodeId(node), offset);
            assert_eq!(
                (device.node(), device.offset(), device.is_device()),
                (NodeId(node), offset, true)
            );
            assert_eq!(GlobalAddr::from_bits(device.to_bits()), device);
            assert_ne!(host, device);
        }
        assert!(GlobalAddr::from_bits(0).is_null());
    }
}
