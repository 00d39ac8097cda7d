//! The contract over real verbs, on whatever RDMA device this machine has: `cluster/lab/run` boots machines that have one.
//!
//! Without a device it says so on standard error and does nothing; with `DMTREE_VERBS=required` it fails.

#![cfg(feature = "verbs")]
#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dmtree_cluster::conformance::{ClientProgram, Memory, Scenario, TestBed, must_tests};
use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{self, Cluster, Key, Server, ServerConfig, ThreadConfig};
use dmtree_cluster::verbs::{
    Acceptor, ClientThread, Device, DeviceChoice, Exchange, VerbsEndpoint,
};
use dmtree_cluster::wall::ThreadOptions;
use dmtree_cluster::{ClientId, MemoryMap, NodeId, WaitBounds};

/// The device; none where there is none and none is required.
fn device() -> Option<Arc<Device>> {
    match Device::open(&DeviceChoice::default()) {
        Ok(device) => Some(Arc::new(device)),
        Err(error) => {
            assert!(
                std::env::var("DMTREE_VERBS").as_deref() != Ok("required"),
                "{error}"
            );
            // Not by a macro, whose output is shown of tests that fail only.
            let notice = format!("\n*** NOT TESTED: the contract over verbs: {error}\n\n");
            std::io::stderr().write_all(notice.as_bytes()).unwrap();
            None
        }
    }
}

struct VerbsBed {
    device: Arc<Device>,
    rounds: u64,
}

fn run_thread(
    device: &Arc<Device>,
    config: ThreadConfig,
    waits: WaitBounds,
    exchange: &Exchange,
    number: u16,
    own: Arc<Regions>,
    clients: Vec<(ClientId, ClientProgram<VerbsEndpoint>)>,
) -> Result<(), String> {
    let options = ThreadOptions {
        waits,
        ..config.options()
    };
    let mut tcp =
        tcp::ClientThread::connect(config, Arc::clone(&own)).map_err(|error| error.to_string())?;
    let mut thread = ClientThread::connect(device, &mut tcp, exchange, number, own, options)
        .map_err(|error| error.to_string())?;
    for (id, client) in clients {
        let endpoint = thread.endpoint(id);
        thread.spawn(&endpoint.clone(), (client.program)(endpoint));
    }
    thread.run().map_err(|error| error.to_string())
}

impl TestBed for VerbsBed {
    type Endpoint = VerbsEndpoint;

    fn rounds(&self) -> u64 {
        self.rounds
    }

    fn run(&self, scenario: Scenario<VerbsEndpoint>) -> Result<Memory, String> {
        let mut control = MemoryMap::new(scenario.map.nodes());
        let threads: Vec<u16> = scenario
            .clients
            .iter()
            .map(|client| client.thread)
            .collect();
        let most = threads.iter().max().map_or(1, |thread| thread + 1);
        let exchange = Exchange::reserve(&mut control, most);
        let key = Key::generate().unwrap();
        let cluster = Cluster::new("verbs", 1);
        let mut regions = Vec::new();
        let mut servers = Vec::new();
        for node in (0..control.nodes()).map(NodeId) {
            let own = Arc::new(Regions::zeroed(node, &scenario.map).unwrap());
            let asked = Arc::new(Regions::zeroed(node, &control).unwrap());
            let config = ServerConfig::new(key.clone(), cluster.clone());
            let server = Server::start(config, Arc::clone(&asked)).unwrap();
            let acceptor = Acceptor::start(&self.device, &own, asked, exchange.clone()).unwrap();
            regions.push(own);
            servers.push((server, acceptor));
        }
        for (addr, value) in &scenario.initial {
            let words = regions[usize::from(addr.node().0)].host_words();
            words[addr.offset() as usize / 8].store(*value, Ordering::SeqCst);
        }
        let peers = servers.iter().map(|(server, _)| Some(server.addr()));
        let mut config = ThreadConfig::new(peers.collect(), key, cluster);
        // A scenario's own bounds are not those of its set-up.
        config.waits = WaitBounds {
            report_ns: 5_000_000_000,
            limit_ns: 60_000_000_000,
        };
        let waits = scenario.waits.unwrap_or(config.waits);
        config.answer_limit = Duration::from_secs(30);
        let mut threads: BTreeMap<(NodeId, u16), Vec<_>> = BTreeMap::new();
        for (id, client) in scenario.clients.into_iter().enumerate() {
            let place = (client.node, client.thread);
            threads
                .entry(place)
                .or_default()
                .push((ClientId(id as u32), client));
        }
        std::thread::scope(|scope| {
            let handles: Vec<_> = threads
                .into_iter()
                .map(|((node, number), clients)| {
                    let own = Arc::clone(&regions[usize::from(node.0)]);
                    let (config, exchange, device) = (config.clone(), &exchange, &self.device);
                    scope.spawn(move || {
                        run_thread(device, config, waits, exchange, number, own, clients)
                    })
                })
                .collect();
            let joined = handles.into_iter().map(|handle| handle.join().unwrap());
            joined.collect::<Result<Vec<()>, String>>()
        })?;
        // A chain whose future was dropped may be on its way still.
        std::thread::sleep(Duration::from_millis(50));
        drop(servers);
        let words = regions.iter().map(|regions| {
            let words = regions.host_words().iter();
            words.map(|word| word.load(Ordering::SeqCst)).collect()
        });
        Ok(Memory::new(words.collect()))
    }
}

#[test]
fn the_contract_holds_over_verbs() {
    let Some(device) = device() else { return };
    let bed = VerbsBed { device, rounds: 50 };
    let mut failed = Vec::new();
    for test in must_tests() {
        let outcome = (test.run)(&bed);
        let verdict = match &outcome {
            Ok(()) => "ok".to_owned(),
            Err(violation) => format!("FAILS: {violation}"),
        };
        println!("{}: {verdict}", test.name);
        if outcome.is_err() {
            failed.push(test.name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
