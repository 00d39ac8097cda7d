//! Futures that are dropped before they are done.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::scenario::{pause, post_and_forget};
use super::{MustTest, Outcome, Scenario, TestBed};
use crate::{Chain, Endpoint, PollBackoff, WaitFor};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "dropped chains",
            contract: "a chain's bytes stay valid while the fabric works on them, whatever becomes of the \
                       future that posted it",
            run: chains,
        },
        MustTest {
            name: "behind a dropped chain",
            contract: "WRITE→anything of one queue pair takes effect in posting order, also across chains",
            run: behind,
        },
        MustTest {
            name: "dropped waits",
            contract: "a wait that is dropped leaves client and fabric usable",
            run: waits,
        },
    ]
}

/// Polls a future once and drops it.
async fn poll_and_drop<F: Future>(future: F) {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _ = future.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
}

fn chains<B: TestBed>(bed: &B) -> Outcome {
    const CLIENTS: u64 = 4;
    let mut scenario = Scenario::new(bed, 2);
    let counter = scenario.host(0, 1);
    let rounds = bed.rounds();
    let slots: Vec<_> = (0..CLIENTS).map(|_| scenario.host(0, 8)).collect();
    for (client, slot) in slots.iter().copied().enumerate() {
        // Two clients a thread, on the host and remote.
        scenario.client(client as u16 / 2, 0, move |ep| async move {
            for round in 1..=rounds {
                let mut chain = Chain::new();
                chain.write_words(slot, &[round; 8]);
                chain.faa(counter, 1);
                chain.read(counter, 8);
                post_and_forget(&ep, chain).await;
                if ep.random().is_multiple_of(2) {
                    pause(&ep, 3_000).await;
                }
                // A chain that was never polled has not happened.
                let mut unposted = Chain::new();
                unposted.faa(counter, 1 << 32);
                drop(ep.execute(&mut unposted));
                // The next chain has its own results, and is behind the dropped one on the queue pair.
                let mut chain = Chain::new();
                let cas = chain.cas(slot.word(7), u64::MAX, 0);
                let read = chain.read(slot, 64);
                ep.execute(&mut chain).await?;
                let found = chain.words(read);
                let whole = found.iter().all(|word| *word == found[0]) && found[0] <= round;
                ensure!(
                    whole,
                    "behind dropped WRITE {round}, a READ brings {found:?}"
                );
                ensure!(
                    chain.value(cas) == found[7],
                    "a CAS finds {}, the READ behind it {found:?}",
                    chain.value(cas)
                );
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    let count = memory.word(counter);
    ensure!(
        count <= CLIENTS * rounds,
        "{} dropped FAAs of 1 made {count:#x}",
        CLIENTS * rounds
    );
    Ok(())
}

fn behind<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let rounds = bed.rounds();
    for node in [0, 1, 1] {
        let area = scenario.host(0, 8);
        scenario.client(node, 0, move |ep| async move {
            for round in 1..=rounds {
                let mut chain = Chain::new();
                chain.write_words(area, &[2 * round - 1; 8]);
                post_and_forget(&ep, chain).await;
                let mut chain = Chain::new();
                let words = 1 + ep.random() as usize % 8;
                chain.write_words(area, &[2 * round; 8][..words]);
                let read = chain.read(area, words * 8);
                ep.execute(&mut chain).await?;
                let new = |words: &[u64]| words.iter().all(|word| *word == 2 * round);
                let found = chain.words(read);
                ensure!(
                    new(found),
                    "WRITE {} is overtaken by an earlier one: {found:?}",
                    2 * round
                );
                pause(&ep, 3_000).await;
                let mut found = [0; 8];
                ep.read_words(area, &mut found[..words]).await?;
                ensure!(
                    new(&found[..words]),
                    "WRITE {} is replaced by an earlier one: {found:?}",
                    2 * round
                );
            }
            Ok(())
        });
    }
    scenario.run(bed).map(|_| ())
}

fn waits<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let line = scenario.host(0, 2);
    let rounds = bed.rounds();
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            let never = WaitFor::new("conformance: what never comes", line);
            poll_and_drop(ep.wait_until(line, 1, never, |words| words[0] == u64::MAX)).await;
            poll_and_drop(ep.poll_until(line, 1, PollBackoff::NONE, never, |_| false)).await;
            poll_and_drop(ep.sleep(1_000_000)).await;
            poll_and_drop(ep.work(700)).await;
            poll_and_drop(ep.load(line, Ordering::Acquire)).await;
            poll_and_drop(ep.load_words(line, &mut [0; 2])).await;
            poll_and_drop(ep.read_u64(line)).await;
            let wait = WaitFor::new("conformance: round", line);
            let found = ep
                .wait_until(line, 1, wait, |words| words[0] >= round)
                .await?[0];
            ensure!(found == round, "waited for {round}, found {found}");
            ep.store(line.word(1), round, Ordering::Release).await?;
        }
        Ok(())
    });
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            pause(&ep, 5_000).await;
            ep.write_words(line, &[round]).await?;
            let answer = line.word(1);
            let wait = WaitFor::new("conformance: answer", answer);
            ep.poll_until(answer, 1, PollBackoff::NONE, wait, |words| {
                words[0] == round
            })
            .await?;
        }
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}
