//! The monitor against hand-written histories: every violation is seen, and what may happen is let pass.

use dmtree_cluster::{MemoryKind, MemoryMap, NodeId};

use super::*;
use crate::Error;

/// A monitor of two locks on node 0, with two descriptors of each of the clients 0 to 3, all on node 1.
pub(super) struct Bench {
    pub(super) monitor: Monitor,
    locks: [GlobalAddr; 2],
    descriptors: Vec<[GlobalAddr; 2]>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let mut map = MemoryMap::new(2);
        let table = LockTable::reserve(&mut map, &[NodeId(0)], 2, 64, MemoryKind::Host);
        let monitor = Monitor::new(&table);
        let descriptors: Vec<[GlobalAddr; 2]> = (0..4)
            .map(|_| {
                // Something else lies between two clients' descriptors.
                map.reserve(NodeId(1), MemoryKind::Host, 640, 64);
                let start = map.reserve(NodeId(1), MemoryKind::Host, 128, 64);
                [start, start.add(64)]
            })
            .collect();
        // In another order than that of their addresses.
        for client in [2, 0, 3, 1] {
            monitor.watch_descriptors(descriptors[client][0], 2);
        }
        Self {
            monitor,
            locks: [0, 1].map(|slot| table.lock(NodeId(0), slot)),
            descriptors,
        }
    }

    pub(super) fn at(&self, client: u32, now_ns: u64) -> Moment {
        self.on(0, client, now_ns)
    }

    pub(super) fn on(&self, lock: usize, client: u32, now_ns: u64) -> Moment {
        Moment {
            lock: self.locks[lock],
            client: ClientId(client),
            now_ns,
        }
    }

    /// The client's first descriptor.
    pub(super) fn me(&self, client: u32) -> GlobalAddr {
        self.descriptors[client as usize][0]
    }

    /// Requests the first lock and queues for it.
    pub(super) fn join(&self, client: u32, ahead: Option<u32>) -> Result<Option<Borrow>> {
        let at = self.at(client, 0);
        self.monitor.requested(at, Cohort::Remote)?;
        self.monitor.linked(at, self.me(client))?;
        match ahead {
            Some(ahead) => self.monitor.queued(at, self.me(client), self.me(ahead)),
            None => Ok(None),
        }
    }
}

#[track_caller]
pub(super) fn broken<T: fmt::Debug>(outcome: Result<T>, invariant: &str, detail: &str) {
    match outcome.map_err(Error::into_kind) {
        Err(ErrorKind::Violation(violation)) => {
            assert_eq!(violation.invariant, invariant, "{violation}");
            assert!(violation.detail.contains(detail), "{violation}");
        }
        other => panic!("{invariant} is not seen to be broken: {other:?}"),
    }
}

#[test]
fn two_holders_are_seen() -> Result<()> {
    let bench = Bench::new();
    for client in [1, 2] {
        bench
            .monitor
            .requested(bench.at(client, 5), Cohort::Local)?;
    }
    bench.monitor.granted(bench.at(1, 10), Cohort::Local)?;
    let second = bench.monitor.granted(bench.at(2, 20), Cohort::Local);
    broken(second.clone(), EXCLUSION, "client 1 holds it, since 10 ns");
    let text = second.expect_err("broken").to_string();
    assert!(
        text.contains("client 2") && text.contains("at 20 ns") && text.contains("0:host+0x40"),
        "{text}"
    );
    Ok(())
}

#[test]
fn another_lock_is_another_matter() -> Result<()> {
    let bench = Bench::new();
    for (lock, client) in [(0, 1), (1, 1), (0, 2)] {
        if (lock, client) == (0, 2) {
            bench.monitor.released(bench.on(0, 1, 7))?;
        }
        bench
            .monitor
            .requested(bench.on(lock, client, 5), Cohort::Local)?;
        bench
            .monitor
            .granted(bench.on(lock, client, 10), Cohort::Local)?;
    }
    broken(
        bench.monitor.released(bench.on(1, 2, 20)),
        EXCLUSION,
        "client 1 holds it",
    );
    Ok(())
}

#[test]
fn a_client_asks_for_one_lock_at_a_time() -> Result<()> {
    let bench = Bench::new();
    bench.monitor.requested(bench.on(0, 1, 0), Cohort::Local)?;
    broken(
        bench.monitor.requested(bench.on(1, 1, 0), Cohort::Local),
        SEQUENCE,
        "still waits",
    );
    broken(
        bench.monitor.granted(bench.on(0, 2, 0), Cohort::Local),
        SEQUENCE,
        "has not asked",
    );
    broken(
        bench.monitor.released(bench.on(0, 1, 0)),
        EXCLUSION,
        "nobody holds it",
    );
    Ok(())
}

