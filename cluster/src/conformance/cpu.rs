//! A node's CPUs among themselves, the clock, and random numbers.

use std::sync::atomic::Ordering;

use super::scenario::{Patience, pause};
use super::{MustTest, Outcome, Scenario, Shared, TestBed};
use crate::{Endpoint, GlobalAddr, PollBackoff, WaitFor};

const ATOMIC: &str = "CPU read-modify-writes are atomic against CPUs";

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "results of CPU accesses",
            contract: "load, store, swap, compare_exchange, fetch_add, load_words, scan_words and \
                       store_words do what Endpoint says",
            run: results,
        },
        MustTest {
            name: "CPU fetch-adds, swaps and CASes are atomic",
            contract: ATOMIC,
            run: totals,
        },
        MustTest {
            name: "CPU compare-exchange excludes",
            contract: ATOMIC,
            run: lock,
        },
        MustTest {
            name: "released stores",
            contract: "what a CPU stored before a release store, another sees after an acquire load of it",
            run: publish,
        },
        MustTest {
            name: "the clock",
            contract: "now never goes back; work, sleep and scan_words last at least as long as they say",
            run: clock,
        },
        MustTest {
            name: "random numbers",
            contract: "random is the client's own seeded generator",
            run: random,
        },
    ]
}

fn results<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let area = scenario.host(1, 40);
    scenario.client(1, 0, move |ep| async move {
        let order = Ordering::SeqCst;
        ensure!(
            ep.load(area, order).await? == 0,
            "memory does not start as zero"
        );
        ep.store(area, 5, Ordering::Relaxed).await?;
        ensure!(
            ep.load(area, Ordering::Relaxed).await? == 5,
            "a store is not seen by its own CPU"
        );
        ensure!(
            ep.swap(area, 6, order).await? == 5,
            "swap does not return the word as it was"
        );
        ensure!(
            ep.fetch_add(area, u64::MAX, order).await? == 6,
            "fetch_add does not return the word as it was"
        );
        let missed = ep.compare_exchange(area, 6, 1, order).await?;
        ensure!(
            missed == Err(5),
            "a compare_exchange of 5 that expects 6 returns {missed:?}"
        );
        let hit = ep.compare_exchange(area, 5, 9, order).await?;
        ensure!(
            hit == Ok(5),
            "a compare_exchange of 5 that expects 5 returns {hit:?}"
        );
        ensure!(
            ep.load(area, order).await? == 9,
            "compare_exchange did not store"
        );

        let words: Vec<u64> = (10..40).collect();
        ep.store_words(area.word(3), &words).await?;
        let mut found = vec![0; 30];
        ep.load_words(area.word(3), &mut found).await?;
        ensure!(found == words, "copied {words:?} in and {found:?} out");
        ep.store_words(area.word(4), &[77]).await?;
        let mut found = [0; 3];
        ep.load_words(area.word(3), &mut found).await?;
        ensure!(found == [10, 77, 12], "a copy of one word left {found:?}");
        let mut scanned = [0; 3];
        ep.scan_words(area.word(3), &mut scanned, 50).await?;
        ensure!(scanned == found, "a scan brings {scanned:?}");
        ep.load_words(area, &mut []).await?;
        ep.scan_words(area, &mut [], 50).await?;
        ep.store_words(area, &[]).await?;
        // What the CPU did is there for verbs.
        let mut found = [0; 2];
        ep.read_words(area.word(3), &mut found).await?;
        ensure!(found == [10, 77], "a loopback READ brings {found:?}");
        Ok(())
    });
    let memory = scenario.run(bed)?;
    ensure!(
        memory.words(area, 4) == [9, 0, 0, 10],
        "memory ends as {:?}",
        memory.words(area, 4)
    );
    Ok(())
}

const THREADS: u16 = 4;

