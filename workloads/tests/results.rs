//! What the commands produce: the same bytes for the same seed, files that tools can read.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::path::Path;

use common::{SMALL, dmtree, files, stderr, stdout};
use serde_json::Value;

/// Runs `dmtree` and expects it to succeed.
#[track_caller]
fn done(directory: &Path, args: &[&str]) -> String {
    let output = dmtree(directory, args);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

/// The JSON of `dmtree ARGS… --json -`, without the wall-clock time.
fn json(args: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let text = done(directory.path(), &[args, &["--json", "-"]].concat());
    let mut json: Value = serde_json::from_str(&text).unwrap();
    let wall = json["simulator"]
        .as_object_mut()
        .unwrap()
        .remove("wall_s")
        .unwrap();
    assert!(wall.as_f64().unwrap() > 0.0);
    json
}

#[test]
fn one_seed_gives_one_result_and_another_another() {
    let args = [
        &[
            "bench",
            "--lock",
            "sherman,farlock,alock:20,5",
            "--distribution",
            "uniform,zipf:0.99",
        ][..],
        &["--data-path", "both", "--mix", "update:50,get:50"],
        &SMALL,
    ]
    .concat();
    let first = json(&args);
    assert_eq!(first, json(&args));
    let other = json(&[&args[..], &["--seed", "2"]].concat());
    for run in 0..first["runs"].as_array().unwrap().len() {
        assert_ne!(
            first["runs"][run]["latency_ns"], other["runs"][run]["latency_ns"],
            "run {run}"
        );
    }
    let jittered = json(&[&args[..], &["--jitter", "2us"]].concat());
    assert_eq!(jittered, json(&[&args[..], &["--jitter", "2us"]].concat()));
    assert_ne!(first["runs"], jittered["runs"]);
    let hostile = json(&[&args[..], &["--hostile"]].concat());
    assert_eq!(hostile, json(&[&args[..], &["--hostile"]].concat()));
    assert_ne!(first["runs"], hostile["runs"]);
}

#[test]
fn the_json_has_the_fields_of_its_schema() {
    let json = json(&[&["bench", "--lock", "alock:20,5"][..], &SMALL].concat());
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(&json),
        [
            "command",
            "config",
            "fabric",
            "profile",
            "runs",
            "schema",
            "simulator",
            "time",
            "version"
        ]
    );
    assert_eq!(
        (&json["schema"], &json["command"], &json["time"]),
        (&1.into(), &"bench".into(), &"virtual".into())
    );
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3, "a run has three classes");
    assert_eq!(
        keys(&runs[0]),
        [
            "class",
            "data_path",
            "distribution",
            "keys",
            "latency_ns",
            "lock",
            "lock_count",
            "lock_params",
            "mix",
            "nodes",
            "ops",
            "page_format",
            "seconds",
            "seed",
            "seeds",
            "threads",
            "throughput_ops_s",
            "warmup_s"
        ]
    );
    assert_eq!(runs[0]["lock"], "alock:20,5");
    assert_eq!(runs[0]["lock_params"]["local_budget"], 20);
    let ops = |class: usize| runs[class]["ops"].as_u64().unwrap();
    assert!(ops(0) > 0 && ops(1) > 0);
    assert_eq!(ops(0) + ops(1), ops(2), "all = local + remote");
    for run in runs {
        let ops = run["ops"].as_f64().unwrap();
        assert!((run["throughput_ops_s"].as_f64().unwrap() * 0.004 - ops).abs() < 1e-6);
        // Hundreds of operations: no P99.999.
        assert!(run["latency_ns"]["p50"].is_u64() && run["latency_ns"]["p99_999"].is_null());
    }
    // One node has no remote clients.
    let alone = self::json(&[&["bench"][..], &SMALL, &["--nodes", "1"]].concat());
    let classes: Vec<_> = alone["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["class"].clone())
        .collect();
    assert_eq!(classes, ["local", "all"]);
}

