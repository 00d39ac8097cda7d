//! Wrong usage: exit status 2, one message that says what is wrong and what would be right, nothing
//! written.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use common::{SMALL, dmtree, files, stderr, stdout};

/// Runs `dmtree` with `args` and expects to be refused with a message that has all of `words`.
#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let output = dmtree(directory.path(), args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    for word in words {
        assert!(
            message.contains(word),
            "{args:?}: {word:?} is not in {message:?}"
        );
    }
    assert_eq!(
        message.matches("error:").count(),
        1,
        "one message: {message:?}"
    );
    assert!(
        !message.contains("panicked") && !message.contains("backtrace"),
        "{message:?}"
    );
    assert_eq!(stdout(&output), "");
    assert_eq!(
        files(directory.path()),
        Vec::<String>::new(),
        "{args:?} wrote something"
    );
}

#[test]
fn unknown_names_are_told_what_exists() {
    refused(
        &["bench", "--lock", "spin"],
        &[
            "--lock", "spin", "sherman", "tas", "ticket", "mcs", "alock", "farlock",
        ],
    );
    refused(&["bench", "--lock", "sherman,"], &["--lock", "farlock"]);
    refused(
        &["bench", "--distribution", "normal"],
        &["--distribution", "normal", "uniform", "zipf:THETA"],
    );
    refused(
        &["bench", "--profile", "cx9"],
        &["--profile", "cx9", "cx3-fdr", "cx5-100g", "cx6-200g"],
    );
    refused(
        &["bench", "--fabric", "shm"],
        &["--fabric", "shm", "sim", "tcp", "verbs"],
    );
    #[cfg(not(feature = "verbs"))]
    refused(
        &["bench", "--fabric", "verbs"],
        &["--fabric verbs", "without RDMA", "--features verbs"],
    );
    refused(
        &["lock-bench", "--fabric", "tcp"],
        &["lock-bench", "--fabric", "tcp", "bench", "figure 12"],
    );
    refused(
        &["bench", "--mix", "remove"],
        &["--mix", "remove", "update, insert and get"],
    );
    refused(&["bench", "--swap", "xchg"], &["--swap", "cas", "native"]);
    refused(
        &["bench", "--data-path", "dma"],
        &["--data-path", "cpu", "loopback", "both"],
    );
    refused(
        &["bench", "--page-format", "versions"],
        &["--page-format", "versions", "sequence", "sherman"],
    );
    refused(
        &["bench", "--qp-cache", "maybe"],
        &["--qp-cache", "on", "off"],
    );
    refused(
        &["bench", "--lock-memory", "disk"],
        &["--lock-memory", "auto", "host", "device"],
    );
    refused(
        &["bench", "--set", "wire=5"],
        &["--set", "\"wire\"", "wire_ns", "qp_miss_charge"],
    );
    refused(&["bench", "--set", "wire_ns"], &["--set", "wire_ns=500"]);
    for figure in ["6", "13", "sensitive", ""] {
        refused(&["figure", figure], &[figure, "12", "sensitivity"]);
    }
}

#[test]
fn a_study_without_what_its_claims_are_about_is_refused() {
    let study = |args: &[&'static str], words: &[&str]| {
        refused(&[&["figure", "sensitivity"], args].concat(), words);
    };
    study(
        &["--lock", "farlock,alock"],
        &["--lock", "farlock,alock", "sherman is not among them"],
    );
    study(&["--lock", "sherman"], &["farlock is not among them"]);
    study(
        &["--distribution", "zipf:0.5"],
        &["--distribution", "uniform and zipf:0.99"],
    );
    study(&["--mix", "get"], &["--mix get", "--mix update"]);
    study(&["--data-path", "both"], &["--data-path both", "loopback"]);
    study(&["--search-time", "-1"], &["--search-time", "2us"]);
    study(&["--trace", "trace.json"], &["--trace"]);
    // The base would fit, and one of the settings does not.
    study(
        &["--keys", "100G"],
        &["setting keys: 800G", "memory", "--keys"],
    );
}

#[test]
fn device_memory_that_is_not_there_is_refused() {
    let device = ["--lock", "sherman", "--lock-memory", "device"];
    refused(
        &[&["bench"][..], &device].concat(),
        &["--lock-memory device", "cx3-fdr", "no device memory"],
    );
    refused(
        &[&["figure", "12", "--profile", "cx5-100g"][..], &device].concat(),
        &["256.0 KiB", "64.0 KiB", "--lock-count 8192"],
    );
    refused(
        &[&["bench", "--profile", "cx6-200g"][..], &device].concat(),
        &["256.0 KiB", "128.0 KiB", "--lock-count 16384"],
    );
}

