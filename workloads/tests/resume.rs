//! Commands that go on where an earlier one was ended, and the figure of the paper's size.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{SMALL, dmtree, files, stderr, stdout};
use serde_json::Value;

/// Two locks, two distributions, two seeds: eight runs, resumed.
const EIGHT: [&str; 21] = [
    "figure",
    "12",
    "--lock",
    "sherman,farlock",
    "--data-path",
    "loopback",
    "--nodes",
    "3",
    "--threads",
    "2",
    "--keys",
    "20k",
    "--seconds",
    "150ms",
    "--warmup",
    "1ms",
    "--seeds",
    "2",
    "--resume",
    "on",
    "--out=out",
];

/// The finished runs in `out`.
fn runs_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory.join("out/runs")) else {
        return Vec::new();
    };
    let mut runs: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "run"))
        .collect();
    runs.sort();
    runs
}

/// The results in `out`, without the wall-clock time.
fn results(directory: &Path) -> BTreeMap<String, String> {
    let out = directory.join("out");
    files(&out)
        .into_iter()
        .filter(|name| name != "runs")
        .map(|name| {
            let text = fs::read_to_string(out.join(&name)).unwrap();
            let text = if name.ends_with(".json") {
                let mut json: Value = serde_json::from_str(&text).unwrap();
                let simulator = json["simulator"].as_object_mut().unwrap();
                assert!(simulator.remove("wall_s").unwrap().as_f64().unwrap() > 0.0);
                json.to_string()
            } else {
                text
            };
            (name, text)
        })
        .collect()
}

#[track_caller]
fn done(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
}

/// `N` of "N of 8 runs are taken from …".
#[track_caller]
fn taken(output: &Output) -> usize {
    done(output);
    let text = stderr(output);
    let line = text
        .lines()
        .find(|line| line.ends_with("runs are taken from out/runs"))
        .unwrap_or_else(|| panic!("{text}"));
    line.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_killed_command_goes_on_and_gives_the_same_results() {
    let (killed, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = dmtree(whole.path(), &EIGHT);
    assert_eq!(taken(&output), 0);
    let (expected, printed) = (results(whole.path()), stdout(&output));
    assert_eq!(runs_in(whole.path()).len(), 8);

    let mut child = Command::new(env!("CARGO_BIN_EXE_dmtree"))
        .args(EIGHT)
        .current_dir(killed.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while runs_in(killed.path()).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no run is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    let kept = runs_in(killed.path()).len();
    assert!((1..8).contains(&kept), "{kept} of 8 at the kill");
    assert_eq!(
        files(&killed.path().join("out")),
        ["runs"],
        "no results yet"
    );
    // As one that dies while it writes leaves it.
    let part = killed.path().join("out/runs/.sherman.run.1.part");
    fs::write(&part, "dmtree run 1, SHA-2").unwrap();

    let output = dmtree(killed.path(), &EIGHT);
    assert_eq!(taken(&output), kept);
    assert!(!part.exists());
    assert_eq!(results(killed.path()), expected);
    assert_eq!(stdout(&output), printed);
    // Now there is nothing to run; nothing is written twice.
    let before: Vec<_> = runs_in(killed.path())
        .iter()
        .map(|path| fs::metadata(path).unwrap().modified().unwrap())
        .collect();
    assert_eq!(taken(&dmtree(killed.path(), &EIGHT)), 8);
    assert_eq!(results(killed.path()), expected);
    let after: Vec<_> = runs_in(killed.path())
        .iter()
        .map(|path| fs::metadata(path).unwrap().modified().unwrap())
        .collect();
    assert_eq!(after, before);
}

/// A small command that is resumed, with more arguments.
fn small(directory: &Path, more: &[&str]) -> Output {
    let args = [
        &["bench", "--out", "out", "--resume", "on"][..],
        &SMALL,
        more,
    ];
    dmtree(directory, &args.concat())
}

#[test]
fn a_file_that_is_not_trusted_is_named_and_its_run_done_again() {
    let directory = tempfile::tempdir().unwrap();
    let two = ["--lock", "sherman,farlock"];
    assert_eq!(taken(&small(directory.path(), &two)), 0);
    let expected = results(directory.path());
    let file = runs_in(directory.path()).remove(0);
    let whole = fs::read(&file).unwrap();
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    for (bytes, why) in [
        (&whole[..whole.len() - 100], "cut short"),
        (&changed, "damaged"),
        (b"something else", "not a run"),
    ] {
        fs::write(&file, bytes).unwrap();
        let output = small(directory.path(), &two);
        assert_eq!(taken(&output), 1);
        let name = file.file_name().unwrap().to_str().unwrap();
        let text = stderr(&output);
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.contains(why) && line.contains("done again"), "{line}");
        assert_eq!(results(directory.path()), expected);
        assert_eq!(taken(&small(directory.path(), &two)), 2, "put right");
    }
}

#[test]
fn only_the_same_run_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| taken(&small(directory.path(), more));
    assert_eq!(run(&["--lock", "sherman"]), 0);
    assert_eq!(run(&["--lock", "farlock,sherman"]), 1, "one more lock");
    assert_eq!(
        run(&["--lock", "farlock", "--seeds", "2"]),
        1,
        "one more seed"
    );
    assert_eq!(run(&["--lock", "farlock", "--seed", "2"]), 1);
    for other in [
        ["--seed", "3"],
        ["--jitter", "1us"],
        ["--set", "wire_ns=105"],
        ["--verify", "on"],
        ["--keys", "20001"],
        ["--seconds", "5ms"],
    ] {
        assert_eq!(run(&[&["--lock", "farlock"], &other[..]].concat()), 0);
        assert_eq!(run(&[&["--lock", "farlock"], &other[..]].concat()), 1);
    }
    // Without --resume nothing is taken, told or kept.
    let kept = runs_in(directory.path());
    let args = [&["bench", "--out", "out", "--lock", "alock"][..], &SMALL].concat();
    let output = dmtree(directory.path(), &args);
    done(&output);
    assert_eq!(stderr(&output), "");
    assert_eq!(runs_in(directory.path()), kept);
}

/// The same program with a byte more behind its end, which makes no difference to what it does.
#[cfg(target_os = "linux")]
#[test]
fn runs_of_another_program_are_done_again() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(taken(&small(directory.path(), &[])), 0);
    let other = directory.path().join("dmtree");
    fs::copy(env!("CARGO_BIN_EXE_dmtree"), &other).unwrap();
    let run = || {
        let args = [&["bench", "--out", "out", "--resume", "on"][..], &SMALL].concat();
        let mut command = Command::new(&other);
        command.args(args).current_dir(directory.path());
        command.output().unwrap()
    };
    assert_eq!(taken(&run()), 1, "a copy is the same program");
    let mut bytes = fs::read(&other).unwrap();
    bytes.push(0);
    fs::write(&other, bytes).unwrap();
    let output = run();
    assert_eq!(taken(&output), 0);
    assert!(
        stderr(&output).contains("another build"),
        "{}",
        stderr(&output)
    );
    assert_eq!(taken(&run()), 1, "its own");
}

