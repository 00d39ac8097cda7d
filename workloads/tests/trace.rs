//! `--trace`: a file that trace viewers read, and that tells what happened.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{SMALL, dmtree, files, stderr, stdout};
use serde_json::Value;

/// Picoseconds of a time as it is written: read by a float it would not be exact.
fn picoseconds(text: &str) -> u64 {
    let (whole, fraction) = text.split_once('.').unwrap();
    assert_eq!(fraction.len(), 6, "{text}");
    whole.parse::<u64>().unwrap() * 1_000_000 + fraction.parse::<u64>().unwrap()
}

/// An event with its times as they are in the file.
#[derive(Debug)]
struct Event {
    fields: Value,
    ts: u64,
    dur: Option<u64>,
}

impl Event {
    fn read(line: &str) -> Self {
        let time = |key: &str| {
            let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
            let end = rest.find([',', '}'])?;
            Some(picoseconds(&rest[..end]))
        };
        let fields: Value = serde_json::from_str(line).unwrap();
        for key in ["ph", "name", "ts", "pid", "tid"] {
            assert!(!fields[key].is_null(), "{key} is not in {line}");
        }
        assert!(fields["name"].as_str().is_some_and(|name| !name.is_empty()));
        assert!(fields["pid"].is_u64() && fields["tid"].is_u64());
        Self {
            ts: time("ts").unwrap(),
            dur: time("dur"),
            fields,
        }
    }

    fn text(&self, key: &str) -> &str {
        self.fields[key].as_str().unwrap_or_default()
    }

    fn thread(&self) -> (u64, u64) {
        let number = |key: &str| self.fields[key].as_u64().unwrap();
        (number("pid"), number("tid"))
    }
}

/// A slice, whichever way it is written.
#[derive(Debug)]
struct Slice {
    category: String,
    name: String,
    lock: String,
    begin: u64,
    end: u64,
}

/// A trace that has been found to be one.
struct Trace {
    other: Value,
    events: Vec<Event>,
    slices: Vec<Slice>,
    /// By process: its name; by thread: its name.
    processes: BTreeMap<u64, String>,
    threads: BTreeMap<(u64, u64), String>,
}

