//! Waiting on own memory and polling any.

use std::sync::atomic::Ordering;

use super::scenario::pause;
use super::{MustTest, Outcome, Scenario, TestBed};
use crate::{Chain, Endpoint, Error, ErrorKind, PollBackoff, WaitBounds, WaitFor};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "wait_until misses no change",
            contract: "wait_until ends when its predicate holds, whoever changed the words and by what",
            run: every_cause,
        },
        MustTest {
            name: "wait_until ends on its predicate alone",
            contract: "wait_until returns the words of the line that it asked for, for which the predicate \
                       holds; the rest is zero",
            run: predicate,
        },
        MustTest {
            name: "all waiters of a line",
            contract: "wait_until ends for every client whose predicate holds",
            run: many,
        },
        MustTest {
            name: "poll_until",
            contract: "poll_until ends when its predicate holds for words on any node",
            run: poll,
        },
        MustTest {
            name: "the wait limit",
            contract: "a wait longer than the limit fails with WaitLimit, which says what it waited for",
            run: limit,
        },
    ]
}

/// By what a word of the waited-for line is changed; each has a word of its own, so that RNIC atomics and CPU
/// never meet on one.
const REMOTE_WORDS: u64 = 4;
const OWN_WORDS: u64 = 4;

fn every_cause<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let line = scenario.host(0, REMOTE_WORDS + OWN_WORDS);
    let answer = scenario.host(0, 1);
    let rounds = bed.rounds();
    // Words 0 to 3: remote WRITE, the end of a long remote WRITE, remote FAA, remote CAS.
    scenario.client(1, 0, move |ep| async move {
        let mut chain = Chain::new();
        for round in 1..=rounds {
            pause(&ep, 4_000).await;
            chain.clear();
            match round % 2 {
                0 => _ = chain.write_words(line, &[round, round]),
                _ => {
                    chain.write_words(line, &[round]);
                    chain.write(line.word(1), &round.to_ne_bytes());
                }
            }
            chain.faa(line.word(2), 1);
            chain.cas(line.word(3), round - 1, round);
            ep.execute(&mut chain).await?;
            let wait = WaitFor::new("conformance: answer", answer);
            ep.poll_until(answer, 1, PollBackoff::NONE, wait, |words| {
                words[0] >= round
            })
            .await?;
        }
        Ok(())
    });
    // Words 4 to 7: CPU store, fetch-add, compare-exchange and swap, and the end of a copy.
    scenario.client(0, 1, move |ep| async move {
        for round in 1..=rounds {
            pause(&ep, 4_000).await;
            ep.store(line.word(4), round, Ordering::Release).await?;
            ep.fetch_add(line.word(5), 1, Ordering::SeqCst).await?;
            if round.is_multiple_of(2) {
                ep.swap(line.word(6), round, Ordering::SeqCst).await?;
            } else {
                let order = Ordering::SeqCst;
                _ = ep
                    .compare_exchange(line.word(6), round - 1, round, order)
                    .await?;
            }
            ep.store_words(line.word(6), &[round, round]).await?;
            let wait = WaitFor::new("conformance: answer", answer);
            ep.wait_until(answer, 1, wait, |words| words[0] >= round)
                .await?;
        }
        Ok(())
    });
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            pause(&ep, 6_000).await;
            // Word by word in an order that changes, so that each kind of change is the one that ends a wait.
            for turn in 0..line_words() {
                let word = line.word((turn + round) % line_words());
                let wait = WaitFor::new("conformance: change", word);
                let found = ep
                    .wait_until(word, 1, wait, |words| words[0] >= round)
                    .await?[0];
                ensure!(
                    found == round,
                    "round {round} was answered by nobody, yet {word} is {found}"
                );
            }
            ep.store(answer, round, Ordering::Release).await?;
        }
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}

const fn line_words() -> u64 {
    REMOTE_WORDS + OWN_WORDS
}

fn predicate<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let line = scenario.host(0, 8);
    let rounds = bed.rounds();
    // Neighbours in the line change all the time; words 2 and 3 advance, 3 behind 2.
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.write_words(line, &[round, round]).await?;
            ep.write_words(line.word(2), &[round]).await?;
            ep.write_words(line.word(6), &[round]).await?;
            ep.write_words(line.word(3), &[round]).await?;
        }
        Ok(())
    });
    scenario.client(0, 0, move |ep| async move {
        let mut goal = 1;
        while goal <= rounds {
            let wait = WaitFor::new("conformance: goal", line);
            let mut last = [0; 2];
            let found = ep
                .wait_until(line.word(2), 2, wait, |words| {
                    last.copy_from_slice(words);
                    words[0] >= goal && words[1] >= goal
                })
                .await?;
            ensure!(
                found[..2] == last,
                "wait_until returns {found:?}, its predicate saw {last:?}"
            );
            ensure!(
                found[..2].iter().all(|word| *word >= goal),
                "{found:?} is short of {goal}"
            );
            ensure!(
                found[2..] == [0; 6],
                "words that were not asked for are {found:?}"
            );
            goal = found[1] + 1;
        }
        // What holds already is not waited for.
        let wait = WaitFor::new("conformance: nothing", line);
        let found = ep
            .wait_until(line.word(7), 1, wait, |words| words[0] == 0)
            .await?;
        ensure!(found == [0; 8], "an untouched word came as {found:?}");
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}

fn many<B: TestBed>(bed: &B) -> Outcome {
    const WAITERS: u16 = 6;
    let mut scenario = Scenario::new(bed, 2);
    let line = scenario.host(0, 1);
    let arrived = scenario.host(0, 1);
    let rounds = bed.rounds().min(100);
    for waiter in 0..WAITERS {
        // Two waiters a thread.
        scenario.client(0, waiter / 2, move |ep| async move {
            for round in 1..=rounds {
                let wait = WaitFor::new("conformance: start", line);
                ep.wait_until(line, 1, wait, |words| words[0] >= round)
                    .await?;
                ep.fetch_add(arrived, 1, Ordering::SeqCst).await?;
            }
            Ok(())
        });
    }
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.write_words(line, &[round]).await?;
            let all = round * u64::from(WAITERS);
            let wait = WaitFor::new("conformance: all waiters", arrived);
            let backoff = PollBackoff {
                first_ns: 100,
                max_ns: 400,
            };
            let found = ep
                .poll_until(arrived, 1, backoff, wait, |words| words[0] >= all)
                .await?[0];
            ensure!(
                found == all,
                "{found} waiters passed in round {round}, not {all}"
            );
        }
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}

