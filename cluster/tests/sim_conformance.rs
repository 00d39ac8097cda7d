//! The contract, held against the simulated cluster in every mode and over many seeds.

mod common;

use common::SimBed;
use dmtree_cluster::conformance::{may_tests, must_tests};
use dmtree_cluster::sim::SwapKind;

/// A cluster of a mode and a seed. Between seeds differ the clients' random pauses, the simulator's delays
/// (except in plain runs), the kind of swap, the profile and the speed of the RNICs.
fn bed(jitter_ns: u64, hostile: bool, seed: u64) -> SimBed {
    let swap = if seed.is_multiple_of(2) {
        SwapKind::Cas
    } else {
        SwapKind::Native
    };
    let profile = match seed % 5 {
        3 => "cx5-100g",
        4 => "cx6-200g",
        _ => "cx3-fdr",
    };
    SimBed {
        profile,
        seed,
        jitter_ns,
        hostile,
        swap,
        quick: seed % 3 == 2,
    }
}

const JITTER_NS: u64 = 5_000;

fn all_hold(jitter_ns: u64, hostile: bool, seeds: u64) {
    for test in must_tests() {
        for seed in 0..seeds {
            let bed = bed(jitter_ns, hostile, seed);
            if let Err(violation) = (test.run)(&bed) {
                panic!(
                    "“{}” fails: {violation}\n  contract: {}\n  {bed:?}",
                    test.name, test.contract
                );
            }
        }
    }
}

#[test]
fn plain_runs_keep_the_contract() {
    all_hold(0, false, 100);
}

#[test]
fn jitter_keeps_the_contract() {
    all_hold(JITTER_NS, false, 200);
}

#[test]
fn hostility_keeps_the_contract() {
    all_hold(0, true, 400);
}

#[test]
fn hostility_with_jitter_keeps_the_contract() {
    all_hold(JITTER_NS, true, 400);
}

/// How many seeds a freedom may need to show.
const SEEDS: u64 = 40;

fn shown(jitter_ns: u64, hostile: bool) -> Vec<(&'static str, Option<u64>)> {
    may_tests()
        .into_iter()
        .map(|test| {
            let took = |seed: &u64| match (test.run)(&bed(jitter_ns, hostile, *seed)) {
                Ok(took) => took,
                Err(violation) => panic!("“{}”, seed {seed}: {violation}", test.name),
            };
            (test.name, (0..SEEDS).find(took))
        })
        .collect()
}

#[test]
fn hostility_takes_every_freedom() {
    let shown = shown(0, true);
    let missing: Vec<_> = shown.iter().filter(|(_, seed)| seed.is_none()).collect();
    assert!(missing.is_empty(), "not within {SEEDS} seeds: {missing:?}");
}

#[test]
fn jitter_lets_queue_pairs_change_places() {
    let shown = shown(JITTER_NS, false);
    let mut changes = shown
        .iter()
        .filter(|(name, _)| name.starts_with("queue pairs change places"));
    assert!(
        changes.clone().count() == 2 && changes.all(|(_, seed)| seed.is_some()),
        "{shown:?}"
    );
}
