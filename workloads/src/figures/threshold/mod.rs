//! `dmtree figure threshold`: where FARLock protects local requests, and where that ends.
//!
//! FARLock's local clients wait little only while remote clients take tickets more slowly than the lock serves them.
//! Once they take them faster, all of them stand in the ticket queue, and first come, first served means waiting for all
//! of them. Which of both it is depends on how long a remote critical section is and how much it varies, on the round
//! trip, on how many remote clients there are for each local one, and on how many locks they share: the figure maps the
//! tail latencies of FARLock and of ALock over all of these.
//!
//! FARLock protects local requests where one in a thousand of them waits less than half as long as every other remote
//! one ([`is_protected`]).

mod boundary;
mod drawing;
mod grid;

use crate::command::{Command, PartOptions};
use crate::latency::Summary;
use crate::plan::Results;
use crate::results::conditions;
use crate::settings::{Options, Subject};

use super::microbench::defaults;
use boundary::boundaries_text;
use drawing::draw;
use grid::grid;

/// `dmtree figure threshold`.
pub const COMMAND: Command = Command {
    name: "figure threshold",
    subject: Subject::Locks,
    file_name: "threshold",
    title: "Threshold: where FARLock protects local requests",
    defaults: |_| Options {
        seconds: None,
        seeds: None,
        ..defaults("threshold", "farlock,alock:20,5", "1")
    },
    quick: Options::default,
    paper: None,
    parts,
    judge: |_, _| Vec::new(),
    remark: |_, _| None,
    tell,
    percentiles: false,
    draw,
};

fn parts(given: &Options) -> Vec<PartOptions> {
    grid(given)
}

/// Whether local requests with these latencies are protected against remote ones with those: P99.9 below half of the
/// remote P50. None where there are too few samples.
pub fn is_protected(local: &Summary, remote: &Summary) -> Option<bool> {
    Some(local.p99_9? * 2 < remote.p50?)
}

fn tell(results: &Results<'_>) -> String {
    format!(
        "{}: {}\n\n{}",
        COMMAND.title,
        conditions(&results.settings()),
        boundaries_text(&results.report.runs)
    )
}
