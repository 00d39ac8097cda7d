//! Figure 9 of the FARLock paper (section 5.2): one lock, 2 nodes, 12 local requests and then 12 remote ones; who is
//! served when.
//!
//! The paper does not say how long after the local requests the remote ones come. The order in which FARLock serves them
//! depends on it: it is fixed when a request passes Peterson's algorithm, which takes remote ones longer. Several gaps
//! are run, and the claims judged at each of them.

use std::collections::VecDeque;

use dmtree_lock::Cohort;

use super::microbench::{Saying, defaults};
use super::order_drawing::draw_orders;
use crate::claims::judge::{Rule, View, rows_with};
use crate::claims::{Claim, Unit};
use crate::command::{Command, Coordinates, PartOptions};
use crate::lock_bench::Order;
use crate::lock_bench::arrivals::Arrivals;
use crate::perform::figure_text;
use crate::report::{Class, RunRow};
use crate::settings::quantity::Time;
use crate::settings::value::Bounded;
use crate::settings::{Options, Settings, Subject};

/// `dmtree figure 9`.
pub const COMMAND: Command = Command {
    name: "figure 9",
    subject: Subject::Locks,
    file_name: "figure-9",
    title: "Figure 9: order of service of 12 local and 12 remote requests",
    defaults: figure_9,
    // It is as small as can be.
    quick: Options::default,
    paper: Some(Options::default),
    parts,
    judge: |_: &Settings, rows| judge(rows),
    remark: |_, _| None,
    tell: figure_text,
    percentiles: true,
    draw: draw_orders,
};

fn figure_9(_: &Options) -> Options {
    Options {
        nodes: Some(Bounded::new(2)),
        // Nothing of it is measured for a while.
        seconds: None,
        ..defaults("figure-9", "farlock,alock,alock:20,5", "1")
    }
}

/// Gaps from nothing to twice what remote requests need to fall behind, where none is given.
fn parts(given: &Options) -> Vec<PartOptions> {
    let gaps = match given.gap {
        Some(gap) => vec![gap],
        None => [0, 1_000, 2_000, 5_000, 10_000].map(Time::from_ns).to_vec(),
    };
    gaps.into_iter()
        .map(|gap| PartOptions {
            name: format!("gap {}", gap.short()),
            options: burst(given, gap),
            at: Coordinates::from([("gap_us", gap.ns as f64 / 1000.0)]),
        })
        .collect()
}

/// As many local as remote requests, one of each thread.
pub(super) fn burst(given: &Options, gap: Time) -> Options {
    let requests = given.threads.map_or(12, Bounded::get) as u32;
    let burst = Arrivals::Burst {
        local: requests,
        remote: requests,
    };
    Options {
        arrivals: Some(given.arrivals.clone().unwrap_or(burst)),
        gap: Some(gap),
        ..Options::default()
    }
}

fn judge(rows: &[RunRow]) -> Vec<Claim> {
    let mut parts: Vec<&Option<String>> = Vec::new();
    for row in rows {
        if !parts.contains(&&row.part) {
            parts.push(&row.part);
        }
    }
    parts
        .into_iter()
        .flat_map(|part| {
            let claims = judge_part(rows, part).into_iter();
            claims.map(|claim| Claim {
                part: part.clone(),
                ..claim
            })
        })
        .collect()
}

fn judge_part(rows: &[RunRow], part: &Option<String>) -> Vec<Claim> {
    let row = |lock| rows_with(rows, lock, Class::All).find(|row| row.part == *part);
    let mut claims = Vec::new();
    if let Some(farlock) = row("farlock") {
        claims.extend([
            Saying {
                id: "f9-order",
                published: "FARLock: no remote request is served before the last local one",
                rule: Rule::Is(0.0),
            }
            .of_values(&[farlock], Unit::Requests, &|view| {
                Some(
                    view.orders(farlock)
                        .iter()
                        .map(remote_before_local)
                        .collect(),
                )
            }),
            Saying {
                id: "f9-order",
                published: "FARLock: the last remote request waits 135.30 µs",
                rule: Rule::Is(135.3),
            }
            .of_values(&[farlock], Unit::Us, &|view| {
                let orders = view.orders(farlock).iter();
                Some(
                    orders
                        .filter_map(|order| last_wait(order, Cohort::Remote))
                        .collect(),
                )
            }),
        ]);
    }
    if let Some(alock) = row("alock") {
        claims.push(
            Saying {
                id: "f9-order",
                published: "ALock alternates: 1 request in a row while the other class waits",
                rule: Rule::Is(1.0),
            }
            .of_values(&[alock], Unit::Requests, &|view| {
                let orders = view.orders(alock).iter();
                Some(orders.filter_map(longest_contended_run).collect())
            }),
        );
    }
    if let (Some(farlock), Some(alock)) = (row("farlock"), row("alock")) {
        claims.push(
            Saying {
                id: "f9-order",
                published: "ALock's longest wait, of its last local request, is longer than FARLock's",
                rule: Rule::More,
            }
            .of_values(&[farlock, alock], Unit::Ratio, &|view: View| {
                let orders = view.orders(alock).iter().zip(view.orders(farlock));
                Some(
                    orders
                        .filter_map(|(alock, farlock)| {
                            let last_local = last_wait(alock, Cohort::Local)?;
                            Some([last_local / longest_wait(farlock)?])
                        })
                        .flatten()
                        .collect(),
                )
            }),
        );
    }
    claims.into_iter().flatten().collect()
}

