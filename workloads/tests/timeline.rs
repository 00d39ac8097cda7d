//! `--timeline`: what is told over time is what happened.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::path::Path;

use common::{SMALL, dmtree, files, stderr, stdout};
use serde_json::Value;

/// Clients of [`SMALL`].
const CLIENTS: u64 = 6;
const LOCAL: u64 = 2;

/// Runs `bench` with a timeline; its lines by column, and the results as JSON.
#[track_caller]
fn bench(
    directory: &Path,
    args: &[&str],
) -> (Vec<std::collections::BTreeMap<String, String>>, Value) {
    let all = [
        &["bench", "--json", "-", "--timeline", "t.csv"][..],
        args,
        &SMALL,
    ]
    .concat();
    let output = dmtree(directory, &all);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut reader = csv::Reader::from_path(directory.join("t.csv")).unwrap();
    let lines = reader.deserialize().map(|line| line.unwrap()).collect();
    (lines, serde_json::from_str(&stdout(&output)).unwrap())
}

fn number(line: &std::collections::BTreeMap<String, String>, column: &str) -> u64 {
    line[column]
        .parse()
        .unwrap_or_else(|_| panic!("{column}: {line:?}"))
}

/// Lock waits of clients of node 0, or of the others, in the trace that begin, and that end, in the window.
fn traced(path: &Path, is_local: bool) -> (u64, u64) {
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let window = 1_000.0..5_000.0;
    let count = |phase: &str| {
        let events = whole["traceEvents"].as_array().unwrap().iter();
        events
            .filter(|event| event["cat"] == "lock-wait" && event["ph"] == phase)
            .filter(|event| (event["pid"] == 1) == is_local)
            .filter(|event| window.contains(&event["ts"].as_f64().unwrap()))
            .count() as u64
    };
    (count("B"), count("E"))
}

#[test]
fn totals_are_those_of_the_run_and_of_its_trace() {
    for (lock, path, distribution, has_tickets) in [
        ("farlock", "cpu", "zipf:0.99", true),
        ("farlock-g", "cpu", "zipf:2", true),
        ("sherman", "loopback", "zipf:2", false),
        ("alock", "loopback", "uniform", false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let args = [
            "--lock",
            lock,
            "--data-path",
            path,
            "--distribution",
            distribution,
            "--trace",
            "trace.json",
            "--trace-for",
            "4ms",
        ];
        let (lines, results) = bench(directory.path(), &args);
        assert_eq!(lines.len(), 500, "the default");
        for (class, index, clients) in [("local", 0, LOCAL), ("remote", 1, CLIENTS - LOCAL)] {
            let of = |line, what: &str| number(line, &format!("{what}_{class}"));
            let total = |what: &str| lines.iter().map(|line| of(line, what)).sum::<u64>();
            let (begun, granted) = traced(&directory.path().join("trace.json"), class == "local");
            assert!(granted > 100, "{lock}, {class}: {granted}");
            assert_eq!(
                (total("acquires"), total("grants")),
                (begun, granted),
                "{lock}, {class}"
            );
            // An update is one acquire; at both ends of the window a client may have begun one and not the other.
            let ops = results["runs"][index]["ops"].as_u64().unwrap();
            assert_eq!(results["runs"][index]["class"], class);
            assert!(
                ops.abs_diff(begun) <= clients,
                "{lock}, {class}: {ops} {begun}"
            );
            for pair in lines.windows(2) {
                let (before, now) = (&pair[0], &pair[1]);
                assert_eq!(before["to_us"], now["from_us"]);
                assert_eq!(
                    of(before, "waiting") + of(now, "acquires"),
                    of(now, "waiting") + of(now, "grants"),
                    "{lock}, {class}: {now:?}"
                );
                assert!(of(now, "waiting") + of(now, "holding") <= clients);
            }
            let tickets = format!("tickets_{class}");
            assert!(
                lines
                    .iter()
                    .all(|line| line[&tickets].is_empty() != has_tickets)
            );
            if lock == "farlock" {
                assert!(total("tickets").abs_diff(granted) <= clients, "one each");
                for line in &lines {
                    assert!(of(line, "with_ticket") <= of(line, "waiting"));
                }
            } else if lock == "farlock-g" {
                assert!(total("tickets") <= granted + clients, "one a group");
            }
        }
        for line in &lines {
            let waiting = number(line, "waiting_local") + number(line, "waiting_remote");
            let longest = number(line, "longest_queue");
            assert!(
                longest <= waiting && (longest > 0) == (waiting > 0),
                "{line:?}"
            );
        }
        let queues = lines.iter().any(|line| number(line, "longest_queue") > 2);
        assert_eq!(queues, distribution != "uniform", "{lock}");
    }
}

#[test]
fn one_seed_gives_the_same_bytes_and_a_timeline_changes_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let hostile = ["--hostile", "--jitter", "1us", "--timeline-every", "100us"];
    let read = || std::fs::read(directory.path().join("t.csv")).unwrap();
    let (lines, results) = bench(directory.path(), &hostile);
    assert_eq!(lines.len(), 40);
    let first = read();
    let (_, again) = bench(directory.path(), &hostile);
    assert_eq!(first, read());
    assert_eq!(results["runs"], again["runs"]);
    assert_eq!(results["config"], again["config"]);
    let plain = [&["bench", "--json", "-"][..], &hostile[..3], &SMALL].concat();
    let plain: Value = serde_json::from_str(&stdout(&dmtree(directory.path(), &plain))).unwrap();
    assert_eq!(plain["runs"], results["runs"]);
    assert_eq!(
        plain["config"], results["config"],
        "it is no setting of the run"
    );
    let seed = [&hostile[..], &["--seed", "2"]].concat();
    bench(directory.path(), &seed);
    assert_ne!(first, read());
}

