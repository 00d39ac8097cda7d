//! What can be set, by flag or by TOML file, under the same names.

pub mod backoff;
pub mod choice;
pub mod locks;
pub mod quantity;
pub(crate) mod switches;
pub mod value;

mod file;
pub(crate) mod flags;
mod names;
mod outputs;
mod overrides;
mod resolved;
mod subject;
mod timeline;
mod traced;

pub(crate) use file::parse_options;
pub use file::{config_text, read_config};

pub use names::ProfileName;
pub use overrides::{Override, OverrideError};
pub use resolved::Settings;
pub use subject::Subject;
pub use timeline::{TimelineFormat, TimelineWanted};
pub use traced::TraceWanted;

use backoff::BackoffChoice;
use choice::{DataPaths, Fabric, HandoverLimit, LockMemory, PageFormat, Swap, Switch};
use locks::{DistributionList, LockCounts, LockList};
use quantity::{PositiveTime, Time};
use value::{Bounded, Place, Share, from_toml, to_toml};

use crate::lock_bench::arrivals::Arrivals;
use crate::lock_bench::section::Section;
use crate::mix::Mix;

/// More keys than this are refused whatever the machine: values carry a counter of 40 bits.
pub const MAX_KEYS: u64 = 1 << 40;

/// Defines the options once: as flags, as TOML keys, and how two sets of them are laid over each
/// other.
macro_rules! options {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)+) => {
        /// Every option that a run has; those that were not given are none.
        #[derive(Clone, Debug, Default, PartialEq, clap::Args, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Options {
            $(
                $(#[$meta])*
                #[arg(long, allow_negative_numbers = true)]
                #[serde(
                    default,
                    deserialize_with = "from_toml",
                    serialize_with = "to_toml",
                    skip_serializing_if = "Option::is_none"
                )]
                pub $name: Option<$type>,
            )+
            /// Set a parameter of the profile, for example wire_ns=500 or atomics_block=on; may be
            /// repeated. A name that does not exist is answered with all names
            #[arg(long, value_name = "NAME=VALUE", allow_negative_numbers = true)]
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub set: Vec<Override>,
        }

        impl Options {
            /// These options; where one was not given, that of `other`.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self {
                    $($name: self.$name.or(other.$name),)+
                    set: Override::merge(other.set, self.set),
                }
            }
        }
    };
}

