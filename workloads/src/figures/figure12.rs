//! Figure 12 of the FARLock paper (Hu et al., OSDI 2026, section 6): updates of Sherman's tree
//! under its own lock and under FARLock, uniform and Zipf 0.99, tail latency of local and remote
//! clients, throughput.
//!
//! The cluster is the paper's: 10 nodes of 12 threads, node 0 memory server and compute server.
//! What differs: 10 M keys instead of 800 M (80 M with `--paper`), and a simulated cluster. Both ways to page data of
//! local clients are run, as the paper does not say which it had; ALock is beside them, which the
//! paper's figure does not have.

use crate::claims::{Claim, judge_figure_12};
use crate::command::{Command, draw_tails};
use crate::mix::Mix;
use crate::perform::figure_text;
use crate::report::RunRow;
use crate::settings::choice::{DataPaths, Switch};
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::value::Bounded;
use crate::settings::{Options, Settings, Subject};

/// `dmtree figure 12`.
pub const COMMAND: Command = Command {
    name: "figure 12",
    subject: Subject::Tree,
    file_name: "figure-12",
    title: "Figure 12: tail latency of Sherman's tree, by page lock",
    defaults,
    quick,
    paper: Some(paper),
    parts: |_| Vec::new(),
    judge,
    remark,
    tell: figure_text,
    percentiles: true,
    draw: draw_tails,
};

fn defaults(_: &Options) -> Options {
    let known = "every default is a value of its option";
    Options {
        lock: Some("sherman,farlock,alock".parse().expect(known)),
        distribution: Some("uniform,zipf:0.99".parse().expect(known)),
        nodes: Some(Bounded::new(10)),
        threads: Some(Bounded::new(12)),
        mix: Some(Mix::update()),
        keys: Some(Bounded::new(10_000_000)),
        data_path: Some(DataPaths::Both),
        seconds: Some(PositiveTime::from_ns(3_000_000_000)),
        out: Some("results/figure-12".parse().expect(known)),
        ..Options::default()
    }
}

/// The slowest run, Sherman's lock under Zipf with local data by loopback, makes 83,000 local
/// operations a second: the window has more than 10,000 of them, enough for P99.9.
fn quick() -> Options {
    Options {
        keys: Some(Bounded::new(1_000_000)),
        seconds: Some(PositiveTime::from_ns(150_000_000)),
        warmup: Some(Time::from_ns(10_000_000)),
        ..Options::default()
    }
}

/// As near to the paper's as two runs at once fit 8 GiB: a tenth of its keys; the middle 10 s of 20 s measured, three
/// runs, as there; the data path that is most likely its own (docs/reproduction.md). Long enough to be interrupted,
/// hence resumed.
fn paper() -> Options {
    let known = "every default is a value of its option";
    Options {
        keys: Some(Bounded::new(80_000_000)),
        warmup: Some(Time::from_ns(5_000_000_000)),
        seconds: Some(PositiveTime::from_ns(10_000_000_000)),
        seeds: Some(Bounded::new(3)),
        data_path: Some(DataPaths::Loopback),
        resume: Some(Switch::On),
        out: Some("results/figure-12-paper".parse().expect(known)),
        ..Options::default()
    }
}

/// The claims are about updates.
fn judge(settings: &Settings, rows: &[RunRow]) -> Vec<Claim> {
    if settings.mix == Mix::update() {
        claims(settings, rows)
    } else {
        Vec::new()
    }
}

/// The claims of Figure 12, data path by data path.
pub(crate) fn claims(settings: &Settings, rows: &[RunRow]) -> Vec<Claim> {
    settings
        .data_paths
        .each()
        .iter()
        .flat_map(|path| judge_figure_12(rows, *path))
        .collect()
}

fn remark(settings: &Settings, _: &[RunRow]) -> Option<String> {
    (settings.mix != Mix::update()).then(|| {
        format!(
            "no claim is judged: the paper's are about updates, and this was --mix {}; leave --mix away to judge them",
            settings.mix
        )
    })
}
