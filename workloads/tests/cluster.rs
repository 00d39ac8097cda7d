//! Nodes as processes, over TCP: they run, they are told what is wrong, and they end when one of them does.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.
#![cfg(unix)]

mod common;

use std::fs::{self, File};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::cluster::{Bed, LONG, PATIENCE, Process, has_all, report, rows, signal};
use common::{dmtree, files, stderr, stdout};
use serde_json::Value;

/// What all runs here have: some tenths of a second.
const SHORT: &str = "threads = 1\nkeys = \"20k\"\nseconds = \"200ms\"\nwarmup = \"100ms\"\n";
#[test]
fn four_processes_run_every_lock_and_what_they_leave_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let output = dmtree(
        directory.path(),
        &[
            "cluster",
            "--local",
            "4",
            "--threads",
            "1",
            "--coroutines",
            "2",
            "--keys",
            "20k",
            "--seconds",
            "200ms",
            "--warmup",
            "100ms",
            "--lock",
            "sherman,alock,farlock,farlock-g,tas,ticket,mcs",
            "--distribution",
            "uniform,zipf:0.99",
            "--mix",
            "update:60,insert:40",
            "--verify",
            "on",
            "--json",
            "-",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["fabric"], "tcp");
    assert_eq!(report["time"], "wall");
    assert!(report.get("profile").is_none() && report.get("simulator").is_none());
    assert_eq!(rows(&report, "all").count(), 14);
    for row in rows(&report, "all") {
        assert!(row.get("partial").is_none(), "{row}");
        let verified = &row["verified"];
        assert!(verified["keys"].as_u64() >= Some(20_000), "{row}");
        assert!(verified["written"].as_u64() > Some(0), "{row}");
        assert!(verified["cached"].as_u64() > Some(0), "{row}");
    }
    for class in ["local", "remote"] {
        for row in rows(&report, class) {
            assert!(row["ops"].as_u64() > Some(0), "{row}");
        }
    }
}

