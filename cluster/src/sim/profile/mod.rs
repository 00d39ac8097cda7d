//! RNIC and CPU parameters of a simulated cluster, each with where its value comes from.
//!
//! Profiles are calibrated to published measurements of the hardware and never tuned to make a result of a
//! paper come true. What has no source says `assumed`. One file a profile.

mod cx3_fdr;
mod cx5_100g;
mod cx6_200g;
mod parameter;

pub use parameter::{MissCharge, Param, ParameterError, QpTable};

use parameter::{ANY, Bounds, NS, SOME_NS, Value};

/// What a parameter's source says once it was set by its name.
const GIVEN: &str = "given by the user";

/// Defines the parameters once: as fields, and by their names.
macro_rules! parameters {
    ($($(#[$meta:meta])* $name:ident: $type:ty = $bounds:expr,)+) => {
        /// The parameters of a simulated cluster's RNICs, links and CPUs. Times are in nanoseconds.
        ///
        /// A verb passes the send engine of the requester's RNIC, the switch, the receive engine of the target's
        /// RNIC, its PCIe, device memory or atomic unit, and the same engines on the way back.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Profile {
            /// Its name on the command line.
            pub name: &'static str,
            /// Whether the queue-pair cache is modelled at all.
            pub qp_cache_on: bool,
            $($(#[$meta])* pub $name: Param<$type>,)+
        }

        impl Profile {
            /// Names of the parameters.
            pub const PARAMETERS: &'static [&'static str] = &[$(stringify!($name)),+];

            /// Sets the parameter called `name` to the value that `text` says; its source then says so.
            ///
            /// Numbers are written plainly, switches as `on` and `off`, [`MissCharge`] as `chain` and `verb`,
            /// [`QpTable`] as it displays.
            ///
            /// # Errors
            /// When there is no such parameter (the message lists those that exist) or no such value (it says what
            /// would be right).
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParameterError> {
                match name {
                    $(stringify!($name) => {
                        let value = Value::read(text, $bounds).map_err(|expected| ParameterError::Value {
                            name: stringify!($name),
                            text: text.to_owned(),
                            expected,
                        })?;
                        self.$name = Param { value, source: GIVEN };
                    })+
                    _ => return Err(ParameterError::Unknown { name: name.to_owned() }),
                }
                Ok(())
            }

            /// Every parameter in words: name, value as [`Profile::set`] takes it, source.
            pub fn rows(&self) -> Vec<(&'static str, String, &'static str)> {
                vec![$((stringify!($name), Value::text(&self.$name.value), self.$name.source),)+]
            }
        }
    };
}

parameters! {
    /// From the post by the CPU to the start of the send engine: doorbell, work-queue entry fetch.
    post_ns: f64 = SOME_NS,
    /// From the response's arrival to the client's next step: completion entry, poll.
    completion_ns: f64 = SOME_NS,
    /// Time an engine is held by a message of up to `small_bytes`.
    message_ns: f64 = NS,
    /// Up to this payload, in bytes, a message holds an engine for `message_ns`.
    small_bytes: f64 = Bounds(0.0, 1e9),
    /// A larger payload at which the hold of an engine is known, in bytes.
    large_bytes: f64 = Bounds(0.0, 1e9),
    /// The hold at `large_bytes`; linear in between, at link bandwidth beyond.
    large_message_ns: f64 = NS,
    /// Bytes a nanosecond on the link, per direction.
    link_bytes_per_ns: f64 = Bounds(1e-2, 1e6),
    /// One direction between two RNICs, without the switch.
    wire_ns: f64 = NS,
    /// The switch, port to port.
    switch_ns: f64 = NS,
    /// One direction of a loopback verb between the RNIC's own engines.
    loopback_ns: f64 = NS,
    /// Latency a payload byte adds to a READ.
    read_byte_ns: f64 = NS,
    /// The part of a READ's or atomic's host memory access that its response waits for and that a WRITE's
    /// acknowledgement does not.
    pcie_read_ns: f64 = NS,
    /// READs of one line of host memory are this far apart; 0 for no limit.
    read_address_ns: f64 = NS,
    /// The atomic unit accepts one operation on host memory in this time, whatever the address.
    atomic_unit_ns: f64 = NS,
    /// CAS and swaps of one address in host memory are this far apart.
    atomic_address_ns: f64 = NS,
    /// An FAA keeps an address in host memory from other atomics for this long.
    faa_address_ns: f64 = NS,
    /// From when an atomic has its address in host memory to its response, if the address is not free earlier: an
    /// RNIC may answer before it has written back.
    atomic_response_ns: f64 = NS,
    /// Atomics of one queue pair in flight at a time.
    atomics_per_qp: u32 = Bounds(1.0, 65535.0),
    /// Atomics of one queue pair begin at least this far apart.
    atomic_qp_ns: f64 = NS,
    /// Whether the receive engine stands still while an atomic is executed.
    atomics_block: bool = ANY,
    /// Whether the RNIC has masked CAS, by which a swap is one verb. A simulation can do so without it; see
    /// [`SimConfig::swap`](super::SimConfig).
    masked_cas: bool = ANY,
    /// Bytes of device memory that a program can get of an RNIC; 0 for none.
    device_bytes: u32 = Bounds(0.0, 1073741824.0),
    /// As `pcie_read_ns`, of device memory.
    device_read_ns: f64 = NS,
    /// As `atomic_unit_ns`, on device memory. Neither waits for the other.
    device_unit_ns: f64 = NS,
    /// As `atomic_address_ns`, in device memory.
    device_address_ns: f64 = NS,
    /// As `faa_address_ns`, in device memory.
    device_faa_address_ns: f64 = NS,
    /// As `atomic_response_ns`, in device memory.
    device_response_ns: f64 = NS,
    /// Queue-pair state cache. Up to the first row nothing is missed.
    qp_cache: QpTable = ANY,
    /// A queue pair is active when it was used within this time: its state competes for the cache.
    qp_window_ns: f64 = Bounds(1.0, 1e12),
    /// What a miss is charged to.
    qp_miss_charge: MissCharge = ANY,
    /// CPU access to a line that is in the core's own cache.
    cpu_hit_ns: f64 = SOME_NS,
    /// CPU access to a line that another core has modified.
    cpu_transfer_ns: f64 = SOME_NS,
    /// CPU access to a line that no core has.
    cpu_memory_ns: f64 = SOME_NS,
    /// Each further line of a sequential access.
    cpu_stream_line_ns: f64 = NS,
    /// What a sequentially consistent store or a read-modify-write adds.
    cpu_fence_ns: f64 = NS,
}

/// A profile name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no profile is called {name:?}; there are {}", Profile::NAMES.join(", "))]
pub struct UnknownProfile {
    /// What was asked for.
    pub name: String,
}

impl Profile {
    /// The profiles that exist.
    pub const NAMES: &'static [&'static str] = &["cx3-fdr", "cx5-100g", "cx6-200g"];

    /// The profile called `name`.
    ///
    /// # Errors
    /// When there is none; the message lists those that exist.
    pub fn by_name(name: &str) -> Result<Self, UnknownProfile> {
        match name {
            "cx3-fdr" => Ok(Self::cx3_fdr()),
            "cx5-100g" => Ok(Self::cx5_100g()),
            "cx6-200g" => Ok(Self::cx6_200g()),
            _ => Err(UnknownProfile {
                name: name.to_owned(),
            }),
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
        let table = &self.qp_cache.value.0;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Profile> {
        Profile::NAMES
            .iter()
            .map(|name| Profile::by_name(name).expect("listed"))
    }

    #[test]
    fn unknown_profiles_list_what_exists() {
        let error = Profile::by_name("cx9")
            .expect_err("no such profile")
            .to_string();
        for known in ["cx9", "cx3-fdr", "cx5-100g", "cx6-200g"] {
            assert!(error.contains(known), "{error}");
        }
        for (profile, name) in all().zip(Profile::NAMES) {
            assert_eq!(profile.name, *name);
        }
    }

    #[test]
    fn every_parameter_has_a_source() {
        for profile in all() {
            for (name, _, source) in profile.rows() {
                let kinds = ["measured", "published", "derived", "assumed"];
                assert!(
                    kinds.iter().any(|kind| source.starts_with(kind)),
                    "{}: {name}: {source:?}",
                    profile.name
                );
            }
        }
    }

    #[test]
    fn every_parameter_can_be_set_by_its_name() {
        for profile in all() {
            // One profile becomes any other by its values in words, which are therefore exact and within bounds.
            let mut copy = Profile::cx3_fdr();
            copy.name = profile.name;
            for (name, value, _) in profile.rows() {
                copy.set(name, &value).expect(name);
            }
            let values = |profile: &Profile| {
                let rows = profile.rows().into_iter();
                rows.map(|(name, value, _)| (name, value))
                    .collect::<Vec<_>>()
            };
            assert_eq!(values(&copy), values(&profile));
            assert_eq!(copy.rows().len(), Profile::PARAMETERS.len());
            assert!(copy.rows().iter().all(|row| row.2 == GIVEN));
        }
    }

    #[test]
    fn what_cannot_be_set_is_left_as_it_is() {
        let mut profile = Profile::cx5_100g();
        let error = profile.set("wire", "5").expect_err("no such parameter");
        assert!(error.to_string().contains("wire_ns"), "{error}");
        for (name, text) in [
            ("wire_ns", "-1"),
            ("wire_ns", "nan"),
            ("wire_ns", "1e7"),
            ("cpu_hit_ns", "0"),
            ("link_bytes_per_ns", "0"),
            ("atomics_per_qp", "0"),
            ("device_bytes", "1.5"),
            ("atomics_block", "2"),
            ("qp_miss_charge", "all"),
            ("qp_cache", "48:0"),
            ("qp_cache", "48:10,40:5"),
            ("qp_cache", ""),
        ] {
            let error = profile.set(name, text).expect_err(text);
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(profile, Profile::cx5_100g());
        profile.set("qp_cache", "none").expect("a table");
        assert_eq!(profile.qp_miss_ns(u32::MAX), 0.0);
    }

    #[test]
    fn engine_holds_grow_and_never_beat_the_link() {
        for profile in all() {
            let mut before = 0.0;
            for bytes in 0..5000 {
                let hold = profile.engine_ns(f64::from(bytes));
                assert!(
                    hold >= before && hold >= f64::from(bytes) / profile.link_bytes_per_ns.value
                );
                before = hold;
            }
        }
    }

    #[test]
    fn queue_pair_misses_follow_the_table() {
        for mut profile in all() {
            let table = profile.qp_cache.value.0.clone();
            assert_eq!(profile.qp_miss_ns(table[0].0), 0.0);
            for (active, rate) in &table {
                let read_ns = 2.0 * (profile.message_ns.value + profile.qp_miss_ns(*active));
                assert!(
                    (1000.0 / read_ns / rate - 1.0).abs() < 0.01,
                    "{}, {active} queue pairs: {read_ns} ns",
                    profile.name
                );
            }
            let last = table[table.len() - 1].0;
            assert_eq!(profile.qp_miss_ns(50_000), profile.qp_miss_ns(last));
            profile.qp_cache_on = false;
            assert_eq!(profile.qp_miss_ns(last), 0.0);
        }
    }
}
