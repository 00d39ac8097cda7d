//! Clients that share a thread, and with it its queue pairs.

use super::scenario::{Patience, pause};
use super::{MustTest, Outcome, Scenario, Shared, TestBed};
use crate::{Chain, Endpoint, GlobalAddr, Op, Slot};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "coroutines on one queue pair",
            contract: "clients of one thread share its queue pairs; each has its own chains and results",
            run: share,
        },
        MustTest {
            name: "many threads on one node",
            contract: "each thread has its own queue pairs",
            run: threads,
        },
    ]
}

/// Words that a client has to itself.
const WORDS: usize = 6;

/// What a verb of a chain must have brought.
type Expected = Vec<(Slot, Vec<u64>)>;

/// A random chain on `area`, fenced where its results would not be determined otherwise, and what it must
/// bring; `model` becomes what the area then holds.
fn random_chain(
    chain: &mut Chain,
    area: GlobalAddr,
    model: &mut [u64; WORDS],
    draw: impl Fn() -> u64,
) -> Expected {
    let mut expected = Expected::new();
    // Whether an earlier READ or atomic could be overtaken.
    let (mut reads, mut atomics) = (false, false);
    chain.clear();
    for _ in 0..1 + draw() % 6 {
        let word = draw() as usize % WORDS;
        let value = draw() % 100;
        let at = area.word(word as u64);
        let kind = draw() % 4;
        let overtakes = kind == 1 && (reads || atomics) || kind > 1 && reads;
        if overtakes || draw().is_multiple_of(8) {
            chain.fence();
            (reads, atomics) = (false, false);
        }
        match kind {
            0 => {
                let words = 1 + draw() as usize % (WORDS - word);
                expected.push((
                    chain.read(at, words * 8),
                    model[word..word + words].to_vec(),
                ));
                reads = true;
            }
            1 => {
                let words = 1 + draw() as usize % (WORDS - word);
                model[word..word + words].fill(value);
                chain.write_words(at, &[value; WORDS][..words]);
            }
            2 => {
                expected.push((chain.faa(at, value), vec![model[word]]));
                model[word] += value;
                atomics = true;
            }
            _ => {
                let guess = if draw().is_multiple_of(4) {
                    u64::MAX
                } else {
                    model[word]
                };
                expected.push((chain.cas(at, guess, value), vec![model[word]]));
                if guess == model[word] {
                    model[word] = value;
                }
                atomics = true;
            }
        }
    }
    expected
}

async fn random_chains(ep: &impl Endpoint, area: GlobalAddr, rounds: u64) -> Outcome<[u64; WORDS]> {
    let mut model = [0; WORDS];
    let mut chain = Chain::new();
    let patience = Patience::new(ep);
    for round in 0..rounds {
        let expected = random_chain(&mut chain, area, &mut model, || ep.random());
        ep.execute(&mut chain).await?;
        for (slot, words) in expected {
            let found = chain.words(slot);
            ensure!(
                found == words,
                "round {round}: a verb of {:?} brought {found:?}, not {words:?}",
                ops(&chain)
            );
        }
        patience.check(ep, "the end of random chains")?;
        if ep.random().is_multiple_of(3) {
            pause(ep, 2_500).await;
        }
    }
    Ok(model)
}

/// The chain's verbs and fences, for a message.
fn ops(chain: &Chain) -> Vec<(bool, Op)> {
    chain
        .verbs()
        .iter()
        .map(|verb| (verb.fenced, verb.op))
        .collect()
}

fn run_clients<B: TestBed>(bed: &B, places: &[(u16, u16)]) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let rounds = bed.rounds();
    let models = Shared::<Vec<(GlobalAddr, [u64; WORDS])>>::default();
    for (index, (node, thread)) in places.iter().copied().enumerate() {
        let words = WORDS as u64;
        let area = if index % 5 == 4 {
            scenario.device(0, words)
        } else {
            scenario.host(0, words)
        };
        let models = models.clone();
        scenario.client(node, thread, move |ep| async move {
            let model = random_chains(&ep, area, rounds).await?;
            models.with(|all| all.push((area, model)));
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    for (area, model) in models.take() {
        if !area.is_device() {
            let found = memory.words(area, WORDS);
            ensure!(
                found == model,
                "{area} holds {found:?} in the end, not {model:?}"
            );
        }
    }
    Ok(())
}

fn share<B: TestBed>(bed: &B) -> Outcome {
    run_clients(
        bed,
        &[
            (1, 0),
            (1, 0),
            (1, 0),
            (1, 0),
            (1, 0),
            (1, 0),
            (1, 0),
            (1, 0),
            (0, 0),
            (0, 0),
        ],
    )
}

fn threads<B: TestBed>(bed: &B) -> Outcome {
    run_clients(
        bed,
        &[(1, 0), (1, 1), (1, 2), (1, 300), (0, 0), (0, 1), (0, 300)],
    )
}
