//! CPU time that costs no event of its own passes all the same: once, and in its client alone.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use common::{PLAIN, cluster};
use dmtree_cluster::{Endpoint, NodeId, WaitFor};

const ORDER: Ordering = Ordering::SeqCst;

/// When a client that has a line, works for `ns` and then waits for the line to change is done, of a store 10 µs
/// after the beginning.
fn woken_at(ns: u64) -> u64 {
    let (mut sim, areas) = cluster(PLAIN, 1, 8);
    let word = areas[0];
    let [waiter, writer] = [0, 1].map(|thread| sim.endpoint(NodeId(0), thread));
    let woken = Rc::new(Cell::new(0));
    let told = Rc::clone(&woken);
    sim.spawn(&waiter.clone(), async move {
        waiter.load(word, ORDER).await.expect("own");
        waiter.work(ns).await;
        let wait = WaitFor::new("the store", word);
        let line = waiter.wait_until(word, 1, wait, |words| words[0] == 1);
        line.await.expect("it comes");
        told.set(waiter.now());
    });
    sim.spawn(&writer.clone(), async move {
        writer.sleep(10_000).await;
        writer.store(word, 1, ORDER).await.expect("own");
    });
    sim.run().expect("ends");
    woken.get()
}

#[test]
fn work_before_a_wait_is_over_when_the_wait_is() {
    let idle = woken_at(0);
    for ns in [1, 100, 200, 201, 5_000] {
        assert_eq!(woken_at(ns), idle, "{ns} ns of work");
    }
    // What is longer than the wait delays it, folded or not.
    assert!(woken_at(20_000) > idle + 9_000);
}

/// How long a READ takes that one coroutine posts 10 ns after another of its thread has begun to work for `ns`, the
/// other's own READ following that.
fn read_beside_work(ns: u64) -> u64 {
    let (mut sim, areas) = cluster(PLAIN, 2, 8);
    let [busy, reader] = [(); 2].map(|()| sim.endpoint(NodeId(0), 0));
    let there = areas[1];
    let took = Rc::new(Cell::new(0));
    let told = Rc::clone(&took);
    sim.spawn(&busy.clone(), async move {
        busy.sleep(1_000).await;
        busy.work(ns).await;
        busy.read_u64(there).await.expect("in bounds");
    });
    sim.spawn(&reader.clone(), async move {
        reader.sleep(1_010).await;
        let begin = reader.now();
        reader.read_u64(there.word(1)).await.expect("in bounds");
        told.set(reader.now() - begin);
    });
    sim.run().expect("ends");
    took.get()
}

#[test]
fn work_of_one_coroutine_does_not_delay_what_another_has_posted_before() {
    // 5 µs: long over when the other's READ is posted.
    let alone = read_beside_work(5_000);
    for ns in [100, 200, 201] {
        assert_eq!(read_beside_work(ns), alone, "{ns} ns of work");
    }
}
