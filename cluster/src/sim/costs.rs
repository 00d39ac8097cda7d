//! A profile's parameters in the simulator's own unit of time.

use super::profile::{MissCharge, Profile};
use super::queue::Time;

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
    pub pcie_read: Time,
    pub atomic_unit: Time,
    pub atomic_address: Time,
    pub atomics_per_qp: u32,
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
    payloads: Vec<Payload>,
    profile: Profile,
}

/// What a number of payload bytes costs.
#[derive(Clone, Copy, Debug)]
struct Payload {
    engine: Time,
    read: Time,
    transfer: Time,
}

impl Payload {
    fn new(profile: &Profile, bytes: u32) -> Self {
        let link = profile.link_bytes_per_ns.value;
        Self {
            engine: time(profile.engine_ns(f64::from(bytes))),
            read: time(profile.read_byte_ns.value * f64::from(bytes.saturating_sub(8))),
            transfer: time(f64::from(bytes) / link),
        }
    }
}

fn time(ns: f64) -> Time {
    (ns * 1000.0).round() as Time
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
            pcie_read: time(profile.pcie_read_ns.value),
            atomic_unit: time(profile.atomic_unit_ns.value),
            atomic_address: time(profile.atomic_address_ns.value),
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
            payloads: (0..=TABLE_BYTES)
                .map(|bytes| Payload::new(profile, bytes))
                .collect(),
            profile: profile.clone(),
        }
    }

    #[inline]
    fn payload(&self, bytes: u32) -> Payload {
        match self.payloads.get(bytes as usize) {
            Some(payload) => *payload,
            None => self.long_payload(bytes),
        }
    }

    #[cold]
    fn long_payload(&self, bytes: u32) -> Payload {
        Payload::new(&self.profile, bytes)
    }

    /// How long a message with `bytes` of payload holds an engine.
    #[inline]
    pub(super) fn engine(&self, bytes: u32) -> Time {
        self.payload(bytes).engine
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
        self.payload(bytes).read
    }

    /// Over what time an access of `bytes` is spread: as fast as the link brings or takes them.
    #[inline]
    pub(super) fn transfer(&self, bytes: u32) -> Time {
        self.payload(bytes).transfer
    }
}
