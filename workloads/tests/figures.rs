//! The figures of locks alone, and all of them at once: what is run, what is written, and that each command line that a
//! page tells makes the same results.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{dmtree, files, stderr, stdout};
use serde_json::Value;

/// Small, and still with contention.
const SMALL: [&str; 6] = ["--threads", "3", "--seconds", "2ms", "--warmup", "200us"];

#[track_caller]
fn done(directory: &Path, args: &[&str]) -> String {
    let output = dmtree(directory, args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {message}");
    stdout(&output)
}

#[track_caller]
fn refused(directory: &Path, args: &[&str], words: &[&str]) {
    let output = dmtree(directory, args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    for word in words {
        assert!(
            message.contains(word),
            "{args:?}: {word} is not in {message}"
        );
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The contents of all files below `directory`, without what takes another time each time.
fn contents(directory: &Path) -> BTreeMap<String, String> {
    let mut contents = BTreeMap::new();
    for name in files(directory) {
        let path = directory.join(&name);
        if path.is_dir() {
            for (inner, text) in self::contents(&path) {
                contents.insert(format!("{name}/{inner}"), text);
            }
            continue;
        }
        let mut text = fs::read_to_string(&path).unwrap();
        if name.ends_with(".json") {
            let mut value: Value = serde_json::from_str(&text).unwrap();
            value["simulator"]["wall_s"].take();
            text = value.to_string();
        }
        contents.insert(name, text);
    }
    contents
}

fn runs(report: &Value) -> &[Value] {
    report["runs"].as_array().unwrap()
}

fn ids(report: &Value) -> Vec<&str> {
    let claims = report["claims"].as_array().into_iter().flatten();
    let mut ids: Vec<&str> = claims.map(|claim| claim["id"].as_str().unwrap()).collect();
    ids.dedup();
    ids
}

#[test]
fn a_figure_is_the_same_twice_and_another_with_another_seed() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let run = |out: &str, seed: &str| {
        let args = ["figure", "7", "--out", out, "--seed", seed, "--seeds", "2"];
        done(at, &[&args[..], &SMALL].concat());
        contents(&at.join(out))
    };
    let (one, same, other) = (run("one", "1"), run("same", "1"), run("other", "2"));
    assert_eq!(one, same);
    assert_ne!(one, other);
    for file in [
        "figure-7.json",
        "figure-7.csv",
        "figure-7.svg",
        "farlock-1-lock-local.hgrm",
    ] {
        assert!(one.contains_key(file), "{file} in {:?}", one.keys());
    }
}

#[test]
fn each_figure_has_its_runs_its_claims_and_its_drawings() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for (figure, expected_runs, expected_ids, drawings) in [
        (
            "3",
            (2 + 6 * 2) * 3,
            &[][..],
            &["figure-3a.svg", "figure-3b.svg"][..],
        ),
        (
            "7",
            4 * 6 * 3,
            &[
                "f7-local-fair",
                "f7-local-alock",
                "f7-local-ts",
                "f7-remote",
                "f7-group-tail",
            ],
            &["figure-7.svg"],
        ),
        ("8", 6 * 6 * 3, &["f8-crossover"], &["figure-8.svg"]),
        ("9", 5 * 3 * 3, &["f9-order"], &["figure-9.svg"]),
        (
            "10",
            9 * 6 * 3,
            &[
                "f10-local-fair",
                "f10-local-alock",
                "f10-remote-1",
                "f10-dip",
                "f10-runs",
            ],
            &["figure-10.svg"],
        ),
        (
            "11",
            9 * 4 * 3,
            &["f11-local-group", "f11-remote-group"],
            &["figure-11.svg"],
        ),
    ] {
        let size: &[&str] = match figure {
            "9" => &["--threads", "3"],
            "3" => &SMALL[2..],
            _ => &SMALL,
        };
        let text = done(at, &[&["figure", figure, "--seeds", "1"], size].concat());
        let name = format!("figure-{figure}");
        let report = json(&at.join(format!("results/{name}/{name}.json")));
        assert_eq!(report["command"], format!("figure {figure}"));
        assert_eq!(runs(&report).len(), expected_runs, "figure {figure}");
        assert_eq!(ids(&report), expected_ids, "figure {figure}");
        let written = files(&at.join("results").join(&name));
        for drawing in drawings {
            assert!(
                written.contains(&(*drawing).to_owned()),
                "{drawing} in {written:?}"
            );
        }
        for id in expected_ids {
            assert!(text.contains(id), "{id}");
        }
    }
}

#[test]
fn what_is_given_is_not_varied() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let report = |args: &[&str]| -> Value {
        let given = [args, &["--seeds", "1", "--json", "-"]].concat();
        serde_json::from_str(&done(at, &given)).unwrap()
    };
    let nodes = report(&[&["figure", "11", "--nodes", "3"], &SMALL[..]].concat());
    assert!(
        runs(&nodes)
            .iter()
            .all(|run| run["nodes"] == 3 && run["part"].is_null())
    );
    let all = report(&[&["figure", "11"], &SMALL[..]].concat());
    let of_three: Vec<&Value> = runs(&all).iter().filter(|run| run["nodes"] == 3).collect();
    assert_eq!(of_three.len(), runs(&nodes).len());
    for (one, other) in of_three.iter().zip(runs(&nodes)) {
        assert_eq!(one["latency_ns"], other["latency_ns"]);
        assert_eq!(one["varied"], serde_json::json!({"nodes": 3}));
    }
    // Each is for one part of the figure.
    let both = report(&[
        "figure",
        "3",
        "--gap",
        "3us",
        "--seconds",
        "2ms",
        "--warmup",
        "0",
    ]);
    assert_eq!(runs(&both).len(), (2 + 6 * 2) * 3);
    assert_eq!(runs(&both)[0]["part"], "burst, gap 3us");
    let gap = report(&["figure", "9", "--gap", "3us"]);
    assert_eq!(runs(&gap).len(), 3 * 3);
    assert_eq!(gap["claims"][0]["part"], "gap 3us");
}

/// A run of another command with the options of a part is the part.
#[test]
fn a_part_is_what_lock_bench_makes_of_its_options() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let report: Value =
        serde_json::from_str(&done(at, &["figure", "9", "--seeds", "1", "--json", "-"])).unwrap();
    let bench: Value = serde_json::from_str(&done(
        at,
        &[
            "lock-bench",
            "--lock",
            "alock",
            "--arrivals",
            "burst:12,12",
            "--gap",
            "2us",
            "--json",
            "-",
        ],
    ))
    .unwrap();
    let part = runs(&report)
        .iter()
        .find(|run| run["part"] == "gap 2us" && run["lock"] == "alock" && run["class"] == "all")
        .unwrap();
    let alone = runs(&bench)
        .iter()
        .find(|run| run["class"] == "all")
        .unwrap();
    assert_eq!(part["order"], alone["order"]);
    assert_eq!(part["order"][0]["requests"].as_array().unwrap().len(), 24);
}

