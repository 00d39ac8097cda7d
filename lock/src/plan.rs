//! [`LockPlan`]: where a run's locks, descriptors and tiers lie.

use std::rc::Rc;
use std::sync::Arc;

use dmtree_cluster::{ClientId, GlobalAddr, MemoryKind, MemoryMap, NodeId};

use crate::alock::Alock;
use crate::farlock::Farlock;
use crate::farlock_g::FarlockG;
use crate::mcs::Mcs;
use crate::sherman::Sherman;
use crate::tas::Tas;
use crate::ticket::Ticket;
use crate::{AnyLock, Backoff, Budgets, Classic, DEFAULT_SLOTS, LockSpec, LockTable, Monitor};

/// Descriptors a client: an operation of the tree holds one lock, a split few.
pub const DEFAULT_DESCRIPTORS: usize = 8;

/// Hand-overs in a row on one compute server: the Sherman paper's (section 4.3); its code has 8.
const DEFAULT_HANDOVER: u32 = 4;

/// What can be chosen of a lock beyond its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOptions {
    /// Locks a memory server.
    pub slots: u32,
    /// After how many hand-overs in a row a compute server lets others compete for a lock of Sherman's. None,
    /// and 0, for no hand-over at all; 65,535 and more for no limit.
    pub sherman_handover: Option<u32>,
    /// Locks a client can hold at once, where the lock has descriptors.
    pub descriptors: usize,
    /// Where Sherman's lock words lie.
    pub sherman_memory: MemoryKind,
    /// The pauses between the attempts of a swap that is a loop of CAS (`mcs`, `alock`, `farlock`, `farlock-g`) and
    /// between those of `tas`.
    pub backoff: Backoff,
}

impl Default for LockOptions {
    /// [`DEFAULT_SLOTS`], hand-over limit 4, [`DEFAULT_DESCRIPTORS`], host memory, no backoff.
    fn default() -> Self {
        Self {
            slots: DEFAULT_SLOTS,
            sherman_handover: Some(DEFAULT_HANDOVER),
            descriptors: DEFAULT_DESCRIPTORS,
            sherman_memory: MemoryKind::Host,
            backoff: Backoff::None,
        }
    }
}

/// Where everything of the locks lies, and how to make a client of them.
#[derive(Debug)]
pub struct LockPlan {
    spec: LockSpec,
    options: LockOptions,
    table: Arc<LockTable>,
    /// By client: its descriptors, or its compute server's ticket locks; null where the lock has neither.
    places: Vec<GlobalAddr>,
}

impl LockPlan {
    /// Reserves the lock table on `memory_servers` and what clients need on their own nodes; `client_nodes` has
    /// the node of each client in the order of their numbers.
    ///
    /// # Panics
    /// When `options.slots` is 0 or a node does not exist in `map`.
    pub fn reserve(
        spec: LockSpec,
        options: LockOptions,
        map: &mut MemoryMap,
        memory_servers: &[NodeId],
        client_nodes: &[NodeId],
    ) -> Self {
        let layout = spec.layout(&options);
        let table = LockTable::reserve(
            map,
            memory_servers,
            options.slots,
            layout.lock_bytes,
            layout.memory,
        );
        let bytes = layout.descriptor_bytes * options.descriptors as u64;
        let mut places = vec![GlobalAddr::NULL; client_nodes.len()];
        for node in (0..map.nodes()).map(NodeId) {
            let clients = || (0..client_nodes.len()).filter(|client| client_nodes[*client] == node);
            if clients().next().is_none() {
                continue;
            }
            if layout.tier_bytes > 0 {
                let tier = layout.tier_bytes * table.index_end() as u64;
                let start = map.reserve(node, MemoryKind::Host, tier, layout.tier_bytes);
                clients().for_each(|client| places[client] = start);
            } else if layout.descriptor_bytes > 0 {
                for client in clients() {
                    places[client] =
                        map.reserve(node, MemoryKind::Host, bytes, layout.descriptor_bytes);
                }
            }
        }
        assert!(
            client_nodes.iter().all(|node| node.0 < map.nodes()),
            "a client's node does not exist"
        );
        Self {
            spec,
            options,
            table: Arc::new(table),
            places,
        }
    }

    /// Which lock.
    pub fn spec(&self) -> LockSpec {
        self.spec
    }

    /// With which options.
    pub fn options(&self) -> &LockOptions {
        &self.options
    }

    /// The locks.
    pub fn table(&self) -> &LockTable {
        &self.table
    }

