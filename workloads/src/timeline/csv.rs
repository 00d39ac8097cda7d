//! A timeline as CSV: a line for each interval.

use std::fmt::Write as _;

use super::{Sample, Samples};

const HEADER: &str = "from_us,to_us,waiting_local,waiting_remote,with_ticket_local,with_ticket_remote,\
    holding_local,holding_remote,longest_queue,acquires_local,acquires_remote,tickets_local,tickets_remote,\
    grants_local,grants_remote,acquires_per_us_local,acquires_per_us_remote,tickets_per_us_local,\
    tickets_per_us_remote,grants_per_us_local,grants_per_us_remote\n";

/// The intervals of `samples` under a header. What is told of tickets is empty where the lock has none.
pub(crate) fn timeline_csv(samples: &Samples) -> String {
    let mut text = HEADER.to_owned();
    for row in &samples.rows {
        let us = |ps: u64| format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000);
        let pair = |values: [u64; 2]| format!("{},{}", values[0], values[1]);
        let rates = |values: [u64; 2]| {
            let rate = |value| value as f64 / row.length_us();
            format!("{:.6},{:.6}", rate(values[0]), rate(values[1]))
        };
        let tickets = |text: String| {
            if samples.has_tickets {
                text
            } else {
                ",".to_owned()
            }
        };
        let Sample {
            from_ps,
            to_ps,
            waiting,
            with_ticket,
            holding,
            longest_queue,
            acquires,
            tickets: taken,
            grants,
        } = *row;
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{longest_queue},{},{},{},{},{},{}",
            us(from_ps),
            us(to_ps),
            pair(waiting),
            tickets(pair(with_ticket)),
            pair(holding),
            pair(acquires),
            tickets(pair(taken)),
            pair(grants),
            rates(acquires),
            tickets(rates(taken)),
            rates(grants),
        );
    }
    text
}
