//! Figure 10 of the FARLock paper (section 5.3): throughput of local and remote clients over the number of locks.

use super::microbench::{LOCKS, Pair, Saying, defaults, pairs, paper, quick};
use super::sweep_drawing::draw_throughputs_over_locks;
use crate::claims::judge::{Rule, View, rows_with};
use crate::claims::{Claim, Range, Unit};
use crate::command::Command;
use crate::perform::figure_text;
use crate::report::{Class, RunRow};
use crate::settings::{Settings, Subject};

/// `dmtree figure 10`.
pub const COMMAND: Command = Command {
    name: "figure 10",
    subject: Subject::Locks,
    file_name: "figure-10",
    title: "Figure 10: throughput over the number of locks",
    defaults: |_| defaults("figure-10", LOCKS, "1,2,5,10,20,30,50,70,100"),
    quick,
    paper: Some(|| paper("figure-10")),
    parts: |_| Vec::new(),
    judge: |_: &Settings, rows| judge(rows),
    remark: |_, _| None,
    tell: figure_text,
    percentiles: true,
    draw: draw_throughputs_over_locks,
};

fn judge(rows: &[RunRow]) -> Vec<Claim> {
    let against = |slower: &str, class, count: &dyn Fn(u32) -> bool| {
        pairs(rows, ["farlock", slower], class, |row| {
            count(row.lock_count)
        })
    };
    let all = |_| true;
    let fair = ["mcs", "tas", "ticket"].map(|other| against(other, Class::Local, &all));
    let alock = |count: u32| against("alock:20,5", Class::Local, &|at| at == count);
    let exactly = |ratio| {
        Rule::Between(Range {
            min: ratio,
            max: ratio,
        })
    };
    let remote = |count: &dyn Fn(u32) -> bool| {
        ["mcs", "ticket"]
            .map(|other| {
                pairs(rows, [other, "farlock"], Class::Remote, |row| {
                    count(row.lock_count)
                })
            })
            .concat()
    };
    let claims = [
        Saying {
            id: "f10-local-fair",
            published: "local throughput up to 891× MCS's, TS's and Ticket's",
            rule: Rule::UpTo(891.0),
        }
        .of_throughputs(&fair.concat()),
        Saying {
            id: "f10-local-alock",
            published: "local throughput 11.9× ALock's at 1 lock",
            rule: exactly(11.9),
        }
        .of_throughputs(&alock(1)),
        Saying {
            id: "f10-local-alock",
            published: "local throughput 2× ALock's at 10 locks",
            rule: exactly(2.0),
        }
        .of_throughputs(&alock(10)),
        gap_closes(&against("alock:20,5", Class::Local, &all)),
        Saying {
            id: "f10-remote-1",
            published: "1 lock: MCS and Ticket have about FARLock's remote throughput",
            rule: Rule::Same,
        }
        .of_throughputs(&remote(&|count| count == 1)),
        Saying {
            id: "f10-remote-1",
            published: "more locks: MCS and Ticket have more remote throughput",
            rule: Rule::More,
        }
        .of_throughputs(&remote(&|count| count > 1)),
        from_one_to_thirty(rows, Class::Local),
        from_one_to_thirty(rows, Class::Remote),
        longest_run(rows),
    ];
    claims.into_iter().flatten().collect()
}

