use super::*;
use crate::latency::Summary;

const PUBLISHED: Range = Range {
    min: 11.0,
    max: 14.0,
};

#[test]
fn both_ends_of_a_range_are_judged() {
    for (min, max, verdict) in [
        (11.0, 14.0, Verdict::Holds),
        (8.25, 17.5, Verdict::Holds),
        (13.75, 13.75, Verdict::Holds),
        (8.2, 14.0, Verdict::Direction),
        (11.0, 17.6, Verdict::Direction),
        (30.0, 58.0, Verdict::Direction),
        (1.01, 1.2, Verdict::Direction),
        (1.0, 14.0, Verdict::Fails),
        (0.4, 0.9, Verdict::Fails),
    ] {
        assert_eq!(
            judge_range(Range { min, max }, PUBLISHED),
            verdict,
            "{min}–{max}"
        );
    }
}

#[test]
fn about_the_same_is_within_a_tenth() {
    for (min, max, verdict) in [
        (0.9, 1.1, Verdict::Holds),
        (1.0, 1.0, Verdict::Holds),
        (0.89, 1.0, Verdict::Fails),
        (1.0, 1.11, Verdict::Fails),
    ] {
        assert_eq!(judge_sameness(Range { min, max }), verdict, "{min}–{max}");
    }
}

fn row(
    lock: &str,
    distribution: &str,
    class: Class,
    ns: [Option<u64>; 6],
    throughput: f64,
) -> RunRow {
    let [p50, p95, p99, p99_9, p99_99, p99_999] = ns;
    RunRow {
        lock: lock.to_owned(),
        distribution: distribution.to_owned(),
        class,
        throughput_ops_s: throughput,
        latency_ns: Summary {
            mean: None,
            p50,
            p95,
            p99,
            p99_9,
            p99_99,
            p99_999,
            max: None,
        },
        ..RunRow::for_test()
    }
}

#[test]
fn the_cells_of_each_claim_are_found() {
    let some = |factor: u64| [1, 1, 2, 3, 4, 5].map(|ns| Some(ns * factor));
    let mut rows = Vec::new();
    for (distribution, sherman, farlock) in [("uniform", 1200, 100), ("zipf:0.99", 300, 200)] {
        for class in [Class::Local, Class::Remote, Class::All] {
            rows.push(row("sherman", distribution, class, some(sherman), 2e6));
            rows.push(row("farlock", distribution, class, some(farlock), 2.1e6));
            rows.push(row("alock", distribution, class, some(7), 9e6));
        }
    }
    let claims = judge_figure_12(&rows, DataPath::Cpu);
    let verdicts: Vec<_> = claims
        .iter()
        .map(|claim| (claim.id, claim.verdict.unwrap()))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("f12-local-uniform", Verdict::Holds),
            ("f12-local-zipf", Verdict::Direction),
            ("f12-remote-uniform", Verdict::Direction),
            ("f12-remote-zipf", Verdict::Direction),
            ("f12-throughput", Verdict::Holds),
        ]
    );
    assert_eq!(
        claims[0].measured,
        Some(Range {
            min: 12.0,
            max: 12.0
        })
    );
    assert_eq!(claims[0].measured.unwrap().to_string(), "12×");
    assert!(
        judge_figure_12(&rows, DataPath::Loopback).is_empty(),
        "those runs are not there"
    );
}

#[test]
fn percentiles_that_one_side_lacks_do_not_count() {
    let sherman = [Some(10), Some(120), Some(130), Some(150), Some(9_999), None];
    let farlock = [Some(900), Some(10), Some(10), None, Some(1), Some(10)];
    let rows = [
        row("sherman", "uniform", Class::Local, sherman, 1.0),
        row("farlock", "uniform", Class::Local, farlock, 1.0),
    ];
    // P50 and P99.99 are not part of the judgement, P99.9 and P99.999 lack a side.
    let claims = judge_figure_12(&rows, DataPath::Cpu);
    assert_eq!(claims.len(), 1, "remote, Zipf and throughput have no runs");
    assert_eq!(
        claims[0].measured,
        Some(Range {
            min: 12.0,
            max: 13.0
        })
    );
    let rows = [
        row("sherman", "uniform", Class::Local, [None; 6], 1.0),
        row("farlock", "uniform", Class::Local, farlock, 1.0),
    ];
    let claims = judge_figure_12(&rows, DataPath::Cpu);
    assert_eq!((claims[0].measured, claims[0].verdict), (None, None));
}

#[test]
fn throughput_is_judged_over_both_distributions() {
    let mut rows = vec![
        row("sherman", "uniform", Class::All, [None; 6], 2e6),
        row("farlock", "uniform", Class::All, [None; 6], 2e6),
        row("sherman", "zipf:0.99", Class::All, [None; 6], 2e6),
    ];
    assert!(judge_figure_12(&rows, DataPath::Cpu).is_empty());
    rows.push(row("farlock", "zipf:0.99", Class::All, [None; 6], 2.4e6));
    let claims = judge_figure_12(&rows, DataPath::Cpu);
    assert_eq!(claims[0].measured, Some(Range { min: 1.0, max: 1.2 }));
    assert_eq!(claims[0].verdict, Some(Verdict::Fails));
}

#[test]
fn published_ranges_are_known_by_id() {
    let range = |id| published_range(id).map(|range| (range.min, range.max));
    assert_eq!(range("f12-local-uniform"), Some((11.0, 14.0)));
    assert_eq!(range("f12-throughput"), Some(ABOUT_THE_SAME));
    assert_eq!(range("f13"), None);
}
