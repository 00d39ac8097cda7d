//! The driver on a simulated cluster: what counts, and how a run fails.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;

use common::{SMALL, dmtree, stderr};
use dmtree_index::GrowthStats;
use dmtree_workloads::latency::Latencies;
use dmtree_workloads::run::{RunOutcome, RunPlan, runs_of};
use dmtree_workloads::settings::{Options, Settings};
use dmtree_workloads::sweep::run_all;
use dmtree_workloads::{Failure, Progress};

/// The options of a config file with `lines`.
fn options(lines: &str) -> Options {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.toml");
    std::fs::write(&file, lines).unwrap();
    dmtree_workloads::settings::read_config(&file).unwrap()
}

fn run(settings: &Settings) -> Result<Vec<RunOutcome>, Failure> {
    run_all(&runs_of(settings), 1, |spec, abandon| {
        RunPlan::new(settings, spec)?.execute(&Progress::hidden(), abandon)
    })
}

fn sum_ns(latencies: &Latencies) -> f64 {
    latencies.summary().mean.unwrap_or(0.0) * latencies.count() as f64
}

/// A closed loop has every client in an operation all the time: the latencies of the operations
/// that begin in a window add up to clients times window, but for what crosses its ends. Operations
/// that were lost, counted twice, cut off or of the warm-up would show.
#[test]
fn latencies_add_up_to_the_time_of_all_clients() {
    let settings = Settings::of(options(
        "lock = \"sherman,farlock,alock:20,5\"\ndistribution = \"uniform,zipf:0.99\"\ndata-path = \"both\"\n\
         nodes = 3\nthreads = 2\ncoroutines = 2\nkeys = 20000\nseconds = \"20ms\"\nwarmup = \"2ms\"\n",
    ))
    .unwrap();
    let outcomes = run(&settings).unwrap();
    assert_eq!(outcomes.len(), 12);
    for outcome in outcomes {
        let window_ns = settings.window.as_nanos() as f64;
        for (latencies, clients) in [(&outcome.local, 4.0), (&outcome.remote, 8.0)] {
            let share = sum_ns(latencies) / (clients * window_ns);
            assert!(
                (share - 1.0).abs() < 0.02,
                "{}: {share}",
                outcome.spec.title()
            );
        }
    }
}

/// One lock for all, and a window shorter than the wait for it.
#[test]
fn operations_longer_than_the_window_are_counted_whole() {
    let settings = Settings::of(options(
        "lock = \"farlock\"\nlock-count = 1\nnodes = 5\nthreads = 4\nkeys = 1000\nseconds = \"20us\"\nwarmup = \"1ms\"\n",
    ))
    .unwrap();
    let outcome = run(&settings).unwrap().remove(0);
    let remote = outcome.remote.summary();
    assert!(outcome.remote.count() > 0);
    assert!(remote.max.unwrap() > 2 * 20_000, "{remote:?}");
}

#[test]
fn inserts_make_the_tree_grow_and_their_verbs_are_told_by_purpose() {
    let settings = Settings::of(options(
        "lock = \"sherman,farlock,alock\"\ndistribution = \"uniform,zipf:0.99\"\nmix = \"insert:80,get:20\"\n\
         nodes = 3\nthreads = 2\ncoroutines = 2\nkeys = 20000\nseconds = \"10ms\"\nwarmup = \"1ms\"\n",
    ))
    .unwrap();
    for outcome in run(&settings).unwrap() {
        let (growth, title) = (outcome.growth, outcome.spec.title());
        let counted = outcome.local.count() + outcome.remote.count();
        assert!(growth.added * 10 > counted * 7, "{title}: {growth:?}");
        assert!(growth.replaced * 100 < growth.added, "{title}: {growth:?}");
        // Of a tree that is loaded 80 % full: a split each dozen of inserts at first, fewer later.
        let a_split = growth.added / growth.splits;
        assert!((10..40).contains(&a_split), "{title}: {growth:?}");
        assert_eq!(growth.leaf.locks, growth.added + growth.replaced);
        assert!(growth.split.locks >= growth.splits, "{title}: {growth:?}");
    }
    // Without inserts there is nothing of it.
    let updates = Settings::of(options(
        "nodes = 2\nthreads = 1\nkeys = 1000\nseconds = \"1ms\"\n",
    ));
    let outcome = run(&updates.unwrap()).unwrap().remove(0);
    assert_eq!(outcome.growth, GrowthStats::default());
}

#[test]
fn inserts_fill_an_empty_tree_over_all_keys() {
    let settings = Settings::of(options(
        "lock = \"sherman,farlock,alock\"\ndistribution = \"uniform,zipf:0.99\"\nmix = \"insert\"\nkeys = 0\n\
         nodes = 3\nthreads = 2\nseconds = \"10ms\"\nwarmup = \"1ms\"\nverify = true\n",
    ))
    .unwrap();
    for outcome in run(&settings).unwrap() {
        let (growth, verified) = (outcome.growth, outcome.verified.unwrap());
        assert!(growth.added > 5_000 && growth.roots >= 2, "{growth:?}");
        assert_eq!(
            (verified.keys, verified.written),
            (growth.added, growth.added)
        );
    }
}

#[test]
fn an_empty_index_cache_is_filled_on_the_way() {
    let lines = "nodes = 2\nthreads = 1\nkeys = 20000\nseconds = \"5ms\"\nwarmup = 0\n";
    let cold = Settings::of(options(&format!("{lines}prefill-cache = false\n"))).unwrap();
    let warm = Settings::of(options(lines)).unwrap();
    let [cold, warm] = [cold, warm].map(|settings| run(&settings).unwrap().remove(0));
    // The cold one reads inner pages first, and ends up as fast.
    assert!(cold.remote.summary().max > warm.remote.summary().max);
    assert!(cold.remote.count() < warm.remote.count());
    assert!(cold.remote.count() * 2 > warm.remote.count());
}

#[test]
fn a_wait_beyond_its_limit_ends_the_run_and_says_who_and_what() {
    let directory = tempfile::tempdir().unwrap();
    for lock in [
        "sherman",
        "tas",
        "ticket",
        "mcs",
        "farlock",
        "farlock-g",
        "alock",
    ] {
        let args = [
            &[
                "bench",
                "--lock",
                lock,
                "--lock-count",
                "1",
                "--wait-limit",
                "2us",
                "--seed",
                "7",
            ][..],
            &["--json", "result.json"],
            &SMALL,
        ]
        .concat();
        let output = dmtree(directory.path(), &args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        for part in [
            &format!("lock {lock}")[..],
            "client ",
            "seed 7",
            "0:host+0x",
            "waiting for",
        ] {
            assert!(message.contains(part), "{part} is not in {message}");
        }
        assert!(output.stdout.is_empty());
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            0,
            "no result of a failed run"
        );
    }
}
