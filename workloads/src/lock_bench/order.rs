//! [`Order`]: which request was served when, of a run with given arrivals (FARLock, Figure 9).

use std::fmt::Write as _;

use comfy_table::Cell;
use dmtree_lock::Cohort;
use serde::{Deserialize, Serialize};

use crate::report::{Class, RunRow};
use crate::table::{NOTHING, new_table, right};

/// Requests that are shown for a run; JSON has all.
const SHOWN: usize = 60;
/// Orders that are shown request by request.
const DETAILED: usize = 3;

/// One served request; times in nanoseconds from the beginning of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// The client's number.
    pub client: u32,
    /// Its node.
    pub node: u16,
    /// Local or remote.
    pub class: Cohort,
    /// The lock.
    pub lock: u32,
    /// When the client called acquire.
    pub arrival_ns: u64,
    /// When it held the lock.
    pub grant_ns: u64,
    /// The time between.
    pub wait_ns: u64,
    /// When the release had ended.
    pub end_ns: u64,
}

/// The requests of one seed, in the order of their grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The seed.
    pub seed: u64,
    /// Who was served.
    pub requests: Vec<Served>,
}

impl Order {
    /// When the last release had ended, in nanoseconds from the beginning; 0 without requests.
    pub fn end_ns(&self) -> u64 {
        let ends = self.requests.iter().map(|request| request.end_ns);
        ends.max().unwrap_or(0)
    }

    /// How long the request of `class` that was served last has waited; none without one.
    pub fn last_wait_ns(&self, class: Cohort) -> Option<u64> {
        let mut served = self.requests.iter().rev();
        let last = served.find(|request| request.class == class)?;
        Some(last.wait_ns)
    }
}

/// The order of service of each run that has one: as tables, or of many a line each.
pub fn order_text(rows: &[RunRow]) -> String {
    let orders: usize = rows.iter().map(|row| row.order.len()).sum();
    if orders > DETAILED {
        return brief_text(rows);
    }
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.class == Class::All) {
        for order in &row.order {
            let seed = match row.seeds {
                1 => String::new(),
                _ => format!(", seed {}", order.seed),
            };
            let mut table = new_table();
            table.set_header(
                [
                    "served", "client", "node", "class", "lock", "arrival", "grant", "wait",
                ]
                .into_iter()
                .enumerate()
                .map(|(column, name)| match column {
                    3 => Cell::new(name),
                    _ => right(name),
                }),
            );
            for (number, request) in order.requests.iter().enumerate().take(SHOWN) {
                table.add_row([
                    right(number + 1),
                    right(request.client),
                    right(request.node),
                    Cell::new(request.class),
                    right(request.lock),
                    right(us(request.arrival_ns)),
                    right(us(request.grant_ns)),
                    right(us(request.wait_ns)),
                ]);
            }
            let more = match order.requests.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!("… and {more} more: --json has all\n"),
            };
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "order of service: {}, {}{seed}; times in µs\n{table}\n{more}",
                row.lock,
                row.setting()
            );
        }
    }
    text
}

/// A line for each order: the class of each request, and how long those that were served last have waited.
fn brief_text(rows: &[RunRow]) -> String {
    let mut table = new_table();
    table.set_header([
        Cell::new("lock"),
        Cell::new("setting"),
        right("seed"),
        Cell::new("order of service"),
        right("last local waits"),
        right("last remote waits"),
    ]);
    for row in rows.iter().filter(|row| row.class == Class::All) {
        for order in &row.order {
            let letters: String = order.requests.iter().take(SHOWN).map(letter).collect();
            let more = if order.requests.len() > SHOWN {
                "…"
            } else {
                ""
            };
            let last = |class| {
                let last = order.last_wait_ns(class);
                right(last.map_or_else(|| NOTHING.to_owned(), us))
            };
            table.add_row([
                Cell::new(&row.lock),
                Cell::new(row.setting()),
                right(order.seed),
                Cell::new(letters + more),
                last(Cohort::Local),
                last(Cohort::Remote),
            ]);
        }
    }
    format!("order of service, L local and r remote requests; times in µs\n{table}\n\n")
}

fn letter(request: &Served) -> char {
    match request.class {
        Cohort::Local => 'L',
        Cohort::Remote => 'r',
    }
}

/// To the nanosecond: what tells two requests apart can be that little.
fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
