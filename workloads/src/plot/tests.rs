use super::*;
use crate::latency::Summary;

fn rows() -> Vec<RunRow> {
    let mut rows = Vec::new();
    for (lock, base) in [("sherman", 43_000), ("farlock", 760), ("alock:20,5", 900)] {
        for distribution in ["uniform", "zipf:0.99"] {
            for (class, factor) in [(Class::Local, 1), (Class::Remote, 40), (Class::All, 30)] {
                let at = |tail: u64| Some(base * factor * tail);
                rows.push(RunRow {
                    lock: lock.to_owned(),
                    distribution: Some(distribution.to_owned()),
                    class,
                    throughput_ops_s: 2.7e6,
                    latency_ns: Summary {
                        p50: at(1),
                        p95: at(2),
                        p99: at(3),
                        p99_9: at(4),
                        p99_99: at(5),
                        p99_999: if lock == "sherman" { None } else { at(9) },
                        ..Summary::default()
                    },
                    ..RunRow::for_test()
                });
            }
        }
    }
    rows
}

fn caption() -> Caption {
    Caption {
        title: "A <title> & more".to_owned(),
        subtitle: "10 nodes × 12 threads".to_owned(),
    }
}

fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .map(|node| node.text().unwrap_or_default().trim().to_owned())
        .collect()
}

#[test]
fn the_figure_is_well_formed_and_says_what_it_shows() {
    let svg = tail_latency_svg(&rows(), &caption()).unwrap();
    let texts = texts(&svg);
    for text in [
        "A <title> & more",
        "10 nodes × 12 threads",
        "uniform, local clients",
        "uniform, remote clients",
        "zipf:0.99, local clients",
        "zipf:0.99, remote clients",
        "latency (µs, log scale)",
        "percentile",
        "P50",
        "P99.999",
        "sherman",
        "farlock",
        "alock:20,5",
        "2.70",
        "1000",
    ] {
        assert!(
            texts.iter().any(|other| other == text),
            "{text} is not in {texts:?}"
        );
    }
    assert_eq!(
        texts.iter().filter(|text| *text == "P99.9").count(),
        4,
        "one for each panel"
    );
}

#[test]
fn letters_are_large_enough_and_everything_is_inside() {
    let svg = tail_latency_svg(&rows(), &caption()).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let root = document.root_element();
    let number =
        |node: roxmltree::Node<'_, '_>, name| node.attribute(name).unwrap().parse::<f64>().unwrap();
    let (width, height) = (number(root, "width"), number(root, "height"));
    for node in document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
    {
        assert!(number(node, "font-size") > 10.99);
        assert_eq!(node.attribute("font-family"), Some("sans-serif"));
        assert!(
            (0.0..width).contains(&number(node, "x")) && (0.0..height).contains(&number(node, "y"))
        );
    }
}

/// Names do not run into each other or out of the figure, markers stay in their percentile's column.
#[test]
fn many_locks_with_long_names_stay_readable() {
    let mut rows = Vec::new();
    for budget in 0..14u32 {
        let lock = format!("alock:{},{}", u32::MAX - budget, u32::MAX);
        for row in self::rows().into_iter().filter(|row| row.lock == "farlock") {
            rows.push(RunRow {
                lock: lock.clone(),
                ..row
            });
        }
    }
    let svg = tail_latency_svg(&rows, &caption()).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let number =
        |node: roxmltree::Node<'_, '_>, name| node.attribute(name).unwrap().parse::<f64>().unwrap();
    let width = number(document.root_element(), "width");
    let mut names: Vec<(f64, f64, bool)> = Vec::new();
    for node in document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
    {
        let text = node.text().unwrap_or_default().trim();
        if text.starts_with("alock") {
            let left = node.attribute("text-anchor") == Some("start");
            names.push((number(node, "y"), number(node, "x"), left));
        }
    }
    assert_eq!(names.len(), 28, "legend and table");
    // Seven pixels a letter, 22 letters.
    let long = 154.0;
    names.sort_by(|one, other| one.partial_cmp(other).unwrap());
    for pair in names.windows(2) {
        let apart = pair[0].0 != pair[1].0 || pair[1].1 - pair[0].1 > long;
        assert!(apart, "{pair:?} overlap");
    }
    for (_, x, left) in names {
        let (from, to) = if left { (x, x + long) } else { (x - long, x) };
        assert!(from >= 0.0 && to <= width, "{from}–{to} of {width}");
    }
    // The first panel begins at 98; the legend's samples lie above it.
    let markers: Vec<f64> = document
        .descendants()
        .filter(|node| node.has_tag_name("circle") && number(*node, "cy") > 200.0)
        .map(|node| number(node, "cx"))
        .collect();
    assert!(markers.len() > 12);
    let column = PANEL_WIDTH / 6.0;
    for x in markers {
        let panel = (x - MARGIN - AXIS_WIDTH) % (PANEL_WIDTH + AXIS_WIDTH);
        let within = panel % column;
        assert!(
            panel <= PANEL_WIDTH && (5.0..=column - 5.0).contains(&within),
            "{x} is in no percentile's column"
        );
    }
}

#[test]
fn an_empty_panel_beside_a_full_one_says_why() {
    let mut rows = rows();
    for row in &mut rows {
        if row.class == Class::Local && row.distribution.as_deref() == Some("uniform") {
            row.latency_ns = Summary::default();
        }
    }
    let texts = texts(&tail_latency_svg(&rows, &caption()).unwrap());
    assert_eq!(
        texts
            .iter()
            .filter(|text| *text == "too few samples")
            .count(),
        1
    );
}

#[test]
fn no_samples_and_one_class_make_a_figure_too() {
    let rows = [
        RunRow {
            class: Class::Local,
            ..RunRow::for_test()
        },
        RunRow::for_test(),
    ];
    let texts = texts(&tail_latency_svg(&rows, &caption()).unwrap());
    assert!(texts.iter().any(|text| text == "too few samples"));
    assert!(!texts.iter().any(|text| text.contains("remote")));
}
