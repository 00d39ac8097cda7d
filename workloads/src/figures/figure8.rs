//! Figure 8 of the FARLock paper (section 5.2): tail latency of many locks, where the extra verbs of FARLock's remote
//! clients begin to show.

use super::microbench::{LOCKS, Saying, defaults, pairs, paper, quick};
use super::sweep_drawing::draw_tails_over_locks;
use crate::claims::Claim;
use crate::claims::judge::{Rule, View};
use crate::command::Command;
use crate::perform::figure_text;
use crate::report::{Class, RunRow};
use crate::settings::{Settings, Subject};

/// `dmtree figure 8`.
pub const COMMAND: Command = Command {
    name: "figure 8",
    subject: Subject::Locks,
    file_name: "figure-8",
    title: "Figure 8: tail latency of 10 to 100 locks",
    defaults: |_| defaults("figure-8", LOCKS, "10,20,30,50,70,100"),
    quick,
    paper: Some(|| paper("figure-8")),
    parts: |_| Vec::new(),
    judge: |_: &Settings, rows| judge(rows),
    remark: |_, rows| crossover(rows),
    tell: figure_text,
    percentiles: true,
    draw: draw_tails_over_locks,
};

/// "Beyond 30 locks".
const FEW: u32 = 30;

fn judge(rows: &[RunRow]) -> Vec<Claim> {
    let others = ["tas", "ticket", "mcs", "alock:20,5"];
    let local = others.map(|other| pairs(rows, [other, "farlock"], Class::Local, |_| true));
    let remote = pairs(rows, ["farlock", "ticket"], Class::Remote, |row| {
        row.lock_count > FEW
    });
    [
        Saying {
            id: "f8-crossover",
            published: "beyond 30 locks: remote tail higher than Ticket's",
            rule: Rule::More,
        }
        .of_tails(&remote),
        Saying {
            id: "f8-crossover",
            published: "FARLock's local tail stays the lowest",
            rule: Rule::More,
        }
        .of_tails(&local.concat()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// From how many locks on the remote tail is above Ticket's, at every percentile that both have.
fn crossover(rows: &[RunRow]) -> Option<String> {
    let mut pairs = pairs(rows, ["farlock", "ticket"], Class::Remote, |_| true);
    pairs.sort_by_key(|(row, _)| row.lock_count);
    let is_above = |(farlock, ticket): &(&RunRow, &RunRow)| {
        let ratios = View::ALL.tail_ratios(farlock, ticket).unwrap_or_default();
        !ratios.is_empty() && ratios.iter().all(|ratio| *ratio > 1.0)
    };
    let (fewest, most) = (pairs.first()?.0.lock_count, pairs.last()?.0.lock_count);
    let from = pairs.iter().rev().take_while(|pair| is_above(pair)).last();
    Some(match from {
        None => format!(
            "with up to {most} locks FARLock's remote tail is not above Ticket's at every percentile"
        ),
        Some((row, _)) if row.lock_count == fewest => format!(
            "FARLock's remote tail is above Ticket's at every percentile from {fewest} locks on, the fewest measured"
        ),
        Some((row, _)) => format!(
            "FARLock's remote tail is above Ticket's at every percentile from {} locks on, of those measured",
            row.lock_count
        ),
    })
}