fn totals<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 1);
    let counter = scenario.host(0, 2);
    let token = scenario.host(0, 1);
    let rounds = bed.rounds();
    let tokens = Shared::<Vec<u64>>::default();
    for thread in 0..THREADS {
        let tokens = tokens.clone();
        scenario.client(0, thread, move |ep| async move {
            let order = Ordering::SeqCst;
            for round in 0..rounds {
                ep.fetch_add(counter, 1, order).await?;
                let mut found = ep.load(counter.word(1), order).await?;
                while let Err(newer) = ep
                    .compare_exchange(counter.word(1), found, found + 1, order)
                    .await?
                {
                    found = newer;
                }
                let mine = 1 + u64::from(thread) * 1_000_000 + round;
                let before = ep.swap(token, mine, order).await?;
                tokens.with(|all| all.push(before));
                ep.work(ep.random() % 300).await;
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    let expected = rounds * u64::from(THREADS);
    let counts = memory.words(counter, 2);
    ensure!(
        counts == [expected; 2],
        "{expected} increments by fetch_add and compare_exchange left {counts:?}"
    );
    let mut all = tokens.take();
    all.push(memory.word(token));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    ensure!(all.len() == count, "two swaps returned the same word");
    Ok(())
}

fn lock<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 1);
    let lock = scenario.host(0, 1);
    let counter = scenario.host(0, 1);
    let rounds = bed.rounds();
    for thread in 0..THREADS {
        scenario.client(0, thread, move |ep| async move {
            let patience = Patience::new(&ep);
            for _ in 0..rounds {
                while ep
                    .compare_exchange(lock, 0, 1, Ordering::Acquire)
                    .await?
                    .is_err()
                {
                    patience.check(&ep, "the lock")?;
                    ep.sleep(ep.random() % 500).await;
                }
                let count = ep.load(counter, Ordering::Relaxed).await?;
                ep.work(50).await;
                ep.store(counter, count + 1, Ordering::Relaxed).await?;
                ep.store(lock, 0, Ordering::Release).await?;
                ep.sleep(100).await;
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    let (count, expected) = (memory.word(counter), rounds * u64::from(THREADS));
    ensure!(
        count == expected,
        "{expected} increments under a CPU lock left {count}"
    );
    Ok(())
}

fn publish<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 1);
    let data = scenario.host(0, 9);
    let flag = scenario.host(0, 1);
    let rounds = bed.rounds();
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.store(data, round, Ordering::Relaxed).await?;
            ep.store_words(data.word(1), &[round; 8]).await?;
            ep.store(flag, round, Ordering::Release).await?;
            ep.work(ep.random() % 500).await;
        }
        Ok(())
    });
    for thread in 1..THREADS {
        scenario.client(0, thread, move |ep| async move {
            let patience = Patience::new(&ep);
            let mut seen = 0;
            while seen < rounds {
                seen = ep.load(flag, Ordering::Acquire).await?;
                let first = ep.load(data, Ordering::Relaxed).await?;
                let mut rest = [0; 8];
                ep.load_words(data.word(1), &mut rest).await?;
                let old = first < seen || rest.iter().any(|word| *word < seen);
                ensure!(
                    !old,
                    "behind release store {seen} a CPU loads {first} and {rest:?}"
                );
                patience.check(&ep, "the last store")?;
                ep.work(ep.random() % 200).await;
            }
            Ok(())
        });
    }
    scenario.run(bed).map(|_| ())
}

/// Calls everything once, and sees that the clock does not go back between two calls.
async fn watch_clock(
    ep: &impl Endpoint,
    own: GlobalAddr,
    remote: GlobalAddr,
    round: u64,
) -> Outcome {
    let mut before = ep.now();
    let mut check = |call: &str| {
        let now = ep.now();
        ensure!(
            now >= before,
            "{call} took the clock from {before} back to {now}"
        );
        before = now;
        Ok(())
    };
    ep.store(own, round, Ordering::SeqCst).await?;
    check("store")?;
    ep.load(own, Ordering::SeqCst).await?;
    check("load")?;
    ep.fetch_add(own, 1, Ordering::SeqCst).await?;
    check("fetch_add")?;
    ep.store_words(own, &[round; 8]).await?;
    check("store_words")?;
    ep.load_words(own, &mut [0; 8]).await?;
    check("load_words")?;
    let wait = WaitFor::new("conformance: nothing", own);
    ep.wait_until(own, 1, wait, |_| true).await?;
    check("wait_until")?;
    ep.poll_until(remote, 1, PollBackoff::NONE, wait, |_| true)
        .await?;
    check("poll_until")?;
    ep.write_words(remote, &[round; 8]).await?;
    check("WRITE")?;
    ep.rdma_faa(own, 1).await?;
    check("loopback FAA")?;
    Ok(())
}

fn clock<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let areas = [scenario.host(0, 8), scenario.host(1, 8)];
    let rounds = bed.rounds();
    for node in 0..2u16 {
        let (own, remote) = (areas[usize::from(node)], areas[usize::from(1 - node)]);
        scenario.client(node, 0, move |ep| async move {
            for round in 0..rounds {
                watch_clock(&ep, own, remote, round).await?;
                let ns = ep.random() % 3_000;
                let start = ep.now();
                ep.sleep(ns).await;
                let slept = ep.now() - start;
                ensure!(slept >= ns, "a sleep of {ns} ns lasted {slept}");
                let start = ep.now();
                ep.work(ns).await;
                let worked = ep.now() - start;
                ensure!(worked >= ns, "work of {ns} ns lasted {worked}");
                let start = ep.now();
                ep.scan_words(own, &mut [0; 8], ns).await?;
                let scanned = ep.now() - start;
                ensure!(scanned >= ns, "a scan of {ns} ns lasted {scanned}");
                pause(&ep, 100).await;
            }
            Ok(())
        });
    }
    scenario.run(bed).map(|_| ())
}

fn random<B: TestBed>(bed: &B) -> Outcome {
    let draw = || -> Outcome<Vec<(u32, Vec<u64>)>> {
        let mut scenario = Scenario::new(bed, 2);
        let drawn = Shared::<Vec<(u32, Vec<u64>)>>::default();
        for (node, thread) in [(0, 0), (0, 0), (0, 1), (1, 0)] {
            let drawn = drawn.clone();
            scenario.client(node, thread, move |ep| async move {
                let mine = (0..8).map(|_| ep.random()).collect();
                drawn.with(|all| all.push((ep.client().0, mine)));
                Ok(())
            });
        }
        scenario.run(bed)?;
        let mut all = drawn.take();
        all.sort();
        Ok(all)
    };
    let (once, again) = (draw()?, draw()?);
    ensure!(once == again, "two runs of one seed drew different numbers");
    let mut all: Vec<_> = once.into_iter().flat_map(|(_, mine)| mine).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    ensure!(all.len() == count, "clients draw the same numbers");
    Ok(())
}
