//! Up to which critical section local requests are protected.

use comfy_table::Cell;

use super::grid::{LOCKS, NODES, ROUND_TRIP, SECTION, SPREAD};
use super::is_protected;
use crate::report::{Class, RunRow};
use crate::table::{new_table, right};

/// The values of `axis` among `rows`, from the least to the greatest.
pub(super) fn values(rows: &[RunRow], axis: &str) -> Vec<f64> {
    let mut values: Vec<f64> = Vec::new();
    for value in rows.iter().filter_map(|row| row.at.get(axis)) {
        if !values.contains(value) {
            values.push(*value);
        }
    }
    values.sort_by(f64::total_cmp);
    values
}

/// The locks of `rows`, in their order.
pub(super) fn locks(rows: &[RunRow]) -> Vec<&str> {
    let mut locks: Vec<&str> = Vec::new();
    for row in rows {
        if !locks.contains(&row.lock.as_str()) {
            locks.push(&row.lock);
        }
    }
    locks
}

/// Whether each run protects local requests, by its section: the rows of one lock at one place but for that.
fn by_section(rows: &[&RunRow]) -> Vec<(f64, Option<bool>)> {
    let of = |class| rows.iter().filter(move |row| row.class == class);
    let mut found: Vec<(f64, Option<bool>)> = of(Class::Local)
        .filter_map(|local| {
            let remote = of(Class::Remote).find(|remote| remote.at == local.at)?;
            let section = *local.at.get(SECTION)?;
            Some((section, is_protected(&local.latency_ns, &remote.latency_ns)))
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    found
}

/// In words, where protection is: `all`, `none`, `≤ 5`, `≥ 8.5`, or the sections that have it or lack it.
fn protected_text(found: &[(f64, Option<bool>)]) -> String {
    let has: Vec<bool> = found.iter().map(|(_, has)| *has == Some(true)).collect();
    let changes = has.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let unknown = found.iter().any(|(_, has)| has.is_none());
    let text = match (has.first(), changes) {
        (None, _) => "–".to_owned(),
        (Some(true), 0) => "all".to_owned(),
        (Some(false), 0) => "none".to_owned(),
        (Some(true), 1) => {
            let last = has.iter().rposition(|has| *has).unwrap_or(0);
            format!("≤ {}", found[last].0)
        }
        (Some(false), 1) => {
            let first = has.iter().position(|has| *has).unwrap_or(0);
            format!("≥ {}", found[first].0)
        }
        _ => {
            let list = |which: bool| -> Vec<String> {
                let of = found.iter().zip(&has).filter(|(_, has)| **has == which);
                of.map(|((at, _), _)| at.to_string()).collect()
            };
            let (with, without) = (list(true), list(false));
            if with.len() > without.len() {
                format!("all but {}", without.join(" "))
            } else {
                with.join(" ")
            }
        }
    };
    if unknown { format!("{text}?") } else { text }
}

/// For each lock, number of locks, number of nodes and spread the sections with which local requests are protected, by
/// round trip.
pub(super) fn boundaries_text(rows: &[RunRow]) -> String {
    let round_trips = values(rows, ROUND_TRIP);
    let mut table = new_table();
    let names = ["lock", "locks", "nodes", "sections vary"].map(Cell::new);
    let factors = round_trips
        .iter()
        .map(|factor| right(format!("round trip × {factor}")));
    table.set_header(names.into_iter().chain(factors));
    for lock in locks(rows) {
        for count in values(rows, LOCKS) {
            for nodes in values(rows, NODES) {
                for spread in values(rows, SPREAD) {
                    let cells = round_trips.iter().map(|factor| {
                        let place = [
                            (LOCKS, count),
                            (NODES, nodes),
                            (SPREAD, spread),
                            (ROUND_TRIP, *factor),
                        ];
                        let of: Vec<&RunRow> = rows
                            .iter()
                            .filter(|row| {
                                row.lock == lock
                                    && place
                                        .iter()
                                        .all(|(axis, value)| row.at.get(axis) == Some(value))
                            })
                            .collect();
                        right(protected_text(&by_section(&of)))
                    });
                    let spread = match spread {
                        0.0 => "no".to_owned(),
                        share => format!("± {} %", share * 100.0),
                    };
                    let names = [
                        lock.to_owned(),
                        count.to_string(),
                        nodes.to_string(),
                        spread,
                    ];
                    table.add_row(names.map(Cell::new).into_iter().chain(cells));
                }
            }
        }
    }
    format!(
        "remote critical sections (µs) with which local requests are protected: one in a thousand of them waits less than\n\
         half as long as every other remote one; ? with too few samples somewhere\n{table}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_is_told_by_its_ends() {
        for (has, text) in [
            (&[][..], "–"),
            (&[Some(true), Some(true)], "all"),
            (&[Some(false), Some(false)], "none"),
            (&[Some(true), Some(true), Some(false)], "≤ 2"),
            (&[Some(false), Some(true), Some(true)], "≥ 2"),
            (&[Some(true), Some(false), Some(true)], "all but 2"),
            (&[Some(false), Some(true), Some(false)], "2"),
            (&[Some(true), Some(false), None], "≤ 1?"),
        ] {
            let sections = [1.0, 2.0, 3.0];
            let found: Vec<_> = sections.into_iter().zip(has.iter().copied()).collect();
            assert_eq!(protected_text(&found), text);
        }
    }
}
