//! The same seed gives the same bytes: memory, statistics and everything that any client has seen.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use common::SimBed;
use dmtree_cluster::sim::{Sim, SimEndpoint, SimStats, SwapKind};
use dmtree_cluster::{
    Chain, Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId, PollBackoff, WaitFor,
};

const NODES: u16 = 3;
const THREADS: u16 = 2;
const COROUTINES: u16 = 2;
const ROUNDS: u32 = 60;
/// Words of each node that everybody changes.
const WORDS: u64 = 48;

/// Everything that a run shows.
#[derive(Debug, PartialEq)]
struct Run {
    memory: Vec<Vec<u64>>,
    traces: Vec<Vec<u64>>,
    stats: SimStats,
    end_ns: u64,
}

struct Layout {
    words: Vec<GlobalAddr>,
    devices: Vec<GlobalAddr>,
    /// A word of each node that keeps changing, so that waits end.
    ticks: Vec<GlobalAddr>,
}

/// A random chain to a random node.
async fn verbs(ep: &SimEndpoint, layout: &Layout, trace: &mut Vec<u64>) {
    let node = ep.random() as usize % layout.words.len();
    let area = if ep.random().is_multiple_of(4) {
        layout.devices[node]
    } else {
        layout.words[node]
    };
    let mut chain = Chain::new();
    for _ in 0..1 + ep.random() % 5 {
        let word = ep.random() % WORDS;
        let at = area.word(word);
        let bytes = 1 + ep.random() % ((WORDS - word) * 8);
        if ep.random().is_multiple_of(3) {
            chain.fence();
        }
        let value = ep.random();
        match ep.random() % 4 {
            0 => _ = chain.read(at, bytes as usize),
            1 => _ = chain.write(at, &vec![value as u8; bytes as usize]),
            2 => _ = chain.faa(at, value % 5),
            _ => _ = chain.cas(at, value % 3, value % 7),
        }
    }
    ep.execute(&mut chain).await.expect("in bounds");
    trace.extend_from_slice(chain.data());
}

/// A random CPU access, wait or pause.
async fn cpu(ep: &SimEndpoint, layout: &Layout, trace: &mut Vec<u64>) {
    let node = usize::from(ep.node().0);
    let (order, value) = (Ordering::SeqCst, ep.random());
    let word = ep.random() % WORDS;
    let at = layout.words[node].word(word);
    let mut copy = vec![value; 1 + (ep.random() % (WORDS - word)) as usize];
    let wait = WaitFor::new("test: tick", layout.ticks[node]);
    match ep.random() % 9 {
        0 => trace.push(ep.load(at, order).await.expect("own")),
        1 => ep.store(at, value, order).await.expect("own"),
        2 => trace.push(ep.swap(at, value, order).await.expect("own")),
        3 => trace.push(ep.fetch_add(at, 1, order).await.expect("own")),
        4 => ep.store_words(at, &copy).await.expect("own"),
        5 => {
            ep.load_words(at, &mut copy).await.expect("own");
            trace.extend_from_slice(&copy);
        }
        6 => {
            let now = ep.load(wait.addr, order).await.expect("own");
            let line = ep
                .wait_until(wait.addr, 1, wait, |words| words[0] > now)
                .await
                .expect("ticks");
            trace.push(line[0]);
        }
        7 => {
            let tick = layout.ticks[value as usize % layout.ticks.len()];
            let backoff = PollBackoff {
                first_ns: value % 300,
                max_ns: 1_000,
            };
            let line = ep
                .poll_until(tick, 1, backoff, wait, |words| words[0] % 3 == 1)
                .await
                .expect("ticks");
            trace.push(line[0]);
        }
        _ => ep.work(value % 3_000).await,
    }
}

