//! Freedoms of order and visibility: each test tries to catch the fabric taking one.

use std::sync::atomic::Ordering;

use super::scenario::{Patience, pause, post_and_forget};
use super::{MayTest, Outcome, Scenario, Shared, TestBed};
use crate::{Chain, Endpoint, GlobalAddr, PollBackoff, WaitFor};

const TORN: &str = "a longer READ may mix old and new words";
const LANDS: &str = "only an aligned 8-byte word is written at one instant";
const UNFENCED: &str =
    "READ→WRITE, READ→atomic and atomic→WRITE are ordered only with a fence on the later one";
const PAIRS: &str =
    "between queue pairs there is no order: a verb is ordered after another's completion only";

pub(super) fn tests<B: TestBed>() -> Vec<MayTest<B>> {
    vec![
        MayTest {
            name: "torn READ: low word old, high word new",
            contract: TORN,
            run: |bed| torn(bed, Reader::Read, LOW_FIRST),
        },
        MayTest {
            name: "torn READ: low word new, high word old",
            contract: TORN,
            run: |bed| torn(bed, Reader::Read, HIGH_FIRST),
        },
        MayTest {
            name: "torn CPU copy: low word old, high word new",
            contract: "load_words: no two words at one instant",
            run: |bed| torn(bed, Reader::Cpu, LOW_FIRST),
        },
        MayTest {
            name: "torn CPU copy: low word new, high word old",
            contract: "load_words: no two words at one instant",
            run: |bed| torn(bed, Reader::Cpu, HIGH_FIRST),
        },
        MayTest {
            name: "WRITE seen in part by READs",
            contract: LANDS,
            run: |bed| partial(bed, Reader::Read),
        },
        MayTest {
            name: "WRITE seen in part by the host's CPU",
            contract: LANDS,
            run: |bed| partial(bed, Reader::Cpu),
        },
        MayTest {
            name: "queue pairs change places, seen by READs",
            contract: PAIRS,
            run: |bed| reordered(bed, Reader::Read),
        },
        MayTest {
            name: "queue pairs change places, seen by the host's CPU",
            contract: PAIRS,
            run: |bed| reordered(bed, Reader::Cpu),
        },
        MayTest {
            name: "an unfenced WRITE overtakes a READ",
            contract: UNFENCED,
            run: |bed| {
                overtaken(bed, |chain, word, round| {
                    let read = chain.read(word, 8);
                    chain.write_words(word, &[round]);
                    move |chain: &Chain| chain.value(read) == round
                })
            },
        },
        MayTest {
            name: "an unfenced WRITE overtakes an atomic",
            contract: UNFENCED,
            run: |bed| {
                overtaken(bed, |chain, word, round| {
                    let faa = chain.faa(word, 0);
                    chain.write_words(word, &[round]);
                    move |chain: &Chain| chain.value(faa) == round
                })
            },
        },
        MayTest {
            name: "an unfenced atomic overtakes a READ",
            contract: UNFENCED,
            run: |bed| {
                overtaken(bed, |chain, word, _| {
                    let read = chain.read(word, 8);
                    let faa = chain.faa(word, 1);
                    move |chain: &Chain| chain.value(read) > chain.value(faa)
                })
            },
        },
        MayTest {
            name: "a completed remote WRITE, late for the host's CPU",
            contract: "a completed remote verb is visible to the node's CPU a little later",
            run: late,
        },
    ]
}

/// Words of the line that is written and looked at.
const WORDS: usize = 8;
/// The line's ends, in the order in which they are written.
const LOW_FIRST: [usize; 2] = [0, WORDS - 1];
const HIGH_FIRST: [usize; 2] = [WORDS - 1, 0];

/// Who looks.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    /// A client of a third node, by READs.
    Read,
    /// A client of the host, by loads.
    Cpu,
}

impl Reader {
    fn node(self) -> u16 {
        if self == Reader::Cpu { 0 } else { 2 }
    }
}

/// One end of the line is always changed before the other: a look at one instant cannot find the second newer.
fn torn<B: TestBed>(bed: &B, reader: Reader, ends: [usize; 2]) -> Outcome<bool> {
    let mut scenario = Scenario::new(bed, 3);
    let line = scenario.host(0, WORDS as u64);
    let rounds = bed.rounds();
    let seen = Shared::<bool>::default();
    // The host's CPU is the quicker writer, and no WRITE's own duration is in what is seen.
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            for end in ends {
                ep.store(line.word(end as u64), round, Ordering::Release)
                    .await?;
                pause(&ep, 1_000).await;
            }
        }
        Ok(())
    });
    let torn = seen.clone();
    scenario.client(reader.node(), 1, move |ep| async move {
        let patience = Patience::new(&ep);
        let mut words = [0; WORDS];
        while words[ends[1]] < rounds {
            match reader {
                Reader::Read => ep.read_words(line, &mut words).await?,
                Reader::Cpu => ep.load_words(line, &mut words).await?,
            }
            torn.with(|torn| *torn |= words[ends[0]] < words[ends[1]]);
            patience.check(&ep, "the last store")?;
            ep.work(ep.random() % 100).await;
        }
        Ok(())
    });
    scenario.run(bed)?;
    Ok(seen.take())
}