options! {
    /// Lock protocols, separated by commas: sherman, tas, ticket, mcs, alock, alock:LOCAL,REMOTE (budgets), farlock,
    /// farlock-g, farlock-g:LOCAL,REMOTE (group sizes); mcs and alock take :cas-release behind them, for a CAS with
    /// every release, as published
    #[arg(value_name = "LOCKS")]
    lock: LockList,
    /// Locks: of the tree, the slots of the lock table of a memory server; of lock-bench, all of them on node 0, and
    /// several numbers separated by commas are a run each
    #[arg(value_name = "N")]
    lock_count: LockCounts,
    /// Sherman: lock words in host memory, in the RNIC's device memory, or there if all of them fit: auto,
    /// host, device
    #[arg(value_name = "MEMORY")]
    lock_memory: LockMemory,
    /// What carries the verbs: sim, or tcp with dmtree cluster and dmtree node
    #[arg(value_name = "FABRIC")]
    fabric: Fabric,
    /// RNICs and CPUs of the simulated cluster: cx3-fdr, cx5-100g, cx6-200g
    #[arg(value_name = "PROFILE")]
    profile: ProfileName,
    /// Nodes of the cluster; node 0 is memory server and compute server, the others are compute
    /// servers
    #[arg(value_name = "N")]
    nodes: Bounded<1, { u16::MAX as u64 }>,
    /// Threads of a node
    #[arg(value_name = "N")]
    threads: Bounded<1, { u16::MAX as u64 }>,
    /// Coroutines of a thread, each a client
    #[arg(value_name = "N")]
    coroutines: Bounded<1, { u16::MAX as u64 }>,
    /// Keys loaded before the run, for example 10M; 0 for an empty tree, where all operations are inserts
    #[arg(value_name = "N")]
    keys: Bounded<0, MAX_KEYS>,
    /// Measured time of a run: seconds, or with a unit
    #[arg(value_name = "TIME")]
    seconds: PositiveTime,
    /// Time before the measured window: seconds, or with a unit
    #[arg(value_name = "TIME")]
    warmup: Time,
    /// Clients start within this time of each other, at random
    #[arg(value_name = "TIME")]
    stagger: Time,
    /// Request distributions, separated by commas: uniform, zipf:THETA
    #[arg(value_name = "DISTRIBUTIONS")]
    distribution: DistributionList,
    /// Operations and their shares: update, insert, get, or for example update:50,get:50
    #[arg(value_name = "MIX")]
    mix: Mix,
    /// Seed of all random numbers
    #[arg(value_name = "N")]
    seed: Bounded<0, { u64::MAX }>,
    /// Run with so many seeds, --seed and those after it, and pool the latencies of each run; how far the seeds lie
    /// apart is shown beside it
    #[arg(value_name = "N")]
    seeds: Bounded<1, 10_000>,
    /// Every verb is late by a random time up to this, for example 2us
    #[arg(value_name = "TIME")]
    jitter: Time,
    /// The simulated fabric takes every freedom that its contract leaves it
    #[arg(value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    hostile: Switch,
    /// Remote swaps by a loop of CAS, or native: cas, native
    #[arg(value_name = "KIND")]
    swap: Swap,
    /// Pauses between the attempts of a swap by CAS (all locks that queue) and of tas: none, or exp:MIN,MAX for random
    /// ones up to a bound that doubles from MIN to MAX, for example exp:2us,256us
    #[arg(value_name = "none|exp:MIN,MAX")]
    backoff: BackoffChoice,
    /// How clients on the memory server reach page data: cpu, loopback, both (a run of each)
    #[arg(value_name = "PATH")]
    data_path: DataPaths,
    /// How full the loaded leaves are, above 0 and at most 1
    #[arg(value_name = "SHARE")]
    fill: Share,
    /// Size of a page
    #[arg(value_name = "BYTES")]
    page_bytes: Bounded<1, { u32::MAX as u64 }>,
    /// Page format: sequence (sound), sherman (two-level versions as published: reads can be torn)
    #[arg(value_name = "FORMAT")]
    page_format: PageFormat,
    /// CPU time to search a page, within the critical section of an update, for example 100ns
    #[arg(value_name = "TIME")]
    search_time: Time,
    /// Sherman: hand-overs in a row within a compute server; none (or 65535 and more) for no limit
    #[arg(value_name = "N|none")]
    handover_limit: HandoverLimit,
    /// A wait longer than this fails the run
    #[arg(value_name = "TIME")]
    wait_limit: PositiveTime,
    /// Whether the index cache of every compute server is filled before the run
    #[arg(value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    prefill_cache: Switch,
    /// Bytes of the index cache of a compute server, for example 500Mi or 0; the tree's top two levels are kept in
    /// any case
    #[arg(value_name = "BYTES")]
    cache_budget: Bounded<0, { u64::MAX }>,
    /// Whether the RNIC's queue-pair cache and its misses are simulated
    #[arg(value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    qp_cache: Switch,
    /// Whether each run is verified in the end: the tree in memory, the value of every key, and the index caches,
    /// against what was acknowledged
    #[arg(value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    verify: Switch,
    /// Keep each finished run in the directory of --out, and take it from there instead of running it again when a
    /// later command of the same program wants the same run
    #[arg(value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    resume: Switch,
    /// Directory for all results: JSON, CSV, .hgrm, SVG
    #[arg(value_name = "DIR")]
    out: Place,
    /// Also write the results as JSON to this file; - is standard output
    #[arg(value_name = "FILE")]
    json: Place,
    /// Also write the results as CSV to this file; - is standard output
    #[arg(value_name = "FILE")]
    csv: Place,
    /// Write a trace of the run's verbs, lock waits and critical sections to this file, for Perfetto or
    /// chrome://tracing; of one run only
    #[arg(value_name = "FILE")]
    trace: Place,
    /// Where the traced part begins, from the beginning of the run [default: the measured window's beginning]
    #[arg(value_name = "TIME")]
    trace_from: Time,
    /// How long the traced part is [default: 1ms]
    #[arg(value_name = "TIME")]
    trace_for: PositiveTime,
    /// Write how many clients wait for locks and hold them, tickets and grants, over the measured time to this file:
    /// a figure if its name ends in .svg, else CSV; of one run only
    #[arg(value_name = "FILE")]
    timeline: Place,
    /// How often the timeline tells [default: 500 times]
    #[arg(value_name = "TIME")]
    timeline_every: PositiveTime,
    /// Critical sections of clients on the locks' node: a time, a range 5us..7.5us, exp:MEAN, or file:NAME with a time a
    /// line
    #[arg(value_name = "TIMES")]
    critical_section_local: Section,
    /// Critical sections of clients on all other nodes, in the same ways
    #[arg(value_name = "TIMES")]
    critical_section_remote: Section,
    /// Requests at given times instead of the closed loop: a file with TIME NODE THREAD LOCK a line, or
    /// burst:LOCAL,REMOTE for so many local requests at once and so many remote ones behind them; prints who was served
    /// when
    #[arg(value_name = "FILE|burst:LOCAL,REMOTE")]
    arrivals: Arrivals,
    /// Time between the local and the remote requests of a burst [default: 5us]
    #[arg(value_name = "TIME")]
    gap: Time,
    /// A smaller run, for a quick look: it changes defaults only
    #[arg(value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    quick: Switch,
    /// As large as the paper's: for figures; it changes defaults only
    #[arg(value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    paper: Switch,
}

