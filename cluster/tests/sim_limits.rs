//! The simulator at its limits: many clients, many nodes, no memory, all the time there is.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use common::{HOSTILE, PLAIN, SimBed, cluster};
use dmtree_cluster::sim::{Sim, SimError};
use dmtree_cluster::{Chain, Endpoint, Error, ErrorKind, GlobalAddr, MemoryMap, NodeId};

#[test]
fn a_thousand_clients() {
    let (mut sim, areas) = cluster(PLAIN, 10, 8);
    let word = areas[3];
    for client in 0..1000 {
        let ep = sim.endpoint(NodeId(client % 10), client / 20);
        sim.spawn(&ep.clone(), async move {
            for _ in 0..5 {
                ep.rdma_faa(word, 1).await.expect("in bounds");
            }
        });
    }
    sim.run().expect("ends");
    assert_eq!(sim.host_words(NodeId(3))[8], 5000);
    assert_eq!(sim.stats().verbs, 5000);
}

#[test]
fn as_many_nodes_as_there_may_be() {
    for nodes in [255, 256] {
        for bed in [PLAIN, HOSTILE] {
            assert!(nodes <= Sim::MAX_NODES);
            let (mut sim, areas) = cluster(bed, nodes, 8);
            for node in 0..nodes {
                // Each writes, in a way that lands late in hostile runs, to the next and to the last.
                let ep = sim.endpoint(NodeId(node), 0);
                let (next, last) = (
                    areas[usize::from((node + 1) % nodes)],
                    areas[usize::from(nodes - 1)],
                );
                sim.spawn(&ep.clone(), async move {
                    ep.write_words(next, &[u64::from(node); 6])
                        .await
                        .expect("in bounds");
                    ep.rdma_faa(last.word(7), 1).await.expect("in bounds");
                });
            }
            sim.run().expect("ends");
            for node in 0..nodes {
                let before = u64::from((node + nodes - 1) % nodes);
                assert_eq!(sim.host_words(NodeId(node))[8..14], [before; 6]);
            }
            assert_eq!(sim.host_words(NodeId(nodes - 1))[15], u64::from(nodes));
        }
    }
    let error =
        Sim::new(&PLAIN.config(), &MemoryMap::new(257)).expect_err("more than can be numbered");
    assert!(
        matches!(error, SimError::TooManyNodes { nodes: 257 }) && error.to_string().contains("256")
    );
}

#[test]
fn nothing_to_serve_and_nobody_to_run() {
    let mut sim = Sim::new(&PLAIN.config(), &MemoryMap::new(0)).expect("needs nothing");
    sim.run().expect("ends");
    assert!(sim.run_until(1_000).expect("ends"));

    // Nodes that reserve nothing: verbs and CPUs find nothing there, coroutines can still sleep.
    let mut sim = Sim::new(&HOSTILE.config(), &MemoryMap::new(2)).expect("needs nothing");
    let ep = sim.endpoint(NodeId(0), 0);
    sim.spawn(&ep.clone(), async move {
        ep.sleep(100).await;
        let outside = GlobalAddr::new(NodeId(0), 64);
        assert!(matches!(
            ep.load(outside, Ordering::Relaxed)
                .await
                .map_err(Error::into_kind),
            Err(ErrorKind::OutOfBounds { .. })
        ));
        assert!(matches!(
            ep.read_u64(outside).await.map_err(Error::into_kind),
            Err(ErrorKind::OutOfBounds { .. })
        ));
        let device = GlobalAddr::device(NodeId(1), 0);
        assert!(matches!(
            ep.rdma_faa(device, 1).await.map_err(Error::into_kind),
            Err(ErrorKind::OutOfBounds { .. })
        ));
    });
    sim.run().expect("ends");
}

#[test]
fn the_clock_has_room_for_ever() {
    let (mut sim, _) = cluster(PLAIN, 1, 8);
    let ticks = Rc::new(Cell::new(0));
    for (client, ns) in [(0, u64::MAX), (1, u64::MAX / 1000), (2, 10)] {
        let ep = sim.endpoint(NodeId(0), client);
        let ticks = Rc::clone(&ticks);
        sim.spawn(&ep.clone(), async move {
            // A cache hit's time first: it is added to the sleep's.
            ep.store(GlobalAddr::new(NodeId(0), 64), 1, Ordering::SeqCst)
                .await
                .expect("own");
            ep.store(GlobalAddr::new(NodeId(0), 64), 1, Ordering::SeqCst)
                .await
                .expect("own");
            ep.sleep(ns).await;
            ticks.set(ticks.get() + 1);
        });
    }
    assert!(!sim.run_until(1_000_000_000).expect("two still sleep"));
    assert_eq!((ticks.get(), sim.now_ns()), (1, 1_000_000_000));
}

#[test]
fn a_crowded_queue_pair_costs_events_in_proportion() {
    // Responses of many READs are under way while fenced verbs and atomics wait: whatever is scheduled for each
    // response must not multiply.
    let (mut sim, areas) = cluster(
        SimBed {
            hostile: false,
            ..HOSTILE
        },
        2,
        512,
    );
    let area = areas[0];
    for client in 0..64 {
        let ep = sim.endpoint(NodeId(1), 0);
        sim.spawn(&ep.clone(), async move {
            let mut chain = Chain::new();
            for _ in 0..20 {
                chain.clear();
                match client % 4 {
                    0 => _ = chain.faa(area.word(client), 1),
                    1 => _ = chain.fence().write_words(area.word(client), &[1]),
                    _ => {
                        for word in 0..4 {
                            chain.read(area.word(word), 64);
                        }
                    }
                }
                ep.execute(&mut chain).await.expect("in bounds");
            }
        });
    }
    sim.run().expect("ends");
    let (events, verbs) = (sim.stats().events, sim.stats().verbs);
    assert!(events < 4 * verbs, "{events} events for {verbs} verbs");
}
