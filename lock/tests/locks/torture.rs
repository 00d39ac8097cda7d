//! Every lock, thousands of seeds each: random clusters, jitter, hostility, both data paths.

use crate::harness::{Scenario, run, survives, survives_with_any_budgets};

macro_rules! torture {
    ($($test:ident: $lock:literal, $seeds:expr, $draw:ident;)*) => {
        $(
            #[test]
            fn $test() {
                survives($lock, $seeds, Scenario::$draw);
            }
        )*
    };
}

// Several tests a lock, so that all cores work.
torture! {
    sherman: "sherman", 0..5000, draw;
    sherman_crowded: "sherman", 5000..7000, draw_crowded;
    sherman_modern: "sherman", 7000..9000, draw_modern;
    alock: "alock", 0..5000, draw;
    alock_crowded: "alock", 5000..7000, draw_crowded;
    alock_modern: "alock:3,2", 7000..9000, draw_modern;
    alock_with_budgets: "alock:3,2", 0..5000, draw;
    alock_with_budgets_crowded: "alock:20,5", 5000..7000, draw_crowded;
    alock_cas_release: "alock:3,2:cas-release", 0..2000, draw;
    alock_cas_release_crowded: "alock:cas-release", 5000..6000, draw_crowded;
    tas: "tas", 0..2000, draw;
    tas_crowded: "tas", 5000..6000, draw_crowded;
    tas_modern: "tas", 7000..8000, draw_modern;
    ticket: "ticket", 0..2000, draw;
    ticket_crowded: "ticket", 5000..6000, draw_crowded;
    ticket_modern: "ticket", 7000..8000, draw_modern;
    mcs: "mcs", 0..2000, draw;
    mcs_crowded: "mcs", 5000..6000, draw_crowded;
    mcs_modern: "mcs", 7000..8000, draw_modern;
    mcs_grouped: "mcs", 7000..8000, draw_grouped;
    mcs_late_links: "mcs", 10_000..11_000, draw_late_links;
    mcs_cas_release: "mcs:cas-release", 0..2000, draw;
    mcs_cas_release_crowded: "mcs:cas-release", 5000..6000, draw_crowded;
    farlock: "farlock", 0..5000, draw;
    farlock_crowded: "farlock", 5000..7000, draw_crowded;
    farlock_modern: "farlock", 7000..9000, draw_modern;
    farlock_g: "farlock-g", 0..5000, draw;
    farlock_g_crowded: "farlock-g:3,2", 5000..7000, draw_crowded;
    farlock_g_grouped: "farlock-g:5,5", 7000..8000, draw_grouped;
    farlock_g_late_links: "farlock-g:5,5", 10_000..12_000, draw_late_links;
}

#[test]
fn farlock_g_with_any_budgets() {
    survives_with_any_budgets("farlock-g", 0..5000, Scenario::draw);
}

#[test]
fn farlock_g_with_any_budgets_grouped() {
    survives_with_any_budgets("farlock-g", 8000..9000, Scenario::draw_grouped);
}

#[test]
fn farlock_g_without_groups_is_farlock() {
    for seed in 0..500 {
        for draw in [Scenario::draw, Scenario::draw_crowded] {
            let [one, other] = ["farlock", "farlock-g:1,1"].map(|name| {
                run(name.parse().expect("a lock"), None, draw(seed)).expect("it survives")
            });
            assert_eq!(one, other, "seed {seed}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..50 {
        for lock in [
            "sherman",
            "tas",
            "ticket",
            "mcs",
            "alock",
            "farlock",
            "farlock-g:4,3",
        ] {
            let spec = lock.parse().expect("a lock");
            let again = || run(spec, None, Scenario::draw_crowded(seed));
            assert_eq!(again(), again(), "{lock}, seed {seed}");
        }
    }
}

/// For an idle machine: `DMTREE_SOAK_SEEDS=100000 cargo test --release -p dmtree-lock -- --ignored soak`.
#[test]
#[ignore = "long; takes its number of seeds from DMTREE_SOAK_SEEDS"]
fn soak() {
    let seeds = std::env::var("DMTREE_SOAK_SEEDS")
        .map_or(10_000, |seeds| seeds.parse().expect("a number of seeds"));
    let from = 1 << 32;
    for lock in [
        "sherman",
        "tas",
        "ticket",
        "mcs",
        "mcs:cas-release",
        "alock",
        "alock:3,2",
        "alock:3,2:cas-release",
        "farlock",
        "farlock-g",
        "farlock-g:3,2",
    ] {
        survives(lock, from..from + seeds, Scenario::draw);
        survives(lock, from..from + seeds / 4, Scenario::draw_crowded);
        survives(lock, from..from + seeds / 4, Scenario::draw_grouped);
    }
}
