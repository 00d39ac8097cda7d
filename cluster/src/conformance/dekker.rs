//! Dekker's pattern: two clients each announce themselves, then look for the other. At least one must see.

use std::sync::atomic::Ordering;

use super::scenario::pause;
use super::{MustTest, Outcome, Scenario, Shared, TestBed};
use crate::{Chain, Endpoint, GlobalAddr};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "Dekker: WRITE→READ against WRITE→READ",
            contract: "WRITE→READ takes effect in posting order, between clients too",
            run: |bed| {
                between_clients(bed, |chain, at| {
                    chain.write_words(at.mine, &[at.round]);
                    let read = chain.read(at.theirs, at.len);
                    move |chain: &Chain| chain.value(read)
                })
            },
        },
        MustTest {
            name: "Dekker: atomic→READ against atomic→READ",
            contract: "atomic→READ takes effect in posting order, between clients too",
            run: |bed| {
                between_clients(bed, |chain, at| {
                    chain.faa(at.mine, 1);
                    let read = chain.read(at.theirs, at.len);
                    move |chain: &Chain| chain.value(read)
                })
            },
        },
        MustTest {
            name: "Dekker: WRITE→atomic against WRITE→atomic",
            contract: "WRITE→atomic takes effect in posting order, between clients too",
            run: |bed| {
                between_clients(bed, |chain, at| {
                    chain.write_words(at.mine, &[at.round]);
                    // It never stores: only what it finds counts.
                    let cas = chain.cas(at.theirs, u64::MAX, 0);
                    move |chain: &Chain| chain.value(cas)
                })
            },
        },
        MustTest {
            name: "Dekker: WRITE→READ against the host CPU's store, load",
            contract: "WRITE→READ takes effect in posting order for the host's CPU too: it sees the WRITE \
                       unless the READ sees the sequentially consistent store before its load",
            run: against_cpu,
        },
        MustTest {
            name: "Dekker: between CPUs",
            contract: "sequentially consistent stores and loads of one node's CPUs have one order",
            run: between_cpus,
        },
    ]
}

/// What one side does in a round.
struct At {
    mine: GlobalAddr,
    theirs: GlobalAddr,
    /// Bytes that a READ of the other's word brings: from that word on.
    len: usize,
    round: u64,
}

/// Lengths of READs in bytes, by turns.
const LENGTHS: [usize; 3] = [8, 64, 256];
/// Words that a place has.
const WORDS: u64 = 32;

/// What each side found in each round.
type Found = [Vec<u64>; 2];

fn somebody_saw(found: &Found) -> Outcome {
    for (index, (one, other)) in found[0].iter().zip(&found[1]).enumerate() {
        let round = index as u64 + 1;
        ensure!(
            *one >= round || *other >= round,
            "round {round}: neither saw the other, they found {one} and {other}"
        );
    }
    Ok(())
}

fn between_clients<B, F, R>(bed: &B, act: F) -> Outcome
where
    B: TestBed,
    F: Fn(&mut Chain, At) -> R + Copy + Send + 'static,
    R: Fn(&Chain) -> u64 + 'static,
{
    let mut scenario = Scenario::new(bed, 3);
    let places = [scenario.host(0, WORDS), scenario.host(0, WORDS)];
    let barrier = scenario.barrier(2);
    let found = Shared::<Found>::default();
    let rounds = bed.rounds();
    for (side, node) in [1, 2].into_iter().enumerate() {
        let found = found.clone();
        let (mine, theirs) = (places[side], places[1 - side]);
        scenario.client(node, 0, move |ep| async move {
            let mut chain = Chain::new();
            for round in 1..=rounds {
                barrier.meet(&ep).await?;
                pause(&ep, 2_000).await;
                chain.clear();
                let len = LENGTHS[round as usize % LENGTHS.len()];
                let value = act(
                    &mut chain,
                    At {
                        mine,
                        theirs,
                        len,
                        round,
                    },
                );
                ep.execute(&mut chain).await?;
                found.with(|all| all[side].push(value(&chain)));
            }
            Ok(())
        });
    }
    scenario.run(bed)?;
    somebody_saw(&found.take())
}

fn against_cpu<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let places = [scenario.host(0, WORDS), scenario.host(0, WORDS)];
    let barrier = scenario.barrier(2);
    let found = Shared::<Found>::default();
    let rounds = bed.rounds();
    let remote = found.clone();
    scenario.client(1, 0, move |ep| async move {
        let mut chain = Chain::new();
        for round in 1..=rounds {
            barrier.meet(&ep).await?;
            pause(&ep, 1_000).await;
            chain.clear();
            // The announcement is of one word or of more, its first word last in none of them.
            let announced = if round.is_multiple_of(2) { 1 } else { 8 };
            chain.write_words(places[0], &[round; 8][..announced]);
            let read = chain.read(places[1], LENGTHS[round as usize % LENGTHS.len()]);
            ep.execute(&mut chain).await?;
            remote.with(|all| all[0].push(chain.value(read)));
        }
        Ok(())
    });
    let host = found.clone();
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            barrier.meet(&ep).await?;
            pause(&ep, 6_000).await;
            ep.store(places[1], round, Ordering::SeqCst).await?;
            let value = ep.load(places[0], Ordering::SeqCst).await?;
            host.with(|all| all[1].push(value));
        }
        Ok(())
    });
    scenario.run(bed)?;
    somebody_saw(&found.take())
}

fn between_cpus<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 1);
    let places = [scenario.host(0, 1), scenario.host(0, 1)];
    let barrier = scenario.barrier(2);
    let found = Shared::<Found>::default();
    let rounds = bed.rounds();
    for side in 0..2 {
        let found = found.clone();
        let (mine, theirs) = (places[side], places[1 - side]);
        scenario.client(0, side as u16, move |ep| async move {
            for round in 1..=rounds {
                barrier.meet(&ep).await?;
                ep.work(ep.random() % 2_000).await;
                ep.store(mine, round, Ordering::SeqCst).await?;
                let value = ep.load(theirs, Ordering::SeqCst).await?;
                found.with(|all| all[side].push(value));
            }
            Ok(())
        });
    }
    scenario.run(bed)?;
    somebody_saw(&found.take())
}