fn poll<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let line = scenario.host(0, 8);
    let on_chip = scenario.device(0, 1);
    let rounds = bed.rounds();
    scenario.client(0, 0, move |ep| async move {
        for round in 1..=rounds {
            ep.sleep(ep.random() % 5_000).await;
            ep.store(line.word(7), round, Ordering::Release).await?;
            ep.store(line.word(3), round, Ordering::Release).await?;
            // Device memory is polled like any other, through the host's own RNIC as well.
            let wait = WaitFor::new("conformance: device word", on_chip);
            ep.poll_until(on_chip, 1, PollBackoff::NONE, wait, |words| {
                words[0] == round
            })
            .await?;
        }
        Ok(())
    });
    scenario.client(1, 0, move |ep| async move {
        for round in 1..=rounds {
            let backoffs = [
                PollBackoff::NONE,
                PollBackoff {
                    first_ns: 100,
                    max_ns: 1_000,
                },
            ];
            let backoff = backoffs[round as usize % 2];
            let wait = WaitFor::new("conformance: line", line);
            let found = ep
                .poll_until(line, 8, backoff, wait, |words| words[3] >= round)
                .await?;
            ensure!(found[3] == round, "polled for {round}, found {found:?}");
            let again = ep.read_u64(line.word(7)).await?;
            ensure!(
                again == round,
                "stored before what was polled for, a word is {again}, not {round}"
            );
            ep.rdma_faa(on_chip, 1).await?;
        }
        Ok(())
    });
    scenario.run(bed).map(|_| ())
}

fn limit<B: TestBed>(bed: &B) -> Outcome {
    const LIMIT: u64 = 2_000_000;
    let mut scenario = Scenario::new(bed, 2);
    scenario.waits = Some(WaitBounds {
        report_ns: LIMIT / 2,
        limit_ns: LIMIT,
    });
    let line = scenario.host(0, 2);
    scenario.client(0, 0, move |ep| async move {
        for lock in [line, line.word(1)] {
            let wait = WaitFor::new("conformance: what never comes", lock);
            let start = ep.now();
            let failed = ep.wait_until(line, 2, wait, |words| words[1] == 1).await;
            check(failed.map(|_| ()), wait, ep.now() - start)?;
        }
        // The client is as good as before.
        ep.store(line, 5, Ordering::SeqCst).await?;
        let wait = WaitFor::new("conformance: what comes", line);
        ep.wait_until(line, 1, wait, |words| words[0] == 5).await?;
        Ok(())
    });
    scenario.client(1, 0, move |ep| async move {
        for backoff in [
            PollBackoff::NONE,
            PollBackoff {
                first_ns: 1_000,
                max_ns: 9_000,
            },
        ] {
            let wait = WaitFor::new("conformance: what never comes", line.word(1));
            let start = ep.now();
            let failed = ep
                .poll_until(line, 2, backoff, wait, |words| words[1] == 1)
                .await;
            check(failed.map(|_| ()), wait, ep.now() - start)?;
        }
        ep.read_u64(line).await?;
        // Keep the cluster alive while the other waits: who waits for nobody is a stall.
        ep.sleep(2 * LIMIT).await;
        Ok(())
    });
    return scenario.run(bed).map(|_| ());

    fn check(failed: crate::Result<()>, wait: WaitFor, lasted: u64) -> Outcome {
        let Err(ErrorKind::WaitLimit {
            what,
            addr,
            waited_ns,
        }) = failed.as_ref().map_err(Error::kind)
        else {
            return Err(super::Violation::new(format!(
                "a wait beyond the limit ended with {failed:?}"
            )));
        };
        ensure!(
            (*what, *addr) == (wait.what, wait.addr),
            "{wait:?} is told as {what} at {addr}"
        );
        ensure!(
            *waited_ns > LIMIT,
            "gave up after {waited_ns} ns, before the limit of {LIMIT}"
        );
        ensure!(
            *waited_ns <= lasted,
            "a wait of {lasted} ns is told as {waited_ns}"
        );
        Ok(())
    }
}
