//! CPU changes of a word that an RNIC atomic is changing: they may be lost.

use std::sync::atomic::Ordering;

use super::{MayTest, Outcome, Scenario, Shared, TestBed};
use crate::{Endpoint, GlobalAddr};

const LOST: &str =
    "RNIC atomics are NOT atomic against CPU stores and read-modify-writes of the same word";

pub(super) fn tests<B: TestBed>() -> Vec<MayTest<B>> {
    vec![
        MayTest {
            name: "a CPU store is lost",
            contract: LOST,
            run: |bed| lost(bed, By::Store),
        },
        MayTest {
            name: "a CPU copy is lost",
            contract: LOST,
            run: |bed| lost(bed, By::Copy),
        },
        MayTest {
            name: "a CPU fetch-add is lost",
            contract: LOST,
            run: |bed| lost(bed, By::FetchAdd),
        },
        MayTest {
            name: "a CPU compare-exchange is lost",
            contract: LOST,
            run: |bed| lost(bed, By::CompareExchange),
        },
    ]
}

/// How the CPU changes the word.
#[derive(Clone, Copy)]
enum By {
    Store,
    Copy,
    FetchAdd,
    CompareExchange,
}

/// The CPU's half of the word; remote clients count in the other.
const ONE: u64 = 1 << 32;

/// Makes the CPU's half `round`, as far as the CPU can know.
async fn change(ep: &impl Endpoint, word: GlobalAddr, by: By, round: u64) -> Outcome {
    let order = Ordering::SeqCst;
    match by {
        By::Store => ep.store(word, round * ONE, order).await?,
        By::Copy => ep.store_words(word, &[round * ONE; 2]).await?,
        By::FetchAdd => _ = ep.fetch_add(word, ONE, order).await?,
        By::CompareExchange => {
            let mut found = ep.load(word, order).await?;
            while let Err(newer) = ep
                .compare_exchange(word, found, found % ONE + round * ONE, order)
                .await?
            {
                found = newer;
            }
        }
    }
    Ok(())
}

fn lost<B: TestBed>(bed: &B, by: By) -> Outcome<bool> {
    let mut scenario = Scenario::new(bed, 3);
    let word = scenario.host(0, 2);
    let rounds = bed.rounds();
    let seen = Shared::<bool>::default();
    for node in [1, 2] {
        scenario.client(node, 0, move |ep| async move {
            for _ in 0..rounds {
                ep.rdma_faa(word, 1).await?;
            }
            Ok(())
        });
    }
    let gone = seen.clone();
    scenario.client(0, 0, move |ep| async move {
        let mut made = 0;
        for _ in 0..rounds {
            made += 1;
            change(&ep, word, by, made).await?;
            ep.sleep(2_000 + ep.random() % 1_000).await;
            // An FAA of 1 leaves this half alone: it was written by nobody else.
            let found = ep.load(word, Ordering::SeqCst).await? / ONE;
            gone.with(|gone| *gone |= found != made);
            made = found;
        }
        Ok(())
    });
    scenario.run(bed)?;
    Ok(seen.take())
}
