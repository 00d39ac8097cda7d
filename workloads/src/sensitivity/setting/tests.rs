//! What the flags of each setting change, and nothing else.

use std::collections::BTreeSet;

use super::*;
use crate::sensitivity::defaults;

fn study(flags: &[&str]) -> Vec<Setting> {
    let given = Flags::read(flags).unwrap();
    settings_of(&given.or(defaults())).unwrap()
}

/// What differs: options by name and value, parameters of the profile by `set:NAME`.
fn differences(setting: &Setting, base: &Settings) -> BTreeSet<String> {
    let object = |settings: &Settings| {
        let options = Options {
            set: Vec::new(),
            ..settings.options.clone()
        };
        let value = serde_json::to_value(options).unwrap();
        value.as_object().unwrap().clone()
    };
    let (ours, bases) = (object(&setting.settings), object(base));
    let mut found: BTreeSet<String> = ours
        .iter()
        .filter(|(name, value)| bases.get(*name) != Some(value))
        .map(|(name, value)| format!("{name}={}", value.to_string().trim_matches('"')))
        .collect();
    if setting.settings.profile.name == base.profile.name {
        let rows = setting.settings.profile.rows().into_iter();
        for (ours, bases) in rows.zip(base.profile.rows()) {
            if ours.1 != bases.1 {
                found.insert(format!("set:{}={}", ours.0, ours.1));
            }
        }
    }
    found
}

#[test]
fn each_setting_changes_exactly_what_its_name_says() {
    let settings = study(&[]);
    let base = &settings[0].settings;
    assert!(settings[0].is_base() && settings[0].name() == BASE);
    let expected: &[(&str, &[&str])] = &[
        // 20 % of 2220 ns, in proportion, over latencies of 2028.6 ns.
        (
            "round trip: −20 %",
            &[
                "set:post_ns=499.9",
                "set:completion_ns=500.7",
                "set:wire_ns=81.2",
                "set:switch_ns=156.1",
                "set:pcie_read_ns=109.4",
            ],
        ),
        (
            "round trip: +20 %",
            &[
                "set:post_ns=780.1",
                "set:completion_ns=781.3",
                "set:wire_ns=126.8",
                "set:switch_ns=243.5",
                "set:pcie_read_ns=170.6",
            ],
        ),
        (
            "round trip: −20 % by the wire",
            &["set:wire_ns=28", "set:switch_ns=53.8"],
        ),
        (
            "round trip: +20 % by the wire",
            &["set:wire_ns=180", "set:switch_ns=345.8"],
        ),
        ("local page data: by cpu", &["data-path=cpu"]),
        ("loopback: as the network", &["set:loopback_ns=303.8"]),
        ("loopback: 1 µs each way", &["set:loopback_ns=1000"]),
        ("queue-pair cache: off", &["qp-cache=false"]),
        (
            "queue-pair cache: twice as large",
            &["set:qp_cache=96:10.45,176:6.9,288:3,352:2.4,480:1.95,528:1.85,1584:1.15"],
        ),
        (
            "queue-pair cache: a miss each verb",
            &["set:qp_miss_charge=verb"],
        ),
        ("atomics block other verbs: on", &["set:atomics_block=on"]),
        (
            "atomics on host memory: 1.8 M/s",
            &[
                "set:atomic_unit_ns=555.6",
                "set:atomic_address_ns=555.6",
                "set:faa_address_ns=555.6",
                "set:atomic_response_ns=555.6",
            ],
        ),
        (
            "atomics on host memory: 5 M/s",
            &[
                "set:atomic_unit_ns=200",
                "set:atomic_address_ns=200",
                "set:faa_address_ns=200",
                "set:atomic_response_ns=200",
            ],
        ),
        (
            "atomics on host memory: 10 M/s",
            &[
                "set:atomic_unit_ns=100",
                "set:atomic_address_ns=100",
                "set:faa_address_ns=100",
                "set:atomic_response_ns=100",
            ],
        ),
        ("remote swap: one verb", &["swap=native"]),
        ("lock-table slots: 1Ki", &["lock-count=1024"]),
        ("lock-table slots: 8Ki", &["lock-count=8192"]),
        ("lock-table slots: 256Ki", &["lock-count=262144"]),
        ("lock-table slots: 1Mi", &["lock-count=1048576"]),
        ("Sherman's hand-over limit: 8", &["handover-limit=8"]),
        ("Sherman's hand-over limit: none", &["handover-limit=none"]),
        ("keys: 8M", &["keys=8000000"]),
        ("keys: 80M", &["keys=80000000"]),
        ("threads a node: 4", &["threads=4"]),
        ("threads a node: 8", &["threads=8"]),
        ("threads a node: 16", &["threads=16"]),
        ("coroutines a thread: 2", &["coroutines=2"]),
        ("coroutines a thread: 4", &["coroutines=4"]),
        ("nodes: 5", &["nodes=5"]),
        ("nodes: 20", &["nodes=20"]),
        ("search of a page: 1 µs", &["search-time=1us"]),
        ("search of a page: 5 µs", &["search-time=5us"]),
        ("delay of messages: up to 1 µs", &["jitter=1us"]),
        ("RNIC: cx5-100g", &["profile=cx5-100g"]),
        (
            "RNIC: cx5-100g, 8Ki locks on it",
            &["profile=cx5-100g", "lock-count=8192", "lock-memory=device"],
        ),
        ("RNIC: cx6-200g", &["profile=cx6-200g"]),
        (
            "RNIC: cx6-200g, 16Ki locks on it",
            &["profile=cx6-200g", "lock-count=16384", "lock-memory=device"],
        ),
    ];
    let names: Vec<String> = settings[1..].iter().map(Setting::name).collect();
    let expected_names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected_names);
    for (setting, (name, changes)) in settings[1..].iter().zip(expected) {
        let changes: BTreeSet<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(differences(setting, base), changes, "{name}");
        let others = [&setting.settings.profile, &base.profile].map(|one| one.qp_cache_on);
        assert_eq!(others[0] != others[1], *name == "queue-pair cache: off");
    }
}

