//! Profiles against the measurements that they are made from, through the public API alone.

mod cx3_fdr;
mod modern;

use std::cell::Cell;
use std::rc::Rc;

use dmtree_cluster::sim::{Profile, Sim, SimConfig, SimEndpoint};
use dmtree_cluster::{Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};

/// Measured values are met within this share.
const TOLERANCE: f64 = 0.10;

/// Asserts that `found` is within the measured range, give or take [`TOLERANCE`].
fn assert_within(what: &str, found: f64, measured: [f64; 2]) {
    let [low, high] = [
        measured[0] * (1.0 - TOLERANCE),
        measured[1] * (1.0 + TOLERANCE),
    ];
    assert!(
        (low..=high).contains(&found),
        "{what}: {found:.3}, measured {measured:?}"
    );
    println!("{what}: {found:.3}, measured {measured:?}");
}

/// A cluster whose nodes each have `bytes` of host memory; returns its first address on each.
fn cluster(profile: Profile, nodes: u16, bytes: u64) -> (Sim, Vec<GlobalAddr>) {
    cluster_of(MemoryKind::Host, profile, nodes, bytes)
}

/// As [`cluster`], of either kind of memory.
fn cluster_of(
    kind: MemoryKind,
    profile: Profile,
    nodes: u16,
    bytes: u64,
) -> (Sim, Vec<GlobalAddr>) {
    let mut map = MemoryMap::new(nodes);
    let areas = (0..nodes)
        .map(|node| map.reserve(NodeId(node), kind, bytes, 64))
        .collect();
    (
        Sim::new(&SimConfig::new(profile), &map).expect("little memory"),
        areas,
    )
}

/// Has a client repeat `operation` for ever, and counts.
fn closed_loop(
    sim: &mut Sim,
    node: u16,
    thread: u16,
    count: &Rc<Cell<u64>>,
    operation: impl AsyncFn(&SimEndpoint) + 'static,
) {
    let endpoint = sim.endpoint(NodeId(node), thread);
    let count = Rc::clone(count);
    sim.spawn(&endpoint.clone(), async move {
        loop {
            operation(&endpoint).await;
            count.set(count.get() + 1);
        }
    });
}

/// Operations a microsecond (M/s) between two instants, the first after the caches have warmed up.
fn rate(sim: &mut Sim, count: &Cell<u64>, warm_up_ns: u64, measured_ns: u64) -> f64 {
    assert!(
        !sim.run_until(warm_up_ns).expect("runs"),
        "loops do not end"
    );
    let before = count.get();
    assert!(
        !sim.run_until(warm_up_ns + measured_ns).expect("runs"),
        "loops do not end"
    );
    (count.get() - before) as f64 * 1000.0 / measured_ns as f64
}

async fn read(ep: &SimEndpoint, at: GlobalAddr, len: usize) {
    let mut chain = ep.take_chain();
    chain.read(at, len);
    ep.execute(&mut chain).await.expect("in bounds");
    ep.put_chain(chain);
}

async fn write(ep: &SimEndpoint, at: GlobalAddr, len: usize) {
    static BYTES: [u8; 65536] = [7; 65536];
    let mut chain = ep.take_chain();
    chain.write(at, &BYTES[..len]);
    ep.execute(&mut chain).await.expect("in bounds");
    ep.put_chain(chain);
}

async fn cas(ep: &SimEndpoint, at: GlobalAddr) {
    ep.rdma_cas(at, 0, 1).await.expect("in bounds");
}
