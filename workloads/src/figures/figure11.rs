//! Figure 11 of the FARLock paper (section 5.4): grouping local or remote requests, over the number of nodes.

use super::microbench::{Saying, defaults, pairs, paper, quick};
use super::sweep_drawing::draw_throughputs_over_nodes;
use crate::claims::judge::{Rule, View};
use crate::claims::{Claim, Unit};
use crate::command::{Command, Coordinates, PartOptions};
use crate::perform::figure_text;
use crate::report::{Class, RunRow};
use crate::settings::value::Bounded;
use crate::settings::{Options, Settings, Subject};

/// `dmtree figure 11`.
pub const COMMAND: Command = Command {
    name: "figure 11",
    subject: Subject::Locks,
    file_name: "figure-11",
    title: "Figure 11: throughput of groups over the number of nodes",
    defaults: |_| {
        defaults(
            "figure-11",
            "farlock,farlock-g:5,1,farlock-g:1,5,farlock-g:5,5",
            "1",
        )
    },
    quick,
    paper: Some(|| paper("figure-11")),
    parts,
    judge: |_: &Settings, rows| judge(rows),
    remark: |_, _| None,
    tell: figure_text,
    percentiles: true,
    draw: draw_throughputs_over_nodes,
};

/// 2 to 10 nodes, where none are given.
fn parts(given: &Options) -> Vec<PartOptions> {
    if given.nodes.is_some() {
        return Vec::new();
    }
    (2..=10)
        .map(|nodes| PartOptions {
            name: format!("{nodes} nodes"),
            options: Options {
                nodes: Some(Bounded::new(nodes)),
                ..Options::default()
            },
            at: Coordinates::from([("nodes", nodes as f64)]),
        })
        .collect()
}

const PLAIN: &str = "farlock";
const LOCALS: &str = "farlock-g:5,1";
const BOTH: &str = "farlock-g:5,5";

fn judge(rows: &[RunRow]) -> Vec<Claim> {
    let with =
        |faster, slower, class| pairs(rows, [faster, slower], class, |row| row.lock_count == 1);
    let claims = [
        Saying {
            id: "f11-local-group",
            published: "groups of 5 local requests raise local throughput",
            rule: Rule::More,
        }
        .of_throughputs(&with(LOCALS, PLAIN, Class::Local)),
        Saying {
            id: "f11-local-group",
            published: "groups of 5 local requests raise total throughput",
            rule: Rule::More,
        }
        .of_throughputs(&with(LOCALS, PLAIN, Class::All)),
        Saying {
            id: "f11-remote-group",
            published: "remote groups beside them lower total throughput",
            rule: Rule::More,
        }
        .of_throughputs(&with(LOCALS, BOTH, Class::All)),
        grows(&with(LOCALS, BOTH, Class::All)),
        Saying {
            id: "f11-remote-group",
            published: "10 nodes: they cancel the gain of local groups",
            rule: Rule::NoLess,
        }
        .of_throughputs(&pairs(rows, [PLAIN, BOTH], Class::All, |row| {
            row.lock_count == 1 && row.nodes == 10
        })),
    ];
    claims.into_iter().flatten().collect()
}

/// How many times what remote groups cost with the most nodes is what they cost with the fewest.
fn grows(pairs: &[(&RunRow, &RunRow)]) -> Option<Claim> {
    let fewest = pairs.iter().min_by_key(|(row, _)| row.nodes)?;
    let most = pairs.iter().max_by_key(|(row, _)| row.nodes)?;
    if fewest.0.nodes == most.0.nodes {
        return None;
    }
    let rows = [fewest.0, fewest.1, most.0, most.1];
    let values = |view: View| {
        let cost = |(locals, both): &(&RunRow, &RunRow)| view.throughput_ratio(locals, both);
        Some(vec![cost(most)? / cost(fewest)?])
    };
    Saying {
        id: "f11-remote-group",
        published: "the more the more nodes there are",
        rule: Rule::More,
    }
    .of_values(&rows, Unit::Ratio, &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict::{Fails, Holds};
    use crate::figures::microbench::tests::{row, told};

    #[test]
    fn each_claim_looks_at_its_cells() {
        let mut rows = Vec::new();
        // Nodes; local throughput of plain and with local groups; total of plain, local groups, both.
        for (nodes, local, all) in [
            (2, [100.0, 130.0], [200.0, 240.0, 230.0]),
            (10, [80.0, 110.0], [180.0, 200.0, 150.0]),
        ] {
            let at = |row: RunRow| RunRow {
                nodes,
                part: Some(format!("{nodes} nodes")),
                ..row
            };
            for (lock, throughput) in [PLAIN, LOCALS].into_iter().zip(local) {
                rows.push(at(row(lock, 1, Class::Local, 1, throughput)));
            }
            for (lock, throughput) in [PLAIN, LOCALS, BOTH].into_iter().zip(all) {
                rows.push(at(row(lock, 1, Class::All, 1, throughput)));
            }
        }
        let measured = |rows: &[RunRow]| -> Vec<_> {
            let claims = judge(rows);
            let told = told(&claims).into_iter();
            told.map(|(_, measured, verdict)| (measured, verdict))
                .collect()
        };
        let expected = [
            ("1.30–1.38×", Some(Holds)),
            ("1.11–1.20×", Some(Holds)),
            ("1.04–1.33×", Some(Holds)),
            ("1.28×", Some(Holds)),
            ("1.20×", Some(Holds)),
        ]
        .map(|(measured, verdict)| (measured.to_owned(), verdict));
        assert_eq!(measured(&rows), expected);
        // With one number of nodes nothing grows; 10 nodes are named.
        let two: Vec<RunRow> = rows.iter().filter(|row| row.nodes == 2).cloned().collect();
        assert_eq!(measured(&two).len(), 3);
        for row in rows.iter_mut().filter(|row| row.lock == BOTH) {
            row.throughput_ops_s *= 2.0;
        }
        assert_eq!(measured(&rows)[2].1, Some(Fails));
    }
}
