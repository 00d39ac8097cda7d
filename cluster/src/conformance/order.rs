//! The order of one queue pair, as its own results and other clients show it.

use std::sync::atomic::Ordering;

use super::scenario::{Patience, pause};
use super::{MustTest, Outcome, Scenario, TestBed};
use crate::{Chain, Endpoint, GlobalAddr};

const ORDER: &str = "one queue pair: WRITE→anything, READ→READ, atomic→READ and atomic→atomic take effect in \
                     posting order";

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    let must = |name, run| MustTest {
        name,
        contract: ORDER,
        run,
    };
    vec![
        must("WRITE→WRITE, seen by READs", write_write),
        must("WRITE→atomic, seen by READs", write_atomic),
        must("atomic→atomic, seen by READs", atomic_atomic),
        must("WRITE→READ, own result", write_read_own),
        must("WRITE→atomic, own result", write_atomic_own),
        must("atomic→READ, own result", atomic_read_own),
        must("atomic→atomic, own result", atomic_atomic_own),
        must("READ→READ", read_read),
        MustTest {
            name: "atomic→fenced WRITE, seen by READs",
            contract: "atomic→WRITE takes effect in posting order with a fence on the WRITE",
            run: atomic_fenced_write,
        },
        MustTest {
            name: "WRITE→WRITE, seen by the host's CPU",
            contract: "WRITEs of one queue pair become visible to acquire loads of the host CPU in order",
            run: write_write_cpu,
        },
    ]
}

/// Words of the first and of the second place.
const WORDS: u64 = 9;

/// Two places of some words that a queue pair changes to `round`, the first before the second.
#[derive(Clone, Copy)]
struct Places {
    first: GlobalAddr,
    second: GlobalAddr,
}

/// Appends the two changes that make `round` of the places.
type Change = fn(&mut Chain, Places, u64);

/// WRITEs of a length that changes from round to round; they end at the last of the words.
fn write(chain: &mut Chain, at: GlobalAddr, round: u64, salt: u64) {
    let words = if (round + salt).is_multiple_of(3) {
        1
    } else {
        WORDS
    };
    chain.write_words(
        at.word(WORDS - words),
        &[round; WORDS as usize][..words as usize],
    );
}

/// Which word of a place an observer looks at: only the last is changed in every round.
const LAST: u64 = WORDS - 1;

fn observe_reads<B: TestBed>(bed: &B, change: Change) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let places = Places {
        first: scenario.host(0, WORDS),
        second: scenario.host(0, WORDS),
    };
    let rounds = bed.rounds();
    writer(&mut scenario, places, rounds, change);
    for (client, node) in [2, 2, 0].into_iter().enumerate() {
        scenario.client(node, client as u16, move |ep| async move {
            let patience = Patience::new(&ep);
            let mut chain = Chain::new();
            loop {
                // The later change is looked at first: what it shows, the earlier must show too.
                let (second, first) = if ep.random().is_multiple_of(2) {
                    let second = ep.read_u64(places.second.word(LAST)).await?;
                    (second, ep.read_u64(places.first.word(LAST)).await?)
                } else {
                    chain.clear();
                    let second = chain.read(places.second.word(LAST), 8);
                    let first = chain.read(places.first.word(LAST), 8);
                    ep.execute(&mut chain).await?;
                    (chain.value(second), chain.value(first))
                };
                ensure!(
                    first >= second,
                    "change {second} of the second place is there, of the first only {first}"
                );
                if second >= rounds {
                    return Ok(());
                }
                patience.check(&ep, "the last change")?;
                pause(&ep, 500).await;
            }
        });
    }
    let memory = scenario.run(bed)?;
    let last = [places.first, places.second].map(|place| memory.word(place.word(LAST)));
    ensure!(
        last == [rounds; 2],
        "the places hold {last:?} in the end, not {rounds}"
    );
    Ok(())
}

