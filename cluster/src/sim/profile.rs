//! RNIC and CPU parameters of a simulated cluster, each with where its value comes from.
//!
//! Profiles are calibrated to published measurements of the hardware and never tuned to make a result of a
//! paper come true. What has no source says `assumed`.

use std::fmt;

/// A parameter and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param<T> {
    /// The value.
    pub value: T,
    /// Where it comes from; starts with `assumed` when it has no source.
    pub source: &'static str,
}

const fn param<T>(value: T, source: &'static str) -> Param<T> {
    Param { value, source }
}

/// What a fetch of queue-pair state that the RNIC's cache misses is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissCharge {
    /// The first verb of a chain: the rest of it finds the state cached.
    Chain,
    /// Every verb.
    Verb,
}

/// The parameters of a simulated cluster's RNICs, links and CPUs. Times are in nanoseconds.
///
/// A verb passes the send engine of the requester's RNIC, the switch, the receive engine of the target's RNIC,
/// its PCIe or atomic unit, and the same engines on the way back.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// From the post by the CPU to the start of the send engine: doorbell, work-queue entry fetch.
    pub post_ns: Param<f64>,
    /// From the response's arrival to the client's next step: completion entry, poll.
    pub completion_ns: Param<f64>,
    /// Time an engine is held by a message of up to `small_bytes`.
    pub message_ns: Param<f64>,
    /// Up to this payload, in bytes, a message holds an engine for `message_ns`.
    pub small_bytes: Param<f64>,
    /// A larger payload at which the hold of an engine is known, in bytes.
    pub large_bytes: Param<f64>,
    /// The hold at `large_bytes`; linear in between, at link bandwidth beyond.
    pub large_message_ns: Param<f64>,
    /// Bytes a nanosecond on the link, per direction.
    pub link_bytes_per_ns: Param<f64>,
    /// One direction between two RNICs, without the switch.
    pub wire_ns: Param<f64>,
    /// The switch, port to port.
    pub switch_ns: Param<f64>,
    /// One direction of a loopback verb between the RNIC's own engines.
    pub loopback_ns: Param<f64>,
    /// Latency a payload byte adds to a READ.
    pub read_byte_ns: Param<f64>,
    /// The part of a READ's or atomic's host memory access that its response waits for and that a WRITE's
    /// acknowledgement does not.
    pub pcie_read_ns: Param<f64>,
    /// The atomic unit accepts one operation in this time, whatever the address.
    pub atomic_unit_ns: Param<f64>,
    /// Operations on one address are this far apart.
    pub atomic_address_ns: Param<f64>,
    /// Atomics of one queue pair in flight at a time.
    pub atomics_per_qp: Param<u32>,
    /// Whether the receive engine stands still while an atomic is executed.
    pub atomics_block: Param<bool>,
    /// Queue-pair state cache: (active queue pairs an RNIC, M READs/s a machine that sends and serves).
    /// Up to the first row nothing is missed.
    pub qp_cache: Param<&'static [(u32, f64)]>,
    /// A queue pair is active when it was used within this time: its state competes for the cache.
    pub qp_window_ns: Param<f64>,
    /// Whether the queue-pair cache is modelled at all.
    pub qp_cache_on: bool,
    /// What a miss is charged to.
    pub qp_miss_charge: Param<MissCharge>,
    /// CPU access to a line that is in the core's own cache.
    pub cpu_hit_ns: Param<f64>,
    /// CPU access to a line that another core has modified.
    pub cpu_transfer_ns: Param<f64>,
    /// CPU access to a line that no core has.
    pub cpu_memory_ns: Param<f64>,
    /// Each further line of a sequential access.
    pub cpu_stream_line_ns: Param<f64>,
    /// What a sequentially consistent store or a read-modify-write adds.
    pub cpu_fence_ns: Param<f64>,
}

/// A profile name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no profile is called {name:?}; there is {}", Profile::NAMES.join(", "))]
pub struct UnknownProfile {
    /// What was asked for.
    pub name: String,
}

const NURDMA: &str = "measured: sss-lehigh/nurdma raw results, 2019, mlx4_0 on CloudLab Apt";
const RC_SWARM: &str = "measured: efficient/rdma_bench, rc-swarm OSDI sweep on CloudLab Apt";

