//! When what was done is there for others.

use std::sync::atomic::Ordering;

use super::scenario::{Patience, pause};
use super::{MustTest, Outcome, Scenario, TestBed};
use crate::{Chain, Endpoint, PollBackoff, WaitFor};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "completed loopback verbs, for the host",
            contract: "a completed loopback verb is visible to the host",
            run: loopback,
        },
        MustTest {
            name: "completed remote verbs, for later verbs of anybody",
            contract: "a completed remote verb is visible to later verbs of anybody at that node",
            run: remote,
        },
        MustTest {
            name: "completed remote verbs, for the host's CPU at last",
            contract: "a completed remote verb is visible to the node's CPU a little later",
            run: remote_cpu,
        },
        MustTest {
            name: "CPU stores before a post",
            contract: "CPU stores before a post precede that verb",
            run: stores_then_post,
        },
    ]
}

const WORDS: usize = 10;

fn loopback<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let written = scenario.host(0, WORDS as u64);
    let counted = scenario.host(0, 1);
    let told = scenario.host(0, 1);
    let rounds = bed.rounds();
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            let first = ep.random() as usize % WORDS;
            ep.write_words(written.word(first as u64), &[round; WORDS][first..])
                .await?;
            ep.rdma_faa(counted, 1).await?;
            let mut chain = Chain::new();
            chain.write(written.add(3), &[round as u8; 9]);
            ep.execute(&mut chain).await?;
            let mut words = [0; WORDS];
            ep.load_words(written, &mut words).await?;
            let bytes: &[u8] = bytemuck::cast_slice(&words);
            let late = bytes[3..12].iter().any(|byte| *byte != round as u8);
            ensure!(
                !late,
                "after loopback WRITE {round} the CPU loads bytes {:?}",
                &bytes[3..12]
            );
            let last = ep
                .load(written.word(WORDS as u64 - 1), Ordering::Acquire)
                .await?;
            ensure!(
                last == round,
                "after loopback WRITE {round} the CPU loads {last}"
            );
            let count = ep.load(counted, Ordering::Acquire).await?;
            ensure!(
                count == round,
                "after loopback FAA {round} the CPU loads {count}"
            );
            // Whoever on the host is told of it sees it as well.
            ep.store(told, round, Ordering::Release).await?;
            ep.work(ep.random() % 1_000).await;
        }
        Ok(())
    });
    scenario.client(0, 1, move |ep| async move {
        let mut seen = 0;
        while seen < rounds {
            let wait = WaitFor::new("conformance: told", told);
            seen = ep
                .wait_until(told, 1, wait, |words| words[0] > seen)
                .await?[0];
            let last = ep
                .load(written.word(WORDS as u64 - 1), Ordering::Acquire)
                .await?;
            ensure!(
                last >= seen,
                "told of loopback WRITE {seen}, another CPU loads {last}"
            );
            let count = ep.load(counted, Ordering::Acquire).await?;
            ensure!(
                count >= seen,
                "told of loopback FAA {seen}, another CPU loads {count}"
            );
        }
        Ok(())
    });
    // Somebody else's WRITEs keep the memory busy.
    let noise = scenario.host(0, WORDS as u64);
    scenario.client(1, 0, move |ep| async move {
        for round in 0..rounds {
            ep.write_words(noise, &[round; WORDS]).await?;
        }
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}

fn remote<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let written = scenario.host(0, WORDS as u64);
    let on_chip = scenario.device(0, WORDS as u64);
    let counted = scenario.host(0, 1);
    let rounds = bed.rounds();
    // The writer tells its reader, which is on its own node, the host or a third node, by WRITE into the
    // reader's own memory: another queue pair, after the completion.
    let readers = [
        (0, scenario.host(0, 1)),
        (1, scenario.host(1, 1)),
        (2, scenario.host(2, 1)),
    ];
    scenario.client(1, 0, move |ep| async move {
        let mut chain = Chain::new();
        for round in 1..=rounds {
            for place in [written, on_chip] {
                let first = ep.random() as usize % WORDS;
                ep.write_words(place.word(first as u64), &[round; WORDS][first..])
                    .await?;
            }
            ep.rdma_faa(counted, 1).await?;
            for (_, told) in readers {
                chain.clear();
                chain.write_words(told, &[round]);
                ep.execute(&mut chain).await?;
            }
            pause(&ep, 1_000).await;
        }
        Ok(())
    });
    // Overlapping WRITEs of a third party to the words before the last keep placements waiting for each other.
    scenario.client(2, 1, move |ep| async move {
        for round in 1..=rounds {
            ep.write_words(written, &[round; WORDS - 1]).await?;
        }
        Ok(())
    });
    for (node, told) in readers {
        scenario.client(node, 7, move |ep| async move {
            let mut seen = 0;
            while seen < rounds {
                let wait = WaitFor::new("conformance: told", told);
                seen = ep
                    .wait_until(told, 1, wait, |words| words[0] > seen)
                    .await?[0];
                for place in [written, on_chip] {
                    let words = 1 + ep.random() as usize % WORDS;
                    let mut found = [0; WORDS];
                    let start = (WORDS - words) as u64;
                    ep.read_words(place.word(start), &mut found[..words])
                        .await?;
                    let last = found[words - 1];
                    ensure!(
                        last >= seen,
                        "told of WRITE {seen}, a READ of {words} words at {place} brings {last}"
                    );
                }
                let count = ep.rdma_faa(counted, 0).await?;
                ensure!(count >= seen, "told of FAA {seen}, an FAA finds {count}");
            }
            Ok(())
        });
    }
    scenario.run(bed).map(|_| ())
}

