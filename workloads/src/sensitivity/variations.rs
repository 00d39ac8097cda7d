//! What is varied, each parameter alone, in the flags of `bench`.

use dmtree_cluster::sim::{MissCharge, Profile, QpTable};
use dmtree_lock::DataPath;

use crate::figures::round_trip::{plain, scaled, scaled_by_wire};
use crate::settings::Settings;
use crate::settings::choice::path_name;
use crate::settings::quantity::Count;

/// A change of one parameter of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variation {
    /// The parameter, in words.
    pub(super) parameter: &'static str,
    /// Its value, in words.
    pub(super) value: String,
    /// The flags that make it so.
    pub(super) flags: Vec<String>,
}

/// Collects variations.
#[derive(Default)]
struct List(Vec<Variation>);

impl List {
    /// One with these flags, separated by spaces.
    fn flag(&mut self, parameter: &'static str, value: impl Into<String>, flags: &str) {
        let flags = flags.split_whitespace().map(str::to_owned).collect();
        let value = value.into();
        self.0.push(Variation {
            parameter,
            value,
            flags,
        });
    }

    /// One that sets these parameters of the profile.
    fn set(&mut self, parameter: &'static str, value: impl Into<String>, items: &[String]) {
        let flags = items
            .iter()
            .map(|item| format!("--set {item}"))
            .collect::<Vec<_>>();
        self.flag(parameter, value, &flags.join(" "));
    }
}

/// All variations of `base`, those that change nothing of it among them, grouped by parameter.
pub(super) fn variations(base: &Settings) -> Vec<Variation> {
    let profile = &base.profile;
    let mut list = List::default();
    round_trip(&mut list, profile);
    for path in [DataPath::Cpu, DataPath::Loopback] {
        let name = path_name(path);
        list.flag(
            "local page data",
            format!("by {name}"),
            &format!("--data-path {name}"),
        );
    }
    loopback(&mut list, profile);
    queue_pair_cache(&mut list, profile);
    for on in ["on", "off"] {
        list.set(
            "atomics block other verbs",
            on,
            &[format!("atomics_block={on}")],
        );
    }
    for millions in [1.8, 5.0, 10.0] {
        atomic_rate(&mut list, profile, millions);
    }
    for (swap, words) in [("cas", "by a loop of CAS"), ("native", "one verb")] {
        list.flag("remote swap", words, &format!("--swap {swap}"));
    }
    for slots in ["1Ki", "8Ki", "32Ki", "256Ki", "1Mi"] {
        list.flag("lock-table slots", slots, &format!("--lock-count {slots}"));
    }
    for limit in ["4", "8", "none"] {
        list.flag(
            "Sherman's hand-over limit",
            limit,
            &format!("--handover-limit {limit}"),
        );
    }
    // 8 M and 80 M with the default of 10 M.
    for (numerator, denominator) in [(4, 5), (8, 1)] {
        let keys = (base.keys.saturating_mul(numerator) / denominator).max(1);
        list.flag("keys", Count(keys).short(), &format!("--keys {keys}"));
    }
    for threads in [4, 8, 12, 16] {
        list.flag(
            "threads a node",
            threads.to_string(),
            &format!("--threads {threads}"),
        );
    }
    for coroutines in [1, 2, 4] {
        list.flag(
            "coroutines a thread",
            coroutines.to_string(),
            &format!("--coroutines {coroutines}"),
        );
    }
    // The share of clients that are local.
    for nodes in [5, 10, 20] {
        list.flag("nodes", nodes.to_string(), &format!("--nodes {nodes}"));
    }
    // Up to the critical section of the paper's microbenchmark.
    for (time, words) in [("100ns", "0.1 µs"), ("1us", "1 µs"), ("5us", "5 µs")] {
        list.flag("search of a page", words, &format!("--search-time {time}"));
    }
    // A closed loop without any noise can fall into step.
    for (time, words) in [("0", "none"), ("1us", "up to 1 µs")] {
        list.flag("delay of messages", words, &format!("--jitter {time}"));
    }
    rnic(&mut list, profile);
    list.0
}