#[test]
fn all_figures_are_one_page_and_each_command_on_it_makes_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let size = [
        "--threads",
        "2",
        "--seconds",
        "1ms",
        "--warmup",
        "100us",
        "--seeds",
        "1",
        "--keys",
        "5k",
    ];
    let text = done(at, &[&["figure", "all", "--out", "o"][..], &size].concat());
    assert!(text.contains("o/index.html"), "{text}");
    let page = fs::read_to_string(at.join("o/index.html")).unwrap();
    let figures = ["3", "7", "8", "9", "10", "11", "12"];
    for figure in figures {
        let name = format!("figure-{figure}");
        assert!(page.contains(&format!("<section id=\"{name}\"")), "{name}");
        assert!(
            page.contains(&format!("href=\"{name}/{name}.csv\"")),
            "{name}"
        );
        let begin = format!("<code>dmtree figure {figure} ");
        let at_begin = page.find(&begin).unwrap_or_else(|| panic!("{begin}"));
        let command = &page[at_begin + "<code>dmtree ".len()..];
        let command = &command[..command.find('<').unwrap()];
        let alone = format!("alone-{figure}");
        let words: Vec<&str> = command
            .split_whitespace()
            .chain(["--out", &alone])
            .collect();
        done(at, &words);
        assert_eq!(
            contents(&at.join(&alone)),
            contents(&at.join("o").join(&name)),
            "{command}"
        );
    }
    assert_eq!(page.matches("<svg").count(), 9);
    assert!(!page.contains("src="), "nothing is fetched");
}