/// How many times FARLock's advantage over ALock is at the fewest locks what it is at the most.
fn gap_closes(pairs: &[Pair<'_>]) -> Option<Claim> {
    let fewest = pairs.iter().min_by_key(|(row, _)| row.lock_count)?;
    let most = pairs.iter().max_by_key(|(row, _)| row.lock_count)?;
    let rows = [fewest.0, fewest.1, most.0, most.1];
    if fewest.0.lock_count == most.0.lock_count {
        return None;
    }
    let values = |view: View| {
        let [few, many] =
            [fewest, most].map(|(farlock, alock)| view.throughput_ratio(farlock, alock));
        Some(vec![few? / many?])
    };
    Saying {
        id: "f10-local-alock",
        published: "the gap to ALock closes with more locks",
        rule: Rule::More,
    }
    .of_values(&rows, Unit::Ratio, &values)
}

/// FARLock's local throughput falls from 1 to 30 locks, its remote one rises.
fn from_one_to_thirty(rows: &[RunRow], class: Class) -> Option<Claim> {
    let at = |count| rows_with(rows, "farlock", class).find(|row| row.lock_count == count);
    let (one, thirty) = (at(1)?, at(30)?);
    let (published, pair) = match class {
        Class::Local => ("local throughput dips from 1 to 30 locks", (one, thirty)),
        _ => ("remote throughput rises from 1 to 30 locks", (thirty, one)),
    };
    Saying {
        id: "f10-dip",
        published,
        rule: Rule::More,
    }
    .of_throughputs(&[pair])
}

fn longest_run(rows: &[RunRow]) -> Option<Claim> {
    let one = rows_with(rows, "farlock", Class::Local).find(|row| row.lock_count == 1)?;
    Saying {
        id: "f10-runs",
        published: "1 lock: up to 12 local hand-overs in a row",
        rule: Rule::UpTo(12.0),
    }
    .of_values(&[one], Unit::Requests, &|view| {
        Some(vec![view.figures(one)?.longest_run? as f64])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict::{Direction, Fails, Holds};
    use crate::figures::microbench::tests::{row, told};
    use crate::lock_bench::FairnessTally;

    #[test]
    fn each_claim_looks_at_its_cells() {
        let mut rows = Vec::new();
        // Locks; local and remote throughput of FARLock, ALock, MCS, Ticket and TS.
        for (locks, local, remote) in [
            (
                1,
                [1200.0, 100.0, 2.0, 3.0, 1.5],
                [90.0, 80.0, 95.0, 85.0, 70.0],
            ),
            (
                10,
                [1000.0, 500.0, 20.0, 25.0, 10.0],
                [200.0, 300.0, 250.0, 260.0, 100.0],
            ),
            (
                30,
                [900.0, 800.0, 50.0, 60.0, 40.0],
                [600.0, 500.0, 590.0, 700.0, 300.0],
            ),
        ] {
            let names = ["farlock", "alock:20,5", "mcs", "ticket", "tas"];
            for (index, lock) in names.into_iter().enumerate() {
                rows.push(row(lock, locks, Class::Local, 1, local[index]));
                rows.push(row(lock, locks, Class::Remote, 1, remote[index]));
            }
        }
        rows[0].fairness = Some(crate::lock_bench::FairnessRow {
            longest_run: Some(13),
            ..FairnessTally::default().row(Class::Local)
        });
        let claims = judge(&rows);
        let found: Vec<_> = told(&claims)
            .into_iter()
            .map(|(_, measured, verdict)| (measured, verdict))
            .collect();
        let expected = [
            ("15–800×", Some(Holds)),
            ("12×", Some(Holds)),
            ("2.0×", Some(Holds)),
            ("11×", Some(Holds)),
            ("0.94–1.06×", Some(Holds)),
            ("0.98–1.30×", Some(Fails)),
            ("1.33×", Some(Holds)),
            ("6.7×", Some(Holds)),
            ("13", Some(Holds)),
        ]
        .map(|(measured, verdict)| (measured.to_owned(), verdict));
        assert_eq!(found, expected);
        // A longer run than published is the right effect, too large.
        rows[0].fairness = rows[0]
            .fairness
            .map(|fairness| crate::lock_bench::FairnessRow {
                longest_run: Some(40),
                ..fairness
            });
        assert_eq!(
            judge(&rows).last().and_then(|claim| claim.verdict),
            Some(Direction)
        );
        assert!(judge(&[]).is_empty());
    }
}
