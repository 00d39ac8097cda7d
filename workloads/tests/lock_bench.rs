//! `dmtree lock-bench`: the program, from flags to results.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::path::Path;

use common::{dmtree, files, stderr, stdout};
use serde_json::Value;

/// A cluster on which all locks have far more than ten jobs a class.
const SMALL: [&str; 9] = [
    "lock-bench",
    "--nodes",
    "3",
    "--threads",
    "4",
    "--seconds",
    "4ms",
    "--warmup",
    "1ms",
];

const LOCKS: &str = "sherman,tas,ticket,mcs,mcs:cas-release,alock,alock:20,5,farlock,farlock-g";

/// The JSON of a run with these flags, which must go well.
#[track_caller]
fn json(args: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let output = dmtree(directory.path(), &[args, &["--json", "-"]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn small(more: &[&str]) -> Vec<Value> {
    runs(&json(&[&SMALL[..], more].concat()))
}

fn runs(report: &Value) -> Vec<Value> {
    report["runs"].as_array().unwrap().clone()
}

#[test]
fn every_lock_is_measured_at_every_number_of_locks() {
    let rows = small(&["--lock", LOCKS, "--lock-count", "1,10"]);
    assert_eq!(rows.len(), 9 * 2 * 3);
    for row in &rows {
        let grants = row["fairness"]["grants"].as_u64().unwrap();
        assert_eq!(
            grants,
            row["ops"].as_u64().unwrap(),
            "every counted job has its grant: {row}"
        );
        for absent in [
            "distribution",
            "mix",
            "keys",
            "page_format",
            "data_path",
            "verified",
            "order",
        ] {
            assert!(
                row.get(absent).is_none(),
                "{absent} is about something else"
            );
        }
        assert_eq!(row["critical_section_local"], "115ns");
        assert_eq!(row["critical_section_remote"], "5.769us");
        let is_all = row["class"] == "all";
        assert_eq!(row["fairness"].get("hand_overs").is_some(), is_all);
        if is_all {
            let hand_overs = row["fairness"]["hand_overs"].as_object().unwrap();
            let sum = |field: &str| -> f64 {
                hand_overs
                    .values()
                    .map(|of| of[field].as_f64().unwrap())
                    .sum()
            };
            // The first grant of a lock is handed over by nobody.
            assert!((sum("count") - grants as f64).abs() <= row["lock_count"].as_f64().unwrap());
            assert!((sum("share") - 1.0).abs() < 1e-9);
        }
    }
    let row = |lock: &str, count: u64, class: &str| -> &Value {
        let mut found = rows.iter().filter(|row| {
            row["lock"] == lock && row["lock_count"] == count && row["class"] == class
        });
        found.next().unwrap()
    };
    // Budgets bound the runs of a cohort that another one waits behind.
    assert!(
        row("alock:20,5", 1, "local")["fairness"]["longest_run"]
            .as_u64()
            .unwrap()
            <= 20
    );
    assert!(
        row("alock", 1, "local")["fairness"]["longest_run"]
            .as_u64()
            .unwrap()
            <= 2
    );
    // What the paper's Figure 3b shows: a lock that hands over within a cohort lets it overtake the other.
    let overtaken = |lock| {
        row(lock, 1, "all")["fairness"]["overtaken"]["mean"]
            .as_f64()
            .unwrap()
    };
    assert!(overtaken("farlock") < 0.5, "{}", overtaken("farlock"));
    assert!(overtaken("alock:20,5") > 5.0, "{}", overtaken("alock:20,5"));
}

/// Nobody else's time, no map's order: the same seed, the same bytes.
#[test]
fn a_seed_says_everything() {
    let of = |seed: &str| {
        let mut report = json(
            &[
                &SMALL[..],
                &["--lock", LOCKS, "--lock-count", "3", "--seed", seed],
                &[
                    "--critical-section-remote",
                    "exp:5us",
                    "--critical-section-local",
                    "50ns..1us",
                ],
            ]
            .concat(),
        );
        report["simulator"]["wall_s"] = Value::Null;
        report
    };
    let one = of("1");
    assert_eq!(one, of("1"));
    let other = of("2");
    for (row, other) in runs(&one).iter().zip(runs(&other)) {
        assert_ne!(row["latency_ns"]["mean"], other["latency_ns"]["mean"]);
    }
}

/// Requests of one class that come one after the other, each when the one before is in the queue, are served in their
/// order by every lock that queues.
#[test]
fn whoever_is_in_the_queue_first_is_served_first() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("requests");
    for node in [0, 1] {
        let lines: String = (0..8)
            .map(|thread| format!("{}us {node} {thread}\n", thread * 20))
            .collect();
        std::fs::write(&file, lines).unwrap();
        let args = [
            "lock-bench",
            "--lock",
            "alock,alock:20,5,farlock,farlock-g",
            "--nodes",
            "2",
            "--arrivals",
        ];
        // Critical sections so long that all wait.
        let sections = [
            "--critical-section-local",
            "200us",
            "--critical-section-remote",
            "200us",
        ];
        let place = file.to_str().unwrap();
        for row in runs(&json(&[&args[..], &[place], &sections].concat())) {
            let fairness = &row["fairness"];
            if fairness["grants"] == 0 {
                continue;
            }
            assert_eq!(fairness["grants"], 8);
            assert_eq!(fairness["overtaken"]["max"], 0, "{row}");
            assert_eq!(fairness["displacement_sd"], 0.0);
            assert_eq!(fairness["longest_run"], 8);
        }
    }
}

/// The classes in the order of service, and the longest waits of local and remote requests in nanoseconds.
fn burst(lock: &str, gap: &str) -> (String, [u64; 2]) {
    let args = [
        "lock-bench",
        "--arrivals",
        "burst:12,12",
        "--lock",
        lock,
        "--gap",
        gap,
    ];
    let rows = runs(&json(&args));
    let all = rows.iter().find(|row| row["class"] == "all").unwrap();
    assert_eq!(all["nodes"], 2);
    let order = all["order"][0]["requests"].as_array().unwrap().clone();
    assert_eq!(order.len(), 24);
    let mut waits = [0; 2];
    let mut before = 0;
    for request in &order {
        let [arrival, grant, wait, end] = ["arrival_ns", "grant_ns", "wait_ns", "end_ns"]
            .map(|name| request[name].as_u64().unwrap());
        assert_eq!(arrival + wait, grant);
        assert!(before <= grant && grant < end, "{request}");
        before = grant;
        let class = usize::from(request["class"] == "remote");
        waits[class] = wait.max(waits[class]);
    }
    let letter = |request: &Value| request["class"].as_str().unwrap()[..1].to_owned();
    (order.iter().map(letter).collect(), waits)
}

/// Figure 9 of the FARLock paper. The order is fixed where the cohorts meet, in Peterson, and not by the clock: locals
/// are first when the remote requests come a little later.
#[test]
fn the_order_of_figure_9_depends_on_the_gap() {
    let locals_first = format!("{}{}", "l".repeat(12), "r".repeat(12));
    let (order, [local_ns, remote_ns]) = burst("farlock", "5us");
    assert_eq!(order, locals_first);
    // 135.30 µs in the paper.
    assert!((100_000..170_000).contains(&remote_ns), "{remote_ns}");
    assert!(local_ns < 10_000, "{local_ns}");

    let (order, _) = burst("farlock", "0s");
    assert_ne!(
        order, locals_first,
        "remote requests of the same instant get in between"
    );
    assert!(order.starts_with('l'));
    let (order, [alock_local_ns, _]) = burst("alock", "0s");
    assert!(
        order.contains("rlrlrl"),
        "{order}: cohorts alternate while both wait"
    );
    assert!(
        alock_local_ns > 3 * local_ns,
        "its locals wait for remotes: {alock_local_ns}"
    );
}

#[test]
fn several_seeds_are_pooled_and_finished_runs_taken() {
    let directory = tempfile::tempdir().unwrap();
    let times = directory.path().join("times");
    std::fs::write(&times, "5us\n6us\n").unwrap();
    let args = [
        &SMALL[..],
        &[
            "--lock",
            "farlock,alock:20,5",
            "--lock-count",
            "1,4",
            "--seeds",
            "2",
        ],
        &[
            "--critical-section-remote",
            "file:times",
            "--out",
            "results",
            "--resume",
            "on",
            "--csv",
            "runs.csv",
        ],
    ]
    .concat();
    let first = dmtree(directory.path(), &args);
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(stdout(&first).contains("fairness") && stdout(&first).contains("over the seeds"));
    let results = directory.path().join("results");
    for name in [
        "lock-bench.json",
        "lock-bench.csv",
        "lock-bench.svg",
        "farlock-1-lock-local.hgrm",
    ] {
        assert!(files(&results).contains(&name.to_owned()), "{name}");
    }
    let json =
        |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let report = json(&results.join("lock-bench.json"));
    assert_eq!(runs(&report)[0]["seeds"], 2);

    let again = dmtree(directory.path(), &args);
    assert!(
        stderr(&again).contains("8 of 8 runs are taken"),
        "{}",
        stderr(&again)
    );
    assert_eq!(json(&results.join("lock-bench.json")), report);
    assert_eq!(stdout(&again), stdout(&first));
    // The same name, other times: other runs.
    std::fs::write(&times, "5us\n7us\n").unwrap();
    let other = dmtree(directory.path(), &args);
    assert!(
        stderr(&other).contains("0 of 8 runs are taken"),
        "{}",
        stderr(&other)
    );

    let text = std::fs::read_to_string(directory.path().join("runs.csv")).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    for column in [
        "overtaken_mean",
        "displacement_sd",
        "longest_run",
        "remote_local_share",
        "critical_section_remote",
    ] {
        assert!(header.contains(&column), "{column}");
    }
    assert_eq!(lines.count(), 2 * 2 * 3);
}

#[test]
fn a_trace_and_a_timeline_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        &SMALL[..],
        &["--trace", "trace.json", "--timeline", "queues.csv"],
    ]
    .concat();
    let output = dmtree(directory.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let trace: Value =
        serde_json::from_slice(&std::fs::read(directory.path().join("trace.json")).unwrap())
            .unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |what: &str| {
        let names = events.iter().filter_map(|event| event["name"].as_str());
        names.filter(|name| name.starts_with(what)).count()
    };
    assert!(named("wait") > 10 && named("hold") > 10);
    assert!(
        std::fs::read_to_string(directory.path().join("queues.csv"))
            .unwrap()
            .lines()
            .count()
            > 100
    );
}

#[test]
fn what_is_printed_as_a_config_is_taken_as_one() {
    let directory = tempfile::tempdir().unwrap();
    for more in [
        &[
            "--lock-count",
            "1,10",
            "--critical-section-local",
            "exp:1.5us",
            "--seconds",
            "2ms",
        ][..],
        &["--arrivals", "burst:3,2", "--gap", "700ns"],
    ] {
        let printed = dmtree(
            directory.path(),
            &[&["lock-bench", "--print-config"], more].concat(),
        );
        let text = stdout(&printed);
        assert!(!text.contains("keys") && !text.contains("verify"), "{text}");
        std::fs::write(directory.path().join("bench.toml"), &text).unwrap();
        let again = dmtree(
            directory.path(),
            &["lock-bench", "--print-config", "--config", "bench.toml"],
        );
        assert_eq!(stdout(&again), text, "{}", stderr(&again));
    }
    // Lists of numbers are lists in TOML.
    std::fs::write(
        directory.path().join("bench.toml"),
        "lock-count = [1, 10]\n",
    )
    .unwrap();
    let printed = dmtree(
        directory.path(),
        &["lock-bench", "--print-config", "--config", "bench.toml"],
    );
    assert!(
        stdout(&printed).contains("lock-count = \"1,10\""),
        "{}",
        stderr(&printed)
    );
}

/// Refused with exit status 2 and one message that has all of `words`; nothing is written.
#[track_caller]
fn refused(directory: &Path, args: &[&str], words: &[&str]) {
    let before = files(directory);
    let output = dmtree(directory, args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    for word in words {
        assert!(
            message.contains(word),
            "{args:?}: {word:?} is not in {message:?}"
        );
    }
    assert_eq!(message.matches("error:").count(), 1, "{message}");
    assert!(!message.contains("panicked"), "{message}");
    assert_eq!((stdout(&output), files(directory)), (String::new(), before));
}

#[test]
fn flags_of_the_tree_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (flag, value) in [
        ("--keys", "5"),
        ("--distribution", "uniform"),
        ("--mix", "get"),
        ("--data-path", "cpu"),
        ("--fill", "0.5"),
        ("--page-bytes", "128"),
        ("--page-format", "sherman"),
        ("--prefill-cache", "on"),
        ("--cache-budget", "0"),
        ("--verify", "on"),
    ] {
        refused(
            directory.path(),
            &["lock-bench", flag, value, "--json", "out.json"],
            &[flag, "about the tree", "dmtree bench"],
        );
        let help = stdout(&dmtree(directory.path(), &["lock-bench", "--help"]));
        assert!(!help.contains(&format!("{flag} ")), "{flag} is offered");
    }
    for (flag, value) in [
        ("--critical-section-local", "1us"),
        ("--critical-section-remote", "1us"),
        ("--arrivals", "burst:1,1"),
        ("--gap", "1us"),
    ] {
        for command in [&["bench"][..], &["figure", "12"]] {
            refused(
                directory.path(),
                &[command, &[flag, value]].concat(),
                &[flag, "lock-bench"],
            );
        }
    }
    refused(
        directory.path(),
        &["bench", "--lock-count", "1,2"],
        &["--lock-count 1,2", "lock-bench"],
    );
    refused(
        directory.path(),
        &["lock-bench", "--paper"],
        &["--paper", "--seconds"],
    );
}

#[test]
fn bad_input_is_told_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("times"), "1us\n# fine\nlong\n").unwrap();
    std::fs::write(path.join("requests"), "0 0 0\n0 9 0\n").unwrap();
    for (args, words) in [
        (
            &["--critical-section-local", "file:times"][..],
            &["--critical-section-local", "times:3:", "long"][..],
        ),
        (
            &["--critical-section-remote", "file:nothing"],
            &["--critical-section-remote", "nothing", "cannot be read"],
        ),
        (
            &["--critical-section-remote", "7us..5us"],
            &["--critical-section-remote", "5us..7.5us"],
        ),
        (&["--critical-section-remote", "exp:0"], &["exp:5us"]),
        (
            &["--arrivals", "requests", "--nodes", "2"],
            &["--arrivals", "requests:2:", "--nodes"],
        ),
        (
            &["--arrivals", "nothing"],
            &["--arrivals", "nothing", "burst:LOCAL,REMOTE"],
        ),
        (&["--arrivals", "burst:12"], &["--arrivals", "burst:12,12"]),
        (
            &["--arrivals", "burst:1,1", "--nodes", "1"],
            &["burst:1,1", "--nodes"],
        ),
        (
            &["--arrivals", "burst:1,1", "--seconds", "1"],
            &["--seconds"],
        ),
        (
            &["--arrivals", "burst:1,1", "--coroutines", "2"],
            &["--coroutines"],
        ),
        (&["--gap", "1us"], &["--gap", "--arrivals"]),
        (
            &["--lock-count", "1,2", "--trace", "t.json"],
            &["--trace", "2", "one --lock-count"],
        ),
        (
            &["--lock-count", "1,2", "--timeline", "t.svg"],
            &["one --lock-count"],
        ),
        (&["--lock-count", "1,0"], &["--lock-count", "from 1"]),
        (&["--lock-count", "4G"], &["needs", "--lock-count"]),
    ] {
        refused(path, &[&["lock-bench"], args].concat(), words);
    }
}
