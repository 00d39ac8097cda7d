//! What no run of today does: a client with several locks, and marks out of place.

use dmtree_cluster::{ClientId, GlobalAddr, Mark, NodeId};
use serde_json::{Value, json};

use super::*;

const ABOUT: About = About {
    program: "dmtree",
    version: "0",
    run: String::new(),
    profile: "none",
    seed: 1,
    time: "virtual",
};

/// The slice edges that `marks` (at their times) of one client become, as (phase, ts, name's first word and lock).
fn edges(window: Range<u64>, marks: &[(u64, Mark)], end: u64) -> Vec<(String, f64, String)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    let place = Place {
        node: NodeId(0),
        thread: 0,
        coroutine: None,
    };
    let trace = Trace::create(&path, [place].into_iter(), NodeId(0), window).unwrap();
    let mut sink = trace.sink();
    for (at, mark) in marks {
        sink.mark(ClientId(0), *at, *mark);
    }
    assert!(!path.exists(), "not before it is whole");
    trace.finish(end, &ABOUT).unwrap();
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    whole["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] != "M")
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap().to_owned();
            (text("ph"), event["ts"].as_f64().unwrap(), text("name"))
        })
        .collect()
}

fn lock(number: u64) -> GlobalAddr {
    GlobalAddr::new(NodeId(0), 64 * number)
}

fn expected(edges: &[(&str, f64, &str)]) -> Vec<(String, f64, String)> {
    edges
        .iter()
        .map(|(phase, at, name)| ((*phase).to_owned(), *at, (*name).to_owned()))
        .collect()
}

/// A client that holds `a` asks for `b`, and gives them back in the order in which it got them.
fn two_locks() -> [(u64, Mark); 7] {
    let (a, b) = (lock(1), lock(2));
    [
        (1_000_000, Mark::Requested { lock: a }),
        (2_000_000, Mark::Granted { lock: a }),
        (2_000_000, Mark::Guards { page: lock(16) }),
        (3_000_000, Mark::Requested { lock: b }),
        (4_000_000, Mark::Granted { lock: b }),
        (5_000_000, Mark::Released { lock: a }),
        (6_000_000, Mark::Released { lock: b }),
    ]
}

#[test]
fn locks_that_are_not_given_back_in_reverse_nest_all_the_same() {
    let b = "hold: lock 0:host+0x80, page 0:host+0x400";
    assert_eq!(
        edges(0..u64::MAX, &two_locks(), 7_000_000),
        expected(&[
            ("B", 1.0, "wait: lock 0:host+0x40"),
            ("E", 2.0, "wait: lock 0:host+0x40"),
            ("B", 2.0, "hold: lock 0:host+0x40"),
            ("B", 3.0, "wait: lock 0:host+0x80, page 0:host+0x400"),
            ("E", 4.0, "wait: lock 0:host+0x80, page 0:host+0x400"),
            ("B", 4.0, b),
            ("E", 5.0, b),
            ("E", 5.0, "hold: lock 0:host+0x40"),
            ("B", 5.0, b),
            ("E", 6.0, b),
        ])
    );
}

#[test]
fn what_overlaps_the_window_is_whole() {
    let a = "hold: lock 0:host+0x40";
    let b = "hold: lock 0:host+0x80, page 0:host+0x400";
    // Only the section of `a` goes on in it, and nothing happens.
    assert_eq!(
        edges(2_400_000..2_500_000, &two_locks(), 7_000_000),
        expected(&[("B", 2.0, a), ("E", 5.0, a)])
    );
    // Both, and they end behind it. The inner one comes apart where the outer one ends.
    assert_eq!(
        edges(4_400_000..4_500_000, &two_locks(), 7_000_000),
        expected(&[
            ("B", 2.0, a),
            ("B", 4.0, b),
            ("E", 5.0, b),
            ("E", 5.0, a),
            ("B", 5.0, b),
            ("E", 6.0, b),
        ])
    );
    assert_eq!(edges(6_500_000..7_000_000, &two_locks(), 7_000_000), []);
}

#[test]
fn what_has_not_ended_ends_with_the_run() {
    let marks = &two_locks()[..5];
    let edges = edges(0..u64::MAX, marks, 0);
    let at_the_last_instant = &edges[6..];
    assert_eq!(
        at_the_last_instant,
        expected(&[
            ("E", 4.0, "hold: lock 0:host+0x80, page 0:host+0x400"),
            ("E", 4.0, "hold: lock 0:host+0x40"),
        ])
    );
}

#[test]
fn marks_without_a_beginning_are_no_slices() {
    let marks = [(5, Mark::Released { lock: lock(1) })];
    assert_eq!(edges(0..u64::MAX, &marks, 10), []);
}

#[test]
fn an_ended_trace_is_not_ended_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    let trace = Trace::create(&path, std::iter::empty(), NodeId(0), 0..1).unwrap();
    let summary = trace.finish(0, &ABOUT).unwrap();
    assert_eq!(summary.events, 0);
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(whole["traceEvents"], json!([]));
    assert!(trace.finish(0, &ABOUT).is_err());
}
