//! What must be refused, and how.

use std::sync::atomic::Ordering;

use super::{MustTest, Outcome, Scenario, TestBed, Violation};
use crate::{Chain, Endpoint, ErrorKind, GlobalAddr, MemoryKind, NodeId, Result, WaitFor};

pub(super) fn tests<B: TestBed>() -> Vec<MustTest<B>> {
    vec![
        MustTest {
            name: "verbs out of bounds",
            contract: "an access that ends beyond the memory that the node serves fails with OutOfBounds",
            run: bounds,
        },
        MustTest {
            name: "verbs that make no sense",
            contract: "a misaligned atomic, a node that does not exist and a swap that is not offered fail, \
                       each with its own error, and nothing has happened",
            run: verbs,
        },
        MustTest {
            name: "CPU accesses that are not permitted",
            contract: "a CPU accesses aligned words of its own node's host memory only",
            run: cpu,
        },
    ]
}

/// An error by name, so that a message can say what was expected.
fn kind<T>(result: &Result<T>) -> &'static str {
    let error = match result {
        Ok(_) => return "success",
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::OutOfBounds { .. } => "OutOfBounds",
        ErrorKind::Misaligned { .. } => "Misaligned",
        ErrorKind::NotPermitted { .. } => "NotPermitted",
        ErrorKind::PeerGone { .. } => "PeerGone",
        ErrorKind::WaitLimit { .. } => "WaitLimit",
        _ => "another error",
    }
}

fn expect<T>(result: Result<T>, expected: &str, call: &str) -> Outcome {
    let found = kind(&result);
    match result {
        Err(_) if found == expected => Ok(()),
        Err(error) => Err(Violation::new(format!(
            "{call} fails with {found} ({error}), not {expected}"
        ))),
        Ok(_) => Err(Violation::new(format!(
            "{call} succeeds, {expected} expected"
        ))),
    }
}

async fn one(ep: &impl Endpoint, build: impl FnOnce(&mut Chain)) -> Result<()> {
    let mut chain = Chain::new();
    build(&mut chain);
    ep.execute(&mut chain).await
}

fn bounds<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let host = scenario.host(0, 24);
    let device = scenario.device(0, 24);
    let ends = [
        (
            host,
            GlobalAddr::new(NodeId(0), scenario.map.bytes(NodeId(0), MemoryKind::Host)),
        ),
        (
            device,
            GlobalAddr::device(NodeId(0), scenario.map.bytes(NodeId(0), MemoryKind::Device)),
        ),
    ];
    // A node without device memory serves none.
    let nothing = GlobalAddr::device(NodeId(1), 0);
    for node in [0, 1] {
        scenario.client(node, 0, move |ep| async move {
            for (inside, end) in ends {
                let at = |back: u64| GlobalAddr::from_bits(end.to_bits() - back);
                // The very last bytes are there.
                ep.read_u64(at(8)).await?;
                ep.write_words(at(16), &[0, 0]).await?;
                ep.rdma_faa(at(8), 0).await?;
                let mut all = [0; 24];
                ep.read_words(inside, &mut all).await?;

                let oob = "OutOfBounds";
                expect(
                    one(&ep, |chain| _ = chain.read(at(7), 8)).await,
                    oob,
                    "a READ past the end",
                )?;
                expect(
                    one(&ep, |chain| _ = chain.read(end, 1)).await,
                    oob,
                    "a READ at the end",
                )?;
                expect(
                    one(&ep, |chain| _ = chain.write(at(1), b"ab")).await,
                    oob,
                    "a WRITE past the end",
                )?;
                expect(ep.rdma_faa(end, 1).await, oob, "an FAA at the end")?;
                expect(
                    ep.rdma_cas(end.word(1), 0, 1).await,
                    oob,
                    "a CAS behind the end",
                )?;
                let huge = end.word((1 << 44) - 1 - end.offset() / 8);
                expect(
                    one(&ep, |chain| _ = chain.read(huge, 8)).await,
                    oob,
                    "a READ at the last offset",
                )?;
                expect(
                    one(&ep, |chain| _ = chain.read(huge, 1 << 20)).await,
                    oob,
                    "a READ past all offsets",
                )?;
                expect(ep.rdma_faa(huge, 1).await, oob, "an FAA at the last offset")?;
                expect(
                    one(&ep, |chain| _ = chain.read(inside, 0)).await,
                    oob,
                    "a READ of nothing",
                )?;
                expect(
                    one(&ep, |chain| _ = chain.write(inside, b"")).await,
                    oob,
                    "a WRITE of nothing",
                )?;
                // One bad verb spoils the chain, the client goes on.
                let mixed = one(&ep, |chain| {
                    chain.read(inside, 8);
                    chain.read(end, 8);
                });
                expect(mixed.await, oob, "a chain with one READ too far")?;
                ep.read_u64(inside).await?;
            }
            expect(
                ep.read_u64(nothing).await,
                "OutOfBounds",
                "a READ of device memory that is not there",
            )
        });
    }
    let memory = scenario.run(bed)?;
    ensure!(
        memory.words(host, 24) == [0; 24],
        "refused verbs changed memory"
    );
    Ok(())
}