/// Runs the random program; in slices of `slice_ns` of virtual time, if there are any.
fn run(bed: SimBed, slice_ns: Option<u64>) -> Run {
    let mut map = MemoryMap::new(NODES);
    let mut reserve = |kind, words| -> Vec<_> {
        (0..NODES)
            .map(|node| map.reserve(NodeId(node), kind, words * 8, 64))
            .collect()
    };
    let words = reserve(MemoryKind::Host, WORDS);
    let ticks = reserve(MemoryKind::Host, 1);
    let layout = Rc::new(Layout {
        words,
        ticks,
        devices: reserve(MemoryKind::Device, WORDS),
    });
    let mut sim = Sim::new(&bed.config(), &map).expect("little memory");
    let traces = Rc::new(RefCell::new(Vec::new()));
    let left = Rc::new(Cell::new(u32::from(NODES * THREADS * COROUTINES)));
    for client in 0..NODES * THREADS * COROUTINES {
        let ep = sim.endpoint(NodeId(client % NODES), client / NODES % THREADS);
        let (layout, traces, left) = (Rc::clone(&layout), Rc::clone(&traces), Rc::clone(&left));
        sim.spawn(&ep.clone(), async move {
            let mut trace = Vec::new();
            for _ in 0..ROUNDS {
                if ep.random().is_multiple_of(2) {
                    verbs(&ep, &layout, &mut trace).await;
                } else {
                    cpu(&ep, &layout, &mut trace).await;
                }
                trace.push(ep.now());
            }
            traces.borrow_mut().push((ep.client().0, trace));
            left.set(left.get() - 1);
        });
    }
    for node in 0..NODES {
        let ep = sim.endpoint(NodeId(node), THREADS);
        let (layout, left) = (Rc::clone(&layout), Rc::clone(&left));
        sim.spawn(&ep.clone(), async move {
            while left.get() > 0 {
                ep.rdma_faa(layout.ticks[usize::from(node)], 1)
                    .await
                    .expect("in bounds");
                ep.sleep(ep.random() % 1_000).await;
            }
        });
    }
    match slice_ns {
        None => sim.run().expect("ends"),
        Some(slice) => {
            let mut until = 0;
            while !sim.run_until(until).expect("ends") {
                assert_eq!(sim.now_ns(), until, "a slice ends where it was asked to");
                until += slice;
            }
        }
    }
    let memory = (0..NODES)
        .map(|node| sim.host_words(NodeId(node)).to_vec())
        .collect();
    let mut traces = traces.take();
    traces.sort();
    Run {
        memory,
        traces: traces.into_iter().map(|(_, trace)| trace).collect(),
        stats: sim.stats(),
        end_ns: sim.now_ns(),
    }
}

fn beds(seed: u64) -> impl Iterator<Item = SimBed> {
    [(0, false), (5_000, false), (0, true), (5_000, true)]
        .into_iter()
        .map(move |(jitter_ns, hostile)| SimBed {
            profile: if seed == 4 { "cx5-100g" } else { "cx3-fdr" },
            seed,
            jitter_ns,
            hostile,
            swap: SwapKind::Cas,
            quick: false,
        })
}

#[test]
fn a_seed_gives_the_same_bytes() {
    for seed in 0..5 {
        for bed in beds(seed) {
            let once = run(bed, None);
            assert!(once == run(bed, None), "two runs of {bed:?} differ");
            assert!(
                once.stats.verbs > 500 && once.end_ns > 50_000,
                "a run that does something: {:?}",
                once.stats
            );
        }
    }
}

#[test]
fn another_seed_gives_other_bytes() {
    for (bed, other) in beds(1).zip(beds(2)) {
        let (one, other) = (run(bed, None), run(other, None));
        assert!(one.memory != other.memory, "{bed:?}: memory");
        assert!(one.stats != other.stats, "{bed:?}: statistics");
        for (one, other) in one.traces.iter().zip(&other.traces) {
            assert!(one != other, "{bed:?}: a client's trace");
        }
    }
}

#[test]
fn the_modes_differ() {
    let runs: Vec<_> = beds(7).map(|bed| run(bed, None)).collect();
    for (index, one) in runs.iter().enumerate() {
        assert!(
            runs[..index].iter().all(|other| other.traces != one.traces),
            "mode {index} changes nothing"
        );
    }
}

#[test]
fn slices_of_time_change_nothing() {
    for bed in beds(3) {
        let whole = run(bed, None);
        for slice_ns in [7, 777, 50_000] {
            assert!(
                whole == run(bed, Some(slice_ns)),
                "{bed:?} in slices of {slice_ns} ns"
            );
        }
    }
}