impl Trace {
    /// Reads it and checks what every trace has to be: events are well-formed, times of a thread go forwards, begins
    /// and ends pair up, slices of a thread nest, whoever has slices has names, and the file counts its own events.
    #[track_caller]
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let whole: Value = serde_json::from_str(&text).unwrap();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("{\"ph\""))
            .map(|line| line.trim_end_matches(','))
            .collect();
        let events: Vec<Event> = lines.into_iter().map(Event::read).collect();
        assert_eq!(events.len(), whole["traceEvents"].as_array().unwrap().len());
        assert_eq!(whole["displayTimeUnit"], "ns");
        let other = whole["otherData"].clone();
        assert_eq!(other["written"]["events"], events.len());
        let mut trace = Self {
            other,
            events: Vec::new(),
            slices: Vec::new(),
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
        };
        let mut latest = BTreeMap::new();
        let mut open: BTreeMap<_, Vec<&Event>> = BTreeMap::new();
        for event in &events {
            let thread = event.thread();
            if event.text("ph") == "M" {
                trace.metadata(event);
                continue;
            }
            assert!(trace.threads.contains_key(&thread), "{event:?} has a name");
            assert!(
                event.ts >= *latest.entry(thread).or_insert(0),
                "{event:?} goes back in time"
            );
            let stack = open.entry(thread).or_default();
            let (begun, end) = match event.text("ph") {
                "B" => {
                    stack.push(event);
                    latest.insert(thread, event.ts);
                    continue;
                }
                "E" => {
                    let begun = stack.pop().expect("an end has a begin");
                    assert_eq!(begun.text("name"), event.text("name"), "they nest");
                    assert_eq!(begun.text("cat"), event.text("cat"));
                    (begun, event.ts)
                }
                "X" => (event, event.ts + event.dur.expect("a slice has a length")),
                other => panic!("no event is of phase {other}"),
            };
            // Its end is in the past of whatever comes next of its thread, and so within what is open.
            latest.insert(thread, end);
            trace.slices.push(Slice {
                category: begun.text("cat").to_owned(),
                name: begun.text("name").to_owned(),
                lock: begun.fields["args"]["lock"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                begin: begun.ts,
                end,
            });
        }
        assert!(open.values().all(Vec::is_empty), "begins have ends");
        trace.events = events;
        for (key, category) in [
            ("chains", "verbs"),
            ("waits", "lock-wait"),
            ("critical_sections", "critical-section"),
        ] {
            assert_eq!(
                trace.other["written"][key],
                trace.of(category).count(),
                "{key}"
            );
        }
        trace
    }

    fn metadata(&mut self, event: &Event) {
        let (pid, tid) = event.thread();
        let args = &event.fields["args"];
        let name = || args["name"].as_str().unwrap().to_owned();
        match event.text("name") {
            "process_name" => assert_eq!(self.processes.insert(pid, name()), None),
            "thread_name" => assert_eq!(self.threads.insert((pid, tid), name()), None),
            "process_sort_index" | "thread_sort_index" => assert!(args["sort_index"].is_u64()),
            other => panic!("no metadata is called {other}"),
        }
    }

    fn of(&self, category: &str) -> impl Iterator<Item = &Slice> {
        self.slices
            .iter()
            .filter(move |slice| slice.category == category)
    }

    fn verbs(&self) -> impl Iterator<Item = &Value> {
        self.events
            .iter()
            .filter_map(|event| event.fields["args"]["verbs"].as_array())
            .flatten()
    }

    /// The claim that matters: nobody holds a lock that somebody holds.
    #[track_caller]
    fn exclusion_holds(&self) {
        let mut by_lock: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for slice in self.of("critical-section") {
            assert!(!slice.lock.is_empty(), "{slice:?}");
            by_lock
                .entry(&slice.lock)
                .or_default()
                .push((slice.begin, slice.end));
        }
        for (lock, mut sections) in by_lock {
            sections.sort_unstable();
            for pair in sections.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "{lock} is held twice: {pair:?}");
            }
        }
    }
}

/// Runs `bench ARGS… --trace t.json`; the trace's path, standard output, standard error.
#[track_caller]
fn bench(directory: &Path, args: &[&str]) -> (std::path::PathBuf, String, String) {
    let all = [&["bench", "--trace", "t.json"], args].concat();
    let output = dmtree(directory, &all);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{all:?}: {}",
        stderr(&output)
    );
    (directory.join("t.json"), stdout(&output), stderr(&output))
}

/// From the run's first instant to behind its last.
const WHOLE: [&str; 4] = ["--trace-from", "0", "--trace-for", "1"];