#[test]
fn traced_runs_are_neither_taken_nor_kept() {
    let directory = tempfile::tempdir().unwrap();
    let traced = ["--trace", "t.json"];
    let output = small(directory.path(), &traced);
    done(&output);
    assert!(runs_in(directory.path()).is_empty());
    assert_eq!(taken(&small(directory.path(), &[])), 0);
    fs::remove_file(directory.path().join("t.json")).unwrap();
    done(&small(directory.path(), &traced));
    assert!(directory.path().join("t.json").exists());
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
    assert_eq!(message.matches("error:").count(), 1, "{message:?}");
    assert_eq!(stdout(output), "");
}

#[test]
fn what_cannot_be_resumed_is_refused_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    // Runs that would take minutes.
    let long = ["--seconds", "100", "--keys", "1k"];
    let run = |args: &[&str]| dmtree(directory.path(), &[args, &long[..]].concat());
    refused(
        &run(&["bench", "--resume", "on"]),
        &["--resume on", "--out DIR"],
    );
    assert_eq!(files(directory.path()), [""; 0]);
    fs::create_dir(directory.path().join("out")).unwrap();
    fs::write(directory.path().join("out/runs"), "in the way").unwrap();
    let resumed = ["bench", "--resume", "on", "--out", "out"];
    refused(&run(&resumed), &["--resume on", "out/runs"]);
    fs::remove_file(directory.path().join("out/runs")).unwrap();
    // Another command is at work there.
    fs::create_dir(directory.path().join("out/runs")).unwrap();
    let lock = fs::File::create(directory.path().join("out/runs/.lock")).unwrap();
    lock.lock().unwrap();
    refused(
        &run(&resumed),
        &["another dmtree", "out/runs", "--resume off"],
    );
    drop(lock);
    assert_eq!(taken(&small(directory.path(), &[])), 0);
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| dmtree(directory.path(), args);
    refused(
        &run(&["figure", "12", "--quick", "--paper"]),
        &["--quick", "--paper", "one of them"],
    );
    refused(
        &run(&["bench", "--paper"]),
        &["--paper", "figure 12 --paper", "bench"],
    );
    refused(
        &run(&["bench", "--seed", "18446744073709551615", "--seeds", "2"]),
        &["--seed 18446744073709551615", "--seeds 2"],
    );
    refused(
        &run(&["bench", "--seeds", "0"]),
        &["--seeds", "from 1 to 10000"],
    );
    refused(
        &run(&["bench", "--trace", "t.json", "--seeds", "2"]),
        &["--trace", "these are 2", "--seeds 1"],
    );
    assert_eq!(files(directory.path()), [""; 0]);
}