fn remote_cpu<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let words = scenario.host(0, WORDS as u64);
    let counted = scenario.host(0, 1);
    let rounds = bed.rounds();
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.write_words(words, &[round; WORDS]).await?;
            ep.rdma_faa(counted, 1).await?;
        }
        Ok(())
    });
    scenario.client(0, 0, move |ep| async move {
        for place in [words, words.word(WORDS as u64 - 1), counted] {
            let patience = Patience::new(&ep);
            let mut before = 0;
            while before < rounds {
                let found = ep.load(place, Ordering::Acquire).await?;
                ensure!(
                    found >= before,
                    "{place} went back from {before} to {found}"
                );
                before = found;
                patience.check(&ep, "a completed verb")?;
                ep.work(200).await;
            }
        }
        Ok(())
    });
    let memory = scenario.run(bed)?;
    let last = memory.words(words, WORDS);
    ensure!(last == [rounds; WORDS], "{words} holds {last:?} in the end");
    Ok(())
}

fn stores_then_post<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let stored = scenario.host(0, 1);
    let copied = scenario.host(0, WORDS as u64);
    let told = scenario.host(1, 1);
    let rounds = bed.rounds();
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.store_words(copied, &[round; WORDS]).await?;
            ep.store(stored, round, Ordering::Relaxed).await?;
            let found = if round.is_multiple_of(2) {
                ep.read_u64(stored).await?
            } else {
                ep.write_words(told, &[round]).await?;
                ep.read_u64(stored).await?
            };
            ensure!(
                found == round,
                "a loopback READ posted after store {round} brings {found}"
            );
            ep.write_words(told, &[round]).await?;
        }
        Ok(())
    });
    scenario.client(1, 0, move |ep| async move {
        let mut seen = 0;
        while seen < rounds {
            // Told by WRITE into own memory, or by looking there with READs.
            let wait = WaitFor::new("conformance: told", told);
            let told = if ep.random().is_multiple_of(2) {
                ep.wait_until(told, 1, wait, |words| words[0] > seen)
                    .await?
            } else {
                ep.poll_until(told, 1, PollBackoff::NONE, wait, |words| words[0] > seen)
                    .await?
            };
            seen = told[0];
            let found = ep.read_u64(stored).await?;
            ensure!(
                found >= seen,
                "told by a verb posted after store {seen}, a READ brings {found}"
            );
            let mut words = [0; WORDS];
            ep.read_words(copied, &mut words).await?;
            let old = words.iter().any(|word| *word < seen);
            ensure!(
                !old,
                "told by a verb posted after copy {seen}, a READ brings {words:?}"
            );
        }
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}