#[test]
fn a_figure_is_drawn_where_the_name_asks_for_one() {
    let directory = tempfile::tempdir().unwrap();
    for (name, is_figure) in [
        ("t.svg", true),
        ("T.SVG", true),
        ("t", false),
        ("svg", false),
    ] {
        let args = [&["bench", "--timeline", name][..], &SMALL].concat();
        let output = dmtree(directory.path(), &args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("timeline: 500 intervals"),
            "{}",
            stderr(&output)
        );
        let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(text.starts_with("<svg"), is_figure, "{name}");
        assert_eq!(
            text.contains("Locks over time: farlock, uniform, loopback"),
            is_figure
        );
    }
    assert_eq!(files(directory.path()).len(), 4, "nothing else");
}

#[test]
fn a_failed_run_has_its_timeline_up_to_there() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "bench",
        "--timeline",
        "t.csv",
        "--wait-limit",
        "20us",
        "--distribution",
        "zipf:3",
        "--warmup",
        "0",
        "--lock",
        "sherman",
        "--seconds",
        "4ms",
        "--keys",
        "20k",
    ];
    let output = dmtree(directory.path(), &args);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("are in t.csv"),
        "{}",
        stderr(&output)
    );
    let text = std::fs::read_to_string(directory.path().join("t.csv")).unwrap();
    assert!((2..=500).contains(&text.lines().count()));
}

#[test]
fn the_printed_config_has_the_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "bench",
        "--timeline",
        "t.svg",
        "--seconds",
        "1",
        "--print-config",
    ];
    let text = stdout(&dmtree(directory.path(), &args));
    for line in ["timeline = \"t.svg\"", "timeline-every = \"2ms\""] {
        assert!(
            text.lines().any(|other| other == line),
            "{line} is not in {text}"
        );
    }
    std::fs::write(directory.path().join("run.toml"), &text).unwrap();
    let again = ["bench", "--config", "run.toml", "--print-config"];
    assert_eq!(stdout(&dmtree(directory.path(), &again)), text);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_the_timeline_and_not_the_results() {
    let directory = tempfile::tempdir().unwrap();
    let args = [&["bench", "--timeline", "/dev/full"][..], &SMALL].concat();
    let output = dmtree(directory.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/dev/full"), "{}", stderr(&output));
    assert!(stdout(&output).contains("farlock"), "the table is there");
}
