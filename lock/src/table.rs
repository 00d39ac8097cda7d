//! [`LockTable`]: the same slots and the same hash for every lock.

use dmtree_cluster::{GlobalAddr, LINE_BYTES, MemoryKind, MemoryMap, NodeId};

/// Slots a memory server. Sherman's table is 256 KB of 8-byte words (SIGMOD 2022, section 4.3).
pub const DEFAULT_SLOTS: u32 = 32_768;

/// The locks of all memory servers: `slots` on each, of `lock_bytes` bytes.
#[derive(Clone, Debug)]
pub struct LockTable {
    slots: u32,
    /// Logarithm of a lock's bytes.
    lock_shift: u32,
    /// By node: start of its table and index of its first lock; none where the node serves none.
    tables: Vec<Option<(GlobalAddr, usize)>>,
    end: usize,
}

impl LockTable {
    /// Reserves a table of `slots` locks on each of `servers`.
    ///
    /// # Panics
    /// When `slots` is 0, `lock_bytes` is no power of two, or a server does not exist in `map`.
    pub fn reserve(
        map: &mut MemoryMap,
        servers: &[NodeId],
        slots: u32,
        lock_bytes: u64,
        kind: MemoryKind,
    ) -> Self {
        assert!(slots > 0, "a lock table has slots");
        assert!(
            lock_bytes.is_power_of_two(),
            "locks do not share lines by halves"
        );
        let mut tables = vec![None; usize::from(map.nodes())];
        let mut end = 0;
        let align = lock_bytes.min(LINE_BYTES as u64);
        for server in servers {
            let table = &mut tables[usize::from(server.0)];
            if table.is_none() {
                *table = Some((
                    map.reserve(*server, kind, u64::from(slots) * lock_bytes, align),
                    end,
                ));
                end += slots as usize;
            }
        }
        Self {
            slots,
            lock_shift: lock_bytes.trailing_zeros(),
            tables,
            end,
        }
    }

    /// Slots a memory server.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    #[inline]
    fn table(&self, node: NodeId) -> (GlobalAddr, usize) {
        match self.tables.get(usize::from(node.0)) {
            Some(Some(table)) => *table,
            _ => panic!("{node} has no lock table"),
        }
    }

    /// The lock in `slot` of `node`'s table.
    ///
    /// # Panics
    /// When `node` has no table or `slot` is beyond it.
    pub fn lock(&self, node: NodeId, slot: u32) -> GlobalAddr {
        assert!(slot < self.slots, "no slot {slot} of {}", self.slots);
        self.table(node).0.add(u64::from(slot) << self.lock_shift)
    }

    /// The lock that guards the page at `page`: on the page's own node.
    ///
    /// # Panics
    /// When that node has no table.
    #[inline]
    pub fn lock_of(&self, page: GlobalAddr) -> GlobalAddr {
        let (hash, slots) = (mix(page.offset()), u64::from(self.slots));
        // The same without a division, which takes as long as all the rest.
        let slot = if slots.is_power_of_two() {
            hash & (slots - 1)
        } else {
            hash % slots
        };
        self.table(page.node()).0.add(slot << self.lock_shift)
    }

    /// A number of the lock that is unique and dense over all tables, from 0 to [`LockTable::index_end`].
    ///
    /// # Panics
    /// When `lock` is no lock of this table.
    #[inline]
    pub fn index_of(&self, lock: GlobalAddr) -> usize {
        let (start, first) = self.table(lock.node());
        let slot = lock.to_bits().wrapping_sub(start.to_bits()) >> self.lock_shift;
        assert!(
            slot < u64::from(self.slots),
            "{lock} is no lock of this table"
        );
        first + slot as usize
    }

    /// How many locks there are.
    pub fn index_end(&self) -> usize {
        self.end
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): pages lie at multiples of their size, and
/// this spreads them over the slots.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_has_an_index_of_its_own() {
        let mut map = MemoryMap::new(3);
        let table = LockTable::reserve(&mut map, &[NodeId(0), NodeId(2)], 7, 64, MemoryKind::Host);
        let mut seen = std::collections::BTreeSet::new();
        for node in [0, 2] {
            for slot in 0..7 {
                let lock = table.lock(NodeId(node), slot);
                assert_eq!(lock.offset() % 64, 0);
                assert!(seen.insert(table.index_of(lock)));
                assert!(table.index_of(lock) < table.index_end());
            }
        }
        assert_eq!(
            table.index_end(),
            seen.len(),
            "dense: nodes without a table take no numbers"
        );
    }

    #[test]
    #[should_panic(expected = "no lock of this table")]
    fn addresses_outside_of_the_table_have_no_index() {
        let mut map = MemoryMap::new(1);
        let table = LockTable::reserve(&mut map, &[NodeId(0)], 7, 64, MemoryKind::Host);
        table.index_of(table.lock(NodeId(0), 6).add(64));
    }

    #[test]
    fn pages_spread_evenly_over_the_slots() {
        let mut map = MemoryMap::new(1);
        let table = LockTable::reserve(&mut map, &[NodeId(0)], 1024, 8, MemoryKind::Host);
        let mut load = vec![0u32; 1024];
        for page in 0..1024u64 * 64 {
            load[table.index_of(table.lock_of(GlobalAddr::new(NodeId(0), (page + 8) * 1024)))] += 1;
        }
        // 64 expected, standard deviation 8: six of them on either side.
        assert!(
            load.iter().all(|n| (16..=112).contains(n)),
            "{:?}",
            (load.iter().min(), load.iter().max())
        );
    }
}