#[test]
fn a_ticket_is_taken_once() -> Result<()> {
    let bench = Bench::new();
    let take = |client, cohort, ticket| {
        bench.monitor.requested(bench.at(client, 0), cohort)?;
        bench
            .monitor
            .ticket_taken(bench.at(client, 0), cohort, ticket)
    };
    // The cohorts may tell in either order.
    take(0, Cohort::Remote, 1)?;
    take(1, Cohort::Local, 0)?;
    broken(
        take(2, Cohort::Local, 1),
        TICKETS,
        "took ticket 1, which client 0 has",
    );
    bench.monitor.granted(bench.at(1, 1), Cohort::Local)?;
    bench.monitor.released(bench.at(1, 2))?;
    broken(
        take(3, Cohort::Local, 0),
        TICKETS,
        "those below 1 are served",
    );
    Ok(())
}

/// Of tickets that are far from being served the monitor keeps no bit each.
#[test]
fn a_ticket_of_a_long_queue_is_taken_once() -> Result<()> {
    let bench = Bench::new();
    let take = |client, cohort, ticket| {
        bench.monitor.requested(bench.at(client, 0), cohort)?;
        bench
            .monitor
            .ticket_taken(bench.at(client, 0), cohort, ticket)
    };
    for ticket in 0..100 {
        // The cohorts may tell in either order there, too.
        let ticket = [0, 2, 1][ticket as usize % 3] + ticket / 3 * 3;
        let cohort = Cohort::ALL[usize::from(ticket % 3 == 1)];
        take(ticket as u32, cohort, ticket)?;
    }
    broken(
        take(100, Cohort::Remote, 98),
        TICKETS,
        "took ticket 98, which client 98 has",
    );
    broken(
        take(101, Cohort::Local, 99),
        TICKETS,
        "took ticket 99, which client 99 has",
    );
    Ok(())
}

#[test]
fn tickets_are_granted_in_order() -> Result<()> {
    let bench = Bench::new();
    for (client, cohort, ticket) in [(0, Cohort::Remote, 0), (1, Cohort::Local, 1)] {
        bench.monitor.requested(bench.at(client, 0), cohort)?;
        bench
            .monitor
            .ticket_taken(bench.at(client, 0), cohort, ticket)?;
    }
    broken(
        bench.monitor.granted(bench.at(1, 1), Cohort::Local),
        TICKETS,
        "the next one is 0",
    );
    Ok(())
}

#[test]
fn a_cohort_takes_tickets_in_the_order_of_its_queue() -> Result<()> {
    let bench = Bench::new();
    // Told in another order than they were queued: 2 behind 1 behind 0.
    bench.join(0, None)?;
    bench.monitor.requested(bench.at(1, 0), Cohort::Remote)?;
    bench.monitor.linked(bench.at(1, 0), bench.me(1))?;
    bench.join(2, Some(1))?;
    bench
        .monitor
        .queued(bench.at(1, 0), bench.me(1), bench.me(0))?;
    bench
        .monitor
        .ticket_taken(bench.at(0, 1), Cohort::Remote, 0)?;
    broken(
        bench
            .monitor
            .ticket_taken(bench.at(2, 2), Cohort::Remote, 1),
        ORDER,
        "before client 1",
    );
    Ok(())
}

#[test]
fn tickets_of_a_cohort_grow() -> Result<()> {
    let bench = Bench::new();
    bench.join(0, None)?;
    bench.join(1, Some(0))?;
    bench
        .monitor
        .ticket_taken(bench.at(0, 1), Cohort::Remote, 3)?;
    broken(
        bench
            .monitor
            .ticket_taken(bench.at(1, 2), Cohort::Remote, 2),
        ORDER,
        "took 3",
    );
    Ok(())
}

#[test]
fn nobody_is_granted_before_its_predecessor() -> Result<()> {
    let bench = Bench::new();
    bench.join(0, None)?;
    bench.join(1, Some(0))?;
    broken(
        bench.monitor.granted(bench.at(1, 1), Cohort::Remote),
        ORDER,
        "before client 0",
    );
    Ok(())
}

#[test]
fn a_descriptor_has_one_successor() -> Result<()> {
    let bench = Bench::new();
    bench.join(0, None)?;
    bench.join(1, Some(0))?;
    broken(bench.join(2, Some(0)), DESCRIPTORS, "has a successor");
    broken(bench.join(3, Some(3)), DESCRIPTORS, "found descriptor");
    Ok(())
}