/// What holds where neither a flag, nor the config file, nor the command says otherwise: the
/// FARLock paper's cluster (OSDI 2026, section 6) with fewer keys, one lock, and a short window.
pub fn default_options() -> Options {
    const NO_TIME: Time = Time::from_ns(0);
    let known = "every default is a value of its option";
    Options {
        lock: Some("farlock".parse().expect(known)),
        lock_count: Some(LockCounts(vec![dmtree_lock::DEFAULT_SLOTS])),
        lock_memory: Some(LockMemory::Auto),
        fabric: Some(Fabric::Sim),
        profile: Some("cx3-fdr".parse().expect(known)),
        nodes: Some(Bounded::new(10)),
        threads: Some(Bounded::new(12)),
        coroutines: Some(Bounded::new(1)),
        keys: Some(Bounded::new(10_000_000)),
        seconds: Some(PositiveTime::from_ns(500_000_000)),
        warmup: Some(Time::from_ns(50_000_000)),
        stagger: Some(Time::from_ns(1_000_000)),
        distribution: Some("uniform".parse().expect(known)),
        mix: Some(Mix::update()),
        seed: Some(Bounded::new(1)),
        seeds: Some(Bounded::new(1)),
        jitter: Some(NO_TIME),
        hostile: Some(Switch::Off),
        swap: Some(Swap::Cas),
        backoff: Some(BackoffChoice(dmtree_lock::Backoff::None)),
        data_path: Some(DataPaths::Loopback),
        fill: Some(Share::new(0.8)),
        page_bytes: Some(Bounded::new(dmtree_index::DEFAULT_PAGE_BYTES as u64)),
        page_format: Some(PageFormat::Sequence),
        search_time: Some(Time::from_ns(dmtree_index::tree::DEFAULT_SEARCH_NS)),
        handover_limit: Some(HandoverLimit(Some(4))),
        wait_limit: Some(PositiveTime::from_ns(10_000_000_000)),
        prefill_cache: Some(Switch::On),
        cache_budget: Some(Bounded::new(dmtree_index::DEFAULT_CACHE_BYTES as u64)),
        qp_cache: Some(Switch::On),
        verify: Some(Switch::Off),
        resume: Some(Switch::Off),
        out: None,
        json: None,
        csv: None,
        trace: None,
        trace_from: None,
        trace_for: None,
        timeline: None,
        timeline_every: None,
        critical_section_local: None,
        critical_section_remote: None,
        arrivals: None,
        gap: None,
        quick: Some(Switch::Off),
        paper: Some(Switch::Off),
        set: Vec::new(),
    }
}

