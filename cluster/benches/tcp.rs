//! The fabric over TCP against what the sockets alone can do, in one run: look at ratios, not at times.

#![allow(missing_docs)] // criterion's macros
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group};
use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{ClientThread, Cluster, Key, Server, ServerConfig, ThreadConfig};
use dmtree_cluster::{Chain, ClientId, Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};

/// Bytes of a READ of 8 bytes on the wire, there and back.
const REQUEST: usize = 24;
const RESPONSE: usize = 16;

/// A thread that answers requests by bytes without sense.
fn ping_pong_server() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut request = [0; REQUEST];
        while stream.read_exact(&mut request).is_ok() {
            if stream.write_all(&[7; RESPONSE]).is_err() {
                return;
            }
        }
    });
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

struct Fabric {
    _server: Server,
    regions: Arc<Regions>,
    config: ThreadConfig,
    at: GlobalAddr,
}

fn fabric() -> Fabric {
    let mut map = MemoryMap::new(1);
    let at = map.reserve(NodeId(0), MemoryKind::Host, 1 << 16, 64);
    let regions = Arc::new(Regions::zeroed(NodeId(0), &map).unwrap());
    let key = Key::generate().unwrap();
    let cluster = Cluster::new("bench", 1);
    let config = ServerConfig::new(key.clone(), cluster.clone());
    let server = Server::start(config, Arc::clone(&regions)).unwrap();
    let config = ThreadConfig::new(vec![Some(server.addr())], key, cluster);
    Fabric {
        _server: server,
        regions,
        config,
        at,
    }
}

/// How long `rounds` chains of `verbs` READs of 8 bytes take, one after the other, of each of `clients` clients.
fn reads(
    thread: &mut ClientThread,
    at: GlobalAddr,
    clients: u32,
    verbs: u64,
    rounds: u64,
) -> Duration {
    let took = Rc::new(Cell::new(Duration::ZERO));
    let begun = Instant::now();
    for client in 0..clients {
        let ep = thread.endpoint(ClientId(client));
        let took = Rc::clone(&took);
        thread.spawn(&ep.clone(), async move {
            let mut chain = Chain::new();
            for round in 0..rounds {
                chain.clear();
                for verb in 0..verbs {
                    chain.read(at.word((round + verb) % 1024), 8);
                }
                ep.execute(&mut chain).await.unwrap();
            }
            took.set(begun.elapsed());
        });
    }
    thread.run().unwrap();
    took.get()
}

fn round_trips(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tcp round trip");
    let mut stream = ping_pong_server();
    group.bench_function("bare ping-pong of the same sizes", |bencher| {
        bencher.iter(|| {
            stream.write_all(&[1; REQUEST]).unwrap();
            let mut response = [0; RESPONSE];
            stream.read_exact(&mut response).unwrap();
        });
    });
    let fabric = fabric();
    let mut thread =
        ClientThread::connect(fabric.config.clone(), Arc::clone(&fabric.regions)).unwrap();
    group.bench_function("READ of 8 bytes", |bencher| {
        bencher.iter_custom(|rounds| reads(&mut thread, fabric.at, 1, 1, rounds));
    });
    group.finish();
}

fn chains(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tcp chains");
    let fabric = fabric();
    for (clients, verbs) in [(1, 32), (8, 32), (32, 1)] {
        let mut thread =
            ClientThread::connect(fabric.config.clone(), Arc::clone(&fabric.regions)).unwrap();
        group.throughput(Throughput::Elements(u64::from(clients) * verbs));
        group.bench_function(format!("{clients} clients, chains of {verbs}"), |bencher| {
            bencher.iter_custom(|rounds| reads(&mut thread, fabric.at, clients, verbs, rounds));
        });
    }
    group.finish();
}

/// Batches of both kinds in turn: what disturbs the machine disturbs both.
fn ratio() {
    const BATCHES: usize = 200;
    const ROUNDS: u64 = 500;
    let mut stream = ping_pong_server();
    let fabric = fabric();
    let mut thread =
        ClientThread::connect(fabric.config.clone(), Arc::clone(&fabric.regions)).unwrap();
    let mut pairs: Vec<(f64, f64)> = (0..BATCHES)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..ROUNDS {
                stream.write_all(&[1; REQUEST]).unwrap();
                stream.read_exact(&mut [0; RESPONSE]).unwrap();
            }
            let bare = begun.elapsed();
            let read = reads(&mut thread, fabric.at, 1, 1, ROUNDS);
            let us = |time: Duration| time.as_secs_f64() * 1e6 / ROUNDS as f64;
            (us(bare), us(read))
        })
        .collect();
    pairs.sort_by(|one, other| (one.1 / one.0).total_cmp(&(other.1 / other.0)));
    let ratio = |at: usize| pairs[at].1 / pairs[at].0;
    let mut bare: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let mut read: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    bare.sort_by(f64::total_cmp);
    read.sort_by(f64::total_cmp);
    println!(
        "READ of 8 bytes against a bare ping-pong of the same sizes, {BATCHES} pairs of batches: {:.2} times as long \
         (median; {:.2} to {:.2} for the middle half); medians {:.2} us and {:.2} us",
        ratio(BATCHES / 2),
        ratio(BATCHES / 4),
        ratio(BATCHES * 3 / 4),
        read[BATCHES / 2],
        bare[BATCHES / 2],
    );
}

criterion_group!(benches, round_trips, chains);

fn main() {
    // What `cargo test` runs of a benchmark is only whether it runs.
    if std::env::args().any(|arg| arg == "--bench") {
        ratio();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