#[test]
fn what_is_found_ahead_is_a_linked_descriptor() -> Result<()> {
    let bench = Bench::new();
    broken(bench.join(1, Some(0)), DESCRIPTORS, "taken back");
    let at = bench.at(2, 0);
    bench.monitor.requested(at, Cohort::Remote)?;
    bench.monitor.linked(at, bench.me(2))?;
    for (address, detail) in [
        (bench.me(0).add(8), "no descriptor"),
        (bench.me(3).add(128), "no descriptor"),
        (GlobalAddr::new(NodeId(0), 64), "no descriptor"),
        (GlobalAddr::new(NodeId(9), 64), "no descriptor"),
    ] {
        broken(
            bench.monitor.queued(at, bench.me(2), address),
            DESCRIPTORS,
            detail,
        );
    }
    // Linked for the other lock.
    bench.monitor.requested(bench.on(1, 3, 0), Cohort::Remote)?;
    bench.monitor.linked(bench.on(1, 3, 0), bench.me(3))?;
    let found = bench.monitor.queued(at, bench.me(2), bench.me(3));
    broken(found, DESCRIPTORS, "client 3's for the lock at 0:host+0x80");
    Ok(())
}

#[test]
fn a_descriptor_on_loan_is_not_taken_back() -> Result<()> {
    let bench = Bench::new();
    let monitor = &bench.monitor;
    bench.join(0, None)?;
    let loan = bench.join(1, Some(0))?;
    monitor.touched(bench.at(1, 1), loan)?;
    broken(
        monitor.retired(bench.at(0, 2), bench.me(0)),
        DESCRIPTORS,
        "client 1 may still touch",
    );
    // The owner hears of the last access before its completion reaches the borrower.
    monitor.behind_is_done(bench.at(0, 3), bench.me(0))?;
    monitor.retired(bench.at(0, 4), bench.me(0))?;
    monitor.returned(loan)?;
    broken(
        monitor.touched(bench.at(1, 5), loan),
        DESCRIPTORS,
        "taken it back",
    );
    // The predecessor's grant is due.
    broken(
        monitor.retired(bench.at(1, 6), bench.me(1)),
        DESCRIPTORS,
        "client 0 may still touch",
    );
    Ok(())
}

#[test]
fn a_loan_ends_with_its_life() -> Result<()> {
    let bench = Bench::new();
    let monitor = &bench.monitor;
    bench.join(0, None)?;
    let first = bench.join(1, Some(0))?;
    monitor.returned(first)?;
    broken(
        monitor.touched(bench.at(1, 1), first),
        DESCRIPTORS,
        "after its last access",
    );
    for client in [0, 1] {
        monitor.granted(bench.at(client, 2), Cohort::Remote)?;
        monitor.released(bench.at(client, 3))?;
        if client == 1 {
            monitor.ahead_is_done(bench.at(1, 3), bench.me(1))?;
        }
        monitor.retired(bench.at(client, 4), bench.me(client))?;
    }
    // The same two meet again: a late word of the first life says nothing of the second.
    bench.join(0, None)?;
    let second = bench.join(1, Some(0))?;
    monitor.returned(first)?;
    broken(
        monitor.touched(bench.at(1, 5), first),
        DESCRIPTORS,
        "taken it back",
    );
    monitor.touched(bench.at(1, 5), second)?;
    broken(
        monitor.retired(bench.at(0, 6), bench.me(0)),
        DESCRIPTORS,
        "client 1 may still touch",
    );
    Ok(())
}

#[test]
fn a_descriptor_lives_once_at_a_time() -> Result<()> {
    let bench = Bench::new();
    bench.join(0, None)?;
    broken(
        bench.monitor.linked(bench.at(0, 1), bench.me(0)),
        DESCRIPTORS,
        "which is client 0's",
    );
    broken(
        bench.monitor.retired(bench.at(1, 1), bench.me(0)),
        DESCRIPTORS,
        "takes back",
    );
    Ok(())
}

#[test]
fn a_successor_is_the_one_that_queued_behind() -> Result<()> {
    let bench = Bench::new();
    let monitor = &bench.monitor;
    bench.join(0, None)?;
    bench.join(1, Some(0))?;
    bench.join(2, Some(1))?;
    broken(
        monitor.learned(bench.at(0, 1), bench.me(0), bench.me(2)),
        DESCRIPTORS,
        "not behind",
    );
    let loan = monitor.learned(bench.at(0, 1), bench.me(0), bench.me(1))?;
    monitor.touched(bench.at(0, 2), loan)?;
    monitor.ahead_is_done(bench.at(1, 3), bench.me(1))?;
    broken(
        monitor.touched(bench.at(0, 4), loan),
        DESCRIPTORS,
        "after its last access",
    );
    broken(
        monitor.ahead_is_done(bench.at(0, 4), bench.me(0)),
        DESCRIPTORS,
        "nobody",
    );
    Ok(())
}