    /// The lock's part of client `client`, watched by `monitor` if there is one. Each client is made once.
    ///
    /// # Panics
    /// When the plan was made for fewer clients.
    pub fn client(&self, client: ClientId, monitor: Option<Rc<Monitor>>) -> AnyLock {
        let place = self.places[client.0 as usize];
        let count = self.options.descriptors;
        if let Some(monitor) = &monitor
            && self.spec.layout(&self.options).descriptor_bytes > 0
        {
            monitor.watch_descriptors(place, count);
        }
        let lock = match self.spec {
            LockSpec::Sherman => {
                let handover = self.options.sherman_handover.unwrap_or(0);
                AnyLock::Sherman(Sherman::new(
                    client,
                    monitor,
                    Arc::clone(&self.table),
                    place,
                    handover,
                ))
            }
            LockSpec::Tas => AnyLock::Classic(Classic::Tas(Tas::new(client, monitor))),
            LockSpec::Ticket => AnyLock::Classic(Classic::Ticket(Ticket::new(client, monitor))),
            LockSpec::Mcs(release) => {
                let mcs = Mcs::new(client, monitor, release, place, count);
                AnyLock::Classic(Classic::Mcs(mcs))
            }
            LockSpec::Alock(budgets, release) => {
                let budgets = budgets.unwrap_or(Budgets::ALTERNATE);
                AnyLock::Alock(Alock::new(client, monitor, budgets, release, place, count))
            }
            LockSpec::Farlock => AnyLock::Farlock(Farlock::new(client, monitor, place, count)),
            LockSpec::FarlockG(budgets) => {
                let budgets = budgets.unwrap_or(Budgets::GROUPS);
                AnyLock::FarlockG(FarlockG::new(client, monitor, budgets, place, count))
            }
        };
        lock.back_off(self.options.backoff);
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, options: LockOptions) -> (MemoryMap, LockPlan) {
        let mut map = MemoryMap::new(4);
        let clients = [1, 0, 1, 3].map(NodeId);
        let spec = name.parse().expect(name);
        let plan = LockPlan::reserve(spec, options, &mut map, &[NodeId(0), NodeId(2)], &clients);
        (map, plan)
    }

    #[test]
    fn descriptors_are_lines_on_the_clients_own_nodes() {
        for name in ["alock", "farlock", "farlock-g"] {
            let options = LockOptions {
                slots: 10,
                descriptors: 3,
                ..LockOptions::default()
            };
            let (map, plan) = plan(name, options);
            assert_eq!(
                plan.places
                    .iter()
                    .map(|place| place.node().0)
                    .collect::<Vec<_>>(),
                [1, 0, 1, 3]
            );
            assert!(
                plan.places
                    .iter()
                    .all(|place| place.offset() % 64 == 0 && !place.is_device())
            );
            let distance = plan.places[0].offset().abs_diff(plan.places[2].offset());
            assert!(distance >= 3 * 64, "{distance}");
            // A line is left unused, then locks or descriptors.
            let bytes = |node| map.bytes(NodeId(node), MemoryKind::Host);
            assert_eq!(
                [bytes(0), bytes(1), bytes(2), bytes(3)],
                [64 + 640 + 192, 64 + 2 * 192, 64 + 640, 64 + 192]
            );
        }
    }

    #[test]
    fn mcs_has_descriptors_and_tas_and_ticket_have_the_table_alone() {
        for (name, lock_bytes, descriptor_bytes) in
            [("tas", 8, 0), ("ticket", 64, 0), ("mcs", 8, 64)]
        {
            let options = LockOptions {
                slots: 16,
                descriptors: 3,
                ..LockOptions::default()
            };
            let (map, plan) = plan(name, options);
            let bytes = |node| map.bytes(NodeId(node), MemoryKind::Host);
            let (table, own) = (16 * lock_bytes, 3 * descriptor_bytes);
            assert_eq!(
                [bytes(0), bytes(1), bytes(2), bytes(3)],
                [64 + table + own, 64 + 2 * own, 64 + table, 64 + own],
                "{name}"
            );
            assert!(
                plan.places
                    .iter()
                    .all(|place| place.is_null() == (own == 0))
            );
        }
    }

    #[test]
    fn sherman_has_words_and_a_ticket_lock_for_each_on_every_compute_server() {
        let options = LockOptions {
            slots: 16,
            sherman_memory: MemoryKind::Device,
            ..LockOptions::default()
        };
        let (map, plan) = plan("sherman", options);
        assert!(plan.table().lock(NodeId(2), 3).is_device());
        let bytes = |node, kind| map.bytes(NodeId(node), kind);
        assert_eq!(bytes(2, MemoryKind::Device), 16 * 8);
        assert_eq!(bytes(2, MemoryKind::Host), 64, "no client, no tier");
        for node in [0, 1, 3] {
            assert_eq!(bytes(node, MemoryKind::Host), 64 + 2 * 16 * 64);
        }
        assert_eq!(
            plan.places[0], plan.places[2],
            "clients of one compute server queue together"
        );
    }
}
