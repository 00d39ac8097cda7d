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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict::{Fails, Holds};
    use crate::figures::microbench::tests::{row, told};

    /// FARLock's remote tail in µs by the number of locks; Ticket's is 100 µs.
    fn rows(remote: &[(u32, u64)], other_local: u64) -> Vec<RunRow> {
        let of = |(locks, tail): &(u32, u64)| {
            [
                row("farlock", *locks, Class::Remote, *tail, 1.0),
                row("ticket", *locks, Class::Remote, 100, 1.0),
                row("farlock", *locks, Class::Local, 50, 1.0),
                row("tas", *locks, Class::Local, other_local, 1.0),
            ]
        };
        remote.iter().flat_map(of).collect()
    }

    #[test]
    fn the_crossing_is_found_and_judged_beyond_thirty() {
        let rows_of = rows(&[(10, 80), (30, 130), (50, 120), (100, 150)], 60);
        let claims = judge(&rows_of);
        let measured: Vec<_> = told(&claims)
            .into_iter()
            .map(|(_, text, v)| (text, v))
            .collect();
        assert_eq!(
            measured,
            [
                ("1.20–1.50×".to_owned(), Some(Holds)),
                ("1.20×".to_owned(), Some(Holds))
            ]
        );
        assert!(
            crossover(&rows_of)
                .unwrap()
                .contains("from 30 locks on, of those")
        );
        let below = rows(&[(10, 80), (50, 99)], 40);
        let verdicts: Vec<_> = judge(&below).iter().map(|claim| claim.verdict).collect();
        assert_eq!(verdicts, [Some(Fails), Some(Fails)]);
        assert!(crossover(&below).unwrap().contains("with up to 50 locks"));
        let above = rows(&[(50, 130), (10, 120)], 40);
        assert!(crossover(&above).unwrap().contains("the fewest measured"));
        assert_eq!(crossover(&[]), None);
    }
}