/// Remote requests that were served before the last local one.
fn remote_before_local(order: &Order) -> f64 {
    let is_local = |cohort| cohort == Cohort::Local;
    let requests = &order.requests;
    let Some(last) = requests.iter().rposition(|request| is_local(request.class)) else {
        return 0.0;
    };
    let before = requests[..last].iter();
    before.filter(|request| !is_local(request.class)).count() as f64
}

/// How long the request of `class` that was served last waited, in µs.
fn last_wait(order: &Order, class: Cohort) -> Option<f64> {
    order.last_wait_ns(class).map(|ns| ns as f64 / 1000.0)
}

/// How long any request waited at most, in µs.
fn longest_wait(order: &Order) -> Option<f64> {
    let waits = order.requests.iter().map(|request| request.wait_ns);
    waits.max().map(|ns| ns as f64 / 1000.0)
}

/// Most requests of one class in a row of which each was served while one of the other class waited. Counted from the
/// first on that was served after one of the other class: before that the other class may not have reached the lock yet.
/// None when there is no such request.
fn longest_contended_run(order: &Order) -> Option<f64> {
    let mut waiting: VecDeque<_> = order.requests.iter().collect();
    let first = waiting.front().map(|first| first.class);
    while waiting
        .front()
        .is_some_and(|next| Some(next.class) == first)
    {
        waiting.pop_front();
    }
    let (mut longest, mut run) = (None, None);
    while let Some(served) = waiting.pop_front() {
        let other_waits = waiting
            .iter()
            .any(|other| other.class != served.class && other.arrival_ns <= served.grant_ns);
        run = match run {
            _ if !other_waits => None,
            Some((class, length)) if class == served.class => Some((class, length + 1)),
            _ => Some((served.class, 1u32)),
        };
        longest = longest.max(run.map(|(_, length)| length));
    }
    longest.map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock_bench::Served;

    /// One of each letter, in the order of service: L and R for local and remote; served every 10 µs, all asked at once
    /// but for lower-case ones, which come when they are served.
    fn order(served: &str) -> Order {
        let requests = served.chars().zip(0u32..).map(|(class, number)| {
            let grant_ns = u64::from(number) * 10_000;
            let arrival_ns = if class.is_lowercase() { grant_ns } else { 0 };
            Served {
                client: number,
                node: 0,
                class: match class.to_ascii_uppercase() {
                    'L' => Cohort::Local,
                    _ => Cohort::Remote,
                },
                lock: 0,
                arrival_ns,
                grant_ns,
                wait_ns: grant_ns - arrival_ns,
                end_ns: grant_ns + 10_000,
            }
        });
        Order {
            seed: 1,
            requests: requests.collect(),
        }
    }

    #[test]
    fn orders_are_read_right() {
        for (served, before, run) in [
            ("LLRR", 0.0, None),
            ("LRLR", 1.0, Some(1.0)),
            ("LLLRLRRL", 3.0, Some(2.0)),
            ("LRRL", 2.0, Some(2.0)),
            ("LLLrr", 0.0, None),
            ("LLrRL", 2.0, Some(2.0)),
            ("LRRlR", 2.0, Some(1.0)),
            ("RR", 0.0, None),
            ("", 0.0, None),
        ] {
            let order = order(served);
            assert_eq!(remote_before_local(&order), before, "{served}");
            assert_eq!(longest_contended_run(&order), run, "{served}");
        }
        let order = order("LRLR");
        assert_eq!(last_wait(&order, Cohort::Local), Some(20.0));
        assert_eq!(last_wait(&order, Cohort::Remote), Some(30.0));
        assert_eq!(longest_wait(&order), Some(30.0));
    }
}