#[test]
fn zeros_and_numbers_out_of_range_are_refused() {
    refused(
        &["bench", "--keys", "0"],
        &["--keys 0", "--mix update", "--mix insert", "--keys 1"],
    );
    for flag in [
        "--nodes",
        "--threads",
        "--coroutines",
        "--lock-count",
        "--page-bytes",
        "--seconds",
        "--wait-limit",
    ] {
        refused(&["bench", flag, "0"], &[flag, "out of range"]);
    }
    refused(
        &["bench", "--lock", "alock:0,5"],
        &["--lock", "alock:0,5", "local budget is 0"],
    );
    refused(
        &["bench", "--lock", "alock:5,0"],
        &["--lock", "remote budget is 0"],
    );
    refused(
        &["bench", "--distribution", "zipf:-1"],
        &["--distribution", "theta", "0 to 10"],
    );
    refused(
        &["bench", "--distribution", "zipf:99"],
        &["--distribution", "theta", "0 to 10"],
    );
    refused(&["bench", "--fill", "0"], &["--fill", "out of range"]);
    refused(&["bench", "--fill", "1.5"], &["--fill", "out of range"]);
    refused(
        &["bench", "--page-bytes", "1000"],
        &["--page-bytes", "multiple of 64"],
    );
    refused(
        &["bench", "--set", "wire_ns=-1"],
        &["--set", "wire_ns", "from 0 to 1000000"],
    );
    refused(
        &["bench", "--handover-limit", "many"],
        &["--handover-limit", "none"],
    );
    refused(&["bench", "--nodes", "70000"], &["--nodes", "65535"]);
    refused(&["bench", "--keys", "many"], &["--keys", "10M"]);
    refused(
        &["bench", "--keys", "2000000000000"],
        &["--keys", "out of range"],
    );
    refused(&["bench", "--seed", "-1"], &["--seed"]);
    refused(
        &["bench", "--seconds", "0.5 parsecs"],
        &["--seconds", "500ms"],
    );
    refused(
        &["bench", "--stagger", "2ms", "--warmup", "1ms"],
        &["--stagger", "--warmup"],
    );
    refused(
        &["bench", "--nodes", "60000", "--threads", "60000"],
        &["clients"],
    );
}

