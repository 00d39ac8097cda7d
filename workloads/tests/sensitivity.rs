//! `figure sensitivity`: each setting is what `bench` makes of its flags, and all of it is told.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::path::Path;

use common::{SMALL, dmtree, files, stderr, stdout};
use serde_json::Value;

/// Standard output of a command that succeeds.
#[track_caller]
fn done(directory: &Path, args: &[&str]) -> String {
    let output = dmtree(directory, args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {message}");
    stdout(&output)
}

fn json(directory: &Path, args: &[&str]) -> Value {
    let text = done(directory, &[args, &["--json", "-"]].concat());
    serde_json::from_str(&text).unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap()
}

/// The runs of `setting` as `bench` would have written them, and the setting's flags.
fn runs_of(study: &Value, setting: &str) -> (Vec<Value>, String) {
    let mut flags = None;
    let runs = list(study, "runs")
        .iter()
        .filter(|run| run["setting"] == setting)
        .map(|run| {
            let mut run = run.as_object().unwrap().clone();
            run.remove("setting");
            let removed = run.remove("flags").unwrap();
            flags = Some(removed.as_str().unwrap().to_owned());
            Value::from(run)
        })
        .collect();
    (runs, flags.unwrap())
}

#[test]
fn every_setting_is_what_bench_makes_of_its_flags() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let study = json(at, &[&["figure", "sensitivity"][..], &SMALL].concat());
    assert_eq!(study["command"], "figure sensitivity");
    let again = json(at, &[&["figure", "sensitivity"][..], &SMALL].concat());
    assert_eq!(
        (&study["runs"], &study["claims"]),
        (&again["runs"], &again["claims"])
    );

    let base: Vec<&str> = text(&study, "base").split_whitespace().collect();
    assert_eq!(base[..2], ["dmtree", "bench"]);
    for (setting, changes) in [
        ("base", false),
        ("round trip: +20 %", true),
        ("local page data: by cpu", true),
        ("atomics on host memory: 1.8 M/s", true),
        ("keys: 160k", true),
        ("search of a page: 5 µs", true),
        ("RNIC: cx6-200g, 16Ki locks on it", true),
    ] {
        let (runs, flags) = runs_of(&study, setting);
        assert_eq!(flags.is_empty(), !changes, "{setting}");
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let bench = json(at, &[&base[1..], &flags].concat());
        assert_eq!(runs, list(&bench, "runs"), "{setting}");
        assert_eq!(runs.len(), 12, "2 locks, 2 distributions, 3 classes");
        if changes {
            assert_ne!(runs, runs_of(&study, "base").0, "{setting}");
        }
    }
}

#[test]
fn everything_is_written_and_names_every_setting() {
    let directory = tempfile::tempdir().unwrap();
    let printed = done(
        directory.path(),
        &[
            &["figure", "sensitivity", "--lock", "sherman,farlock,alock"][..],
            &SMALL,
        ]
        .concat(),
    );
    let out = directory.path().join("results/sensitivity");
    assert_eq!(
        files(&out),
        [
            "sensitivity.csv",
            "sensitivity.json",
            "sensitivity.md",
            "sensitivity.svg"
        ]
    );
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let study: Value = serde_json::from_str(&read("sensitivity.json")).unwrap();
    let mut settings: Vec<&str> = Vec::new();
    for run in list(&study, "runs") {
        let setting = text(run, "setting");
        if settings.last() != Some(&setting) {
            settings.push(setting);
        }
    }
    assert_eq!(settings.len(), 40, "{settings:?}");
    let claims: Vec<&str> = list(&study, "claims")
        .iter()
        .map(|claim| text(claim, "setting"))
        .collect();
    let five_each: Vec<&str> = settings.iter().flat_map(|name| [*name; 5]).collect();
    assert_eq!(claims, five_each);
    let ids: Vec<&str> = list(&study, "dependences")
        .iter()
        .map(|dependence| text(dependence, "id"))
        .collect();
    assert_eq!(ids.len(), 5);

    let markdown = read("sensitivity.md");
    let svg = read("sensitivity.svg");
    let document = roxmltree::Document::parse(&svg).unwrap();
    let labels: Vec<String> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .map(|node| node.text().unwrap_or_default().trim().to_owned())
        .collect();
    for setting in &settings {
        assert!(printed.contains(setting), "{setting} is not in {printed}");
        assert!(markdown.contains(&format!("| {setting} |")), "{setting}");
        for part in setting.split(": ") {
            assert!(
                labels.iter().any(|label| label == part),
                "{part} in {labels:?}"
            );
        }
    }
    for id in ids {
        assert!(printed.contains(&format!("\n{id}: ")), "{id} in {printed}");
        assert!(
            markdown.contains(&format!("* {id}: ")),
            "{id} in {markdown}"
        );
        assert!(labels.iter().any(|label| label == id), "{id} in {labels:?}");
    }
    let columns = |line: &str| line.matches(" | ").count();
    let rows: Vec<&str> = markdown
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    assert_eq!(rows.len(), 1 + settings.len());
    assert!(rows.iter().all(|row| columns(row) == 8), "{markdown}");

    let csv = read("sensitivity.csv");
    assert!(csv.starts_with("setting,flags,command,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + list(&study, "runs").len());
}

#[test]
fn its_base_is_printed_as_a_config() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "figure",
        "sensitivity",
        "--threads",
        "3",
        "--search-time",
        "2us",
    ];
    let config = done(directory.path(), &[&args[..], &["--print-config"]].concat());
    for line in [
        "lock = \"sherman,farlock\"\n",
        "data-path = \"loopback\"\n",
        "threads = 3\n",
        "search-time = \"2us\"\n",
        "out = \"results/sensitivity\"\n",
    ] {
        assert!(config.contains(line), "{line:?} is not in {config}");
    }
    assert!(files(directory.path()).is_empty(), "nothing is run");
}
