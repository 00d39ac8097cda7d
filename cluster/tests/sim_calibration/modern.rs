//! The profiles `cx5-100g` and `cx6-200g`.
//!
//! | measured | covered by |
//! |---|---|
//! | CX-5 latency: WRITE, READ, CAS of host memory, READ, CAS of device memory, 24 clients | [`latencies`] |
//! | CX-5, one address: CAS, FAA, READ, WRITE of host memory, CAS, FAA of device memory | [`one_address`] |
//! | CX-6, one address: CAS, FAA of host and of device memory | [`one_address`] |
//! | CAS on distinct addresses, host and device memory | [`distinct_addresses`] |
//! | CX-6, CAS, 128 threads, stride 8 B | [`distinct_addresses`] |
//! | CX-6, CAS, 128 threads, stride 8 B, with PCIe atomics (14.4 M/s) | [`a_parameter_makes_pcie_atomics`] |
//! | one queue pair, CAS | [`one_queue_pair`] |
//! | CX-6: the atomic unit serialises by 512 slots, by low bits of the address | [`slots_by_low_bits`] |
//! | CX-6, READ 8 B peak | [`read_peak`] |
//! | on-chip memory: 64 KB, 128 KB | [`device_memory_is_limited`] |
//! | CX-6 latencies | not measured: those of the CX-5, assumed |
//! | RNIC to DRAM about 1 us | not taken, see `Profile::cx5_100g` |

use std::rc::Rc;

use dmtree_cluster::sim::{Profile, Sim, SimConfig, SimEndpoint, SimError};
use dmtree_cluster::{Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};

use super::{assert_within, cas, closed_loop, cluster_of, rate, read, write};

const HOST: MemoryKind = MemoryKind::Host;
const DEVICE: MemoryKind = MemoryKind::Device;

fn cx5() -> Profile {
    Profile::by_name("cx5-100g").expect("the profile exists")
}

fn cx6() -> Profile {
    Profile::by_name("cx6-200g").expect("the profile exists")
}

async fn faa(ep: &SimEndpoint, at: GlobalAddr) {
    ep.rdma_faa(at, 1).await.expect("in bounds");
}

/// Four nodes that send: none of them is the bottleneck.
const SENDERS: u16 = 4;

/// M operations/s of `clients` clients, each with a queue pair of its own, on node 0's memory of `kind`; client
/// number n works at byte `n * stride`.
fn throughput(
    profile: Profile,
    kind: MemoryKind,
    clients: u16,
    stride: u64,
    operation: impl AsyncFn(&SimEndpoint, GlobalAddr) + Clone + 'static,
) -> f64 {
    let (mut sim, areas) = cluster_of(kind, profile, SENDERS + 1, 32_768);
    let count = Rc::default();
    for client in 0..clients {
        let at = areas[0].add(u64::from(client) * stride);
        let operation = operation.clone();
        let (node, thread) = (1 + client % SENDERS, client / SENDERS);
        closed_loop(&mut sim, node, thread, &count, async move |ep| {
            operation(ep, at).await
        });
    }
    rate(&mut sim, &count, 200_000, 500_000)
}

/// Source: wantonsolutions/warm data, ConnectX-5, 24 clients. On one address their CAS would queue: it takes
/// several of them.
#[test]
fn latencies() {
    let latency = |kind, operation: &dyn Fn(MemoryKind) -> f64| 24_000.0 / operation(kind);
    let writes = |kind| throughput(cx5(), kind, 24, 64, async |ep, at| write(ep, at, 8).await);
    let reads = |kind| throughput(cx5(), kind, 24, 64, async |ep, at| read(ep, at, 8).await);
    let swaps = |kind| throughput(cx5(), kind, 24, 64, cas);
    assert_within("WRITE, host, ns", latency(HOST, &writes), [2180.0; 2]);
    assert_within("READ, host, ns", latency(HOST, &reads), [2700.0; 2]);
    assert_within("CAS, host, ns", latency(HOST, &swaps), [2760.0; 2]);
    assert_within("READ, device, ns", latency(DEVICE, &reads), [2350.0; 2]);
    assert_within("CAS, device, ns", latency(DEVICE, &swaps), [2340.0; 2]);
    // 10 % of tolerance would hide that a CAS costs more than a READ in host memory only.
    let more = |kind| latency(kind, &swaps) - latency(kind, &reads);
    assert!(
        (30.0..90.0).contains(&more(HOST)) && more(DEVICE).abs() < 30.0,
        "a CAS takes {} ns more than a READ in host memory, {} in device memory",
        more(HOST),
        more(DEVICE)
    );
}