fn verbs<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let host = scenario.host(0, 2);
    let device = scenario.device(0, 2);
    for node in [0, 1] {
        scenario.client(node, 0, move |ep| async move {
            for at in [host, device] {
                for byte in 1..8 {
                    let at = at.add(byte);
                    expect(
                        ep.rdma_faa(at, 1).await,
                        "Misaligned",
                        "an FAA between words",
                    )?;
                    expect(
                        ep.rdma_cas(at, 0, 1).await,
                        "Misaligned",
                        "a CAS between words",
                    )?;
                }
                if !ep.capabilities().native_swap {
                    let swap = one(&ep, |chain| _ = chain.swap(at, 1)).await;
                    expect(swap, "NotPermitted", "a swap that is not offered")?;
                }
            }
            for number in [2, 99, u16::MAX] {
                let nowhere = GlobalAddr::new(NodeId(number), 64);
                let gone = ep.read_u64(nowhere).await;
                expect(
                    gone.clone(),
                    "PeerGone",
                    "a READ at a node that does not exist",
                )?;
                let named = matches!(&gone, Err(error) if matches!(error.kind(), ErrorKind::PeerGone { node, .. } if *node == NodeId(number)));
                ensure!(named, "a READ at node {number} does not name it: {gone:?}");
                expect(
                    ep.write_words(nowhere, &[1]).await,
                    "PeerGone",
                    "a WRITE there",
                )?;
                expect(ep.rdma_faa(nowhere, 1).await, "PeerGone", "an FAA there")?;
            }
            Ok(())
        });
    }
    let memory = scenario.run(bed)?;
    ensure!(
        memory.words(host, 2) == [0; 2],
        "refused verbs changed memory"
    );
    Ok(())
}

fn cpu<B: TestBed>(bed: &B) -> Outcome {
    let mut scenario = Scenario::new(bed, 2);
    let own = scenario.host(1, 8);
    let other = scenario.host(0, 8);
    let device = scenario.device(1, 8);
    let end = GlobalAddr::new(NodeId(1), scenario.map.bytes(NodeId(1), MemoryKind::Host));
    scenario.client(1, 0, move |ep| async move {
        let nowhere = GlobalAddr::new(NodeId(9), 64);
        let cases = [
            (other, "NotPermitted"),
            (nowhere, "NotPermitted"),
            (device, "NotPermitted"),
            (own.add(4), "Misaligned"),
            (own.add(1), "Misaligned"),
            (end, "OutOfBounds"),
            (GlobalAddr::new(NodeId(1), (1 << 47) - 8), "OutOfBounds"),
        ];
        let order = Ordering::SeqCst;
        for (at, expected) in cases {
            expect(ep.load(at, order).await, expected, "a CPU load")?;
            expect(ep.store(at, 1, order).await, expected, "a CPU store")?;
            expect(ep.swap(at, 1, order).await, expected, "a CPU swap")?;
            expect(
                ep.compare_exchange(at, 0, 1, order).await,
                expected,
                "a CPU compare-exchange",
            )?;
            expect(
                ep.fetch_add(at, 1, order).await,
                expected,
                "a CPU fetch-add",
            )?;
            expect(
                ep.load_words(at, &mut [0; 3]).await,
                expected,
                "a CPU copy out",
            )?;
            expect(ep.store_words(at, &[1; 3]).await, expected, "a CPU copy in")?;
            expect(
                ep.store_words(at, &[1]).await,
                expected,
                "a CPU copy in of a word",
            )?;
            let wait = WaitFor::new("conformance: nothing", at);
            let waited = ep.wait_until(at, 1, wait, |_| true).await;
            expect(waited, expected, "a CPU wait")?;
        }
        // A copy that only ends beyond the end, and the last words, which are there.
        let last = GlobalAddr::from_bits(end.to_bits() - 16);
        expect(
            ep.load_words(last, &mut [0; 3]).await,
            "OutOfBounds",
            "a copy past the end",
        )?;
        expect(
            ep.store_words(last, &[1; 3]).await,
            "OutOfBounds",
            "a copy past the end",
        )?;
        ep.store_words(last, &[0, 0]).await?;
        ep.load(last.word(1), order).await?;
        Ok(())
    });
    let memory = scenario.run(bed)?;
    ensure!(
        memory.words(own, 8) == [0; 8],
        "refused accesses changed own memory"
    );
    ensure!(
        memory.words(other, 8) == [0; 8],
        "refused accesses changed another node's memory"
    );
    Ok(())
}