fn writer<E: Endpoint + 'static>(
    scenario: &mut Scenario<E>,
    places: Places,
    rounds: u64,
    change: Change,
) {
    scenario.client(1, 0, move |ep| async move {
        let mut chain = Chain::new();
        for round in 1..=rounds {
            chain.clear();
            change(&mut chain, places, round);
            ep.execute(&mut chain).await?;
            pause(&ep, 2_000).await;
        }
        Ok(())
    });
}

fn write_write<B: TestBed>(bed: &B) -> Outcome {
    observe_reads(bed, |chain, places, round| {
        write(chain, places.first, round, 0);
        write(chain, places.second, round, 1);
    })
}

fn write_atomic<B: TestBed>(bed: &B) -> Outcome {
    observe_reads(bed, |chain, places, round| {
        write(chain, places.first, round, 0);
        chain.faa(places.second.word(LAST), 1);
    })
}

fn atomic_atomic<B: TestBed>(bed: &B) -> Outcome {
    observe_reads(bed, |chain, places, round| {
        chain.faa(places.first.word(LAST), 1);
        chain.cas(places.second.word(LAST), round - 1, round);
    })
}

fn atomic_fenced_write<B: TestBed>(bed: &B) -> Outcome {
    observe_reads(bed, |chain, places, round| {
        chain.faa(places.first.word(LAST), 1);
        chain.fence();
        write(chain, places.second, round, 0);
    })
}

fn write_write_cpu<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let places = Places {
        first: scenario.host(0, WORDS),
        second: scenario.host(0, WORDS),
    };
    let rounds = bed.rounds();
    writer(&mut scenario, places, rounds, |chain, places, round| {
        write(chain, places.first, round, 0);
        write(chain, places.second, round, 1);
    });
    // READs of the second place by others must not make it overtake the first.
    scenario.client(1, 1, move |ep| async move {
        let patience = Patience::new(&ep);
        while ep.read_u64(places.second.word(LAST)).await? < rounds {
            patience.check(&ep, "the last WRITE")?;
        }
        Ok(())
    });
    for thread in 0..2 {
        scenario.client(0, thread, move |ep| async move {
            let patience = Patience::new(&ep);
            loop {
                let second = ep.load(places.second.word(LAST), Ordering::Acquire).await?;
                let first = ep.load(places.first.word(LAST), Ordering::Acquire).await?;
                ensure!(
                    first >= second,
                    "the CPU sees WRITE {second} of the second place, of the first only {first}"
                );
                if second >= rounds {
                    return Ok(());
                }
                patience.check(&ep, "the last WRITE")?;
                ep.work(ep.random() % 200).await;
            }
        });
    }
    scenario.run(bed).map(|_| ())
}

/// Runs `program` for every round on a queue pair of its own and on loopback, each with its own area.
fn own_results<B, F, P>(bed: &B, program: F) -> Outcome
where
    B: TestBed,
    F: Fn(B::Endpoint, GlobalAddr, u64) -> P + Copy + Send + 'static,
    P: Future<Output = Outcome> + 'static,
{
    let mut scenario = Scenario::new(bed, 2);
    let rounds = bed.rounds();
    for thread in 0..3 {
        for node in 0..2 {
            let area = scenario.host(0, 16);
            scenario.client(node, thread, move |ep| program(ep, area, rounds));
        }
    }
    scenario.run(bed).map(|_| ())
}

fn write_read_own<B: TestBed>(bed: &B) -> Outcome {
    own_results(bed, |ep, area, rounds| async move {
        let mut chain = Chain::new();
        for round in 1..=rounds {
            let written = 1 + ep.random() % 16;
            let from = ep.random() % written;
            chain.clear();
            chain.write_words(area, &[round; 16][..written as usize]);
            let read = chain.read(area.word(from), (written - from) as usize * 8);
            ep.execute(&mut chain).await?;
            let found = chain.words(read);
            let all = found.iter().all(|word| *word == round);
            ensure!(
                all,
                "a READ behind WRITE {round} of {written} words brought {found:?}"
            );
        }
        Ok(())
    })
}

