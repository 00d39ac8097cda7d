//! The speed of the simulator itself: what a simulated verb, chain and CPU access cost in real time.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dmtree_cluster::sim::{Profile, Sim, SimConfig};
use dmtree_cluster::{Chain, Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};

const NODES: u16 = 10;
const THREADS: u16 = 12;
const PAGES: u64 = 200_000;

/// A cluster of the size of the paper's testbed; every client repeats `program` over random pages of node 0.
fn cluster(
    program: impl AsyncFn(&dmtree_cluster::sim::SimEndpoint, GlobalAddr) + Copy + 'static,
    rounds: u32,
) -> u64 {
    let mut map = MemoryMap::new(NODES);
    let heap = map.reserve(NodeId(0), MemoryKind::Host, PAGES * 1024, 1024);
    let config = SimConfig::new(Profile::by_name("cx3-fdr").expect("exists"));
    let mut sim = Sim::new(&config, &map).expect("memory");
    for node in 0..NODES {
        for thread in 0..THREADS {
            let ep = sim.endpoint(NodeId(node), thread);
            sim.spawn(&ep.clone(), async move {
                for _ in 0..rounds {
                    program(&ep, heap.add(ep.random() % PAGES * 1024)).await;
                }
            });
        }
    }
    sim.run().expect("ends");
    sim.stats().events
}

fn simulator(c: &mut Criterion) {
    // Many enough that touching the memory for the first time is little of it.
    let rounds = 5_000;
    let total = u64::from(NODES) * u64::from(THREADS) * u64::from(rounds);
    let mut group = c.benchmark_group("sim");
    group.sample_size(10);
    group.throughput(Throughput::Elements(total));
    group.bench_function("cas", |b| {
        b.iter(|| {
            cluster(
                async |ep, page| _ = black_box(ep.rdma_cas(page, 0, 0).await),
                rounds,
            )
        });
    });
    group.bench_function("read_1k", |b| {
        b.iter(|| {
            cluster(
                async |ep, page| {
                    let mut chain = ep.take_chain();
                    chain.read(page, 1024);
                    ep.execute(&mut chain).await.expect("in bounds");
                    ep.put_chain(chain);
                },
                rounds,
            )
        });
    });
    group.bench_function("write_write", |b| {
        b.iter(|| {
            cluster(
                async |ep, page| {
                    let mut chain: Chain = ep.take_chain();
                    chain.write_words(page.add(64), &[1]);
                    chain.write_words(page, &[2]);
                    ep.execute(&mut chain).await.expect("in bounds");
                    ep.put_chain(chain);
                },
                rounds,
            )
        });
    });
    group.bench_function("cpu_swap", |b| {
        b.iter(|| {
            cluster(
                async |ep, page| {
                    if ep.node() == page.node() {
                        black_box(ep.swap(page, 1, Ordering::SeqCst).await.expect("own"));
                    } else {
                        ep.work(1_000).await;
                    }
                },
                rounds,
            )
        });
    });
    group.finish();
}

criterion_group!(benches, simulator);
criterion_main!(benches);
