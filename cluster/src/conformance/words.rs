//! What an access of several words is made of: whole words, in order.

use std::sync::atomic::Ordering;

use super::scenario::{Patience, pause};
use super::{MustTest, Outcome, Scenario, TestBed};
use crate::{Chain, Endpoint, GlobalAddr};

const ASCENDING: &str = "a longer WRITE lands word by word in increasing address order";

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "words are never torn",
            contract: "an aligned 8-byte word is read or written at one instant",
            run: torn,
        },
        MustTest {
            name: "long WRITEs ascend, as the CPU sees them",
            contract: ASCENDING,
            run: |bed| ascending(bed, false, true),
        },
        MustTest {
            name: "long WRITEs ascend, as READs see them",
            contract: ASCENDING,
            run: |bed| ascending(bed, false, false),
        },
        MustTest {
            name: "CPU copies ascend, as other CPUs see them",
            contract: "store_words: each word by a release store, in increasing address order",
            run: |bed| ascending(bed, true, true),
        },
        MustTest {
            name: "CPU copies ascend, as READs see them",
            contract: "store_words: each word by a release store, in increasing address order",
            run: |bed| ascending(bed, true, false),
        },
    ]
}

const WORDS: usize = 12;

/// A word whose halves are equal.
fn whole(value: u64) -> u64 {
    value << 32 | value
}

fn check_whole(words: &[u64], how: &str) -> Outcome {
    let torn = words.iter().find(|word| *word >> 32 != *word & 0xffff_ffff);
    ensure!(
        torn.is_none(),
        "{how} saw a torn word: {:#x}",
        torn.copied().unwrap_or_default()
    );
    Ok(())
}

fn torn<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    // One area is written by WRITEs and CPU stores, the other by RNIC atomics.
    let area = scenario.host(0, WORDS as u64);
    let counters = scenario.host(0, WORDS as u64);
    let rounds = bed.rounds();
    for node in [1, 2] {
        scenario.client(node, 0, move |ep| async move {
            for round in 1..=rounds {
                let first = ep.random() as usize % WORDS;
                ep.write_words(area.word(first as u64), &[whole(round); WORDS][first..])
                    .await?;
                ep.rdma_faa(counters.word(round % WORDS as u64), whole(1))
                    .await?;
            }
            Ok(())
        });
    }
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.store_words(area, &[whole(round); WORDS]).await?;
            ep.store(area.word(2), whole(round + 1), Ordering::Release)
                .await?;
            ep.work(ep.random() % 2_000).await;
        }
        Ok(())
    });
    scenario.client(0, 1, move |ep| async move {
        for round in 0..2 * rounds {
            for place in [area, counters] {
                let word = ep
                    .load(place.word(round % WORDS as u64), Ordering::Acquire)
                    .await?;
                check_whole(&[word], "a CPU load")?;
                let mut words = [0; WORDS];
                ep.load_words(place, &mut words).await?;
                check_whole(&words, "a CPU copy")?;
            }
            ep.work(ep.random() % 1_000).await;
        }
        Ok(())
    });
    scenario.client(2, 1, move |ep| async move {
        for round in 0..rounds {
            for place in [area, counters] {
                let word = ep.read_u64(place.word(round % WORDS as u64)).await?;
                check_whole(&[word], "a READ of a word")?;
                let mut words = [0; WORDS];
                ep.read_words(place, &mut words).await?;
                check_whole(&words, "a long READ")?;
            }
        }
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}

/// Somebody writes all words of an area round by round; others look at a later word, then at an earlier one.
fn ascending<B: TestBed>(bed: &B, by_cpu: bool, seen_by_cpu: bool) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let area = scenario.host(0, WORDS as u64);
    let rounds = bed.rounds();
    scenario.client(u16::from(!by_cpu), 0, move |ep| async move {
        for round in 1..=rounds {
            if by_cpu {
                ep.store_words(area, &[round; WORDS]).await?;
            } else {
                ep.write_words(area, &[round; WORDS]).await?;
            }
            pause(&ep, 3_000).await;
        }
        Ok(())
    });
    for thread in 1..3 {
        let node = if seen_by_cpu { 0 } else { 2 };
        scenario.client(node, thread, move |ep| async move {
            let patience = Patience::new(&ep);
            loop {
                let later = 1 + ep.random() % (WORDS as u64 - 1);
                let earlier = ep.random() % later;
                let (later, earlier) = (area.word(later), area.word(earlier));
                let (then, now) = if seen_by_cpu {
                    let then = ep.load(later, Ordering::Acquire).await?;
                    (then, ep.load(earlier, Ordering::Acquire).await?)
                } else {
                    look(&ep, later, earlier).await?
                };
                ensure!(
                    now >= then,
                    "write {then} is in a later word, an earlier one has {now}"
                );
                if then >= rounds {
                    return Ok(());
                }
                patience.check(&ep, "the last write")?;
                ep.work(ep.random() % 300).await;
            }
        });
    }
    scenario.run(bed).map(|_| ())
}

/// READs two words in a row, in one chain or in two.
async fn look(ep: &impl Endpoint, first: GlobalAddr, second: GlobalAddr) -> Outcome<(u64, u64)> {
    if ep.random().is_multiple_of(2) {
        return Ok((ep.read_u64(first).await?, ep.read_u64(second).await?));
    }
    let mut chain = Chain::new();
    let (first, second) = (chain.read(first, 8), chain.read(second, 8));
    ep.execute(&mut chain).await?;
    Ok((chain.value(first), chain.value(second)))
}