fn round_trip(list: &mut List, profile: &Profile) {
    for (factor, words) in [(0.8, "−20 %"), (1.2, "+20 %")] {
        if let Some(items) = scaled(profile, factor) {
            list.set("round trip", words, &items);
        }
    }
    for (factor, words) in [(0.8, "−20 % by the wire"), (1.2, "+20 % by the wire")] {
        if let Some(items) = scaled_by_wire(profile, factor) {
            list.set("round trip", words, &items);
        }
    }
}

/// Nobody has published it. From the RNIC's own passes alone to a microsecond each way.
fn loopback(list: &mut List, profile: &Profile) {
    let wire = profile.wire_ns.value + profile.switch_ns.value;
    for (ns, words) in [
        (0.0, "passes of the RNIC only"),
        (wire, "as the network"),
        (1000.0, "1 µs each way"),
    ] {
        let item = format!("loopback_ns={}", plain(ns));
        list.set("loopback", words, &[item]);
    }
}

fn queue_pair_cache(list: &mut List, profile: &Profile) {
    const PARAMETER: &str = "queue-pair cache";
    if !profile.qp_cache_on {
        // What it would be like has no effect.
        list.flag(PARAMETER, "on", "--qp-cache on");
        return;
    }
    list.flag(PARAMETER, "off", "--qp-cache off");
    let rows = &profile.qp_cache.value.0;
    let twice: Option<Vec<_>> = rows
        .iter()
        .map(|(active, rate)| Some((active.checked_mul(2)?, *rate)))
        .collect();
    if let Some(twice) = twice.filter(|rows| !rows.is_empty()) {
        let item = format!("qp_cache={}", QpTable(twice));
        list.set(PARAMETER, "twice as large", &[item]);
    }
    let (charge, words) = match profile.qp_miss_charge.value {
        MissCharge::Chain => ("verb", "a miss each verb"),
        MissCharge::Verb => ("chain", "a miss each chain"),
    };
    list.set(PARAMETER, words, &[format!("qp_miss_charge={charge}")]);
}

/// Millions of atomics a second that a node executes on host memory, whether on one word or on many. From those
/// measured on ConnectX-3 with more memory than the CPU's cache holds (efficient/rdma_bench) to those of device
/// memory of its successors.
fn atomic_rate(list: &mut List, profile: &Profile, millions: f64) {
    let service = 1000.0 / millions;
    // An RNIC that responds with the service's end goes on to do so; one that responds earlier keeps its share.
    let share = profile.atomic_response_ns.value / profile.atomic_address_ns.value;
    let response = if share.is_finite() {
        service * share.min(1.0)
    } else {
        service
    };
    let items = [
        ("atomic_unit_ns", service),
        ("atomic_address_ns", service),
        ("faa_address_ns", service),
        ("atomic_response_ns", response),
    ]
    .map(|(name, ns)| format!("{name}={}", plain(ns)));
    list.set("atomics on host memory", format!("{millions} M/s"), &items);
}

/// The other profiles, and each that has device memory with as many lock words as fit there.
fn rnic(list: &mut List, profile: &Profile) {
    const PARAMETER: &str = "RNIC";
    let others = Profile::NAMES.iter().filter(|name| **name != profile.name);
    for name in others {
        list.flag(PARAMETER, *name, &format!("--profile {name}"));
        let slots = match Profile::by_name(name) {
            Ok(other) => other.device_bytes.value / 8,
            Err(_) => 0,
        };
        if slots > 0 {
            list.flag(
                PARAMETER,
                format!("{name}, {}Ki locks on it", slots / 1024),
                &format!("--profile {name} --lock-count {slots} --lock-memory device"),
            );
        }
    }
}
