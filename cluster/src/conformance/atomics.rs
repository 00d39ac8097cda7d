//! RNIC atomics among themselves.

use super::scenario::{Patience, pause};
use super::{MustTest, Outcome, Scenario, Shared, TestBed};
use crate::{Chain, Endpoint};

const ATOMIC: &str = "RNIC atomics are atomic among themselves, per node";

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "FAA totals are exact",
            contract: ATOMIC,
            run: totals,
        },
        MustTest {
            name: "CAS excludes",
            contract: ATOMIC,
            run: lock,
        },
        MustTest {
            name: "CAS and FAA on one word",
            contract: ATOMIC,
            run: mixed,
        },
    ]
}

/// (node, thread) of the clients: two of a thread, threads of a node, nodes, the host itself.
const CLIENTS: [(u16, u16); 7] = [(0, 0), (0, 1), (1, 0), (1, 0), (1, 1), (2, 0), (2, 1)];

fn totals<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    // Two words of a line, and one 4096 bytes further, which hardware may serialise with the first.
    let area = scenario.host(0, 520);
    let on_chip = scenario.device(0, 2);
    let words = [area, area.word(1), area.word(512), on_chip, on_chip.word(1)];
    let rounds = bed.rounds();
    let found = Shared::<Vec<Vec<u64>>>::default();
    found.with(|all| all.resize(words.len(), Vec::new()));
    for (node, thread) in CLIENTS {
        let found = found.clone();
        scenario.client(node, thread, move |ep| async move {
            let mut chain = Chain::new();
            for _ in 0..rounds {
                let (one, other) = (
                    ep.random() as usize % words.len(),
                    ep.random() as usize % words.len(),
                );
                chain.clear();
                let first = chain.faa(words[one], 1);
                let second = chain.faa(words[other], 1);
                ep.execute(&mut chain).await?;
                found.with(|all| {
                    all[one].push(chain.value(first));
                    all[other].push(chain.value(second));
                });
                if ep.random().is_multiple_of(4) {
                    pause(&ep, 1_000).await;
                }
            }
            Ok(())
        });
    }
    scenario.run(bed)?;
    // An FAA of 1 finds each value once: the total is exact, and no result was given twice.
    for (place, mut values) in found.take().into_iter().enumerate() {
        values.sort_unstable();
        let exact = values.iter().copied().eq(0..values.len() as u64);
        ensure!(exact, "FAAs of {} found {values:?}", words[place]);
    }
    Ok(())
}

fn lock<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let lock = scenario.host(0, 1);
    let counter = scenario.host(0, 1);
    let rounds = bed.rounds().min(200) / 2;
    for (id, (node, thread)) in CLIENTS.into_iter().enumerate() {
        let me = id as u64 + 1;
        scenario.client(node, thread, move |ep| async move {
            let mut chain = Chain::new();
            let patience = Patience::new(&ep);
            for _ in 0..rounds {
                while ep.rdma_cas(lock, 0, me).await? != 0 {
                    patience.check(&ep, "the lock")?;
                    pause(&ep, 5_000).await;
                }
                let count = ep.read_u64(counter).await?;
                // Data and release in one chain: WRITE→WRITE.
                chain.clear();
                chain.write_words(counter, &[count + 1]);
                chain.write_words(lock, &[0]);
                ep.execute(&mut chain).await?;
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    let (count, expected) = (memory.word(counter), rounds * CLIENTS.len() as u64);
    ensure!(
        count == expected,
        "{expected} increments under a CAS lock left {count}"
    );
    Ok(())
}

fn mixed<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let word = scenario.host(0, 1);
    let rounds = bed.rounds();
    for (id, (node, thread)) in CLIENTS.into_iter().enumerate() {
        scenario.client(node, thread, move |ep| async move {
            let patience = Patience::new(&ep);
            let mut guess = 0;
            for _ in 0..rounds {
                if id % 2 == 0 {
                    guess = ep.rdma_faa(word, 1).await?;
                    continue;
                }
                loop {
                    let found = ep.rdma_cas(word, guess, guess + 1).await?;
                    if std::mem::replace(&mut guess, found) == found {
                        break;
                    }
                    patience.check(&ep, "a CAS that wins")?;
                    pause(&ep, 2_000).await;
                }
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    let (count, expected) = (memory.word(word), rounds * CLIENTS.len() as u64);
    ensure!(
        count == expected,
        "{expected} increments by FAA and CAS left {count}"
    );
    Ok(())
}
