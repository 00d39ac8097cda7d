//! [`MemoryMap`]: who keeps what where, decided before anything connects.

use crate::{GlobalAddr, LINE_BYTES, NodeId};

/// A node's memory that the RNIC can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// DRAM of the host; its CPU can access it.
    Host,
    /// Memory on the RNIC itself; only verbs reach it.
    Device,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeMemory {
    host: u64,
    device: u64,
}

/// The layout of every node's registered memory.
///
/// Parts of a run (lock tables, descriptors, the tree's heap) reserve their ranges here; a fabric then serves
/// exactly that much. All memory starts as zeros.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    nodes: Vec<NodeMemory>,
}

impl MemoryMap {
    /// `nodes` nodes with nothing reserved. Offset 0 of host memory stays unused on each, see
    /// [`GlobalAddr::NULL`].
    pub fn new(nodes: u16) -> Self {
        Self {
            nodes: vec![
                NodeMemory {
                    host: LINE_BYTES as u64,
                    device: 0
                };
                usize::from(nodes)
            ],
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u16 {
        self.nodes.len() as u16
    }

    /// Reserves `bytes` of zeroed memory on `node`, aligned to `align` bytes.
    ///
    /// # Panics
    /// When `node` does not exist, `align` is no power of two, or 47 bits of offset are used up.
    pub fn reserve(
        &mut self,
        node: NodeId,
        kind: MemoryKind,
        bytes: u64,
        align: u64,
    ) -> GlobalAddr {
        assert!(align.is_power_of_two(), "alignment is a power of two");
        let memory = &mut self.nodes[usize::from(node.0)];
        let used = match kind {
            MemoryKind::Host => &mut memory.host,
            MemoryKind::Device => &mut memory.device,
        };
        let start = used.next_multiple_of(align);
        *used = start + bytes;
        match kind {
            MemoryKind::Host => GlobalAddr::new(node, start),
            MemoryKind::Device => GlobalAddr::device(node, start),
        }
    }

    /// Bytes of `kind` that `node` has to serve.
    ///
    /// # Panics
    /// When `node` does not exist.
    pub fn bytes(&self, node: NodeId, kind: MemoryKind) -> u64 {
        let memory = &self.nodes[usize::from(node.0)];
        match kind {
            MemoryKind::Host => memory.host.next_multiple_of(LINE_BYTES as u64),
            MemoryKind::Device => memory.device.next_multiple_of(LINE_BYTES as u64),
        }
    }

    /// Bytes of host and device memory of all nodes together.
    pub fn total_bytes(&self) -> u64 {
        (0..self.nodes())
            .map(|node| {
                self.bytes(NodeId(node), MemoryKind::Host)
                    + self.bytes(NodeId(node), MemoryKind::Device)
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_are_never_null() {
        let mut map = MemoryMap::new(2);
        let a = map.reserve(NodeId(0), MemoryKind::Host, 10, 8);
        let b = map.reserve(NodeId(0), MemoryKind::Host, 64, 1024);
        let d = map.reserve(NodeId(1), MemoryKind::Device, 8, 8);
        assert!(!a.is_null() && a.offset() + 10 <= b.offset() && b.offset().is_multiple_of(1024));
        assert_eq!(d.offset(), 0);
        assert!(d.is_device() && !d.is_null());
        assert_eq!(map.bytes(NodeId(1), MemoryKind::Device), 64);
        assert_eq!(map.bytes(NodeId(0), MemoryKind::Host), b.offset() + 64);
    }
}