#[test]
fn the_base_is_what_flags_make_of_it() {
    let settings = study(&[
        "--threads",
        "4",
        "--profile",
        "cx5-100g",
        "--set",
        "atomics_block=on",
        "--qp-cache",
        "off",
    ]);
    let names: Vec<String> = settings.iter().map(Setting::name).collect();
    let has = |name: &str| names.iter().any(|other| other == name);
    for name in [
        "threads a node: 12",
        "atomics block other verbs: off",
        "queue-pair cache: on",
        "loopback: passes of the RNIC only",
        "RNIC: cx3-fdr",
        "RNIC: cx6-200g",
    ] {
        assert!(has(name), "{name} is not in {names:?}");
    }
    for name in [
        "threads a node: 4",
        "atomics block other verbs: on",
        "queue-pair cache: twice as large",
        "RNIC: cx5-100g",
    ] {
        assert!(!has(name), "{name} repeats the base");
    }
    for setting in &settings {
        let settings = &setting.settings;
        let is_threads = setting.parameter == "threads a node";
        assert_eq!(settings.threads == 4, !is_threads, "{}", setting.name());
    }
}

#[test]
fn lock_words_that_move_are_told() {
    let settings = study(&["--profile", "cx6-200g", "--lock-count", "16Ki"]);
    for setting in &settings {
        let moved = setting.settings.lock_memory != settings[0].settings.lock_memory;
        let told = setting.value.contains("in host memory");
        assert_eq!(moved, told, "{}", setting.name());
        assert_eq!(
            told,
            setting
                .flags
                .ends_with(&["--lock-memory".into(), "host".into()])
        );
    }
    let moved = settings
        .iter()
        .filter(|one| one.value.contains("in host memory"));
    assert!(moved.count() >= 3, "32Ki slots and more do not fit");
}

#[test]
fn a_base_with_a_single_key_has_no_setting_without_any() {
    let keys: Vec<u64> = study(&["--keys", "1"])
        .iter()
        .filter(|setting| setting.parameter == "keys")
        .map(|setting| setting.settings.keys)
        .collect();
    assert_eq!(keys, [8]);
}

#[test]
fn what_cannot_be_studied_is_refused() {
    let refused = |flags: &[&str], words: &[&str]| {
        let given = Flags::read(flags).unwrap();
        let error = settings_of(&given.or(defaults())).unwrap_err();
        for word in words {
            assert!(
                matches!(&error, Failure::Usage(text) if text.contains(word)),
                "{word:?} is not in {error}"
            );
        }
    };
    refused(
        &["--data-path", "both"],
        &["--data-path both", "cpu or loopback"],
    );
    // The base is possible, and not with a thousand times the slots.
    let flags = [
        "--profile",
        "cx5-100g",
        "--lock-count",
        "8192",
        "--lock-memory",
        "device",
    ];
    refused(
        &flags,
        &["lock-table slots: 32Ki (--lock-count 32Ki)", "64.0 KiB"],
    );
}