#[test]
fn a_whole_run_is_traced_verb_by_verb() {
    for (lock, more) in [
        (
            "sherman",
            &["--data-path", "loopback", "--lock-count", "40"][..],
        ),
        (
            "sherman",
            &[
                "--mix",
                "insert:20,update:80",
                "--profile",
                "cx5-100g",
                "--lock-memory",
                "device",
                "--lock-count",
                "40",
            ],
        ),
        (
            "alock:20,5",
            &[
                "--data-path",
                "cpu",
                "--coroutines",
                "2",
                "--lock-count",
                "10",
            ],
        ),
        ("tas", &["--lock-count", "3", "--backoff", "exp:1us,8us"]),
        ("ticket", &["--data-path", "cpu", "--lock-count", "3"]),
        ("mcs", &["--data-path", "cpu", "--lock-count", "3"]),
        (
            "farlock",
            &["--data-path", "cpu", "--distribution", "zipf:0.99"],
        ),
        (
            "farlock",
            &["--hostile", "--jitter", "2us", "--lock-count", "3"],
        ),
        (
            "farlock-g",
            &["--data-path", "loopback", "--lock-count", "3"],
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let args = [&["--lock", lock, "--json", "r.json"], more, &SMALL, &WHOLE].concat();
        let (path, _, message) = bench(directory.path(), &args);
        let trace = Trace::read(&path);
        trace.exclusion_holds();

        let report = std::fs::read_to_string(directory.path().join("r.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let verbs = report["simulator"]["verbs"].as_u64().unwrap();
        assert_eq!(trace.verbs().count() as u64, verbs, "{lock}");
        assert_eq!(trace.other["written"]["verbs"], verbs);
        // Every wait is granted, and what was counted is a part of it all: warm-up and cool-down are beside it.
        let ops = report["runs"][2]["ops"].as_u64().unwrap();
        let waits = trace.of("lock-wait").count();
        assert_eq!(waits, trace.of("critical-section").count(), "{lock}");
        assert!(
            waits as u64 > ops,
            "{lock}: {waits} waits, {ops} operations"
        );
        for (category, what) in [("lock-wait", "wait"), ("critical-section", "hold")] {
            let start = format!("{what}: lock 0:");
            let named = |slice: &Slice| {
                slice.name.starts_with(&start) && slice.name.contains(", page 0:host+0x")
            };
            assert!(trace.of(category).all(named), "{lock}");
        }
        assert_eq!(trace.processes.len(), 3);
        assert_eq!(trace.processes[&1], "node 0, memory and compute server");
        let clients = if lock.starts_with("alock") { 12 } else { 6 };
        assert_eq!(trace.threads.len(), clients);
        let names = |what: &str| {
            trace
                .threads
                .values()
                .filter(|name| name.contains(what))
                .count()
        };
        assert_eq!(names("thread 1"), clients / 2);
        assert_eq!(names("coroutine 1"), clients - 6);
        assert!(
            message.starts_with(&format!("trace: {} events", trace.events.len())),
            "{message}"
        );
        assert!(message.contains("t.json"), "{message}");
        assert_eq!(files(directory.path()), ["r.json", "t.json"]);
    }
}

#[test]
fn verbs_carry_what_they_did() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        &["--lock", "sherman", "--lock-count", "2"],
        &SMALL[..],
        &WHOLE,
    ]
    .concat();
    let trace = Trace::read(&bench(directory.path(), &args).0);
    let mut outcomes = [0, 0];
    for verb in trace.verbs() {
        assert!(verb["addr"].as_str().unwrap().starts_with("0:"), "{verb}");
        let bytes = verb["bytes"].as_u64().unwrap();
        match verb["op"].as_str().unwrap() {
            "CAS" => {
                assert_eq!(bytes, 8);
                let swapped = verb["swapped"].as_bool().unwrap();
                assert_eq!(swapped, verb["found"] == verb["expected"], "{verb}");
                outcomes[usize::from(swapped)] += 1;
            }
            "READ" | "WRITE" => assert!(bytes > 0),
            other => panic!("Sherman's lock sends no {other}"),
        }
    }
    assert!(
        outcomes.iter().all(|count| *count > 0),
        "two locks for six clients: {outcomes:?}"
    );
}

/// Of a part of the run there is exactly what overlaps it.
#[test]
fn a_window_is_the_part_of_the_whole_that_overlaps_it() {
    let args = [&["--lock", "farlock", "--lock-count", "5"], &SMALL[..]].concat();
    let directory = tempfile::tempdir().unwrap();
    let whole = Trace::read(&bench(directory.path(), &[&args[..], &WHOLE].concat()).0);
    for (more, from, to) in [
        (
            &["--trace-from", "1.3ms", "--trace-for", "100us"][..],
            1_300,
            1_400,
        ),
        // What holds when nothing is said: the first millisecond of the measured window.
        (&[], 1_000, 2_000),
        (&["--trace-from", "0"], 0, 1_000),
    ] {
        let part = Trace::read(&bench(directory.path(), &[&args[..], more].concat()).0);
        part.exclusion_holds();
        let (from, to) = (from * 1_000_000, to * 1_000_000);
        let list = |trace: &Trace| {
            let mut slices: Vec<_> = trace
                .slices
                .iter()
                .filter(|slice| slice.begin < to && slice.end >= from)
                .map(|slice| (slice.begin, slice.end, slice.name.clone()))
                .collect();
            slices.sort();
            slices
        };
        assert_eq!(
            list(&part).len(),
            part.slices.len(),
            "nothing from elsewhere"
        );
        assert_eq!(list(&part), list(&whole));
        assert!(part.slices.len() > 10 && part.slices.len() < whole.slices.len());
    }
}

#[test]
fn one_seed_gives_one_trace_and_tracing_changes_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let result = |text: &str| {
        let mut json: Value = serde_json::from_str(text).unwrap();
        json["simulator"]
            .as_object_mut()
            .unwrap()
            .remove("wall_s")
            .unwrap();
        json
    };
    for lock in ["sherman", "farlock"] {
        let args = [&["--lock", lock, "--json", "-"], &SMALL[..], &WHOLE].concat();
        let (path, first, _) = bench(directory.path(), &args);
        let bytes = std::fs::read(&path).unwrap();
        let (path, second, _) = bench(directory.path(), &args);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "the same bytes");
        let other = [&args[..], &["--seed", "2"]].concat();
        bench(directory.path(), &other);
        assert_ne!(
            std::fs::read(&path).unwrap(),
            bytes,
            "another seed, another trace"
        );
        let plain = dmtree(
            directory.path(),
            &[&["bench", "--lock", lock, "--json", "-"], &SMALL[..]].concat(),
        );
        assert_eq!(result(&first), result(&second));
        assert_eq!(result(&first), result(&stdout(&plain)));
    }
}