fn write_atomic_own<B: TestBed>(bed: &B) -> Outcome {
    own_results(bed, |ep, area, rounds| async move {
        let mut chain = Chain::new();
        for round in 1..=rounds {
            let word = ep.random() % 16;
            chain.clear();
            chain.write_words(area, &[round * 10; 16]);
            let faa = chain.faa(area.word(word), 1);
            let cas = chain.cas(area.word(word), round * 10 + 1, round * 10 + 2);
            ep.execute(&mut chain).await?;
            let found = [chain.value(faa), chain.value(cas)];
            let expected = [round * 10, round * 10 + 1];
            ensure!(
                found == expected,
                "FAA and CAS behind WRITE {} found {found:?}",
                round * 10
            );
        }
        Ok(())
    })
}

fn atomic_read_own<B: TestBed>(bed: &B) -> Outcome {
    own_results(bed, |ep, area, rounds| async move {
        let mut chain = Chain::new();
        for round in 0..rounds {
            let word = ep.random() % 16;
            chain.clear();
            let faa = chain.faa(area.word(word), 1);
            let short = chain.read(area.word(word), 8);
            let long = chain.read(area, 128);
            ep.execute(&mut chain).await?;
            let after = chain.value(faa) + 1;
            let found = [chain.value(short), chain.words(long)[word as usize]];
            ensure!(
                found == [after; 2],
                "round {round}: READs behind an FAA to {after} brought {found:?}"
            );
            // The long READ alone, right behind the atomic.
            chain.clear();
            let cas = chain.cas(area.word(word), after, after + 1);
            let long = chain.read(area, 128);
            ep.execute(&mut chain).await?;
            let found = chain.words(long)[word as usize];
            ensure!(
                chain.value(cas) == after,
                "a CAS expected {after}, found {}",
                chain.value(cas)
            );
            ensure!(
                found == after + 1,
                "a READ behind a CAS to {} brought {found}",
                after + 1
            );
        }
        Ok(())
    })
}

fn atomic_atomic_own<B: TestBed>(bed: &B) -> Outcome {
    own_results(bed, |ep, area, rounds| async move {
        let mut chain = Chain::new();
        for round in 0..rounds {
            let value = round * 3;
            chain.clear();
            let first = chain.cas(area, value, value + 1);
            let second = chain.faa(area, 1);
            let third = chain.cas(area, value + 2, value + 3);
            ep.execute(&mut chain).await?;
            let found = [first, second, third].map(|slot| chain.value(slot));
            let expected = [value, value + 1, value + 2];
            ensure!(
                found == expected,
                "CAS, FAA, CAS found {found:?}, not {expected:?}"
            );
        }
        Ok(())
    })
}

fn read_read<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let places = Places {
        first: scenario.host(0, WORDS),
        second: scenario.host(0, WORDS),
    };
    let rounds = bed.rounds();
    // Each change completes before the next begins.
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.write_words(places.first.word(LAST), &[round]).await?;
            ep.write_words(places.second.word(LAST), &[round]).await?;
        }
        Ok(())
    });
    for thread in 0..2 {
        scenario.client(2, thread, move |ep| async move {
            let patience = Patience::new(&ep);
            let mut chain = Chain::new();
            loop {
                // READs of several lengths in a row: each is after those before it.
                let words = if ep.random().is_multiple_of(2) {
                    WORDS
                } else {
                    1
                };
                let skip = WORDS - words;
                chain.clear();
                let second = chain.read(places.second.word(skip), words as usize * 8);
                let first = chain.read(places.first.word(LAST), 8);
                let again = chain.read(places.first.word(skip), words as usize * 8);
                ep.execute(&mut chain).await?;
                let last = |slot| chain.words(slot).last().copied().unwrap_or_default();
                let found = [last(second), last(first), last(again)];
                ensure!(
                    found.is_sorted(),
                    "READs in a row went back in time: {found:?}"
                );
                if found[0] >= rounds {
                    return Ok(());
                }
                patience.check(&ep, "the last change")?;
            }
        });
    }
    scenario.run(bed).map(|_| ())
}
