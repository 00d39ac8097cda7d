//! [`Order`]: which request was served when, of a run with given arrivals (FARLock, Figure 9).

use std::fmt::Write as _;

use comfy_table::Cell;
use dmtree_lock::Cohort;
use serde::{Deserialize, Serialize};

use crate::report::{Class, RunRow};
use crate::table::{new_table, right};

/// Requests that are shown for a run; JSON has all.
const SHOWN: usize = 60;

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
}

/// The order of service of each run that has one, as tables.
pub fn order_text(rows: &[RunRow]) -> String {
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

/// To the nanosecond: what tells two requests apart can be that little.
fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
