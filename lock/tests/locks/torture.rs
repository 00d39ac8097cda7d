//! Every lock, thousands of seeds each: random clusters, jitter, hostility, both data paths.

use crate::harness::{Scenario, run, survives};

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
    farlock: "farlock", 0..5000, draw;
    farlock_crowded: "farlock", 5000..7000, draw_crowded;
    farlock_modern: "farlock", 7000..9000, draw_modern;
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..50 {
        for lock in ["sherman", "alock", "farlock"] {
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
    for lock in ["sherman", "alock", "alock:3,2", "farlock"] {
        survives(lock, from..from + seeds, Scenario::draw);
        survives(lock, from..from + seeds / 4, Scenario::draw_crowded);
    }
}