#[test]
fn all_figures_are_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let args = [
        "figure",
        "all",
        "--threads",
        "2",
        "--seconds",
        "1ms",
        "--warmup",
        "100us",
        "--seeds",
        "1",
        "--keys",
        "5k",
        "--resume",
    ];
    let first = dmtree(at, &args);
    assert_eq!(first.status.code(), Some(0));
    let before = contents(&at.join("results/all"));
    // Figures 7, 8 and 10 have theirs together. ALock's bursts of figure 3 are two of figure 9's; of figure 11 one run is
    // FARLock's with one lock on all nodes.
    let distinct = (2 + 2) + 54 + (15 - 2) + (36 - 1) + 12;
    assert!(
        stderr(&first).contains(&format!("0 of {distinct} runs")),
        "{}",
        stderr(&first)
    );
    let again = dmtree(at, &args);
    assert!(
        stderr(&again).contains(&format!("{distinct} of {distinct} runs")),
        "{}",
        stderr(&again)
    );
    assert_eq!(contents(&at.join("results/all")), before);
}

#[test]
fn the_threshold_is_mapped() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let args = [
        "figure",
        "threshold",
        "--quick",
        "--nodes",
        "3",
        "--threads",
        "4",
        "--lock-count",
        "1,2",
        "--seconds",
        "3ms",
        "--warmup",
        "100us",
    ];
    let text = done(at, &args);
    assert!(
        text.contains("round trip × 0.5") && text.contains("± 20 %"),
        "{text}"
    );
    let report = json(&at.join("results/threshold/threshold.json"));
    assert_eq!(runs(&report).len(), 2 * 6 * 2 * 3 * 2 * 3);
    let place = &runs(&report)[0]["at"];
    for axis in ["section_us", "round_trip", "nodes", "locks", "spread"] {
        assert!(place[axis].is_number(), "{axis} in {place}");
    }
    let written = files(&at.join("results/threshold"));
    assert_eq!(
        written,
        [
            "threshold-1-lock.svg",
            "threshold-2-locks.svg",
            "threshold.csv",
            "threshold.json"
        ]
    );
    let svg = fs::read_to_string(at.join("results/threshold/threshold-1-lock.svg")).unwrap();
    for part in [
        "farlock, local; 3 nodes",
        "alock:20,5, remote; 3 nodes ± 20 %",
        "× 0.5",
        "5.8",
    ] {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn effective_options_are_those_of_a_config_file() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for figure in ["3", "7", "9", "11", "threshold"] {
        let config = done(
            at,
            &[
                "figure",
                figure,
                "--quick",
                "--jitter",
                "1us",
                "--print-config",
            ],
        );
        let path = at.join("config.toml");
        fs::write(&path, &config).unwrap();
        let again = done(
            at,
            &[
                "figure",
                figure,
                "--quick",
                "--config",
                "config.toml",
                "--print-config",
            ],
        );
        assert_eq!(config, again, "figure {figure}");
        assert!(config.contains("jitter = \"1us\""), "{config}");
        let varied: &[&str] = match figure {
            "3" => &["arrivals", "threads"],
            "9" => &["arrivals", "gap"],
            "11" => &["nodes"],
            "threshold" => &["nodes", "critical-section-remote", "lock-count"],
            _ => &[],
        };
        for name in varied {
            let is_there = config
                .lines()
                .any(|line| line.starts_with(&format!("{name} =")));
            assert!(!is_there, "figure {figure} varies {name}: {config}");
        }
    }
}

#[test]
fn mistakes_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    refused(
        at,
        &["figure", "13"],
        &["there is no figure 13", "threshold"],
    );
    refused(at, &["figure", "7", "--keys", "10"], &["--keys"]);
    refused(at, &["figure", "7", "--gap", "1us"], &["--gap"]);
    refused(
        at,
        &["figure", "11", "--trace", "t.json"],
        &["--trace", "figure 11"],
    );
    refused(at, &["figure", "9", "--seconds", "1"], &["--seconds"]);
    refused(at, &["figure", "all", "--json", "x"], &["--json", "--out"]);
    refused(
        at,
        &["figure", "all", "--timeline", "x.svg"],
        &["--timeline"],
    );
    refused(
        at,
        &["figure", "all", "--lock-count", "1,2"],
        &["figure 12", "--lock-count"],
    );
    refused(at, &["figure", "threshold", "--paper"], &["--paper"]);
    refused(at, &["figure", "7", "--lock-count", "0"], &["--lock-count"]);
    refused(at, &["figure", "9", "--lock", "alock:0,1"], &["budget"]);
    refused(
        at,
        &["figure", "7", "--arrivals", "burst:2,2"],
        &["--arrivals", "figure 7", "figure 9"],
    );
    refused(
        at,
        &["figure", "3", "--arrivals", "burst:2,2", "--seconds", "1"],
        &["--seconds"],
    );
    assert!(files(at).is_empty(), "{:?}", files(at));
}