#[test]
fn the_papers_size_changes_defaults_only_and_survives_a_config_file() {
    let directory = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = dmtree(directory.path(), args);
        done(&output);
        stdout(&output)
    };
    let config = run(&["figure", "12", "--paper", "--print-config"]);
    for line in [
        "lock = \"sherman,farlock,alock\"",
        "distribution = \"uniform,zipf:0.99\"",
        "keys = 80000000",
        "warmup = \"5s\"",
        "seconds = \"10s\"",
        "seed = 1",
        "seeds = 3",
        "data-path = \"loopback\"",
        "resume = true",
        "out = \"results/figure-12-paper\"",
    ] {
        assert!(
            config.lines().any(|other| other == line),
            "{line} is not in {config}"
        );
    }
    fs::write(directory.path().join("paper.toml"), &config).unwrap();
    let from_file = ["figure", "12", "--config", "paper.toml", "--print-config"];
    assert_eq!(run(&from_file), config);
    let flags = ["--keys", "1M", "--resume", "off", "--data-path", "both"];
    let smaller = run(&[&["figure", "12", "--paper", "--print-config"][..], &flags].concat());
    for line in [
        "keys = 1000000",
        "resume = false",
        "data-path = \"both\"",
        "seeds = 3",
    ] {
        assert!(smaller.lines().any(|other| other == line), "{smaller}");
    }

    // The same runs, so that the second command takes those of the first.
    let scaled = [&["--out", "out"][..], &SMALL].concat();
    let output = dmtree(
        directory.path(),
        &[&["figure", "12", "--paper"][..], &scaled].concat(),
    );
    assert_eq!(taken(&output), 0);
    let text = stdout(&output);
    for part in ["seeds 1 to 3 pooled", "over seeds", "by loopback"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("by cpu"), "{text}");
    let expected = results(directory.path());
    let output = dmtree(
        directory.path(),
        &[&["figure", "12", "--config", "paper.toml"][..], &scaled].concat(),
    );
    assert_eq!(taken(&output), 18);
    assert_eq!(results(directory.path()), expected);

    let json: Value = serde_json::from_str(&expected["figure-12.json"]).unwrap();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(
        runs.len(),
        18,
        "three locks, two distributions, three classes"
    );
    assert!(
        runs.iter()
            .all(|run| run["seeds"] == 3 && run["over_seeds"].is_object())
    );
    let claims = json["claims"].as_array().unwrap();
    let throughput = &claims[4];
    assert_eq!(throughput["id"], "f12-throughput");
    for end in ["min", "max"] {
        let span: Vec<f64> = serde_json::from_value(throughput["over_seeds"][end].clone()).unwrap();
        assert!(span.len() == 2 && span[0] <= span[1], "{throughput}");
    }
    let csv = &expected["figure-12.csv"];
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|other| other == name).unwrap();
    let line = reader.records().next().unwrap().unwrap();
    let number = |name: &str| line[column(name)].parse::<f64>().unwrap();
    assert_eq!(number("seeds"), 3.0);
    assert!(number("throughput_ops_s_min") <= number("throughput_ops_s"));
    assert!(number("throughput_ops_s") <= number("throughput_ops_s_max"));
    assert!(number("p50_ns_min") <= number("p50_ns_max"));
    assert_eq!(&line[column("p99_999_ns_min")], "");
}
