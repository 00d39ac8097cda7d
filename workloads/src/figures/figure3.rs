//! Figure 3 of the FARLock paper: why ALock is not fair. (a) is Figure 9's experiment with ALock alone; (b) is the
//! standard deviation of each grant's number minus its request's over the number of threads.
//!
//! The paper does not give ALock's budgets here: `alock` alternates, `alock:20,5` is what it found best elsewhere. Nor
//! does it give (b)'s cluster: (a)'s 2 nodes are taken, half of all threads on each.

use super::figure9::burst;
use super::microbench::{defaults, paper, quick};
use super::order_drawing::draw_order_and_spread;
use crate::command::{Command, Coordinates, PartOptions};
use crate::perform::figure_text;
use crate::settings::quantity::Time;
use crate::settings::value::Bounded;
use crate::settings::{Options, Subject};

/// `dmtree figure 3`.
pub const COMMAND: Command = Command {
    name: "figure 3",
    subject: Subject::Locks,
    file_name: "figure-3",
    title: "Figure 3: ALock's order of service, and how far it is from that of arrival",
    defaults: |_| Options {
        nodes: Some(Bounded::new(2)),
        ..defaults("figure-3", "alock,alock:20,5", "1")
    },
    quick,
    paper: Some(|| paper("figure-3")),
    parts,
    // The paper's text makes no claim about it in numbers.
    judge: |_, _| Vec::new(),
    remark: |_, _| None,
    tell: figure_text,
    percentiles: true,
    draw: draw_order_and_spread,
};

/// Behind the local requests of (a), so that they have entered their queue.
const GAP: Time = Time::from_ns(5_000);

fn parts(given: &Options) -> Vec<PartOptions> {
    let gap = given.gap.unwrap_or(GAP);
    let order = PartOptions {
        name: format!("burst, gap {}", gap.short()),
        options: burst(given, gap),
        at: Coordinates::from([("gap_us", gap.ns as f64 / 1000.0)]),
    };
    if given.arrivals.is_some() {
        return vec![order];
    }
    let threads = match given.threads {
        Some(threads) => vec![threads.get()],
        None => vec![1, 2, 4, 8, 12, 16],
    };
    let spreads = threads.into_iter().map(|threads| PartOptions {
        name: match threads {
            1 => "1 thread a node".to_owned(),
            more => format!("{more} threads a node"),
        },
        options: Options {
            threads: Some(Bounded::new(threads)),
            ..Options::default()
        },
        at: Coordinates::from([("threads", threads as f64)]),
    });
    [order].into_iter().chain(spreads).collect()
}