/// Looks at two words in a row.
async fn look(
    ep: &impl Endpoint,
    reader: Reader,
    first: GlobalAddr,
    second: GlobalAddr,
) -> Outcome<[u64; 2]> {
    if reader == Reader::Cpu {
        let then = ep.load(first, Ordering::Acquire).await?;
        return Ok([then, ep.load(second, Ordering::Acquire).await?]);
    }
    let mut chain = Chain::new();
    let slots = [chain.read(first, 8), chain.read(second, 8)];
    ep.execute(&mut chain).await?;
    Ok(slots.map(|slot| chain.value(slot)))
}

/// Adds a client that looks at `first`, then at `second`, until `second` has reached `rounds`; tells whether
/// `first` was ever the newer.
fn looker<E: Endpoint + 'static>(
    scenario: &mut Scenario<E>,
    reader: Reader,
    first: GlobalAddr,
    second: GlobalAddr,
    rounds: u64,
) -> Shared<bool> {
    let newer = Shared::<bool>::default();
    let report = newer.clone();
    scenario.client(reader.node(), 1, move |ep| async move {
        let patience = Patience::new(&ep);
        loop {
            let [then, now] = look(&ep, reader, first, second).await?;
            report.with(|newer| *newer |= then > now);
            if now >= rounds {
                return Ok(());
            }
            patience.check(&ep, "the last WRITE")?;
            ep.work(ep.random() % 100).await;
        }
    });
    newer
}

fn partial<B: TestBed>(bed: &B, reader: Reader) -> Outcome<bool> {
    let mut scenario = Scenario::new(bed, 3);
    let line = scenario.host(0, WORDS as u64);
    let rounds = bed.rounds();
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.write_words(line, &[round; WORDS]).await?;
        }
        Ok(())
    });
    let seen = looker(
        &mut scenario,
        reader,
        line,
        line.word(WORDS as u64 - 1),
        rounds,
    );
    scenario.run(bed)?;
    Ok(seen.take())
}

fn reordered<B: TestBed>(bed: &B, reader: Reader) -> Outcome<bool> {
    let mut scenario = Scenario::new(bed, 3);
    let before = scenario.host(0, WORDS as u64);
    let after = scenario.host(0, 1);
    let told = scenario.host(1, 2);
    let rounds = bed.rounds();
    // Two threads, two queue pairs: the second posts when the first has posted.
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            let mut chain = Chain::new();
            chain.write_words(before, &[round; WORDS]);
            post_and_forget(&ep, chain).await;
            ep.store(told, round, Ordering::SeqCst).await?;
            // What was not posted after all is made up for.
            let wait = WaitFor::new("conformance: second WRITE", told);
            ep.wait_until(told.word(1), 1, wait, |words| words[0] >= round)
                .await?;
            ep.write_words(before, &[round; WORDS]).await?;
        }
        Ok(())
    });
    scenario.client(1, 1, move |ep| async move {
        for round in 1..=rounds {
            let wait = WaitFor::new("conformance: first post", told);
            ep.wait_until(told, 1, wait, |words| words[0] >= round)
                .await?;
            ep.write_words(after, &[round]).await?;
            ep.store(told.word(1), round, Ordering::SeqCst).await?;
        }
        Ok(())
    });
    let last = before.word(WORDS as u64 - 1);
    let seen = looker(&mut scenario, reader, after, last, rounds);
    scenario.run(bed)?;
    Ok(seen.take())
}

/// Executes a chain of two verbs that are not ordered, and finds out whether the second came first.
fn overtaken<B, F, R>(bed: &B, build: F) -> Outcome<bool>
where
    B: TestBed,
    F: Fn(&mut Chain, GlobalAddr, u64) -> R + Copy + Send + 'static,
    R: Fn(&Chain) -> bool + 'static,
{
    let mut scenario = Scenario::new(bed, 2);
    let rounds = bed.rounds();
    let seen = Shared::<bool>::default();
    for node in [1, 1, 0] {
        let word = scenario.host(0, 1);
        let seen = seen.clone();
        scenario.client(node, 0, move |ep| async move {
            let mut chain = Chain::new();
            for round in 1..=rounds {
                chain.clear();
                let overtook = build(&mut chain, word, round);
                ep.execute(&mut chain).await?;
                seen.with(|seen| *seen |= overtook(&chain));
            }
            Ok(())
        });
    }
    scenario.run(bed)?;
    Ok(seen.take())
}

fn late<B: TestBed>(bed: &B) -> Outcome<bool> {
    let mut scenario = Scenario::new(bed, 2);
    let word = scenario.host(0, 1);
    let done = scenario.host(1, 1);
    let rounds = bed.rounds();
    let seen = Shared::<bool>::default();
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.write_words(word, &[round]).await?;
            ep.store(done, round, Ordering::SeqCst).await?;
            pause(&ep, 2_000).await;
        }
        Ok(())
    });
    // Several clients ask all the time, so that one is told soon.
    for thread in 0..4 {
        let old = seen.clone();
        scenario.client(0, thread, move |ep| async move {
            let mut told = 0;
            while told < rounds {
                // Learns of the completion without a look at the word: no verb pushes the WRITE.
                let wait = WaitFor::new("conformance: completion", done);
                let next = |words: &[u64]| words[0] > told;
                told = ep
                    .poll_until(done, 1, PollBackoff::NONE, wait, next)
                    .await?[0];
                let found = ep.load(word, Ordering::SeqCst).await?;
                old.with(|old| *old |= found < told);
            }
            Ok(())
        });
    }
    scenario.run(bed)?;
    Ok(seen.take())
}
