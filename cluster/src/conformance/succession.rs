//! What is left of completed WRITEs when others come right behind them.

use std::sync::atomic::Ordering;

use super::scenario::{Patience, pause};
use super::{MustTest, Outcome, Scenario, TestBed};
use crate::{Endpoint, WaitFor};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "completed WRITEs, for others who are told at once",
            contract: "a completed remote verb is visible to later verbs of anybody at that node",
            run: told,
        },
        MustTest {
            name: "completed WRITEs of several clients, one over the other",
            contract: "a completed remote verb is before later verbs of anybody: the last WRITE of a word stays, \
                       and nobody sees it go back",
            run: turns,
        },
        MustTest {
            name: "a completed WRITE, under WRITEs of others",
            contract: "a completed remote verb is visible to later verbs of anybody: what it replaced is gone, \
                       whatever else is on its way",
            run: contended,
        },
    ]
}

const WORDS: usize = 10;

/// In the values that others write.
const OTHERS: u64 = 1 << 32;

fn told<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 4);
    let places = [
        scenario.host(0, WORDS as u64),
        scenario.device(0, WORDS as u64),
    ];
    let told = scenario.host(1, 2);
    let rounds = bed.rounds();
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            let which = ep.random() as usize % 2;
            let count = if ep.random().is_multiple_of(2) {
                1
            } else {
                WORDS
            };
            ep.write_words(places[which], &[round; WORDS][..count])
                .await?;
            // Two of the writer's own node are told by the CPU: hardly anything is quicker.
            ep.store(told.word(which as u64), round, Ordering::Release)
                .await?;
            pause(&ep, 1_000).await;
        }
        for which in 0..2 {
            ep.store(told.word(which), rounds + 1, Ordering::Release)
                .await?;
        }
        Ok(())
    });
    // WRITEs of others to the same words are on their way all the time.
    for other in 0..6u16 {
        scenario.client(2 + other % 2, other, move |ep| async move {
            for round in 1..=rounds {
                let value = OTHERS | round;
                ep.write_words(places[usize::from(other) % 2], &[value; WORDS])
                    .await?;
            }
            Ok(())
        });
    }
    // The host's CPU looks on: what it sees or not must not matter to verbs.
    scenario.client(0, 0, move |ep| async move {
        for _ in 0..rounds * 40 {
            ep.load(places[0], Ordering::Acquire).await?;
            ep.work(ep.random() % 200).await;
        }
        Ok(())
    });
    for which in 0..2 {
        let (told, place) = (told.word(which), places[which as usize]);
        for thread in 1..3 {
            scenario.client(1, thread + 2 * which as u16, move |ep| async move {
                let mut seen = 0;
                loop {
                    let wait = WaitFor::new("conformance: told", told);
                    seen = ep
                        .wait_until(told, 1, wait, |words| words[0] > seen)
                        .await?[0];
                    if seen > rounds {
                        return Ok(());
                    }
                    let count = [1, 2, WORDS][ep.random() as usize % 3];
                    let mut found = [0; WORDS];
                    ep.read_words(place, &mut found[..count]).await?;
                    let first = found[0];
                    ensure!(
                        first >= seen,
                        "told of WRITE {seen}, a READ of {count} words at {place} brings {first}"
                    );
                }
            });
        }
    }
    scenario.run(bed).map(|_| ())
}

fn turns<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let words = scenario.host(0, WORDS as u64);
    let last = words.word(WORDS as u64 - 1);
    let rounds = bed.rounds() * 3;
    // Three threads of a node take turns; who has had its WRITE's completion tells the next by the CPU.
    let turn = scenario.host(1, 1);
    for place in 0..3u16 {
        scenario.client(1, place, move |ep| async move {
            for round in (u64::from(place) + 1..=rounds).step_by(3) {
                let wait = WaitFor::new("conformance: turn", turn);
                ep.wait_until(turn, 1, wait, |words| words[0] + 1 == round)
                    .await?;
                let start = ep.random() as usize % WORDS;
                ep.write_words(words.word(start as u64), &[round; WORDS][start..])
                    .await?;
                ep.store(turn, round, Ordering::Release).await?;
            }
            Ok(())
        });
    }
    // Nobody sees the last word go back, and looks at other words must not make it.
    for thread in 1..3 {
        scenario.client(0, thread, move |ep| async move {
            let patience = Patience::new(&ep);
            let mut before = 0;
            while before < rounds {
                let found = ep.load(last, Ordering::Acquire).await?;
                ensure!(
                    found >= before,
                    "a CPU sees a word go back from WRITE {before} to {found}"
                );
                before = found;
                patience.check(&ep, "the last WRITE")?;
                ep.work(ep.random() % 200).await;
            }
            Ok(())
        });
        scenario.client(2, thread, move |ep| async move {
            let patience = Patience::new(&ep);
            let mut before = [0; WORDS];
            while before[WORDS - 1] < rounds {
                let word = ep.random() as usize % WORDS;
                let found = ep.read_u64(words.word(word as u64)).await?;
                let before = std::mem::replace(&mut before[word], found);
                ensure!(
                    found >= before,
                    "READs see a word go back from WRITE {before} to {found}"
                );
                patience.check(&ep, "the last WRITE")?;
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    let found = memory.word(last);
    ensure!(
        found == rounds,
        "WRITE {rounds} was the last, the word holds {found}"
    );
    Ok(())
}

fn contended<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 4);
    let words = scenario.host(0, WORDS as u64);
    let rounds = bed.rounds();
    for me in 1..7u16 {
        scenario.client(me % 3 + 1, me, move |ep| async move {
            let tag = u64::from(me) << 32;
            for round in 1..=rounds {
                let mine = tag | round;
                // One word under WRITEs of many, or many.
                let last = if ep.random().is_multiple_of(2) {
                    1
                } else {
                    WORDS
                };
                ep.write_words(words, &[mine; WORDS][..last]).await?;
                let mut found = [0; WORDS];
                ep.read_words(words, &mut found[..last.max(2)]).await?;
                // Others may have written since, but nothing of before is left.
                let old = |word: &&u64| **word == 0 || **word >> 32 == tag >> 32 && **word < mine;
                let old = found[..last].iter().find(old);
                ensure!(
                    old.is_none(),
                    "after WRITE {mine:#x} completed, a READ brings {old:#x?}"
                );
            }
            Ok(())
        });
    }
    scenario.run(bed).map(|_| ())
}
