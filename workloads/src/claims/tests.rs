use super::judge::Rule;
use super::*;
use crate::latency::Summary;
use crate::report::{Class, RunRow};
use crate::seeds::SeedFigures;

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
            Rule::Between(PUBLISHED).verdict(Range { min, max }),
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
        assert_eq!(
            Rule::Same.verdict(Range { min, max }),
            verdict,
            "{min}–{max}"
        );
    }
}

#[test]
fn the_other_rules() {
    use Verdict::{Direction, Fails, Holds};
    for (rule, min, max, verdict) in [
        (Rule::UpTo(8.0), 1.2, 6.1, Holds),
        (Rule::UpTo(8.0), 0.5, 9.9, Holds),
        (Rule::UpTo(8.0), 1.2, 5.9, Direction),
        (Rule::UpTo(8.0), 1.2, 10.1, Direction),
        (Rule::UpTo(8.0), 0.9, 5.9, Fails),
        (Rule::Is(135.3), 102.0, 169.0, Holds),
        (Rule::Is(135.3), 101.0, 135.3, Fails),
        (Rule::Is(135.3), 135.3, 170.0, Fails),
        (Rule::More, 1.01, 99.0, Holds),
        (Rule::More, 1.0, 99.0, Fails),
    ] {
        assert_eq!(
            rule.verdict(Range { min, max }),
            verdict,
            "{rule:?}: {min}–{max}"
        );
    }
}

#[test]
fn medians_and_units() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    let range = |min, max| Range { min, max };
    for (range, unit, text) in [
        (range(12.0, 12.04), Unit::Ratio, "12×"),
        (range(0.514, 3.61), Unit::Ratio, "0.51–3.6×"),
        (range(135.3, 143.2), Unit::Us, "135–143 µs"),
        (range(7.0, 7.0), Unit::Requests, "7"),
    ] {
        assert_eq!(range.text(unit), text);
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
        distribution: Some(distribution.to_owned()),
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
    assert!(claims.iter().all(|claim| claim.over_seeds.is_none()));
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
    assert_eq!(claims[0].measured_text().as_deref(), Some("12×"));
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
fn seeds_are_judged_together_and_shown_one_by_one() {
    let figures = |p95: u64, p99_999: Option<u64>, throughput_ops_s: f64| SeedFigures {
        throughput_ops_s,
        latency_ns: Summary {
            p95: Some(p95),
            p99_999,
            ..Summary::default()
        },
        longest_run: None,
    };
    let with_seeds = |lock, class, pooled: SeedFigures, each_seed| RunRow {
        lock: String::from(lock),
        class,
        throughput_ops_s: pooled.throughput_ops_s,
        latency_ns: pooled.latency_ns,
        each_seed,
        ..RunRow::for_test()
    };
    let mut rows = vec![
        with_seeds(
            "sherman",
            Class::Local,
            figures(1200, Some(1400), 1.0),
            vec![figures(1100, None, 1.0), figures(1300, None, 1.0)],
        ),
        with_seeds(
            "farlock",
            Class::Local,
            figures(100, Some(100), 1.0),
            vec![figures(110, None, 1.0), figures(100, Some(1), 1.0)],
        ),
    ];
    let claims = judge_figure_12(&rows, DataPath::Cpu);
    assert_eq!(claims.len(), 1);
    let pooled = Range {
        min: 12.0,
        max: 14.0,
    };
    assert_eq!(claims[0].measured, Some(pooled), "P99.999 of all seeds");
    assert_eq!(claims[0].verdict, Some(Verdict::Holds));
    let over = claims[0].over_seeds.unwrap();
    assert_eq!((over.min, over.max), (Span(10.0, 13.0), Span(10.0, 13.0)));
    assert_eq!(over.text(Unit::Ratio), "10–13× to 10–13×");
    assert_eq!(
        serde_json::to_value(over).unwrap(),
        serde_json::json!({
            "min": [10.0, 13.0],
            "max": [10.0, 13.0],
            "median": {"min": 11.5, "max": 11.5},
        })
    );
    // Throughputs of both distributions; a seed's ratios are those of the same seed.
    let of = |lock, distribution: &str, each: [f64; 2]| RunRow {
        distribution: Some(distribution.to_owned()),
        ..with_seeds(
            lock,
            Class::All,
            figures(1, None, (each[0] + each[1]) / 2.0),
            each.map(|throughput| figures(1, None, throughput)).to_vec(),
        )
    };
    rows = vec![
        of("sherman", "uniform", [1.0, 2.0]),
        of("farlock", "uniform", [2.0, 1.0]),
        of("sherman", "zipf:0.99", [1.0, 1.0]),
        of("farlock", "zipf:0.99", [1.0, 1.0]),
    ];
    let claims = judge_figure_12(&rows, DataPath::Cpu);
    assert_eq!(claims[0].measured, Some(Range { min: 1.0, max: 1.0 }));
    assert_eq!(claims[0].verdict, Some(Verdict::Holds));
    let over = claims[0].over_seeds.unwrap();
    assert_eq!((over.min, over.max), (Span(0.5, 1.0), Span(1.0, 2.0)));
}

#[test]
fn published_ranges_are_known_by_id() {
    let range = |id| published_range(id).map(|range| (range.min, range.max));
    assert_eq!(range("f12-local-uniform"), Some((11.0, 14.0)));
    assert_eq!(range("f12-throughput"), Some((0.9, 1.1)));
    assert_eq!(range("f13"), None);
}
