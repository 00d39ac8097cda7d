//! What people expect of the program and of what it says.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use common::{SMALL, dmtree, files, stderr, stdout};
use serde_json::Value;

#[test]
fn verify_needs_no_value() {
    let directory = tempfile::tempdir().unwrap();
    for (args, verified) in [
        (&["bench", "--verify"][..], true),
        (&["bench", "--verify", "on"], true),
        (&["bench", "--verify=on"], true),
        (&["bench", "--verify", "off"], false),
    ] {
        let output = dmtree(directory.path(), &[args, &SMALL].concat());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        assert_eq!(
            stdout(&output).contains("verified 20000 keys"),
            verified,
            "{args:?}"
        );
    }
}

/// Runs that fail, in different ways, with nothing wrong but the page format.
#[test]
fn a_failure_of_shermans_format_is_told_to_be_expected() {
    let directory = tempfile::tempdir().unwrap();
    let common = [
        "bench",
        "--hostile",
        "--keys",
        "100",
        "--lock-count",
        "64",
        "--nodes",
        "10",
        "--threads",
        "6",
        "--seconds",
        "2ms",
        "--warmup",
        "0",
    ];
    for (more, what) in [
        (&["--mix", "insert", "--data-path", "cpu"][..], "is damaged"),
        (
            &["--mix", "get:80,insert:20", "--jitter", "1us"],
            "is not found",
        ),
    ] {
        let args = [&common[..], more, &["--page-format", "sherman"]].concat();
        let output = dmtree(directory.path(), &args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        for part in [
            what,
            "--page-format sherman is unsound",
            "--page-format sequence is sound",
        ] {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
        let sound = dmtree(directory.path(), &[&common[..], more].concat());
        assert_eq!(sound.status.code(), Some(0), "{}", stderr(&sound));
    }
    // What has nothing to do with the format is not put on it.
    let limit = [
        &common[..],
        &["--page-format", "sherman", "--wait-limit", "1us"],
    ]
    .concat();
    let output = dmtree(directory.path(), &limit);
    assert_eq!(output.status.code(), Some(1));
    assert!(!stderr(&output).contains("unsound"), "{}", stderr(&output));
}

#[test]
fn a_run_that_measures_nothing_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let nothing = "nothing was measured";
    let args = [
        "bench",
        "--keys",
        "1k",
        "--seconds",
        "1ns",
        "--warmup",
        "1ms",
        "--lock",
        "farlock,sherman",
    ];
    let output = dmtree(directory.path(), &args);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stdout(&output).matches(nothing).count(),
        2,
        "{}",
        stdout(&output)
    );
    assert!(stdout(&output).contains("--seconds"));
    // Where standard output is for data it is on the other one.
    let output = dmtree(directory.path(), &[&args[..], &["--json", "-"]].concat());
    assert_eq!(
        stderr(&output).matches(nothing).count(),
        2,
        "{}",
        stderr(&output)
    );
    let output = dmtree(directory.path(), &[&["bench"][..], &SMALL].concat());
    assert!(!stdout(&output).contains(nothing));
}

#[test]
fn a_figure_without_claims_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let figure = [&["figure", "12", "--out", "r"][..], &SMALL].concat();
    let output = dmtree(directory.path(), &[&figure[..], &["--mix", "get"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("no claim is judged") && text.contains("--mix get"),
        "{text}"
    );
    let output = dmtree(directory.path(), &figure);
    assert!(!stdout(&output).contains("no claim is judged"));
}

#[test]
fn device_memory_is_refused_to_locks_that_cannot_use_it() {
    let directory = tempfile::tempdir().unwrap();
    for profile in ["cx3-fdr", "cx6-200g"] {
        for lock in ["farlock", "alock,farlock-g"] {
            let args = [
                "bench",
                "--profile",
                profile,
                "--lock",
                lock,
                "--lock-memory",
                "device",
            ];
            let output = dmtree(directory.path(), &[&args[..], &SMALL].concat());
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{message}");
            for part in ["--lock-memory device", "sherman", lock] {
                assert!(message.contains(part), "{part} is not in {message}");
            }
        }
    }
}

#[test]
fn directories_of_all_outputs_are_made() {
    let directory = tempfile::tempdir().unwrap();
    for (flag, name) in [
        ("--json", "a/b/r.json"),
        ("--csv", "c/r.csv"),
        ("--trace", "d/t.json"),
        ("--timeline", "e/t.svg"),
        ("--out", "f/g"),
    ] {
        let output = dmtree(
            directory.path(),
            &[&["bench", flag, name][..], &SMALL].concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(directory.path().join(name).exists(), "{name}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_run_left_is_gone_after_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "bench",
        "--trace",
        "t.json",
        "--trace-from",
        "0",
        "--trace-for",
        "100",
    ];
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_dmtree"))
        .args(args)
        .args(["--keys", "1k", "--seconds", "100", "--csv", "r.csv"])
        .current_dir(directory.path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let part = |names: &[String]| names.iter().any(|name| name.ends_with(".part"));
    while !part(&files(directory.path())) {
        assert!(child.try_wait().unwrap().is_none(), "it has not ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // While it lives its part is left alone.
    let next = [&["bench", "--trace", "t.json"][..], &SMALL].concat();
    assert_eq!(dmtree(directory.path(), &next).status.code(), Some(0));
    assert_eq!(
        files(directory.path()).len(),
        2,
        "{:?}",
        files(directory.path())
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(part(&files(directory.path())));
    assert_eq!(dmtree(directory.path(), &next).status.code(), Some(0));
    assert_eq!(files(directory.path()), ["t.json"]);
}

#[test]
fn csv_and_json_have_all_that_can_change_a_result() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "bench",
        "--json",
        "r.json",
        "--csv",
        "r.csv",
        "--hostile",
        "--jitter",
        "2us",
        "--set",
        "wire_ns=5",
        "--set",
        "qp_cache=none",
        "--swap",
        "native",
        "--cache-budget",
        "4Mi",
        "--coroutines",
        "2",
        "--fill",
        "0.7",
        "--page-bytes",
        "512",
        "--mix",
        "insert",
        "--page-format",
        "sequence",
        "--qp-cache",
        "off",
    ];
    let output = dmtree(directory.path(), &[&args[..], &SMALL].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json = std::fs::read_to_string(directory.path().join("r.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["config"]["lock-memory"], "auto");
    let mut reader = csv::Reader::from_path(directory.path().join("r.csv")).unwrap();
    let lines: Vec<std::collections::BTreeMap<String, String>> =
        reader.deserialize().map(|line| line.unwrap()).collect();
    let all = lines.iter().find(|line| line["class"] == "all").unwrap();
    for (column, value) in [
        ("hostile", "on"),
        ("jitter", "2us"),
        ("set", "wire_ns=5 qp_cache=none"),
        ("swap", "native"),
        ("cache_budget", "4194304"),
        ("coroutines", "2"),
        ("fill", "0.7"),
        ("page_bytes", "512"),
        ("page_format", "sequence"),
        ("qp_cache", "off"),
        ("lock_memory", "auto"),
    ] {
        assert_eq!(all[column], value, "{column}");
    }
    let verbs = json["runs"][2]["verbs_per_insert"]["total"]
        .as_f64()
        .unwrap();
    assert_eq!(all["verbs_per_insert"].parse::<f64>().unwrap(), verbs);
}