#[test]
fn a_cohort_has_one_contender() -> Result<()> {
    let bench = Bench::new();
    bench.monitor.contends(bench.at(0, 0), Cohort::Local)?;
    bench.monitor.contends(bench.at(1, 0), Cohort::Remote)?;
    broken(
        bench.monitor.contends(bench.at(2, 1), Cohort::Local),
        PETERSON,
        "client 0 of the local",
    );
    let bench = Bench::new();
    bench.monitor.contends(bench.at(0, 0), Cohort::Local)?;
    bench.monitor.decided(bench.at(0, 1), Cohort::Local)?;
    bench.monitor.contends(bench.at(2, 2), Cohort::Local)?;
    broken(
        bench.monitor.decided(bench.at(0, 3), Cohort::Local),
        PETERSON,
        "is client 2",
    );
    Ok(())
}

#[test]
fn waiting_without_progress_is_a_stall() -> Result<()> {
    let bench = Bench::new();
    let monitor = &bench.monitor;
    monitor.requested(bench.at(0, 100), Cohort::Local)?;
    monitor.granted(bench.at(0, 200), Cohort::Local)?;
    assert_eq!(monitor.stalled(1_000_000, 1000), None, "nobody waits");
    // A late waiter does not suffer from what was before.
    monitor.requested(bench.at(1, 5000), Cohort::Remote)?;
    monitor.ticket_taken(bench.at(1, 5100), Cohort::Remote, 1)?;
    assert_eq!(monitor.stalled(5900, 1000), None);
    let report = monitor.stalled(6001, 1000).expect("a stall");
    for part in [
        "held by client 0",
        "last progress at 200 ns",
        "1 waiting; client 1 (remote) since 5000 ns with ticket 1",
    ] {
        assert!(report.contains(part), "{report}");
    }
    // A release is progress.
    monitor.released(bench.at(0, 6000))?;
    assert_eq!(monitor.stalled(6900, 1000), None);
    let report = monitor.stalled(7100, 1000).expect("a stall");
    assert!(report.contains("held by nobody"), "{report}");
    // Who has given up does not wait.
    monitor.abandoned(ClientId(1), bench.locks[0]);
    assert_eq!(monitor.stalled(100_000, 1000), None);
    assert!(
        monitor
            .describe(bench.locks[0])
            .contains("something of client 1 got lost")
    );
    Ok(())
}

#[test]
fn runs_and_grants_are_counted() -> Result<()> {
    let bench = Bench::new();
    let mut now = 0;
    for (lock, cohort) in [
        (0, Cohort::Local),
        (0, Cohort::Local),
        (1, Cohort::Remote),
        (0, Cohort::Local),
        (0, Cohort::Remote),
        (0, Cohort::Local),
    ] {
        now += 10;
        bench.monitor.requested(bench.on(lock, 0, now), cohort)?;
        bench.monitor.granted(bench.on(lock, 0, now), cohort)?;
        bench.monitor.released(bench.on(lock, 0, now))?;
    }
    let counters = bench.monitor.counters(bench.locks[0]);
    assert_eq!(Cohort::ALL.map(|cohort| counters.grants(cohort)), [4, 1]);
    assert_eq!(
        Cohort::ALL.map(|cohort| counters.longest_run(cohort)),
        [3, 1]
    );
    let totals = bench.monitor.totals();
    assert_eq!(Cohort::ALL.map(|cohort| totals.grants(cohort)), [4, 2]);
    assert_eq!(Cohort::ALL.map(|cohort| totals.longest_run(cohort)), [3, 1]);
    Ok(())
}

#[test]
fn descriptors_side_by_side_are_told_apart() -> Result<()> {
    let bench = Bench::new();
    let at = |node, line: u64| GlobalAddr::new(NodeId(node), (1000 + line) * 64);
    // Neighbours on node 0; the last two come after another node's, the first ones after those behind them.
    let starts = [at(0, 2), at(0, 4), at(1, 0), at(0, 6), at(0, 0)];
    for start in starts {
        bench.monitor.watch_descriptors(start, 2);
    }
    let all = starts.iter().flat_map(|start| [*start, start.add(64)]);
    for (client, me) in all.enumerate() {
        let moment = bench.at(client as u32, 0);
        bench.monitor.requested(moment, Cohort::Remote)?;
        bench.monitor.linked(moment, me)?;
        let twice = bench.monitor.linked(moment, me);
        broken(twice, DESCRIPTORS, &format!("which is client {client}'s"));
    }
    let moment = bench.at(0, 0);
    for beyond in [at(0, 8), at(1, 2), at(0, 0).add(8), at(2, 0)] {
        let outcome = bench.monitor.linked(moment, beyond);
        broken(outcome, DESCRIPTORS, "is no descriptor");
    }
    Ok(())
}
