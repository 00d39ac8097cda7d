//! Bulk load: how fast a tree is built in memory that the process already has.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dmtree_cluster::{GlobalAddr, MemoryKind, MemoryMap, NodeId};
use dmtree_index::{IndexCache, LoadOptions, TreePlan};

fn load(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(5));
    for keys in [1_000_000u64, 10_000_000] {
        let mut map = MemoryMap::new(1);
        let options = LoadOptions {
            fill: 0.9,
            ..LoadOptions::default()
        };
        let plan = TreePlan::reserve(&mut map, &[NodeId(0)], keys, options).expect("a plan");
        let mut memory = vec![0u64; map.bytes(NodeId(0), MemoryKind::Host) as usize / 8];
        group.throughput(Throughput::Elements(keys));
        group.bench_function(BenchmarkId::from_parameter(keys), |bencher| {
            bencher.iter(|| {
                let mut sink = |addr: GlobalAddr, words: &[u64]| {
                    memory[addr.offset() as usize / 8..][..words.len()].copy_from_slice(words);
                    Ok(())
                };
                plan.load((0..keys).map(|key| (key * 7, key)), &mut sink)
                    .expect("a load")
                    .leaves
            });
        });
    }
    group.finish();
}

/// A lookup in a cache that knows all inner pages, keys in an order that no cache line likes.
fn lookup(criterion: &mut Criterion) {
    const KEYS: u64 = 10_000_000;
    let mut map = MemoryMap::new(1);
    let options = LoadOptions {
        fill: 0.9,
        ..LoadOptions::default()
    };
    let plan = TreePlan::reserve(&mut map, &[NodeId(0)], KEYS, options).expect("a plan");
    let mut nowhere = |_: GlobalAddr, _: &[u64]| Ok(());
    let loaded = plan
        .load((0..KEYS).map(|key| (key, key)), &mut nowhere)
        .expect("a load");
    let cache = IndexCache::prefilled(loaded.index);
    let mut key = 0u64;
    criterion.bench_function("cache lookup, 10 M keys", |bencher| {
        bencher.iter(|| {
            key = (key + 0x9e37_79b9) % KEYS;
            black_box(cache.lookup(key, 0))
        });
    });
}

criterion_group!(benches, load, lookup);
criterion_main!(benches);
