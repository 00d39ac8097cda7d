//! Fences: what orders a verb behind an earlier READ or atomic of its queue pair.

use super::scenario::post_and_forget;
use super::{MustTest, Outcome, Scenario, TestBed};
use crate::{Chain, Endpoint, GlobalAddr};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "READ→fenced WRITE",
            contract: "READ→WRITE takes effect in posting order with a fence on the WRITE",
            run: read_write,
        },
        MustTest {
            name: "READ→fenced atomic",
            contract: "READ→atomic takes effect in posting order with a fence on the atomic",
            run: read_atomic,
        },
        MustTest {
            name: "atomic→fenced WRITE",
            contract: "atomic→WRITE takes effect in posting order with a fence on the WRITE",
            run: atomic_write,
        },
        MustTest {
            name: "a fence waits for earlier chains too",
            contract: "a fenced verb waits for every earlier READ and atomic of the queue pair",
            run: across_chains,
        },
    ]
}

const WORDS: usize = 16;

fn on_every_path<B, F, P>(bed: &B, program: F) -> Outcome
where
    B: TestBed,
    F: Fn(B::Endpoint, GlobalAddr, u64) -> P + Copy + Send + 'static,
    P: Future<Output = Outcome> + 'static,
{
    let mut scenario = Scenario::new(bed, 2);
    let rounds = bed.rounds();
    for node in 0..2 {
        for thread in 0..2 {
            let area = scenario.host(0, WORDS as u64);
            scenario.client(node, thread, move |ep| program(ep, area, rounds));
        }
        let area = scenario.device(0, WORDS as u64);
        scenario.client(node, 2, move |ep| program(ep, area, rounds));
    }
    scenario.run(bed).map(|_| ())
}

fn read_write<B: TestBed>(bed: &B) -> Outcome {
    on_every_path(bed, |ep, area, rounds| async move {
        let mut chain = Chain::new();
        for round in 1..=rounds {
            chain.clear();
            let words = 1 + ep.random() as usize % WORDS;
            let read = chain.read(area, words * 8);
            chain.fence().write_words(area, &[round; WORDS]);
            ep.execute(&mut chain).await?;
            let found = chain.words(read);
            let old = found.iter().all(|word| *word == round - 1);
            ensure!(old, "a READ before fenced WRITE {round} brought {found:?}");
        }
        Ok(())
    })
}

fn read_atomic<B: TestBed>(bed: &B) -> Outcome {
    on_every_path(bed, |ep, area, rounds| async move {
        let mut chain = Chain::new();
        for _ in 0..rounds {
            chain.clear();
            let word = ep.random() % WORDS as u64;
            let read = chain.read(area, WORDS * 8);
            let faa = chain.fence().faa(area.word(word), 1);
            ep.execute(&mut chain).await?;
            let (seen, found) = (chain.words(read)[word as usize], chain.value(faa));
            ensure!(
                seen == found,
                "a READ before a fenced FAA of {found} brought {seen}"
            );
        }
        Ok(())
    })
}

fn atomic_write<B: TestBed>(bed: &B) -> Outcome {
    on_every_path(bed, |ep, area, rounds| async move {
        let mut chain = Chain::new();
        for round in 1..=rounds {
            chain.clear();
            let faa = chain.faa(area.word(3), 1);
            chain.fence().write_words(area, &[round * 10; WORDS]);
            ep.execute(&mut chain).await?;
            let before = (round - 1) * 10;
            ensure!(
                chain.value(faa) == before,
                "an FAA before fenced WRITE {} found {}, not {before}",
                round * 10,
                chain.value(faa)
            );
            let after = ep.read_u64(area.word(3)).await?;
            ensure!(
                after == round * 10,
                "an FAA changed what was written behind it to {after}"
            );
        }
        Ok(())
    })
}

fn across_chains<B: TestBed>(bed: &B) -> Outcome {
    on_every_path(bed, |ep, area, rounds| async move {
        for round in 1..=rounds {
            let mut chain = Chain::new();
            chain.faa(area, 1);
            post_and_forget(&ep, chain).await;
            let mut chain = Chain::new();
            chain.write_words(area.word(1), &[round]);
            chain.fence().write_words(area, &[round * 10]);
            let read = chain.read(area, 8);
            ep.execute(&mut chain).await?;
            ensure!(
                chain.value(read) == round * 10,
                "an FAA of an earlier chain came behind fenced WRITE {}: {}",
                round * 10,
                chain.value(read)
            );
            let found = ep.read_u64(area).await?;
            ensure!(
                found == round * 10,
                "an FAA of an earlier chain came late: {found}"
            );
        }
        Ok(())
    })
}
