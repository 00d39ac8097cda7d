//! Chains: several verbs, one completion.

use super::{MustTest, Outcome, Scenario, TestBed};
use crate::{Chain, Endpoint};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "results of a chain",
            contract: "verbs of a chain are posted together, with one completion, and results are then in it",
            run: results,
        },
        MustTest {
            name: "long chains",
            contract: "a chain holds at least a hundred verbs; an empty one completes at once",
            run: long,
        },
    ]
}

fn results<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let area = scenario.host(0, 16);
    let rounds = bed.rounds().min(50);
    scenario.client(1, 0, move |ep| async move {
        let mut chain = Chain::new();
        for round in 0..rounds {
            chain.clear();
            let write = chain.write(area.add(3), b"odd bytes");
            let faa = chain.faa(area.word(4), 2);
            let hit = chain.cas(area.word(5), round, round + 1);
            let miss = chain.cas(area.word(6), 1, 2);
            let bytes = chain.read(area.add(3), 9);
            let words = chain.read(area.word(4), 24);
            ep.execute(&mut chain).await?;
            ensure!(
                chain.bytes(write) == b"odd bytes",
                "a chain's payload changed"
            );
            ensure!(
                chain.value(faa) == 2 * round,
                "FAA {round}: {}",
                chain.value(faa)
            );
            ensure!(
                chain.value(hit) == round,
                "CAS {round}: {}",
                chain.value(hit)
            );
            ensure!(
                chain.value(miss) == 0,
                "a CAS of a zero found {}",
                chain.value(miss)
            );
            ensure!(
                chain.bytes(bytes) == b"odd bytes",
                "READ {:?}",
                chain.bytes(bytes)
            );
            let expected = [2 * (round + 1), round + 1, 0];
            ensure!(
                chain.words(words) == expected,
                "READ {:?}",
                chain.words(words)
            );
        }
        // The same chain once more: results are new, payloads the same.
        chain.clear();
        chain.write(area.word(8), b"again");
        let faa = chain.faa(area.word(4), 1);
        for time in 0..3 {
            ep.execute(&mut chain).await?;
            let found = chain.value(faa);
            ensure!(
                found == 2 * rounds + time,
                "executed again, FAA finds {found}"
            );
        }
        Ok(())
    });
    let memory = scenario.run(bed)?;
    let again = memory.word(area.word(8)).to_ne_bytes();
    ensure!(
        &again[..5] == b"again",
        "the payload was not sent: {again:?}"
    );
    Ok(())
}

fn long<B: TestBed>(bed: &B) -> Outcome {
    const VERBS: u64 = 100;
    let mut scenario = Scenario::new(bed, 2);
    let area = scenario.host(0, VERBS);
    scenario.client(1, 0, move |ep| async move {
        let mut chain = Chain::new();
        ep.execute(&mut chain).await?;
        ensure!(chain.is_empty(), "an empty chain is not empty any more");
        for word in 0..VERBS {
            chain.write_words(area.word(word), &[word + 1]);
        }
        ep.execute(&mut chain).await?;
        chain.clear();
        let slots: Vec<_> = (0..VERBS)
            .map(|word| chain.read(area.word(word), 8))
            .collect();
        ep.execute(&mut chain).await?;
        for (word, slot) in slots.into_iter().enumerate() {
            let found = chain.value(slot);
            ensure!(
                found == word as u64 + 1,
                "READ {word} of a long chain brought {found}"
            );
        }
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}
