//! What the driver itself costs an operation: drawing a key, recording a latency.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use dmtree_workloads::distribution::{Distribution, KeyChooser, client_rng};
use dmtree_workloads::latency::Latencies;

fn draw(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("draw a key of 10 M");
    for distribution in [
        Distribution::Uniform,
        Distribution::Zipf(0.99),
        Distribution::Zipf(1.0),
    ] {
        let keys = KeyChooser::new(distribution, 10_000_000);
        let mut rng = client_rng(1, 0);
        group.bench_function(distribution.to_string(), |bencher| {
            bencher.iter(|| keys.draw(&mut rng))
        });
    }
    group.finish();
}

fn record(criterion: &mut Criterion) {
    let mut latencies = Latencies::new();
    let mut ns = 1;
    criterion.bench_function("record a latency", |bencher| {
        bencher.iter(|| {
            ns = (ns * 7 + 13) % 100_000;
            latencies.record(black_box(ns));
        });
    });
}

criterion_group!(benches, draw, record);
criterion_main!(benches);
