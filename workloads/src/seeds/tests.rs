use std::sync::LazyLock;

use super::*;
use crate::command::BENCH;
use crate::latency::Latencies;
use crate::plan::Plan;
use crate::report::Report;
use crate::run::{RunPlan, runs_of};
use crate::settings::{Options, Settings};
use crate::sweep::run_all;
use crate::{Failure, Progress};

#[test]
fn a_span_needs_a_value_of_every_seed() {
    assert_eq!(Span::<u64>::of([]), None);
    assert_eq!(Span::of([Some(3)]), Some(Span(3, 3)));
    assert_eq!(Span::of([Some(3), Some(1), Some(2)]), Some(Span(1, 3)));
    assert_eq!(Span::of([Some(3), None, Some(2)]), None);
    assert_eq!(Span::of([Some(0.5), Some(-1.5)]), Some(Span(-1.5, 0.5)));
}

fn settings(text: &str) -> Settings {
    let options: Options = toml::from_str(text).unwrap();
    Settings::of(options).unwrap()
}

const SEVERAL: &str = "lock = \"sherman,farlock\"\ndistribution = \"zipf:0.99\"\nmix = \"update:90,insert:10\"\n\
    nodes = 3\nthreads = 2\nkeys = 20000\nseconds = \"3ms\"\nwarmup = \"1ms\"\nverify = true\n";

fn run(settings: &Settings) -> Vec<RunOutcome> {
    run_all(&runs_of(settings), 2, |spec, abandon| {
        RunPlan::new(settings, spec)?.execute(&Progress::hidden(), abandon)
    })
    .unwrap()
}

fn report(settings: &Settings, outcomes: &[RunOutcome]) -> Report {
    let plan = Plan::single(&BENCH, settings.clone());
    plan.results(outcomes.to_vec()).unwrap().report
}

static SEEDS: LazyLock<(Settings, Vec<RunOutcome>)> = LazyLock::new(|| {
    let settings = settings(&format!("{SEVERAL}seed = 7\nseeds = 3\n"));
    let outcomes = run(&settings);
    (settings, outcomes)
});

/// Each seed by a command of its own, its histograms merged here.
#[test]
fn pooled_seeds_are_the_runs_of_each_seed_merged() {
    let (_, outcomes) = &*SEEDS;
    assert_eq!(outcomes.len(), 6);
    let alone: Vec<Vec<RunOutcome>> = (7..10)
        .map(|seed| run(&settings(&format!("{SEVERAL}seed = {seed}\n"))))
        .collect();
    let pooled: Vec<RunOutcome> = by_run(outcomes).filter_map(pool).collect();
    assert_eq!(pooled.len(), 2);
    for (lock, pooled) in pooled.iter().enumerate() {
        let runs = || alone.iter().map(|runs| &runs[lock]);
        type Of = fn(&RunOutcome) -> &Latencies;
        for of in [(|run| &run.local) as Of, |run| &run.remote] {
            let mut merged = Latencies::new();
            runs().for_each(|run| merged.merge(of(run)));
            assert!(of(pooled).count() > of(runs().next().unwrap()).count());
            assert_eq!(of(pooled).histogram(), merged.histogram());
            assert_eq!(of(pooled).summary(), merged.summary());
        }
        let sum = |of: fn(&RunOutcome) -> u64| runs().map(of).sum::<u64>();
        assert_eq!(pooled.verbs, sum(|run| run.verbs));
        assert_eq!(pooled.events, sum(|run| run.events));
        assert_eq!(pooled.growth.added, sum(|run| run.growth.added));
        assert_eq!(
            pooled.verified.unwrap().keys,
            sum(|run| run.verified.unwrap().keys)
        );
        assert_eq!(pooled.spec, runs().next().unwrap().spec);
    }
}

#[test]
fn a_row_has_what_all_seeds_and_what_each_of_them_shows() {
    let (settings, outcomes) = &*SEEDS;
    let report = report(settings, outcomes);
    assert_eq!(report.runs.len(), 6, "two locks, three classes");
    for row in &report.runs {
        assert_eq!((row.seed, row.seeds, row.each_seed.len()), (7, 3, 3));
        let each = || row.each_seed.iter();
        let throughputs: Vec<f64> = each().map(|seed| seed.throughput_ops_s).collect();
        let mean = throughputs.iter().sum::<f64>() / 3.0;
        assert!((row.throughput_ops_s / mean - 1.0).abs() < 1e-12);
        assert_eq!(row.ops as f64, (mean * 3.0 * row.seconds).round());
        let over = row.over_seeds.unwrap();
        let Span(least, greatest) = over.throughput_ops_s;
        assert!(least < greatest, "seeds differ");
        assert!(throughputs.contains(&least) && throughputs.contains(&greatest));
        assert!(throughputs.iter().all(|at| (least..=greatest).contains(at)));
        let p50s: Vec<u64> = each().map(|seed| seed.latency_ns.p50.unwrap()).collect();
        assert_eq!(
            over.latency_ns.p50,
            Some(Span(
                *p50s.iter().min().unwrap(),
                *p50s.iter().max().unwrap()
            ))
        );
        // Some hundred operations a seed.
        assert_eq!(over.latency_ns.p99_999, None);
        assert!(over.latency_ns.max.unwrap().1 == row.latency_ns.max.unwrap());
        let json = serde_json::to_value(row).unwrap();
        assert_eq!(json["seeds"], 3);
        assert_eq!(
            json["over_seeds"]["throughput_ops_s"],
            serde_json::json!([least, greatest])
        );
        assert!(json["over_seeds"]["latency_ns"]["p99_999"].is_null());
        assert!(json.get("each_seed").is_none());
    }
    // Three times the samples: a percentile that no seed has alone.
    let few = |row: &&RunRow| {
        row.latency_ns.p99.is_some() && row.over_seeds.unwrap().latency_ns.p99.is_none()
    };
    assert!(
        report.runs.iter().any(|row| few(&row)),
        "{:#?}",
        report.runs
    );
    let text = over_seeds_text(&report.runs);
    let line = text.lines().find(|line| line.contains("farlock")).unwrap();
    assert!(line.matches('–').count() >= 2, "{line}");
}

#[test]
fn one_seed_has_no_span() {
    let settings = settings("nodes = 2\nthreads = 1\nkeys = 1000\nseconds = \"1ms\"\nwarmup = 0\n");
    let report = report(&settings, &run(&settings));
    assert!(
        report
            .runs
            .iter()
            .all(|row| row.over_seeds.is_none() && row.seeds == 1)
    );
    let json = serde_json::to_value(&report.runs[0]).unwrap();
    assert!(json.get("over_seeds").is_none());
    assert_eq!(over_seeds_text(&report.runs), "");
}

#[test]
fn seeds_beyond_the_last_number_are_refused() {
    let options: Options = toml::from_str("seed = \"18446744073709551615\"\nseeds = 2\n").unwrap();
    let error = Settings::of(options).unwrap_err();
    assert!(
        matches!(&error, Failure::Usage(text) if text.contains("--seeds 2") && text.contains("--seed ")),
        "{error}"
    );
    let last: Options = toml::from_str("seed = \"18446744073709551614\"\nseeds = 2\n").unwrap();
    let settings = Settings::of(last).unwrap();
    assert_eq!(settings.seeds().last(), Some(u64::MAX));
}
