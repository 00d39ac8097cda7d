//! Device memory: what reaches it, what does not, and that it is not host memory.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use dmtree_cluster::sim::{Profile, Sim, SimConfig, SwapKind};
use dmtree_cluster::{
    Chain, Endpoint, ErrorKind, GlobalAddr, MemoryKind, MemoryMap, NodeId, PollBackoff, WaitFor,
};

/// Two nodes of `cx5-100g`; all of node 0's device memory, and as much of its host memory.
fn cluster(hostile: bool) -> (Sim, GlobalAddr, GlobalAddr) {
    let profile = Profile::by_name("cx5-100g").expect("the profile exists");
    let bytes = u64::from(profile.device_bytes.value);
    let mut map = MemoryMap::new(2);
    let device = map.reserve(NodeId(0), MemoryKind::Device, bytes, 64);
    let host = map.reserve(NodeId(0), MemoryKind::Host, bytes, 64);
    let mut config = SimConfig::new(profile);
    config.hostile = hostile;
    config.swap = SwapKind::Native;
    (
        Sim::new(&config, &map).expect("it has that much"),
        device,
        host,
    )
}

#[test]
fn every_verb_reaches_it_from_both_nodes() {
    for hostile in [false, true] {
        let (mut sim, device, host) = cluster(hostile);
        let done = Rc::new(Cell::new(0));
        for node in 0..2 {
            let ep = sim.endpoint(NodeId(node), 0);
            let done = Rc::clone(&done);
            // The first words and the last.
            let at = device.add(u64::from(node) * (65_536 - 1024));
            sim.spawn(&ep.clone(), async move {
                let words: Vec<u64> = (1..=128).collect();
                ep.write_words(at, &words).await.expect("in bounds");
                assert_eq!(ep.rdma_cas(at, 1, 10).await, Ok(1));
                assert_eq!(ep.rdma_cas(at, 1, 11).await, Ok(10));
                assert_eq!(ep.rdma_faa(at, 5).await, Ok(10));
                assert_eq!(ep.rdma_swap(at, 0, 7).await, Ok(15));
                let mut chain = Chain::new();
                chain.write_words(at.word(1), &[20]);
                let read = chain.read(at, 1024);
                ep.execute(&mut chain).await.expect("in bounds");
                assert_eq!(chain.words(read)[..3], [7, 20, 3]);
                assert_eq!(chain.words(read)[127], 128);
                let backoff = PollBackoff {
                    first_ns: 100,
                    max_ns: 100,
                };
                let wait = WaitFor::new("device word", at);
                ep.poll_until(at, 1, backoff, wait, |words| words[0] == 7)
                    .await
                    .expect("it is");
                done.set(done.get() + 1);
            });
        }
        sim.run().expect("ends");
        assert_eq!(done.get(), 2);
        let base = host.offset() as usize / 8;
        assert!(
            sim.host_words(NodeId(0))[base..]
                .iter()
                .all(|word| *word == 0),
            "host memory is another"
        );
    }
}

#[test]
fn no_cpu_reaches_it() {
    let (mut sim, device, _) = cluster(false);
    let ep = sim.endpoint(NodeId(0), 0);
    let done = Rc::new(Cell::new(false));
    let end = Rc::clone(&done);
    sim.spawn(&ep.clone(), async move {
        let order = Ordering::SeqCst;
        let wait = WaitFor::new("device word", device);
        let outcomes = [
            ep.load(device, order).await.map(drop),
            ep.store(device, 1, order).await,
            ep.fetch_add(device, 1, order).await.map(drop),
            ep.swap(device, 1, order).await.map(drop),
            ep.compare_exchange(device, 0, 1, order).await.map(drop),
            ep.load_words(device, &mut [0; 4]).await,
            ep.store_words(device, &[1; 4]).await,
            ep.wait_until(device, 1, wait, |_| true).await.map(drop),
        ];
        for (number, outcome) in outcomes.iter().enumerate() {
            assert!(
                matches!(outcome, Err(failure) if matches!(failure.kind(), ErrorKind::NotPermitted { addr, .. } if *addr == device)),
                "{number}: {outcome:?}"
            );
        }
        assert_eq!(ep.read_u64(device).await, Ok(0), "nothing was written");
        end.set(true);
    });
    sim.run().expect("ends");
    assert!(done.get());
}