#[test]
fn figure_12_writes_everything_and_judges_the_claims() {
    let directory = tempfile::tempdir().unwrap();
    let text = done(directory.path(), &[&["figure", "12"][..], &SMALL].concat());
    for part in [
        "f12-local-uniform",
        "11–14×",
        "P99.999",
        "zipf:0.99",
        "verdict",
        "results/figure-12",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let out = directory.path().join("results/figure-12");
    let names = files(&out);
    for name in [
        "figure-12.json",
        "figure-12.csv",
        "figure-12-cpu.svg",
        "figure-12-loopback.svg",
    ] {
        assert!(
            names.iter().any(|other| other == name),
            "{name} is not in {names:?}"
        );
    }
    // 3 locks, 2 distributions, 2 data paths, 3 classes.
    assert_eq!(
        names.iter().filter(|name| name.ends_with(".hgrm")).count(),
        36
    );
    assert_eq!(names.len(), 40, "nothing else: {names:?}");

    let json: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("figure-12.json")).unwrap())
            .unwrap();
    let claims: Vec<_> = json["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| claim["id"].clone())
        .collect();
    let ids = [
        "f12-local-uniform",
        "f12-local-zipf",
        "f12-remote-uniform",
        "f12-remote-zipf",
        "f12-throughput",
    ];
    assert_eq!(claims, [ids, ids].concat(), "for each data path");
    assert_eq!(json["runs"].as_array().unwrap().len(), 36);
    let csv = std::fs::read_to_string(out.join("figure-12.csv")).unwrap();
    assert_eq!(csv.lines().count(), 37);

    for path in ["cpu", "loopback"] {
        let svg = std::fs::read_to_string(out.join(format!("figure-12-{path}.svg"))).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name("text"))
            .map(|node| node.text().unwrap_or_default().trim().to_owned())
            .collect();
        for label in [
            "uniform, local clients",
            "zipf:0.99, remote clients",
            "latency (µs, log scale)",
            "sherman",
            "P99.9",
        ] {
            assert!(
                texts.iter().any(|text| text == label),
                "{label} is not in {texts:?}"
            );
        }
        assert!(
            texts
                .iter()
                .any(|text| text.contains("3 nodes × 2 threads") && text.ends_with(path)),
            "{texts:?}"
        );
    }
}

#[test]
fn data_on_standard_output_is_alone_there() {
    let directory = tempfile::tempdir().unwrap();
    let output = dmtree(
        directory.path(),
        &[&["bench", "--csv", "-", "--json", "b.json"][..], &SMALL].concat(),
    );
    assert_eq!(stdout(&output).lines().count(), 4);
    assert!(stdout(&output).starts_with("command,"));
    assert!(stderr(&output).contains("P99.9"), "the table");
    assert_eq!(files(directory.path()), ["b.json"]);
}

#[test]
fn the_printed_config_gives_the_same_run() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        &[
            "bench",
            "--lock",
            "sherman,alock:20,5",
            "--handover-limit",
            "none",
            "--hostile",
        ][..],
        &SMALL,
    ]
    .concat();
    let config = done(directory.path(), &[&args[..], &["--print-config"]].concat());
    let file = directory.path().join("run.toml");
    std::fs::write(&file, &config).unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(
        done(
            directory.path(),
            &["bench", "--config", path, "--print-config"]
        ),
        config
    );
    assert_eq!(json(&["bench", "--config", path]), json(&args));
    // Flags win.
    let other = done(
        directory.path(),
        &[
            "bench",
            "--config",
            path,
            "--nodes",
            "2",
            "--hostile=off",
            "--print-config",
        ],
    );
    assert!(
        other.contains("nodes = 2\n") && other.contains("hostile = false\n"),
        "{other}"
    );
    assert!(
        config.contains("nodes = 3\n") && config.contains("hostile = true\n"),
        "{config}"
    );
    // A figure's defaults are its own, and what is not said in the file stays.
    let figure = done(
        directory.path(),
        &["figure", "12", "--quick", "--print-config"],
    );
    assert!(
        figure.contains("lock = \"sherman,farlock,alock\"\n"),
        "{figure}"
    );
    assert_eq!(
        files(directory.path()),
        ["run.toml"],
        "printing the config runs nothing"
    );
}