#[test]
fn more_memory_than_there_is_is_refused_before_allocating() {
    refused(
        &["bench", "--keys", "500G"],
        &["needs", "TiB", "the machine has", "--keys"],
    );
    refused(
        &["bench", "--lock-count", "4G"],
        &["needs", "iB", "--lock-count"],
    );
    for (args, flags) in [
        (
            &["--mix", "insert", "--seconds", "1000000"][..],
            &["--seconds"][..],
        ),
        (
            &["--mix", "insert", "--keys", "500G", "--seconds", "1000000"],
            &[
                "--keys",
                "--seconds",
                "--mix",
                "--page-bytes",
                "--cache-budget",
                "--nodes",
                "--threads",
            ],
        ),
    ] {
        refused(&[&["bench"], args].concat(), &[&["needs"], flags].concat());
    }
    let output = dmtree(
        tempfile::tempdir().unwrap().path(),
        &["figure", "12", "--keys", "500G"],
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn places_that_cannot_be_written_are_found_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("below");
    let below = below.to_str().unwrap();
    // A run that would take minutes: the refusal comes first.
    let long = ["--seconds", "100", "--keys", "1k"];
    for flag in ["--out", "--json", "--csv", "--trace", "--timeline"] {
        refused(
            &[&["bench", flag, below][..], &long].concat(),
            &[flag, "file/below"],
        );
    }
    refused(
        &[&["bench", "--json", "/"][..], &long].concat(),
        &["--json", "directory"],
    );
    refused(
        &[&["bench", "--json", ""][..], &long].concat(),
        &["--json", "empty"],
    );
    refused(
        &["bench", "--json", "-", "--csv", "-"],
        &["--json", "--csv", "standard output"],
    );
    refused(
        &[&["bench", "--trace", "/"][..], &long].concat(),
        &["--trace", "directory"],
    );
    refused(
        &[&["bench", "--csv", "new/r.csv", "--json", below][..], &long].concat(),
        &["--json"],
    );
    // The directory would be fine, the JSON file is not: the directory is not made.
    refused(
        &[&["bench", "--out", "new", "--json", below][..], &long].concat(),
        &["--json"],
    );
}

#[test]
fn a_trace_is_of_one_run_and_of_a_part_that_there_is() {
    for several in [
        ["--lock", "sherman,farlock"],
        ["--distribution", "uniform,zipf:0.99"],
        ["--data-path", "both"],
    ] {
        refused(
            &[&["bench", "--trace", "t.json"][..], &several].concat(),
            &["--trace", "one run", "2", several[0]],
        );
    }
    refused(&["figure", "12", "--trace", "t.json"], &["--trace", "12"]);
    refused(&["bench", "--trace", "-"], &["--trace", "file"]);
    for flag in ["--trace-from", "--trace-for"] {
        refused(&["bench", flag, "1ms"], &[flag, "--trace FILE"]);
    }
    refused(
        &["bench", "--trace", "t.json", "--trace-for", "0"],
        &["--trace-for", "out of range"],
    );
    refused(
        &[
            "bench",
            "--trace",
            "t.json",
            "--trace-from",
            "10",
            "--seconds",
            "1",
        ],
        &["--trace-from 10s", "1s 50ms", "--warmup", "--seconds"],
    );
    for flag in ["--json", "--csv"] {
        refused(&["bench", "--trace", "x", flag, "x"], &["--trace x", flag]);
    }
}

#[test]
fn a_timeline_is_of_one_run_and_of_intervals_that_there_are() {
    refused(
        &["bench", "--timeline", "t.svg", "--lock", "sherman,farlock"],
        &["--timeline", "one run", "2", "--lock"],
    );
    refused(
        &["figure", "12", "--timeline", "t.svg"],
        &["--timeline", "12"],
    );
    refused(&["bench", "--timeline", "-"], &["--timeline", "file"]);
    refused(&["bench", "--timeline", "/"], &["--timeline", "directory"]);
    refused(&["bench", "--timeline", ""], &["--timeline", "empty"]);
    refused(
        &["bench", "--timeline-every", "1ms"],
        &["--timeline-every 1ms", "--timeline FILE"],
    );
    for (every, words) in [
        ("0", &["out of range"][..]),
        ("often", &["500ms"]),
        ("2", &["longer", "--seconds 1s"]),
        ("9us", &["100000", "10us or more"]),
    ] {
        let args = ["bench", "--timeline", "t.csv", "--seconds", "1"];
        refused(
            &[&args[..], &["--timeline-every", every]].concat(),
            &[&["--timeline-every"][..], words].concat(),
        );
    }
    for flag in ["--json", "--csv", "--trace"] {
        refused(
            &["bench", "--timeline", "x", flag, "x"],
            &["--timeline x", flag],
        );
    }
}

#[test]
fn config_files_are_told_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("run.toml");
    let path = config.to_str().unwrap();
    for (text, words) in [
        (
            "nodes = 3\n\n# comment\nnoodles = 4\n",
            &["run.toml:4:", "noodles", "`nodes`", "`lock-count`"][..],
        ),
        (
            "nodes = 3\nthreads = 0\n",
            &["run.toml:2: threads: 0 is out of range"],
        ),
        (
            "lock = [\"sherman\",\n \"spin\"]\n",
            &["run.toml:1: lock: ", "spin", "farlock"],
        ),
        ("keys = 10M\n", &["run.toml:1: keys: "]),
        ("[section]\nnodes = 3\n", &["run.toml:1:", "section"]),
        (
            "nodes = 3\nset = [\"wire_ns=5\", \"wire=5\"]\n",
            &["run.toml:2: set: ", "\"wire\"", "wire_ns"],
        ),
    ] {
        std::fs::write(&config, text).unwrap();
        refused(&["bench", "--config", path], words);
    }
    refused(&["bench", "--config", "no-such.toml"], &["no-such.toml"]);
}

#[test]
fn the_parsers_own_errors_have_status_2_as_well() {
    refused(&["bench", "--noodles", "3"], &["--noodles"]);
    refused(&["figure"], &["<FIGURE>"]);
    refused(&["bench", "extra"], &["extra"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_dmtree"))
        .args(["bench"].iter().chain(&SMALL))
        .current_dir(directory.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let args = [&["bench", "--json", "/dev/full"][..], &SMALL].concat();
    let output = dmtree(directory.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("/dev/full") && stderr(&output).contains("space"),
        "{}",
        stderr(&output)
    );
}
