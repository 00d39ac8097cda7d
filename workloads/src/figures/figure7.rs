//! Figure 7 of the FARLock paper (section 5.2): tail latency of few locks, 1 to 10, by class and lock.

use super::microbench::{LOCKS, Saying, defaults, pairs, paper, quick};
use super::sweep_drawing::draw_tails_over_locks;
use crate::claims::judge::{Rule, View};
use crate::claims::{Claim, Range, Unit};
use crate::command::Command;
use crate::perform::figure_text;
use crate::report::{Class, RunRow};
use crate::settings::{Settings, Subject};

/// `dmtree figure 7`.
pub const COMMAND: Command = Command {
    name: "figure 7",
    subject: Subject::Locks,
    file_name: "figure-7",
    title: "Figure 7: tail latency of 1 to 10 locks",
    defaults: |_| defaults("figure-7", LOCKS, "1,2,5,10"),
    quick,
    paper: Some(|| paper("figure-7")),
    parts: |_| Vec::new(),
    judge: |_: &Settings, rows| judge(rows),
    remark: |_, _| None,
    tell: figure_text,
    percentiles: true,
    draw: draw_tails_over_locks,
};

/// The locks of the claims: "1–10 locks".
fn is_few(row: &RunRow) -> bool {
    row.lock_count <= 10
}

fn judge(rows: &[RunRow]) -> Vec<Claim> {
    let against = |slower, class| pairs(rows, [slower, "farlock"], class, is_few);
    let fair = [
        against("mcs", Class::Local),
        against("ticket", Class::Local),
    ]
    .concat();
    let grouped = |class| pairs(rows, ["farlock-g", "farlock"], class, is_few);
    let claims = [
        Saying {
            id: "f7-local-fair",
            published: "local tail up to 62× lower than MCS's and Ticket's",
            rule: Rule::UpTo(62.0),
        }
        .of_tails(&fair),
        Saying {
            id: "f7-local-alock",
            published: "local tail up to 8× lower than ALock's",
            rule: Rule::UpTo(8.0),
        }
        .of_tails(&against("alock:20,5", Class::Local)),
        Saying {
            id: "f7-local-ts",
            published: "local tail 55–5898× lower than TS's",
            rule: Rule::Between(Range {
                min: 55.0,
                max: 5898.0,
            }),
        }
        .of_tails(&against("tas", Class::Local)),
        Saying {
            id: "f7-remote",
            published: "remote tail competitive with MCS's",
            rule: Rule::NoLess,
        }
        .of_tails(&against("mcs", Class::Remote)),
        Saying {
            id: "f7-remote",
            published: "remote tail often lower than ALock's (the median)",
            rule: Rule::More,
        }
        .of_median_tail(&against("alock:20,5", Class::Remote)),
        tas_against_the_next(rows),
        Saying {
            id: "f7-group-tail",
            published: "FARLock-G's tail close to FARLock's",
            rule: Rule::Same,
        }
        .of_tails(&[grouped(Class::Local), grouped(Class::Remote)].concat()),
    ];
    claims.into_iter().flatten().collect()
}

/// How many times the remote tail of TS is the highest of all other locks.
fn tas_against_the_next(rows: &[RunRow]) -> Option<Claim> {
    let remote = || {
        rows.iter()
            .filter(|row| row.class == Class::Remote && is_few(row))
    };
    let all: Vec<&RunRow> = remote().collect();
    let tas: Vec<&RunRow> = remote().filter(|row| row.lock == "tas").collect();
    let others = |tas: &RunRow| {
        let place = tas.lock_count;
        let others = remote().filter(move |row| row.lock_count == place && row.lock != "tas");
        others.collect::<Vec<_>>()
    };
    if tas.is_empty() || tas.iter().any(|tas| others(tas).is_empty()) {
        return None;
    }
    let values = |view: View| {
        let mut ratios = Vec::new();
        for tas in &tas {
            let of = |row| Some(view.figures(row)?.latency_ns.tail());
            let others = others(tas)
                .into_iter()
                .map(of)
                .collect::<Option<Vec<_>>>()?;
            for (percentile, tas) in of(tas)?.into_iter().enumerate() {
                let next = others.iter().filter_map(|tail| tail[percentile]).max();
                ratios.extend(tas.zip(next).map(|(tas, next)| tas as f64 / next as f64));
            }
        }
        Some(ratios)
    };
    Saying {
        id: "f7-remote",
        published: "TS's remote tail 2–171× the next highest",
        rule: Rule::Between(Range {
            min: 2.0,
            max: 171.0,
        }),
    }
    .of_values(&all, Unit::Ratio, &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict::{Direction, Fails, Holds};
    use crate::figures::microbench::tests::{row, told};

    #[test]
    fn each_claim_looks_at_its_cells() {
        let mut rows = Vec::new();
        for (locks, class, tails) in [
            (
                1,
                Class::Local,
                [
                    ("mcs", 1200),
                    ("ticket", 600),
                    ("alock:20,5", 60),
                    ("tas", 1100),
                ],
            ),
            (
                1,
                Class::Remote,
                [
                    ("mcs", 1000),
                    ("ticket", 900),
                    ("alock:20,5", 800),
                    ("tas", 3000),
                ],
            ),
            (
                10,
                Class::Local,
                [
                    ("mcs", 400),
                    ("ticket", 700),
                    ("alock:20,5", 50),
                    ("tas", 90_000),
                ],
            ),
            (
                10,
                Class::Remote,
                [
                    ("mcs", 900),
                    ("ticket", 990),
                    ("alock:20,5", 1200),
                    ("tas", 9_000),
                ],
            ),
            // Beyond what the claims are about.
            (
                30,
                Class::Local,
                [("mcs", 1), ("ticket", 1), ("alock:20,5", 1), ("tas", 1)],
            ),
            (
                30,
                Class::Remote,
                [("mcs", 1), ("ticket", 1), ("alock:20,5", 1), ("tas", 1)],
            ),
        ] {
            for (lock, tail) in tails {
                rows.push(row(lock, locks, class, tail, 1.0));
            }
            let (plain, grouped) = match class {
                Class::Local => (20, 21),
                _ => (1000, 1200),
            };
            rows.push(row("farlock", locks, class, plain, 1.0));
            rows.push(row("farlock-g", locks, class, grouped, 1.0));
        }
        let claims = judge(&rows);
        let expected = [
            ("20–60×", Some(Holds)),
            ("2.5–3.0×", Some(Direction)),
            ("55–4500×", Some(Holds)),
            ("0.90–1.00×", Some(Holds)),
            ("1.20×", Some(Holds)),
            ("2.5–7.5×", Some(Direction)),
            ("1.05–1.20×", Some(Fails)),
        ];
        let found: Vec<_> = told(&claims)
            .into_iter()
            .map(|(_, measured, verdict)| (measured, verdict))
            .collect();
        let expected = expected.map(|(measured, verdict)| (measured.to_owned(), verdict));
        assert_eq!(found, expected);
        // Without FARLock nothing is claimed but of TS.
        rows.retain(|row| !row.lock.starts_with("farlock"));
        assert_eq!(judge(&rows).len(), 1);
        rows.retain(|row| row.lock == "tas");
        assert!(judge(&rows).is_empty(), "nothing to hold TS against");
    }
}
