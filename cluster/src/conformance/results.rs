//! What each verb does and returns, wherever its memory is.

use super::{MustTest, Outcome, Scenario, Shared, TestBed};
use crate::{Chain, ClientId, Endpoint, GlobalAddr, NodeId};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "each verb's result",
            contract: "READ, WRITE, CAS, FAA and swap do what Op says, on host and device memory, remote \
                       and loopback",
            run: each_verb,
        },
        MustTest {
            name: "every node to every node",
            contract: "one node can serve memory, run clients, or both; verbs reach any of it",
            run: every_pair,
        },
        MustTest {
            name: "who and where",
            contract: "all memory starts as zeros; clients are numbered from 0 over the whole cluster",
            run: start,
        },
        MustTest {
            name: "swap by whatever means",
            contract: "rdma_swap returns the word as it was, with and without a native swap",
            run: swap,
        },
    ]
}

/// All verbs on two words of `at`, which hold zeros.
async fn on_words(ep: &impl Endpoint, at: GlobalAddr) -> Outcome {
    let other = at.word(1);
    ensure!(ep.read_u64(at).await? == 0, "{at} does not start as zero");
    ep.write_words(at, &[7, 8]).await?;
    let mut words = [0; 2];
    ep.read_words(at, &mut words).await?;
    ensure!(words == [7, 8], "WRITE [7, 8], then READ {words:?} at {at}");

    let missed = ep.rdma_cas(at, 6, 1).await?;
    ensure!(
        missed == 7,
        "a CAS that expects 6 returns {missed}, not the word 7"
    );
    let kept = ep.read_u64(at).await?;
    ensure!(kept == 7, "a CAS that missed has changed 7 to {kept}");
    let hit = ep.rdma_cas(at, 7, u64::MAX).await?;
    ensure!(hit == 7, "a CAS that hits returns {hit}, not the word 7");

    let found = ep.rdma_faa(at, 3).await?;
    ensure!(
        found == u64::MAX,
        "FAA returns {found:#x} after CAS stored all ones"
    );
    let wrapped = ep.read_u64(at).await?;
    ensure!(wrapped == 2, "all ones + 3 is {wrapped}, not 2");

    if ep.capabilities().native_swap {
        let mut chain = Chain::new();
        let slot = chain.swap(at, 40);
        ep.execute(&mut chain).await?;
        ensure!(
            chain.value(slot) == 2,
            "SWAP returns {}, not the word 2",
            chain.value(slot)
        );
        let stored = ep.read_u64(at).await?;
        ensure!(stored == 40, "SWAP stores {stored}, not 40");
    }
    let neighbour = ep.read_u64(other).await?;
    ensure!(
        neighbour == 8,
        "verbs on {at} changed its neighbour from 8 to {neighbour}"
    );
    ep.write_words(at, &[5]).await?;
    Ok(())
}

fn each_verb<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let hosts = [scenario.host(0, 2), scenario.host(1, 2)];
    let devices = [scenario.device(0, 2), scenario.device(1, 2)];
    for at in hosts.into_iter().chain(devices) {
        scenario.client(0, 0, move |ep| async move { on_words(&ep, at).await });
    }
    let memory = scenario.run(bed)?;
    for at in hosts {
        let words = memory.words(at, 2);
        ensure!(
            words == [5, 8],
            "{at} holds {words:?} in the end, not [5, 8]"
        );
    }
    Ok(())
}

fn every_pair<B: TestBed>(bed: &B) -> Outcome {
    const NODES: u16 = 3;
    let mut scenario = Scenario::new(bed, NODES);
    let slots: Vec<_> = (0..NODES)
        .map(|node| scenario.host(node, 2 * u64::from(NODES)))
        .collect();
    for from in 0..NODES {
        let slots = slots.clone();
        scenario.client(from, 0, move |ep| async move {
            ensure!(
                ep.node() == NodeId(from),
                "a client of node {from} says {}",
                ep.node()
            );
            for round in 0..4 {
                for slot in &slots {
                    let mine = slot.word(2 * u64::from(from));
                    ep.write_words(mine, &[u64::from(from) * 100 + round])
                        .await?;
                    let found = ep.rdma_faa(mine.word(1), 1).await?;
                    ensure!(found == round, "FAA number {round} finds {found} at {mine}");
                }
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    for slot in slots {
        let expected: Vec<_> = (0..u64::from(NODES))
            .flat_map(|from| [from * 100 + 3, 4])
            .collect();
        let found = memory.words(slot, expected.len());
        ensure!(
            found == expected,
            "{slot} holds {found:?}, not {expected:?}"
        );
    }
    Ok(())
}

fn start<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let areas = [
        scenario.host(0, 100),
        scenario.host(1, 100),
        scenario.device(1, 100),
    ];
    let preset = scenario.host(1, 1);
    scenario.initial.push((preset, 77));
    for (id, node) in [1, 0, 0, 1].into_iter().enumerate() {
        scenario.client(node, id as u16 / 2, move |ep| async move {
            let place = ClientId(id as u32);
            ensure!(
                ep.client() == place,
                "the client at {place}'s place says {}",
                ep.client()
            );
            for area in areas {
                let mut words = [1; 100];
                ep.read_words(area, &mut words).await?;
                ensure!(
                    words == [0; 100],
                    "{area} does not start as zeros: {words:?}"
                );
            }
            let found = ep.read_u64(preset).await?;
            ensure!(
                found == 77,
                "{preset} starts as {found}, not as the 77 that was asked for"
            );
            Ok(())
        });
    }
    scenario.run(bed).map(|_| ())
}

fn swap<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 3);
    let word = scenario.host(0, 1);
    let found = Shared::<Vec<u64>>::default();
    let rounds = bed.rounds().min(50);
    let clients = 4;
    for client in 0..clients {
        let found = found.clone();
        scenario.client(client % 3, client, move |ep| async move {
            for round in 0..rounds {
                let token = 1 + u64::from(client) * 1000 + round;
                let before = ep.rdma_swap(word, 0, token).await?;
                found.with(|all| all.push(before));
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    // Every token is found by exactly one swap or is the last.
    let mut all = found.take();
    all.push(memory.word(word));
    all.sort_unstable();
    let tokens = (0..u64::from(clients))
        .flat_map(|client| (0..rounds).map(move |round| 1 + client * 1000 + round));
    let mut expected: Vec<_> = std::iter::once(0).chain(tokens).collect();
    expected.sort_unstable();
    ensure!(
        all == expected,
        "swaps lost or doubled a word: found {all:?}"
    );
    Ok(())
}
