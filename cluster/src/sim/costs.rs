//! A profile's parameters in the simulator's own unit of time.

use super::profile::{MissCharge, Profile};
use super::queue::Time;
use crate::Op;

/// Payload bytes up to which what they cost is looked up instead of computed.
const TABLE_BYTES: u32 = 4096;

/// CPU time without memory access that may be added to that of the next access: a search in a page. More than
/// that would enter an RNIC's engine visibly too early when a post comes next.
const MAX_DEFERRED: Time = 200_000;

/// Parameters in picoseconds.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub post: Time,
    pub completion: Time,
    pub message: Time,
    pub wire: Time,
    pub loopback: Time,
    /// Of memory: host, device.
    pub spaces: [SpaceCosts; 2],
    /// READs of one line of host memory are this far apart; 0 in hostile runs, where a READ that comes late would
    /// hold up those that do not, and queue pairs could not change places.
    pub read_address: Time,
    pub atomics_per_qp: u32,
    pub atomic_qp: Time,
    pub atomics_block: bool,
    pub miss_each_verb: bool,
    pub qp_window: Time,
    pub cpu_hit: Time,
    pub cpu_transfer: Time,
    pub cpu_memory: Time,
    pub cpu_stream: Time,
    pub cpu_fence: Time,
    /// CPU time up to this is folded into the next access that costs more; 0 in hostile runs, which interleave
    /// every access.
    pub foldable: Time,
    /// CPU time without memory access, up to this, is added to that of the next access; 0 in hostile runs.
    pub deferrable: Time,
    by_bytes: Vec<ByteCosts>,
    profile: Profile,
}

/// Of one kind of memory, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpaceCosts {
    /// A READ's or atomic's way to memory and back.
    pub read: Time,
    /// The atomic unit's, of an operation.
    pub unit: Time,
    cas: AtomicCosts,
    faa: AtomicCosts,
}

/// Of an atomic, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtomicCosts {
    /// How long it keeps its address.
    pub address: Time,
    /// When it responds, from having the address: at the latest when that is free, or two of one address would
    /// overlap.
    pub response: Time,
}

impl SpaceCosts {
    fn new(read_ns: f64, unit_ns: f64, address_ns: [f64; 2], response_ns: f64) -> Self {
        let [cas, faa] = address_ns.map(|address_ns| AtomicCosts {
            address: time(address_ns),
            response: time(response_ns.min(address_ns)),
        });
        Self {
            read: time(read_ns),
            unit: time(unit_ns),
            cas,
            faa,
        }
    }

    /// What `op` costs.
    #[inline]
    pub(super) fn atomic(&self, op: Op) -> AtomicCosts {
        match op {
            Op::Faa { .. } => self.faa,
            _ => self.cas,
        }
    }
}

fn time(ns: f64) -> Time {
    (ns * 1000.0).round() as Time
}

/// What depends on a message's payload, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct ByteCosts {
    engine: Time,
    read: Time,
    transfer: Time,
}

impl ByteCosts {
    fn new(profile: &Profile, bytes: u32) -> Self {
        let beyond = f64::from(bytes.saturating_sub(8));
        let bytes = f64::from(bytes);
        Self {
            engine: time(profile.engine_ns(bytes)),
            read: time(profile.read_byte_ns.value * beyond),
            transfer: time(bytes / profile.link_bytes_per_ns.value),
        }
    }
}

impl Costs {
    pub(super) fn new(profile: &Profile, hostile: bool) -> Self {
        let foldable = time(profile.cpu_hit_ns.value) + time(profile.cpu_fence_ns.value);
        Self {
            post: time(profile.post_ns.value),
            completion: time(profile.completion_ns.value),
            message: time(profile.message_ns.value),
            wire: time(profile.wire_ns.value + profile.switch_ns.value),
            loopback: time(profile.loopback_ns.value),
            spaces: [
                SpaceCosts::new(
                    profile.pcie_read_ns.value,
                    profile.atomic_unit_ns.value,
                    [
                        profile.atomic_address_ns.value,
                        profile.faa_address_ns.value,
                    ],
                    profile.atomic_response_ns.value,
                ),
                SpaceCosts::new(
                    profile.device_read_ns.value,
                    profile.device_unit_ns.value,
                    [
                        profile.device_address_ns.value,
                        profile.device_faa_address_ns.value,
                    ],
                    profile.device_response_ns.value,
                ),
            ],
            read_address: if hostile {
                0
            } else {
                time(profile.read_address_ns.value)
            },
            atomic_qp: time(profile.atomic_qp_ns.value),
            atomics_per_qp: profile.atomics_per_qp.value.max(1),
            atomics_block: profile.atomics_block.value,
            qp_window: time(profile.qp_window_ns.value).max(1),
            miss_each_verb: profile.qp_miss_charge.value == MissCharge::Verb,
            cpu_hit: time(profile.cpu_hit_ns.value),
            cpu_transfer: time(profile.cpu_transfer_ns.value),
            cpu_memory: time(profile.cpu_memory_ns.value),
            cpu_stream: time(profile.cpu_stream_line_ns.value),
            cpu_fence: time(profile.cpu_fence_ns.value),
            foldable: if hostile { 0 } else { foldable },
            deferrable: if hostile { 0 } else { MAX_DEFERRED },
            by_bytes: (0..=TABLE_BYTES)
                .map(|bytes| ByteCosts::new(profile, bytes))
                .collect(),
            profile: profile.clone(),
        }
    }

    #[inline]
    fn of_bytes(&self, bytes: u32) -> ByteCosts {
        match self.by_bytes.get(bytes as usize) {
            Some(costs) => *costs,
            None => ByteCosts::new(&self.profile, bytes),
        }
    }

    /// How long a message with `bytes` of payload holds an engine.
    #[inline]
    pub(super) fn engine(&self, bytes: u32) -> Time {
        self.of_bytes(bytes).engine
    }

    /// How long a message is on the wire.
    #[inline]
    pub(super) fn wire(&self, loopback: bool) -> Time {
        if loopback { self.loopback } else { self.wire }
    }

    /// What a miss of queue-pair state adds with `active` queue pairs.
    pub(super) fn miss(&self, active: u32) -> Time {
        time(self.profile.qp_miss_ns(active))
    }

    /// What the payload of a READ adds to its latency, beyond the 8 bytes of the calibration.
    #[inline]
    pub(super) fn read_bytes(&self, bytes: u32) -> Time {
        self.of_bytes(bytes).read
    }

    /// Over what time an access of `bytes` is spread: as fast as the link brings or takes them.
    #[inline]
    pub(super) fn transfer(&self, bytes: u32) -> Time {
        self.of_bytes(bytes).transfer
    }
}