/// Source: wantonsolutions/warm data.
#[test]
fn one_address() {
    for (name, profile, kind, cas_rate, faa_rate) in [
        ("CX-5 host", cx5(), HOST, [2.93; 2], [2.54; 2]),
        ("CX-5 device", cx5(), DEVICE, [8.97; 2], [7.72; 2]),
        ("CX-6 host", cx6(), HOST, [2.04; 2], [2.17; 2]),
        ("CX-6 device", cx6(), DEVICE, [6.7, 8.65], [5.7, 8.3]),
    ] {
        let found = throughput(profile.clone(), kind, 64, 0, cas);
        assert_within(&format!("{name}, CAS, M/s"), found, cas_rate);
        let found = throughput(profile, kind, 64, 0, faa);
        assert_within(&format!("{name}, FAA, M/s"), found, faa_rate);
    }
    let found = throughput(cx5(), HOST, 400, 0, async |ep, at| read(ep, at, 8).await);
    assert_within("CX-5, READ of one address, M/s", found, [23.1; 2]);
    let found = throughput(cx5(), HOST, 800, 0, async |ep, at| write(ep, at, 8).await);
    assert!(
        (108.0..130.0).contains(&found),
        "CX-5: {found} M WRITEs/s of one address, measured more than 108"
    );
}

/// Source: wantonsolutions/warm data (52 and 91 M/s; which RNIC is not told); Fusa (42.3 M/s, ConnectX-6).
#[test]
fn distinct_addresses() {
    for (name, profile, kind, clients, measured) in [
        ("CX-5 host", cx5(), HOST, 512, 52.0),
        ("CX-5 device", cx5(), DEVICE, 512, 91.0),
        ("CX-6 host", cx6(), HOST, 128, 42.3),
        ("CX-6 device", cx6(), DEVICE, 512, 91.0),
    ] {
        let found = throughput(profile, kind, clients, 8, cas);
        assert_within(
            &format!("{name}, CAS of {clients} clients, M/s"),
            found,
            [measured; 2],
        );
    }
}

/// Source: Fusa, as above.
#[test]
fn a_parameter_makes_pcie_atomics() {
    let mut profile = cx6();
    profile.set("atomic_unit_ns", "69.4").expect("a time");
    let found = throughput(profile, HOST, 128, 8, cas);
    assert_within("CX-6, PCIe atomics, M/s", found, [14.4; 2]);
}

/// Source: wantonsolutions/warm data (NSDI'24 draft).
#[test]
fn one_queue_pair() {
    for kind in [HOST, DEVICE] {
        let (mut sim, areas) = cluster_of(kind, cx5(), 2, 4096);
        let count = Rc::default();
        for client in 0..64 {
            let at = areas[0].word(client);
            closed_loop(&mut sim, 1, 0, &count, async move |ep| cas(ep, at).await);
        }
        let found = rate(&mut sim, &count, 200_000, 500_000);
        assert_within(
            &format!("CAS of one queue pair, {kind:?}, M/s"),
            found,
            [2.7; 2],
        );
    }
}

/// Source: Fusa, ConnectX-6: 512 slots, low bits of the address. Words 4 KB apart share one, as if they were one
/// word; words 8 B less apart do not.
#[test]
fn slots_by_low_bits() {
    let one = throughput(cx6(), HOST, 8, 0, cas);
    let shared = throughput(cx6(), HOST, 8, 512 * 8, cas);
    assert_within("CX-6, CAS at a stride of 4 KB, M/s", shared, [one; 2]);
    let apart = throughput(cx6(), HOST, 8, 511 * 8, cas);
    // 8 clients of 2.76 us each: nothing but latency holds them.
    assert_within("CX-6, CAS at a stride of 4088 B, M/s", apart, [2.9; 2]);
    assert!(apart > 1.3 * shared);
}

/// Source: SMART artifact's raw data, ConnectX-6 200G.
#[test]
fn read_peak() {
    let found = throughput(cx6(), HOST, 500, 64, async |ep, at| read(ep, at, 8).await);
    assert_within("CX-6, READ 8 B, M/s", found, [111.0; 2]);
}

/// Source: users' reports; ConnectX-3 has none.
#[test]
fn device_memory_is_limited() {
    for (name, has) in [("cx3-fdr", 0), ("cx5-100g", 65_536), ("cx6-200g", 131_072)] {
        let profile = Profile::by_name(name).expect("the profile exists");
        let cluster = |bytes| {
            let mut map = MemoryMap::new(2);
            if bytes > 0 {
                map.reserve(NodeId(1), DEVICE, bytes, 8);
            }
            Sim::new(&SimConfig::new(profile.clone()), &map)
        };
        cluster(has).expect("as much as there is");
        let error = cluster(has + 8).expect_err("more than there is");
        assert!(
            matches!(error, SimError::DeviceMemory { node: NodeId(1), has: told, .. } if told == has),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains(name) && text.contains(&has.to_string()),
            "{text}"
        );
    }
}