#[test]
fn figure_12_is_run_by_processes() {
    let directory = tempfile::tempdir().unwrap();
    let output = dmtree(
        directory.path(),
        &[
            "cluster",
            "--local",
            "2",
            "--figure",
            "12",
            "--threads",
            "1",
            "--keys",
            "20k",
            "--seconds",
            "100ms",
            "--warmup",
            "50ms",
            "--out",
            "f12",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    has_all(&stdout(&output), &["over TCP", "f12-local-uniform"]);
    let names = files(&directory.path().join("f12"));
    for extension in [".svg", ".json", ".csv"] {
        assert!(
            names.iter().any(|name| name.ends_with(extension)),
            "{names:?}"
        );
    }
}

#[test]
fn roles_in_any_order_and_a_run_after_the_next() {
    let bed = Bed::new(3, "\"memory\"", SHORT);
    let mut last = bed.begin("compute-server", 2, &[]);
    let mut middle = bed.begin("compute-server", 1, &[]);
    std::thread::sleep(Duration::from_millis(300));
    let mut memory = bed.begin("memory-server", 0, &["--runs", "2", "--json", "-"]);
    for process in [&mut last, &mut middle] {
        assert_eq!(process.end().0, Some(0), "{}", process.text("err"));
    }
    // It is there for those who come later, on memory of which nothing is left.
    let mut again: Vec<Process> = [1, 2]
        .into_iter()
        .map(|node| bed.begin("compute-server", node, &[]))
        .collect();
    for process in &mut again {
        assert_eq!(process.end().0, Some(0), "{}", process.text("err"));
    }
    assert_eq!(memory.end().0, Some(0), "{}", memory.text("err"));
    let text = memory.text("out");
    let reports: Vec<Value> = serde_json::Deserializer::from_str(&text)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(reports.len(), 2);
    for report in &reports {
        assert!(rows(report, "remote").all(|row| row["ops"].as_u64() > Some(0)));
        assert!(rows(report, "local").all(|row| row["ops"] == 0));
    }
}

#[test]
fn below_tls_a_run_is_like_any_other() {
    let bed = Bed::new(2, "\"memory\", \"compute\"", SHORT);
    let config = bed.path().join("cluster.toml");
    let plain = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        plain.replace("[cluster]\n", "[cluster]\ntls = true\n"),
    )
    .unwrap();
    for mut process in bed.begin_all(&["--verify", "on", "--json", "r.json"]) {
        assert_eq!(process.end().0, Some(0), "{}", process.text("err"));
    }
    let report = report(&bed);
    let row = rows(&report, "all").next().unwrap();
    assert!(row["verified"]["written"].as_u64() > Some(0), "{row}");
}

#[test]
fn a_memory_server_survives_a_client_that_died_with_locks() {
    let bed = Bed::new(2, "\"memory\"", LONG);
    let args = ["--lock", "farlock", "--peer-limit", "1s"];
    let mut memory = bed.begin("memory-server", 0, &[&args[..], &["--runs", "2"]].concat());
    let mut client = bed.begin("compute-server", 1, &args);
    client.work();
    client.signal("KILL");
    memory.wait_for("node 1 is gone");
    drop(client);
    let mut next = bed.begin("compute-server", 1, &args);
    next.work();
    next.signal("TERM");
    assert_eq!(next.end().0, Some(1));
    assert_eq!(memory.end().0, Some(1));
    let told = memory.text("out");
    // The second run measured something.
    let second = told.rsplit("Latency of").next().unwrap().to_owned();
    has_all(&second, &["node 1 was told to end", "partial results"]);
    assert!(!second.contains("nothing was measured"), "{second}");
}

#[test]
fn who_is_missing_is_told_by_all_others() {
    let bed = Bed::new(3, "\"memory\", \"compute\"", SHORT);
    let args = ["--patience", "1s"];
    let mut there = [bed.begin("node", 0, &args), bed.begin("node", 1, &args)];
    for process in &mut there {
        let (code, error) = process.end();
        assert_eq!(code, Some(1), "{error}");
        has_all(&error, &["missing", "node 2"]);
    }
    let mut alone = bed.begin("node", 1, &["--patience", "300ms"]);
    let (code, error) = alone.end();
    assert_eq!(code, Some(1));
    has_all(&error, &["node 0 is gone", "not reached within 300ms"]);
}

#[test]
fn who_is_configured_otherwise_is_refused_with_both_values() {
    let bed = Bed::new(2, "\"memory\", \"compute\"", SHORT);
    let patience = ["--patience", "2s"];
    let mut first = bed.begin("node", 0, &patience);
    let mut other = bed.begin("node", 1, &["--keys", "30k", "--patience", "2s"]);
    let (code, error) = other.end();
    assert_eq!(code, Some(2), "{error}");
    has_all(&error, &["node 0", "keys = 20000", "keys = 30000"]);
    let mut later = bed.begin("node", 1, &["--run", "7", "--patience", "2s"]);
    let (code, error) = later.end();
    assert_eq!(code, Some(2), "{error}");
    has_all(&error, &["run 1", "run 7"]);
    // Neither touched anything: the one that fits is let in.
    let mut right = bed.begin("node", 1, &patience);
    assert_eq!(right.end().0, Some(0), "{}", right.text("err"));
    assert_eq!(first.end().0, Some(0), "{}", first.text("err"));
}

#[test]
fn mistakes_are_told_before_anything_begins() {
    let bed = Bed::new(2, "\"memory\", \"compute\"", SHORT);
    let good = fs::read_to_string(bed.path().join("cluster.toml")).unwrap();
    let refused = |role: &str, text: &str, args: &[&str], words: &[&str]| {
        fs::write(bed.path().join("wrong.toml"), text).unwrap();
        let args = [&[role, "--config", "wrong.toml"], args].concat();
        let output = dmtree(bed.path(), &args);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        has_all(&stderr(&output), words);
    };
    let both = "\"memory\", \"compute\"";
    refused(
        "node",
        &good,
        &["--node", "2"],
        &["--node 2", "2 nodes", "0 to 1"],
    );
    refused(
        "memory-server",
        &good,
        &["--node", "0"],
        &["node 0", "dmtree node"],
    );
    refused(
        "memory-server",
        &good,
        &["--node", "1"],
        &["node 1", "roles"],
    );
    refused(
        "node",
        &good.replace(both, "\"compute\""),
        &["--node", "0"],
        &["wrong.toml", "no node has the role \"memory\""],
    );
    let address = good
        .lines()
        .find(|line| line.starts_with("address"))
        .unwrap();
    let second = good
        .lines()
        .rfind(|line| line.starts_with("address"))
        .unwrap();
    refused(
        "node",
        &good.replace(second, address),
        &["--node", "0"],
        &["wrong.toml", "nodes 0 and 1 have one address"],
    );
    refused(
        "node",
        &good.replace("keys =", "kays ="),
        &["--node", "0"],
        &["wrong.toml", "kays"],
    );
    refused(
        "node",
        &good.replace("roles = [\"compute\"]", "role = [\"compute\"]"),
        &["--node", "0"],
        &["wrong.toml:", "role", "roles"],
    );
    refused(
        "node",
        &good.replace("cluster.key", "no.key"),
        &["--node", "0"],
        &["key", "no.key"],
    );
    refused(
        "node",
        &good,
        &["--node", "0", "--jitter", "1us"],
        &["--jitter", "simulated"],
    );
    refused(
        "node",
        &good,
        &["--node", "0", "--lock", "mcs,tas"],
        &["one run", "--lock"],
    );
    // Somebody else is at its address.
    let port = address.split('"').nth(1).unwrap();
    let _taken = TcpListener::bind(port).unwrap();
    refused(
        "node",
        &good,
        &["--node", "0"],
        &["cannot listen at", port, "free"],
    );
}

/// Begins three nodes, breaks one a second after they have begun, and returns the others with how long they took.
fn broken(who: usize, by: &str) -> (Bed, Vec<Process>, Duration) {
    let bed = Bed::new(3, "\"memory\", \"compute\"", LONG);
    let mut processes = bed.begin_all(&["--peer-limit", "2s", "--json", "r.json"]);
    processes[0].work();
    processes[who].signal(by);
    let begun = Instant::now();
    for (node, process) in processes.iter_mut().enumerate() {
        if node != who {
            let (code, error) = process.end();
            assert_eq!(code, Some(1), "{error}");
            has_all(&error, &[&format!("node {who}")]);
        }
    }
    (bed, processes, begun.elapsed())
}

#[test]
fn a_compute_server_that_dies_ends_the_run_with_what_was_measured() {
    let (bed, _, took) = broken(2, "KILL");
    assert!(took < Duration::from_secs(30), "{took:?}");
    let report = report(&bed);
    let row = rows(&report, "all").next().unwrap();
    has_all(row["partial"].as_str().unwrap(), &["node 2"]);
    assert!(row["ops"].as_u64() > Some(0), "{row}");
    let seconds = row["seconds"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds < 60.0, "as long as it ran: {row}");
}

#[test]
fn a_compute_server_that_hangs_ends_the_run() {
    let (bed, mut processes, took) = broken(2, "STOP");
    assert!(took < Duration::from_secs(30), "{took:?}");
    let report = report(&bed);
    let row = rows(&report, "all").next().unwrap();
    has_all(row["partial"].as_str().unwrap(), &["node 2"]);
    assert!(row["ops"].as_u64() > Some(0), "{row}");
    // When it goes on it finds out that the others have ended.
    processes[2].signal("CONT");
    assert_eq!(processes[2].end().0, Some(1));
}

#[test]
fn the_memory_server_s_death_is_told_by_every_other_node() {
    for by in ["KILL", "STOP"] {
        let (_bed, processes, took) = broken(0, by);
        assert!(took < Duration::from_secs(30), "{took:?}");
        for process in &processes[1..] {
            has_all(&process.text("err"), &["node 0 is gone"]);
            // What its own clients have measured.
            has_all(&process.text("out"), &["partial results", "remote"]);
        }
    }
}

#[test]
fn a_signal_to_any_node_ends_the_run_cleanly() {
    for (who, by) in [(0, "INT"), (1, "TERM")] {
        let bed = Bed::new(2, "\"memory\", \"compute\"", LONG);
        let mut processes = bed.begin_all(&["--json", "r.json"]);
        processes[0].work();
        processes[who].signal(by);
        for process in &mut processes {
            let (code, error) = process.end();
            assert_eq!(code, Some(1), "{error}");
            has_all(&error, &[&format!("node {who} was told to end")]);
        }
        let report = report(&bed);
        for row in report["runs"].as_array().unwrap() {
            has_all(row["partial"].as_str().unwrap(), &["was told to end"]);
            assert!(row["ops"].as_u64() > Some(0), "{row}");
        }
    }
}

#[test]
fn a_signal_to_the_local_cluster_ends_all_of_it() {
    let directory = tempfile::tempdir().unwrap();
    for by in ["INT", "KILL"] {
        let mut cluster = Command::new(env!("CARGO_BIN_EXE_dmtree"))
            .args(["cluster", "--local", "2", "--threads", "1", "--keys", "20k"])
            .args(["--seconds", "300s", "--json", "r.json"])
            .current_dir(directory.path())
            .env("TMPDIR", directory.path())
            .env("RUST_LOG", "info")
            .stdout(Stdio::null())
            .stderr(File::create(directory.path().join("err")).unwrap())
            .spawn()
            .unwrap();
        let children = || {
            let path = format!("/proc/{0}/task/{0}/children", cluster.id());
            let text = fs::read_to_string(path).unwrap_or_default();
            let ids = text.split_whitespace();
            ids.map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
        };
        let begun = Instant::now();
        while fs::read_to_string(directory.path().join("err"))
            .unwrap()
            .matches("their clients begin")
            .count()
            < 2
        {
            assert!(begun.elapsed() < PATIENCE, "it does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(500));
        let nodes = children();
        assert_eq!(nodes.len(), 2);
        signal(cluster.id(), by);
        let begun = Instant::now();
        let status = cluster.wait().unwrap();
        let is_there = |id: &u32| {
            let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        while nodes.iter().any(is_there) {
            assert!(begun.elapsed() < PATIENCE, "nodes go on without {by}");
            std::thread::sleep(Duration::from_millis(10));
        }
        if by == "INT" {
            assert_eq!(status.code(), Some(1));
            let text = fs::read_to_string(directory.path().join("r.json")).unwrap();
            has_all(&text, &["was told to end", "partial"]);
        }
    }
}