impl Profile {
    /// The profiles that exist.
    pub const NAMES: &'static [&'static str] = &["cx3-fdr"];

    /// The profile called `name`.
    ///
    /// # Errors
    /// When there is none; the message lists those that exist.
    pub fn by_name(name: &str) -> Result<Self, UnknownProfile> {
        match name {
            "cx3-fdr" => Ok(Self::cx3_fdr()),
            _ => Err(UnknownProfile {
                name: name.to_owned(),
            }),
        }
    }

    /// ConnectX-3 FDR behind one switch: CloudLab Apt, the testbed of the FARLock paper.
    ///
    /// How the latencies were taken apart. Let `e` be the four engine passes of a round trip, `w` both
    /// directions of wire and switch, `p` the PCIe read and `h` the host's part (post + completion):
    /// READ = h + e + w + p = 2220, WRITE = h + e + w = 2080, hence p = 140. With one atomic outstanding a
    /// queue pair, a pipelined CAS completes every e + w + p + 361 = 1300, hence h = 2220 + 361 - 1300 = 1281.
    /// rc-swarm's 10.45 M READs/s of a machine that sends and serves are two passes of each engine a READ, 47.8 ns
    /// a pass, e = 191.4, which leaves w = 607.6.
    pub fn cx3_fdr() -> Self {
        Self {
            name: "cx3-fdr",
            post_ns: param(
                640.0,
                "derived: half of h, see above; how h splits is assumed",
            ),
            completion_ns: param(
                641.0,
                "derived: half of h, see above; how h splits is assumed",
            ),
            message_ns: param(47.85, RC_SWARM),
            small_bytes: param(136.0, RC_SWARM),
            large_bytes: param(392.0, RC_SWARM),
            // 6.5 M READs/s of 392 B: 153.8 ns a READ, of which the request takes one small pass.
            large_message_ns: param(106.0, RC_SWARM),
            // 56 Gb/s signalling, 64b/66b coding.
            link_bytes_per_ns: param(6.79, "published: FDR signalling rate of the testbed"),
            wire_ns: param(104.0, "derived: w / 2 less the switch, see above"),
            switch_ns: param(199.8, "assumed: share of the switch in w / 2"),
            loopback_ns: param(0.0, "assumed: the engines' passes without wire and switch"),
            // 2.24 us for 64 B against 2.22 us for 8 B.
            read_byte_ns: param(0.357, NURDMA),
            pcie_read_ns: param(140.0, NURDMA),
            atomic_unit_ns: param(361.0, NURDMA),
            atomic_address_ns: param(
                361.0,
                "measured on 8 words, same source; assumed equal on one word",
            ),
            atomics_per_qp: param(1, NURDMA),
            atomics_block: param(false, "assumed"),
            qp_cache: param(
                &[
                    (48, 10.45),
                    (88, 6.9),
                    (144, 3.0),
                    (176, 2.4),
                    (240, 1.95),
                    (264, 1.85),
                    (792, 1.15),
                ],
                RC_SWARM,
            ),
            qp_window_ns: param(
                4e6,
                "assumed: tens of thousands of messages, many times the table's largest cache",
            ),
            qp_cache_on: true,
            qp_miss_charge: param(MissCharge::Chain, "assumed"),
            cpu_hit_ns: param(1.5, "assumed: L1/L2 hit"),
            cpu_transfer_ns: param(100.0, "assumed: line transfer between cores"),
            cpu_memory_ns: param(60.0, "published: Fusa, one memory access"),
            cpu_stream_line_ns: param(8.0, "assumed: 8 GB/s sequential read of one core"),
            cpu_fence_ns: param(8.0, "assumed: about 20 cycles"),
        }
    }

    /// Nanoseconds that a message with `bytes` of payload holds an engine, with queue-pair state cached.
    pub fn engine_ns(&self, bytes: f64) -> f64 {
        let (small, large) = (self.small_bytes.value, self.large_bytes.value);
        let engine = if bytes <= small {
            self.message_ns.value
        } else if bytes <= large {
            let share = (bytes - small) / (large - small);
            self.message_ns.value + share * (self.large_message_ns.value - self.message_ns.value)
        } else {
            self.large_message_ns.value + (bytes - large) / self.link_bytes_per_ns.value
        };
        engine.max(bytes / self.link_bytes_per_ns.value)
    }

    /// Nanoseconds that a miss of queue-pair state adds to an engine's pass, on average over hits and misses,
    /// with `active` queue pairs on the RNIC.
    ///
    /// The table's READ costs 1/rate of which both engines see two passes; the excess over the first row is
    /// spread evenly over them (assumed), and interpolated linearly in time between rows.
    pub fn qp_miss_ns(&self, active: u32) -> f64 {
        let table = self.qp_cache.value;
        let (Some(first), Some(last)) = (table.first(), table.last()) else {
            return 0.0;
        };
        if !self.qp_cache_on || active <= first.0 {
            return 0.0;
        }
        let read_ns = |rate: f64| 1000.0 / rate;
        let at =
            table
                .windows(2)
                .find(|rows| active <= rows[1].0)
                .map_or(read_ns(last.1), |rows| {
                    let share = f64::from(active - rows[0].0) / f64::from(rows[1].0 - rows[0].0);
                    read_ns(rows[0].1) + share * (read_ns(rows[1].1) - read_ns(rows[0].1))
                });
        (at - read_ns(first.1)) / 2.0
    }

    /// Every parameter in words: name, value, source.
    pub fn rows(&self) -> Vec<(&'static str, String, &'static str)> {
        fn row<T: fmt::Debug>(
            name: &'static str,
            param: &Param<T>,
        ) -> (&'static str, String, &'static str) {
            (name, format!("{:?}", param.value), param.source)
        }
        vec![
            row("post_ns", &self.post_ns),
            row("completion_ns", &self.completion_ns),
            row("message_ns", &self.message_ns),
            row("small_bytes", &self.small_bytes),
            row("large_bytes", &self.large_bytes),
            row("large_message_ns", &self.large_message_ns),
            row("link_bytes_per_ns", &self.link_bytes_per_ns),
            row("wire_ns", &self.wire_ns),
            row("switch_ns", &self.switch_ns),
            row("loopback_ns", &self.loopback_ns),
            row("read_byte_ns", &self.read_byte_ns),
            row("pcie_read_ns", &self.pcie_read_ns),
            row("atomic_unit_ns", &self.atomic_unit_ns),
            row("atomic_address_ns", &self.atomic_address_ns),
            row("atomics_per_qp", &self.atomics_per_qp),
            row("atomics_block", &self.atomics_block),
            row("qp_cache", &self.qp_cache),
            row("qp_window_ns", &self.qp_window_ns),
            row("qp_miss_charge", &self.qp_miss_charge),
            row("cpu_hit_ns", &self.cpu_hit_ns),
            row("cpu_transfer_ns", &self.cpu_transfer_ns),
            row("cpu_memory_ns", &self.cpu_memory_ns),
            row("cpu_stream_line_ns", &self.cpu_stream_line_ns),
            row("cpu_fence_ns", &self.cpu_fence_ns),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_profiles_list_what_exists() {
        let error = Profile::by_name("cx9")
            .expect_err("no such profile")
            .to_string();
        assert!(
            error.contains("cx9") && error.contains("cx3-fdr"),
            "{error}"
        );
        for name in Profile::NAMES {
            assert_eq!(Profile::by_name(name).expect("listed").name, *name);
        }
    }

    #[test]
    fn engine_holds_grow_and_never_beat_the_link() {
        let profile = Profile::cx3_fdr();
        let mut before = 0.0;
        for bytes in 0..5000 {
            let hold = profile.engine_ns(f64::from(bytes));
            assert!(hold >= before && hold >= f64::from(bytes) / profile.link_bytes_per_ns.value);
            before = hold;
        }
    }

    #[test]
    fn queue_pair_misses_follow_the_table() {
        let mut profile = Profile::cx3_fdr();
        assert_eq!(profile.qp_miss_ns(48), 0.0);
        for (active, rate) in profile.qp_cache.value {
            let read_ns = 2.0 * (profile.message_ns.value + profile.qp_miss_ns(*active));
            assert!(
                (1000.0 / read_ns / rate - 1.0).abs() < 0.01,
                "{active} queue pairs: {read_ns} ns"
            );
        }
        assert_eq!(profile.qp_miss_ns(5000), profile.qp_miss_ns(792));
        profile.qp_cache_on = false;
        assert_eq!(profile.qp_miss_ns(792), 0.0);
    }
}