/// Ops of all clients of the first run, and Sherman's parameters there.
fn ops_and_params(json: &Value) -> (u64, Value) {
    let run = json["runs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|run| run["class"] == "all")
        .unwrap();
    (run["ops"].as_u64().unwrap(), run["lock_params"].clone())
}

#[test]
fn sherman_locks_lie_where_the_results_say() {
    let mut fastest = 0;
    for (profile, slots, asked, memory, note) in [
        (
            "cx3-fdr",
            "8192",
            "auto",
            "host",
            "cx3-fdr has no device memory",
        ),
        ("cx5-100g", "8192", "auto", "device", "64.0 KiB of 64.0 KiB"),
        ("cx5-100g", "8192", "host", "host", "in host memory"),
        (
            "cx5-100g",
            "8200",
            "auto",
            "host",
            "--lock-count 8192 would",
        ),
        (
            "cx6-200g",
            "16384",
            "device",
            "device",
            "128.0 KiB of 128.0 KiB",
        ),
    ] {
        let args = [
            &["bench", "--lock", "sherman", "--profile", profile][..],
            &["--lock-count", slots, "--lock-memory", asked],
            &SMALL,
        ]
        .concat();
        let json = json(&args);
        let (ops, params) = ops_and_params(&json);
        assert_eq!(json["profile"], profile);
        assert_eq!(params["memory"], memory, "{args:?}");
        let directory = tempfile::tempdir().unwrap();
        let text = done(directory.path(), &args);
        assert!(text.contains(note), "{note:?} is not in {text}");
        if memory == "device" {
            fastest = fastest.max(ops);
        } else {
            assert!(
                fastest == 0 || ops < fastest,
                "{args:?}: {ops} of {fastest}"
            );
        }
    }
    // Locks that CPUs share stay in host memory, beside Sherman's that does not.
    let args = [
        &[
            "bench",
            "--lock",
            "sherman,farlock",
            "--profile",
            "cx5-100g",
        ][..],
        &["--lock-memory", "device", "--lock-count", "8192"],
        &SMALL,
    ]
    .concat();
    assert!(ops_and_params(&json(&args)).0 > 0);
}

#[test]
fn parameters_of_the_profile_can_be_set() {
    let args = [&["bench", "--lock", "sherman"][..], &SMALL].concat();
    let (ops, _) = ops_and_params(&json(&args));
    let slow = [
        &args[..],
        &[
            "--set",
            "wire_ns=1",
            "--set",
            "loopback_ns=5000",
            "--set",
            "wire_ns=5000",
        ],
    ]
    .concat();
    let slowed = json(&slow);
    assert_eq!(
        slowed["config"]["set"],
        serde_json::json!(["loopback_ns=5000", "wire_ns=5000"]),
        "the last of a name counts"
    );
    // Each operation takes three round trips or more, of 10 us more each.
    assert!(ops_and_params(&slowed).0 * 3 < ops, "{ops} become {slowed}");
    // In a file as well; flags win name by name.
    let directory = tempfile::tempdir().unwrap();
    let config = done(directory.path(), &[&slow[..], &["--print-config"]].concat());
    assert!(
        config.contains("set = [\"loopback_ns=5000\", \"wire_ns=5000\"]\n"),
        "{config}"
    );
    let file = directory.path().join("run.toml");
    std::fs::write(&file, &config).unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(json(&["bench", "--config", path]), slowed);
    let other = json(&["bench", "--config", path, "--set", "wire_ns=104"]);
    assert_eq!(
        other["config"]["set"],
        serde_json::json!(["loopback_ns=5000", "wire_ns=104"])
    );
    let text = done(
        directory.path(),
        &["bench", "--config", path, "--swap", "native"],
    );
    for part in [
        ", native swap, loopback_ns=5000, wire_ns=5000",
        "native swaps are assumed: cx3-fdr has no masked CAS",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn inserts_tell_their_verbs_by_purpose_and_a_smaller_cache_costs_more() {
    let bench = |more: &[&str]| {
        let args = [
            &["bench", "--lock", "sherman", "--mix", "insert"][..],
            &["--nodes", "3", "--threads", "2", "--keys", "20k"],
            &["--seconds", "5ms", "--warmup", "1ms"],
            more,
        ];
        json(&args.concat())
    };
    let verbs = |json: &Value, name: &str| {
        let runs = json["runs"].as_array().unwrap();
        assert!(
            runs.iter()
                .all(|run| (run["class"] == "all") == run["verbs_per_insert"].is_object())
        );
        let all = runs.iter().find(|run| run["class"] == "all").unwrap();
        all["verbs_per_insert"][name].as_f64().unwrap()
    };
    let cached = bench(&[]);
    let parts = ["lock", "read", "write_back", "split", "stale_cache"];
    let sum: f64 = parts.iter().map(|part| verbs(&cached, part)).sum();
    assert!((sum - verbs(&cached, "total")).abs() < 1e-9);
    // An insert without a split is a CAS, a READ and three WRITEs.
    assert!((1.9..2.5).contains(&verbs(&cached, "lock")), "{cached}");
    assert!((5.0..8.0).contains(&verbs(&cached, "total")), "{cached}");
    let uncached = bench(&["--cache-budget", "0", "--page-bytes", "128"]);
    let small_pages = bench(&["--page-bytes", "128"]);
    assert!(
        verbs(&uncached, "stale_cache") > verbs(&small_pages, "stale_cache") + 1.0,
        "{uncached} {small_pages}"
    );
    // Fewer WRITEs, in entries of 18 bytes.
    let directory = tempfile::tempdir().unwrap();
    let not_default = ["--page-bytes", "128", "--cache-budget", "3000"];
    let args = [
        &["bench", "--page-format", "sherman"][..],
        &not_default,
        &SMALL,
    ];
    let text = done(directory.path(), &args.concat());
    let heading = text.lines().next().unwrap();
    for part in ["pages of 128 bytes", "Sherman's page format", "2.9 KiB"] {
        assert!(heading.contains(part), "{part} is not in {heading}");
    }
    let shermans = bench(&["--page-format", "sherman"]);
    assert!(verbs(&shermans, "write_back") < verbs(&cached, "write_back") - 0.5);
    assert_eq!(shermans["runs"][0]["page_format"], "sherman");
    // Updates insert nothing.
    let updates = json(&[&["bench", "--lock", "sherman"][..], &SMALL].concat());
    assert!(updates["runs"][2].get("verbs_per_insert").is_none());
}

#[test]
fn verification_is_told_and_changes_no_result() {
    for mix in ["update", "update:40,insert:40,get:20"] {
        let args = [
            &["bench", "--lock", "sherman,farlock", "--mix", mix][..],
            &["--data-path", "both", "--jitter", "1us"],
            &SMALL,
        ]
        .concat();
        let plain = json(&args);
        let mut verified = json(&[&args[..], &["--verify", "on"]].concat());
        for run in verified["runs"].as_array_mut().unwrap() {
            let is_all = run["class"] == "all";
            let told = run.as_object_mut().unwrap().remove("verified");
            assert_eq!(told.is_some(), is_all);
            let Some(told) = told else { continue };
            let added = run["verbs_per_insert"]["added"].as_u64().unwrap_or(0);
            assert_eq!(told["keys"].as_u64(), Some(20_000 + added));
            let ops = run["ops"].as_u64().unwrap();
            assert!((1..2 * ops).contains(&told["written"].as_u64().unwrap()));
            // 20,000 keys, 48 a leaf; an inner page for each of 48 leaves, in three caches.
            assert!(told["pages"].as_u64().unwrap() >= 417 + 9, "{told}");
            assert!(told["cached"].as_u64().unwrap() >= 3 * 9, "{told}");
        }
        assert_eq!(verified, plain);
    }
    let directory = tempfile::tempdir().unwrap();
    let args = [&["bench", "--verify", "on"][..], &SMALL].concat();
    let text = done(directory.path(), &args);
    assert!(text.contains("verified 20000 keys ("), "{text}");
    let config = done(directory.path(), &[&args[..], &["--print-config"]].concat());
    assert!(config.contains("\nverify = true\n"), "{config}");
}