/// What a config file asks for is what flags ask for, and the effective config says what holds.
#[test]
fn the_printed_config_has_the_window() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        &["bench", "--trace", "t.json", "--print-config"],
        &SMALL[..],
    ]
    .concat();
    let config = stdout(&dmtree(directory.path(), &args));
    for line in [
        "trace = \"t.json\"",
        "trace-from = \"1ms\"",
        "trace-for = \"1ms\"",
    ] {
        assert!(
            config.lines().any(|other| other == line),
            "{line} is not in {config}"
        );
    }
    std::fs::write(directory.path().join("run.toml"), &config).unwrap();
    let again = ["bench", "--config", "run.toml", "--print-config"];
    assert_eq!(stdout(&dmtree(directory.path(), &again)), config);
    let plain = [&["bench", "--print-config"], &SMALL[..]].concat();
    assert!(!stdout(&dmtree(directory.path(), &plain)).contains("trace"));
    assert_eq!(files(directory.path()), ["run.toml"]);
}

#[test]
fn a_failed_run_has_its_trace() {
    let directory = tempfile::tempdir().unwrap();
    let output = dmtree(
        directory.path(),
        &[
            &[
                "bench",
                "--trace",
                "t.json",
                "--lock-count",
                "1",
                "--wait-limit",
                "4us",
            ],
            &SMALL[..],
            &WHOLE,
        ]
        .concat(),
    );
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("failed:") && message.contains("trace: "),
        "{message}"
    );
    let trace = Trace::read(&directory.path().join("t.json"));
    trace.exclusion_holds();
    let unfinished = |event: &&Event| event.fields["args"]["unfinished"] == true;
    assert!(trace.events.iter().any(|event| unfinished(&event)));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_the_trace_and_not_the_results() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["bench", "--trace", "/dev/full", "--json", "r.json"];
    let output = dmtree(directory.path(), &[&args[..], &SMALL, &WHOLE].concat());
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("/dev/full") && message.contains("space"),
        "{message}"
    );
    assert!(stdout(&output).contains("P99.9"), "the table");
    assert_eq!(files(directory.path()), ["r.json"]);
}
