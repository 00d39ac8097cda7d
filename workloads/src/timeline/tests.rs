//! Marks of known times, and what has to be told of them.

use dmtree_cluster::GlobalAddr;

use super::*;

fn lock(number: u64) -> GlobalAddr {
    GlobalAddr::new(NodeId(0), 64 * number)
}

/// Tells what is marked at these times, in µs, of clients 0 (local), 1 and 2 (remote); the window is 10 µs from 10 µs on.
fn samples(marks: &[(u64, u32, Mark)], every_us: u64, end_us: u64) -> Samples {
    let us = 1_000_000;
    let nodes = [NodeId(0), NodeId(1), NodeId(2)].into_iter();
    let timeline = Timeline::new(nodes, 10 * us..20 * us, every_us * us);
    let mut sink = timeline.sink();
    for (at_us, client, mark) in marks {
        sink.mark(ClientId(*client), at_us * us, *mark);
    }
    timeline.0.borrow_mut().finish(end_us * us)
}

/// Client 1 holds lock 1 from before the window to its middle, the others queue behind it; client 0 asks for another
/// lock behind the window.
fn queue() -> Vec<(u64, u32, Mark)> {
    let at = lock(1);
    vec![
        (5, 1, Mark::Requested { lock: at }),
        (6, 1, Mark::Ticket { lock: at }),
        (7, 1, Mark::Granted { lock: at }),
        (9, 2, Mark::Requested { lock: at }),
        (12, 0, Mark::Guards { page: lock(9) }),
        (12, 0, Mark::Requested { lock: at }),
        (13, 0, Mark::Ticket { lock: at }),
        (14, 1, Mark::Released { lock: at }),
        // On an interval's edge: of the next one.
        (15, 0, Mark::Granted { lock: at }),
        (16, 0, Mark::Released { lock: at }),
        (16, 2, Mark::Ticket { lock: at }),
        (18, 2, Mark::Granted { lock: at }),
        (19, 1, Mark::Requested { lock: lock(2) }),
        (20, 0, Mark::Requested { lock: lock(2) }),
    ]
}

#[test]
fn a_known_queue_is_told_as_it_was() {
    let samples = samples(&queue(), 5, 30);
    assert!(samples.has_tickets);
    let us = 1_000_000;
    let expected = [
        Sample {
            from_ps: 10 * us,
            to_ps: 15 * us,
            waiting: [1, 1],
            with_ticket: [1, 0],
            holding: [0, 0],
            longest_queue: 2,
            acquires: [1, 0],
            tickets: [1, 0],
            grants: [0, 0],
        },
        Sample {
            from_ps: 15 * us,
            to_ps: 20 * us,
            waiting: [0, 1],
            with_ticket: [0, 0],
            holding: [0, 1],
            longest_queue: 1,
            acquires: [0, 1],
            tickets: [0, 1],
            grants: [1, 1],
        },
    ];
    assert_eq!(samples.rows, expected);
}

#[test]
fn intervals_cover_the_window_and_no_more() {
    for (every, ends) in [
        (3, &[13, 16, 19, 20][..]),
        (4, &[14, 18, 20]),
        (10, &[20]),
        (50, &[20]),
    ] {
        let rows = samples(&queue(), every, 30).rows;
        let found: Vec<u64> = rows.iter().map(|row| row.to_ps / 1_000_000).collect();
        assert_eq!(found, ends);
        let total = rows.iter().map(|row| row.grants[0] + row.grants[1]);
        assert_eq!(total.sum::<u64>(), 2, "however it is cut");
    }
    // A run that failed: up to its end, and nothing where that is before the window.
    let rows = samples(&queue()[..9], 4, 17).rows;
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1].to_ps, rows[1].holding), (17_000_000, [1, 0]));
    assert_eq!(samples(&[], 4, 9).rows, []);
}

#[test]
fn csv_has_counts_and_rates() {
    let mut samples = samples(&queue(), 5, 30);
    let text = timeline_csv(&samples);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines
            .iter()
            .all(|line| line.split(',').count() == lines[0].split(',').count())
    );
    assert_eq!(
        lines[2],
        "15.000000,20.000000,0,1,0,0,0,1,1,0,1,0,1,1,1,0.000000,0.200000,0.000000,0.200000,0.200000,0.200000"
    );
    samples.has_tickets = false;
    let text = timeline_csv(&samples);
    assert_eq!(
        text.lines().nth(2),
        Some("15.000000,20.000000,0,1,,,0,1,1,0,1,,,1,1,0.000000,0.200000,,,0.200000,0.200000")
    );
}

#[test]
fn a_figure_has_a_panel_for_each_thing_told() {
    let caption = Caption {
        title: "Locks over time: <test> & more".to_owned(),
        subtitle: "3 clients".to_owned(),
    };
    let mut samples = samples(&queue(), 1, 30);
    let texts = |samples: &Samples| {
        let svg = timeline_svg(samples, &caption).expect("drawn");
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let lines = document
            .descendants()
            .filter(|node| node.has_tag_name("polyline"))
            .count();
        let texts: Vec<String> = document
            .descendants()
            .filter(|node| node.has_tag_name("text"))
            .filter_map(|node| Some(node.text()?.trim().to_owned()))
            .collect();
        (texts, lines)
    };
    let (with, lines) = texts(&samples);
    let has = |texts: &[String], what: &str| texts.iter().any(|text| text == what);
    for what in [
        "Locks over time: <test> & more",
        "3 clients",
        "clients waiting for a lock",
        "of them, with a ticket",
        "clients waiting for the lock that most wait for",
        "tickets taken per µs",
        "grants per µs",
        "time since the beginning of the run (µs)",
        // Of each of its ten intervals, one, two or three: 1, 1, 2, 2, 2, 1, 1, 1, 0, 1.
        "all, mean 1.20",
        "local, mean 0.100",
    ] {
        assert!(has(&with, what), "{what:?} is not in {with:?}");
    }
    samples.has_tickets = false;
    let (without, fewer) = texts(&samples);
    assert!(!without.iter().any(|text| text.contains("ticket")));
    assert!(fewer < lines);
    // Nothing to draw is no reason to fail.
    samples.rows.clear();
    texts(&samples);
}