/// What `--quick` changes of the defaults.
pub fn quick_options() -> Options {
    Options {
        keys: Some(Bounded::new(1_000_000)),
        seconds: Some(PositiveTime::from_ns(60_000_000)),
        warmup: Some(Time::from_ns(5_000_000)),
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Failure;

    #[test]
    fn given_options_win() {
        let given = Options {
            nodes: Some(Bounded::new(3)),
            ..Options::default()
        };
        let both = given.or(Options {
            nodes: Some(Bounded::new(4)),
            threads: Some(Bounded::new(5)),
            ..Options::default()
        });
        assert_eq!(both.nodes.map(Bounded::get), Some(3));
        assert_eq!(both.threads.map(Bounded::get), Some(5));
        assert_eq!(both.keys, None);
    }

    #[test]
    fn the_defaults_are_complete_and_survive_a_config_file() {
        let settings = Settings::of(Options::default()).unwrap();
        assert_eq!(settings.clients(), 120);
        let text = config_text(&settings.options).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dmtree.toml");
        std::fs::write(&file, text).unwrap();
        assert_eq!(read_config(&file).unwrap(), settings.options);
    }

    proptest::proptest! {
        /// Whatever can be given survives the config file that `--print-config` writes.
        #[test]
        fn any_options_survive_a_config_file(
            numbers in (1u64..65_536, 1u64..65_536, 1u64..=MAX_KEYS, proptest::prelude::any::<u64>()),
            times in (1u64..1_000_000_000_000_000, 0u64..1_000_000_000_000_000),
            fill in 0.001f64..=1.0,
            theta in 0f64..10.0,
            shares in (1u32..1_000, 1u32..1_000),
            limit in proptest::option::of(proptest::prelude::any::<u32>()),
            hostile in proptest::option::of(proptest::prelude::any::<bool>()),
            wire in proptest::option::of(0f64..1e6),
            pauses in proptest::option::of((1u64..1_000_000, 0u64..99_000_000)),
        ) {
            let options = Options {
                nodes: Some(Bounded::new(numbers.0)),
                threads: Some(Bounded::new(numbers.1)),
                keys: Some(Bounded::new(numbers.2)),
                seed: Some(Bounded::new(numbers.3)),
                seconds: Some(PositiveTime::from_ns(times.0)),
                jitter: Some(Time::from_ns(times.1)),
                fill: Some(Share::new(fill)),
                distribution: Some(format!("zipf:{theta},uniform").parse().unwrap()),
                mix: Some(format!("get:{},update:{}", shares.0, shares.1).parse().unwrap()),
                handover_limit: Some(HandoverLimit(limit)),
                hostile: hostile.map(Switch::from),
                backoff: pauses.map(|(min_ns, more)| {
                    BackoffChoice(dmtree_lock::Backoff::Exponential { min_ns, max_ns: min_ns + more })
                }),
                set: wire.map(|ns| format!("wire_ns={ns}").parse().unwrap()).into_iter().collect(),
                ..Options::default()
            };
            let text = config_text(&options).unwrap();
            proptest::prop_assert_eq!(file::parse_config(&text).unwrap(), options, "{}", text);
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let ten_ns = Some(Time::from_ns(10));
        let stagger = Options {
            warmup: ten_ns,
            stagger: Some(Time::from_ns(11)),
            ..Options::default()
        };
        let clients = Options {
            nodes: Some(Bounded::new(60_000)),
            threads: Some(Bounded::new(60_000)),
            ..Options::default()
        };
        let stdout = Options {
            json: Some("-".parse().unwrap()),
            csv: Some("-".parse().unwrap()),
            ..Options::default()
        };
        let one_file = Options {
            json: Some("results".parse().unwrap()),
            csv: Some("results".parse().unwrap()),
            ..Options::default()
        };
        let empty = Options {
            keys: Some(Bounded::new(0)),
            mix: Some("insert:99,get:1".parse().unwrap()),
            ..Options::default()
        };
        let late = Options {
            jitter: Some(Time::from_ns(1_000_000_000)),
            ..Options::default()
        };
        for (options, flag) in [
            (late, "--wait-limit 10s"),
            (empty, "--mix insert"),
            (stagger, "--stagger"),
            (clients, "--threads"),
            (stdout, "--csv"),
            (one_file, "--csv"),
        ] {
            let error = Settings::of(options).unwrap_err();
            assert!(
                matches!(&error, Failure::Usage(text) if text.contains(flag)),
                "{error}"
            );
        }
    }

    #[test]
    fn the_default_stagger_fits_into_the_warmup() {
        let settings = Settings::of(Options {
            warmup: Some(Time::from_ns(0)),
            ..Options::default()
        })
        .unwrap();
        assert_eq!(settings.stagger, std::time::Duration::ZERO);
    }
}
