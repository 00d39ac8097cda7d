//! A cluster over TCP as a bed for the conformance suite.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dmtree_cluster::conformance::{ClientProgram, Memory, Scenario, TestBed};
use dmtree_cluster::region::{Regions, Sizes};
use dmtree_cluster::tcp::{
    ClientThread, Cluster, Key, Server, ServerConfig, TcpEndpoint, ThreadConfig,
};
use dmtree_cluster::{ClientId, MemoryKind, MemoryMap, NodeId, WaitBounds};

/// The test that is a memory server when it is asked to be, by these variables.
const SERVER: &str = "bed::a_memory_server";
const FILE: &str = "DMTREE_TEST_FILE";
const KEY: &str = "DMTREE_TEST_KEY";
const NODE: &str = "DMTREE_TEST_NODE";
const SIZES: &str = "DMTREE_TEST_SIZES";

pub(crate) fn cluster() -> Cluster {
    Cluster::new("test", 1)
}

/// A memory server in a process of its own, whose memory is a file.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) addr: SocketAddr,
}

impl Process {
    pub(crate) fn start(node: NodeId, sizes: Sizes, file: &Path, key: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([SERVER, "--exact", "--ignored", "--nocapture"])
            .env(FILE, file)
            .env(KEY, key)
            .env(NODE, node.0.to_string())
            .env(SIZES, format!("{} {}", sizes.host, sizes.device))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = lines
            .map_while(Result::ok)
            .find_map(|line| line.split("listening at ").nth(1)?.trim().parse().ok());
        let addr = addr.expect("the server tells where it listens");
        Self { child, addr }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A map that wants these sizes of one node.
pub(crate) fn map_of(node: NodeId, sizes: Sizes) -> MemoryMap {
    let mut map = MemoryMap::new(node.0 + 1);
    for (kind, bytes) in [
        (MemoryKind::Host, sizes.host.saturating_sub(64)),
        (MemoryKind::Device, sizes.device),
    ] {
        if bytes > 0 {
            map.reserve(node, kind, bytes, 64);
        }
    }
    map
}

/// No test: what [`Process`] runs. It serves until its standard input ends, or it is killed.
#[test]
#[ignore = "a memory server, started by other tests"]
fn a_memory_server() {
    let variable = |name| std::env::var(name).unwrap();
    let node = NodeId(variable(NODE).parse().unwrap());
    let sizes: Vec<u64> = variable(SIZES)
        .split(' ')
        .map(|bytes| bytes.parse().unwrap())
        .collect();
    let sizes = Sizes {
        host: sizes[0],
        device: sizes[1],
    };
    let file = File::options()
        .read(true)
        .write(true)
        .open(variable(FILE))
        .unwrap();
    let regions = Regions::shared(node, &map_of(node, sizes), &file).unwrap();
    assert_eq!(regions.sizes(), sizes);
    let key = Key::read(Path::new(&variable(KEY))).unwrap();
    let server = Server::start(ServerConfig::new(key, cluster()), Arc::new(regions)).unwrap();
    println!("listening at {}", server.addr());
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

/// Where servers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    InThisProcess,
    InProcesses,
}

#[derive(Clone, Debug)]
pub(crate) struct TcpBed {
    pub(crate) servers: Servers,
    pub(crate) rounds: u64,
    pub(crate) native_swap: bool,
    /// Of servers in this process.
    pub(crate) tls: bool,
}

/// The servers of all nodes, with the memory that they serve.
struct Nodes {
    regions: Vec<Arc<Regions>>,
    addrs: Vec<SocketAddr>,
    _servers: Vec<Server>,
    _processes: Vec<Process>,
    _directory: tempfile::TempDir,
}

impl TcpBed {
    fn nodes(&self, map: &MemoryMap, key: &Key) -> Nodes {
        let directory = tempfile::tempdir().unwrap();
        let key_file = directory.path().join("key");
        key.write_new(&key_file).unwrap();
        let mut nodes = Nodes {
            regions: Vec::new(),
            addrs: Vec::new(),
            _servers: Vec::new(),
            _processes: Vec::new(),
            _directory: directory,
        };
        for node in (0..map.nodes()).map(NodeId) {
            let path: PathBuf = nodes._directory.path().join(format!("memory-{}", node.0));
            let file = File::options()
                .create_new(true)
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            let regions = Arc::new(Regions::shared(node, map, &file).unwrap());
            match self.servers {
                Servers::InThisProcess => {
                    let mut config = ServerConfig::new(key.clone(), cluster());
                    config.tls = self.tls;
                    let server = Server::start(config, Arc::clone(&regions)).unwrap();
                    nodes.addrs.push(server.addr());
                    nodes._servers.push(server);
                }
                Servers::InProcesses => {
                    let process = Process::start(node, regions.sizes(), &path, &key_file);
                    nodes.addrs.push(process.addr);
                    nodes._processes.push(process);
                }
            }
            nodes.regions.push(regions);
        }
        nodes
    }

    fn config(&self, nodes: &Nodes, key: &Key, waits: Option<WaitBounds>) -> ThreadConfig {
        let peers = nodes.addrs.iter().map(|addr| Some(*addr)).collect();
        let mut config = ThreadConfig::new(peers, key.clone(), cluster());
        config.native_swap = self.native_swap;
        config.tls = self.tls;
        config.waits = waits.unwrap_or(WaitBounds {
            report_ns: 2_000_000_000,
            limit_ns: 20_000_000_000,
        });
        config.answer_limit = Duration::from_secs(20);
        config
    }
}

/// Runs the clients of one thread of a node.
fn run_thread(
    config: ThreadConfig,
    own: Arc<Regions>,
    clients: Vec<(ClientId, ClientProgram<TcpEndpoint>)>,
) -> Result<(), String> {
    let mut thread = ClientThread::connect(config, own).map_err(|error| error.to_string())?;
    for (id, client) in clients {
        let endpoint = thread.endpoint(id);
        thread.spawn(&endpoint.clone(), (client.program)(endpoint));
    }
    thread.run().map_err(|error| error.to_string())
}

impl TestBed for TcpBed {
    type Endpoint = TcpEndpoint;

    fn rounds(&self) -> u64 {
        self.rounds
    }

    fn run(&self, scenario: Scenario<TcpEndpoint>) -> Result<Memory, String> {
        let key = Key::generate().unwrap();
        let nodes = self.nodes(&scenario.map, &key);
        for (addr, value) in &scenario.initial {
            let words = nodes.regions[usize::from(addr.node().0)].host_words();
            words[addr.offset() as usize / 8].store(*value, Ordering::SeqCst);
        }
        let config = self.config(&nodes, &key, scenario.waits);
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
                .map(|((node, _), clients)| {
                    let own = Arc::clone(&nodes.regions[usize::from(node.0)]);
                    let config = config.clone();
                    scope.spawn(move || run_thread(config, own, clients))
                })
                .collect();
            let joined = handles.into_iter().map(|handle| handle.join().unwrap());
            joined.collect::<Result<Vec<()>, String>>()
        })?;
        // A chain whose future was dropped may be on its way still: its queue pair is closed, and the server sees the
        // end of it only behind the last frame.
        std::thread::sleep(Duration::from_millis(20));
        let words = |regions: &Arc<Regions>| {
            let words = regions.host_words().iter();
            words.map(|word| word.load(Ordering::SeqCst)).collect()
        };
        Ok(Memory::new(nodes.regions.iter().map(words).collect()))
    }
}
