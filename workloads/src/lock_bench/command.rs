//! `dmtree lock-bench`.

use super::arrivals::Arrivals;
use super::section::{LOCAL, REMOTE, Section};
use crate::command::{Command, draw_tails};
use crate::perform::figure_text;
use crate::settings::locks::LockCounts;
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::value::Bounded;
use crate::settings::{Options, Subject};

/// `dmtree lock-bench`: the microbenchmark of the FARLock paper (OSDI 2026, section 5) on its cluster.
pub const LOCK_BENCH: Command = Command {
    name: "lock-bench",
    subject: Subject::Locks,
    file_name: "lock-bench",
    title: "Latency and fairness of locks",
    defaults,
    quick,
    paper: None,
    parts: |_| Vec::new(),
    judge: |_, _| Vec::new(),
    remark: |_, _| None,
    tell: figure_text,
    percentiles: true,
    draw: draw_tails,
};

fn defaults(given: &Options) -> Options {
    // Figure 9's burst has one remote node.
    let is_burst = matches!(given.arrivals, Some(Arrivals::Burst { .. }));
    Options {
        nodes: is_burst.then(|| Bounded::new(2)),
        lock_count: Some(LockCounts(vec![1])),
        critical_section_local: Some(Section::Fixed(LOCAL)),
        critical_section_remote: Some(Section::Fixed(REMOTE)),
        gap: is_burst.then_some(GAP),
        seconds: Some(PositiveTime::from_ns(1_000_000_000)),
        ..Options::default()
    }
}

/// Between the local and the remote requests of a burst: remote requests are behind the local ones from about there on.
const GAP: Time = Time::from_ns(5_000);

/// At one lock some 100,000 jobs a second: enough for P99.9 of all.
fn quick() -> Options {
    Options {
        seconds: Some(PositiveTime::from_ns(150_000_000)),
        warmup: Some(Time::from_ns(10_000_000)),
        ..Options::default()
    }
}
