//! The simulator at its edges: dropped, stalled, huge, empty, and used in an unusual order.

mod common;

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use common::{HOSTILE, PLAIN, SimBed, cluster};
use dmtree_cluster::sim::{Sim, SimError};
use dmtree_cluster::{
    Chain, Endpoint, ErrorKind, GlobalAddr, MemoryKind, MemoryMap, NodeId, PollBackoff, WaitBounds,
    WaitFor,
};

/// Counts itself down when dropped.
struct Alive(Rc<Cell<u32>>);

impl Alive {
    fn new(count: &Rc<Cell<u32>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[test]
fn a_simulation_dropped_in_the_middle_drops_its_clients() {
    for bed in [PLAIN, HOSTILE] {
        for stop_ns in (0..6_000).step_by(331) {
            let alive = Rc::new(Cell::new(0));
            let (mut sim, areas) = cluster(bed, 2, 64);
            let area = areas[0];
            for client in 0..12 {
                let ep = sim.endpoint(NodeId(client % 2), client / 4);
                let guard = Alive::new(&alive);
                sim.spawn(&ep.clone(), async move {
                    let _guard = guard;
                    let wait = WaitFor::new("test: nothing", area);
                    let never = |words: &[u64]| words[0] == u64::MAX;
                    for _ in 0..100 {
                        match (client / 2 % 3, ep.node().0) {
                            (0, _) => _ = ep.write_words(area, &[1; 40]).await,
                            (1, 0) => _ = ep.wait_until(area, 1, wait, never).await,
                            (1, _) => {
                                _ = ep.poll_until(area, 8, PollBackoff::NONE, wait, never).await
                            }
                            (_, 0) => {
                                ep.store_words(area, &[2; 60]).await.expect("own");
                                ep.load_words(area, &mut [0; 60]).await.expect("own");
                            }
                            (..) => {
                                let mut chain = Chain::new();
                                chain.faa(area, 1);
                                chain.fence().write_words(area.word(2), &[1; 9]);
                                ep.execute(&mut chain).await.expect("in bounds");
                            }
                        }
                    }
                });
            }
            assert!(
                !sim.run_until(stop_ns).expect("runs"),
                "clients are in flight"
            );
            assert_eq!(alive.get(), 12);
            drop(sim);
            assert_eq!(alive.get(), 0, "clients' futures outlive the simulation");
        }
    }
}

#[test]
fn an_endpoint_outlives_its_simulation_harmlessly() {
    let (mut sim, areas) = cluster(PLAIN, 2, 8);
    let ep = sim.endpoint(NodeId(1), 0);
    let user = ep.clone();
    sim.spawn(&ep, async move {
        user.write_words(areas[0], &[1]).await.expect("in bounds");
    });
    sim.run().expect("ends");
    drop(sim);
    assert!(ep.now() > 0);
    assert_eq!(ep.node(), NodeId(1));
    assert_ne!(ep.random(), ep.random());
    let mut context = Context::from_waker(Waker::noop());
    // Errors are errors still; what needs time never gets it.
    let mut chain = Chain::new();
    chain.read(GlobalAddr::new(NodeId(5), 64), 8);
    let refused = pin!(ep.execute(&mut chain)).poll(&mut context);
    assert!(
        matches!(refused, Poll::Ready(Err(error)) if matches!(error.kind(), ErrorKind::PeerGone { .. }))
    );
    for _ in 0..3 {
        assert!(
            pin!(ep.read_u64(areas_of(1)))
                .poll(&mut context)
                .is_pending()
        );
        assert!(
            pin!(ep.rdma_faa(areas_of(0), 1))
                .poll(&mut context)
                .is_pending()
        );
    }
}

/// The first address of a node's memory in [`cluster`].
fn areas_of(node: u16) -> GlobalAddr {
    GlobalAddr::new(NodeId(node), 64)
}

#[test]
fn clients_may_come_after_a_run() {
    for bed in [PLAIN, HOSTILE] {
        let (mut sim, areas) = cluster(bed, 3, 8);
        let word = areas[0];
        let mut before = 0;
        for round in 0..5 {
            let ep = sim.endpoint(NodeId(round % 3), round);
            assert_eq!(u32::from(round), ep.client().0);
            let started = Rc::new(Cell::new(0));
            let start = Rc::clone(&started);
            sim.spawn(&ep.clone(), async move {
                start.set(ep.now());
                assert_eq!(ep.rdma_faa(word, 1).await, Ok(u64::from(round)));
            });
            sim.run().expect("ends");
            assert!(started.get() >= before, "time goes on from run to run");
            assert!(sim.now_ns() > started.get());
            before = sim.now_ns();
        }
        sim.run().expect("nobody is left: a run does nothing");
        assert!(sim.run_until(before + 1_000_000).expect("nobody is left"));
        assert_eq!(sim.now_ns(), before);
        assert_eq!(sim.host_words(NodeId(0))[8], 5);
    }
}

#[test]
fn a_horizon_in_the_past_does_not_turn_the_clock_back() {
    let (mut sim, _) = cluster(PLAIN, 1, 8);
    let ep = sim.endpoint(NodeId(0), 0);
    let user = ep.clone();
    sim.spawn(&ep, async move {
        for _ in 0..100 {
            user.sleep(100).await;
        }
    });
    for until in [5_000, 10, 0, 4_999, 5_000, 5_001] {
        let before = sim.now_ns();
        assert!(!sim.run_until(until).expect("runs"));
        assert_eq!(sim.now_ns(), before.max(until));
        assert!(ep.now() >= before);
    }
    sim.run().expect("ends");
    assert_eq!(sim.now_ns(), 10_000);
}

#[test]
fn a_loop_of_work_alone_lets_time_pass() {
    for bed in [PLAIN, HOSTILE] {
        let (mut sim, _) = cluster(bed, 1, 8);
        let (busy, other) = (sim.endpoint(NodeId(0), 0), sim.endpoint(NodeId(0), 1));
        let stop = Rc::new(Cell::new(false));
        let stopped = Rc::clone(&stop);
        sim.spawn(&busy.clone(), async move {
            let mut rounds = 0;
            while !stopped.get() {
                busy.work(100).await;
                rounds += 1;
                assert!(rounds < 1_000, "others get no turn while a client works");
            }
            assert!(
                (450..=550).contains(&rounds),
                "{rounds} times 100 ns in 50 us"
            );
        });
        sim.spawn(&other.clone(), async move {
            other.sleep(50_000).await;
            stop.set(true);
        });
        sim.run().expect("ends");
    }
}

#[test]
fn a_stall_names_who_waits_for_what() {
    for bed in [PLAIN, HOSTILE] {
        let (mut sim, areas) = cluster(bed, 2, 8);
        let mut waits = Vec::new();
        for node in 0..2 {
            let ep = sim.endpoint(NodeId(node), 0);
            let own = areas[usize::from(node)];
            let wait = WaitFor::new("test: a grant", own.word(3));
            waits.push((ep.client(), Some(wait)));
            sim.spawn(&ep.clone(), async move {
                ep.write_words(own, &[7]).await.expect("in bounds");
                ep.wait_until(own.word(1), 1, wait, |words| words[0] == 1)
                    .await
                    .expect("never ends");
            });
        }
        // One that finishes is not named; one that waits for nothing of the fabric's is.
        let done = sim.endpoint(NodeId(0), 1);
        sim.spawn(&done.clone(), async move { done.sleep(10).await });
        let stuck = sim.endpoint(NodeId(0), 2);
        waits.push((stuck.client(), None));
        sim.spawn(&stuck, std::future::pending());
        waits.sort_by_key(|(client, _)| *client);
        for _ in 0..2 {
            let error = sim.run().expect_err("all wait for each other");
            let text = error.to_string();
            assert!(
                text.contains("3 clients") && text.contains("test: a grant"),
                "{text}"
            );
            let SimError::Stalled { waiting, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(waiting, waits);
        }
        // Whoever comes later can still let them go.
        let helper = sim.endpoint(NodeId(1), 9);
        sim.spawn(&helper.clone(), async move {
            for area in areas {
                helper
                    .write_words(area.word(1), &[1])
                    .await
                    .expect("in bounds");
            }
        });
        let error = sim
            .run()
            .expect_err("one waits for nothing of the fabric's");
        let SimError::Stalled { waiting, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(waiting, [(stuck.client(), None)]);
    }
}

#[test]
fn after_a_hostile_run_memory_holds_what_was_completed() {
    for seed in 0..50 {
        let (mut sim, areas) = cluster(SimBed { seed, ..HOSTILE }, 2, 16);
        let (area, ep) = (areas[0], sim.endpoint(NodeId(1), 0));
        sim.spawn(&ep.clone(), async move {
            for round in 1..=3 {
                ep.write_words(area, &[round; 16]).await.expect("in bounds");
            }
        });
        sim.run().expect("ends");
        assert_eq!(sim.host_words(NodeId(0))[8..24], [3; 16], "seed {seed}");
    }
}

#[test]
fn a_wait_dropped_at_the_instant_of_its_limit_leaves_nothing_behind() {
    let limit = 100_000;
    let mut config = PLAIN.config();
    config.waits = WaitBounds {
        report_ns: limit,
        limit_ns: limit,
    };
    let mut map = MemoryMap::new(1);
    let line = map.reserve(NodeId(0), MemoryKind::Host, 8, 64);
    let mut sim = Sim::new(&config, &map).expect("little memory");
    let (waiter, other) = (sim.endpoint(NodeId(0), 0), sim.endpoint(NodeId(0), 1));
    let load_ns = config.profile.cpu_memory_ns.value as u64;
    sim.spawn(&waiter.clone(), async move {
        let wait = WaitFor::new("test: change", line);
        // The wait begins when it has loaded the line. Long waits are looked for every half limit: this one is
        // over at one and a half. A pause that begins after the look before that, and ends with it, drops it
        // before it can be told.
        let mut waiting = Box::pin(waiter.wait_until(line, 1, wait, |_| false));
        let mut pausing = pin!(async {
            waiter.sleep(limit + limit / 4).await;
            waiter.sleep(limit / 4 + load_ns).await;
        });
        poll_fn(|context| {
            if pausing.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            waiting
                .as_mut()
                .poll(context)
                .map(|outcome| panic!("before the pause: {outcome:?}"))
        })
        .await;
        drop(waiting);
        let found = waiter
            .wait_until(line, 1, wait, |words| words[0] == 1)
            .await;
        assert_eq!(found.map(|words| words[0]), Ok(1), "a new wait of 50 us");
    });
    sim.spawn(&other.clone(), async move {
        other.sleep(200_000).await;
        other.store(line, 1, Ordering::Release).await.expect("own");
    });
    sim.run().expect("ends");
}

#[test]
#[should_panic(expected = "an endpoint of this simulation")]
fn endpoints_belong_to_their_simulation() {
    let (mut one, _) = cluster(PLAIN, 1, 8);
    let (mut other, _) = cluster(PLAIN, 1, 8);
    let ep = one.endpoint(NodeId(0), 0);
    other.spawn(&ep, async {});
}

#[test]
#[should_panic(expected = "a client runs one program")]
fn a_client_has_one_program() {
    let (mut sim, _) = cluster(PLAIN, 1, 8);
    let ep = sim.endpoint(NodeId(0), 0);
    sim.spawn(&ep, async {});
    sim.spawn(&ep, async {});
}
