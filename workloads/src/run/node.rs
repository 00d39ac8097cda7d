//! One node's part of a run in real time: its memory, its tree where it has one, and its clients.

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{ClientThread, Cluster, Key, Server, ServerConfig, ThreadConfig};
use dmtree_cluster::{ClientId, GlobalAddr, NodeId, WaitBounds};
use dmtree_index::{IndexCache, LoadedTree, Tree, TreeOptions};

use super::clients::{client_places, places_of_keys};
use super::{RunPlan, SERVER, WorkPlan, nanos};
use crate::distribution::KeyChooser;
use crate::driver::{ClientTask, Outcome, Schedule, drive, loaded_key};
use crate::error::{Failure, Result};
use crate::real::control::Control;
use crate::real::nodes::Nodes;
use crate::real::report::NodeReport;
use crate::settings::choice::Swap;

/// Between the signal to begin and the first client: all threads have heard of it by then.
const AHEAD: Duration = Duration::from_millis(20);
/// How long nodes wait for each other's reports beyond the run itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which node, of which cluster, in which run.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) node: NodeId,
    pub(crate) key: Key,
    pub(crate) cluster: Cluster,
    /// How long to wait for the others to come up.
    pub(crate) patience: Duration,
}

/// The signal to a client thread.
#[derive(Clone, Copy)]
struct Go {
    schedule: Schedule,
}

impl RunPlan<'_> {
    /// Does the part of `place`'s node, and ends when all nodes have. On node 0 it returns what all have measured, on
    /// others what its own clients have.
    ///
    /// # Errors
    /// [`Failure::Work`] naming the peer that is missing or gone before anything could be measured.
    pub(crate) fn execute_on_node(&self, place: &Place<'_>) -> Result<NodeReport> {
        let failed = |why: String| Failure::Work(format!("{}: {why}", place.node));
        let mut map = self.map.clone();
        let control = Control::reserve(&mut map);
        let regions = Regions::zeroed(place.node, &map)
            .map_err(|error| failed(format!("cannot get its memory: {error}")))?;
        let regions = Arc::new(regions);
        let loaded = self.load_node(place, &regions)?;
        let addresses = place.nodes.addresses()?;
        let mut config = ServerConfig::new(place.key.clone(), place.cluster.clone());
        config.listen = addresses[usize::from(place.node.0)];
        let server = Server::start(config, Arc::clone(&regions))
            .map_err(|error| Failure::Usage(format!("{}: {error}", place.node)))?;
        let origin = Instant::now();
        let peers = addresses.into_iter().map(Some).collect();
        let thread = self.thread_config(place, peers, origin);

        let report = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..self.settings.threads {
                if !place.nodes.computes(place.node) {
                    break;
                }
                let (go, heard) = mpsc::channel::<Go>();
                let (ready, is_ready) = mpsc::channel::<std::result::Result<(), String>>();
                let (config, own, loaded) = (thread.clone(), Arc::clone(&regions), &loaded);
                let handle = scope.spawn(move || {
                    self.run_thread(place.node, number, config, own, loaded, &ready, &heard)
                });
                threads.push((go, is_ready, handle));
            }
            for (_, is_ready, _) in &threads {
                let connected = is_ready.recv();
                connected
                    .map_err(|_| "a client thread has ended early".to_owned())
                    .and_then(|connected| connected)
                    .map_err(failed)?;
            }
            self.conduct(place, thread, &regions, control, threads)
        });
        drop(server);
        report
    }

    fn thread_config(
        &self,
        place: &Place<'_>,
        peers: Vec<Option<std::net::SocketAddr>>,
        origin: Instant,
    ) -> ThreadConfig {
        let limit_ns = nanos(self.settings.wait_limit);
        let mut config = ThreadConfig::new(peers, place.key.clone(), place.cluster.clone());
        config.seed = self.spec.seed;
        config.origin = origin;
        config.connect_limit = place.patience;
        config.native_swap = self.settings.swap == Swap::Native;
        config.waits = WaitBounds {
            report_ns: 1_000_000_000.min(limit_ns),
            limit_ns,
        };
        config
    }

    /// Loads the tree on the memory server; elsewhere only its inner pages, for the index cache.
    fn load_node(&self, place: &Place<'_>, regions: &Regions) -> Result<Option<LoadedTree>> {
        let WorkPlan::Tree(tree, ..) = &self.work else {
            return Ok(None);
        };
        let is_server = place.node == SERVER;
        let words = regions.host_words();
        let mut sink = |addr: GlobalAddr, page: &[u64]| {
            if is_server {
                let from = (addr.offset() / 8) as usize;
                for (word, value) in words[from..].iter().zip(page) {
                    word.store(*value, std::sync::atomic::Ordering::Relaxed);
                }
            }
            Ok(())
        };
        let pairs = (0..self.settings.keys).map(|index| (loaded_key(index), index));
        let loaded = tree
            .load(pairs, &mut sink)
            .map_err(|error| self.failure(error))?;
        Ok(Some(loaded))
    }

    /// Begins all nodes' clients together, and gathers what they have measured.
    #[expect(clippy::type_complexity)] // What a thread is talked to by, in one place only.
    fn conduct(
        &self,
        place: &Place<'_>,
        config: ThreadConfig,
        regions: &Arc<Regions>,
        control: Control,
        threads: Vec<(
            mpsc::Sender<Go>,
            mpsc::Receiver<std::result::Result<(), String>>,
            std::thread::ScopedJoinHandle<'_, NodeReport>,
        )>,
    ) -> Result<NodeReport> {
        let failed = |why: String| Failure::Work(format!("{}: {why}", place.node));
        let settings = self.settings;
        let whole = settings.warmup + settings.window + settings.window / 10;
        let mut config = config;
        // What is waited for here takes as long as the run.
        config.waits = WaitBounds {
            report_ns: u64::MAX,
            limit_ns: nanos(whole + place.patience + PATIENCE),
        };
        let origin = config.origin;
        let began = on_control(config.clone(), regions, {
            let patience = place.patience;
            move |ep| async move { control.begin(&ep, patience).await }
        });
        began.and_then(|began| began).map_err(failed)?;
        let start = nanos(origin.elapsed() + AHEAD);
        let schedule = Schedule::new(
            start,
            nanos(settings.stagger),
            nanos(settings.warmup),
            nanos(settings.window),
        );
        let mut report = NodeReport::default();
        for (go, ..) in &threads {
            // One that has ended tells why below.
            let _ = go.send(Go { schedule });
        }
        for (_, _, handle) in threads {
            match handle.join() {
                Ok(measured) => report.merge(&measured),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let bytes = report.to_bytes().map_err(failed)?;
        let own = Arc::clone(regions);
        let gathered = on_control(config, regions, move |ep| async move {
            if place_is_server(&ep) {
                let others = control.collect(&ep, &own, PATIENCE + whole).await;
                // Who is gone does not hear it; who is there does.
                let _ = control.end(&ep).await;
                Ok(others)
            } else {
                control.deliver(&ep, &bytes).await.map(|()| Vec::new())
            }
        });
        match gathered.and_then(|gathered| gathered) {
            Ok(others) => {
                for (number, other) in others.into_iter().enumerate() {
                    let node = NodeId(number as u16 + 1);
                    match other.and_then(|bytes| NodeReport::from_bytes(&bytes)) {
                        Ok(other) => report.merge(&other),
                        Err(why) if report.failure.is_none() => {
                            report.failure = Some(format!("{node}: {why}"));
                        }
                        Err(_) => {}
                    }
                }
            }
            // What was measured here is worth having all the same.
            Err(why) if report.failure.is_none() => report.failure = Some(why),
            Err(_) => {}
        }
        Ok(report)
    }

    /// The clients of one thread.
    #[expect(clippy::too_many_arguments)] // All of them are the thread's own.
    fn run_thread(
        &self,
        node: NodeId,
        number: u16,
        config: ThreadConfig,
        own: Arc<Regions>,
        loaded: &Option<LoadedTree>,
        ready: &mpsc::Sender<std::result::Result<(), String>>,
        heard: &mpsc::Receiver<Go>,
    ) -> NodeReport {
        let mut thread = match ClientThread::connect(config, own) {
            Ok(thread) => thread,
            Err(error) => {
                let _ = ready.send(Err(error.to_string()));
                return NodeReport::default();
            }
        };
        let _ = ready.send(Ok(()));
        // The conductor has given up, and tells why.
        let Ok(Go { schedule }) = heard.recv() else {
            return NodeReport::default();
        };
        let outcome = Rc::new(Outcome::default());
        let spawned = self.spawn_on(&mut thread, node, number, loaded, schedule, &outcome);
        let ran = thread.run();
        let (local, remote) = outcome.latencies();
        let failure = outcome.failure().map(|(client, why, all)| match all {
            1 => format!("{client} on {node}: {why}"),
            all => format!("{client} on {node}: {why} ({all} clients of its thread gave up)"),
        });
        NodeReport {
            local,
            remote,
            growth: outcome.growth(),
            verbs: thread.verbs(),
            failure: failure
                .or(ran.err().map(|error| error.to_string()))
                .or(spawned.err()),
        }
    }

    fn spawn_on(
        &self,
        thread: &mut ClientThread,
        node: NodeId,
        number: u16,
        loaded: &Option<LoadedTree>,
        schedule: Schedule,
        outcome: &Rc<Outcome>,
    ) -> std::result::Result<(), String> {
        let settings = self.settings;
        let (WorkPlan::Tree(tree, distribution, data_path), Some(loaded)) = (&self.work, loaded)
        else {
            return Err("locks alone are measured in virtual time only".to_owned());
        };
        let budget = usize::try_from(settings.cache_budget).unwrap_or(usize::MAX);
        let cache = if settings.prefill_cache {
            IndexCache::prefilled_with_budget(Arc::clone(&loaded.index), budget)
        } else {
            IndexCache::with_budget(budget)
        };
        let cache = Arc::new(cache);
        let task = ClientTask {
            seed: self.spec.seed,
            server: SERVER,
            keys: KeyChooser::new(*distribution, places_of_keys(settings)),
            mix: settings.mix.clone(),
            schedule,
        };
        let places = client_places(settings).enumerate();
        for (client, _) in places.filter(|(_, place)| *place == (node, number)) {
            let client = ClientId(client as u32);
            let endpoint = thread.endpoint(client);
            let lock = self.locks.client(client, None);
            let client_tree = Tree::new(
                endpoint.clone(),
                lock,
                Arc::clone(tree.meta()),
                self.locks.table().clone(),
                Arc::clone(&cache),
                TreeOptions {
                    // The CPU that runs it takes what it takes.
                    search_ns: 0,
                    lookup_ns: 0,
                    ..TreeOptions::new(*data_path)
                },
            );
            thread.spawn(
                &endpoint,
                drive(task.clone(), client_tree, Rc::clone(outcome)),
            );
        }
        Ok(())
    }
}

fn place_is_server(ep: &impl dmtree_cluster::Endpoint) -> bool {
    ep.node() == SERVER
}

/// Runs one program on a connection of its own.
fn on_control<T: 'static, F: Future<Output = T> + 'static>(
    config: ThreadConfig,
    regions: &Arc<Regions>,
    program: impl FnOnce(dmtree_cluster::tcp::TcpEndpoint) -> F,
) -> std::result::Result<T, String> {
    let mut thread =
        ClientThread::connect(config, Arc::clone(regions)).map_err(|error| error.to_string())?;
    // No client of the workload has this number.
    let endpoint = thread.endpoint(ClientId(u32::MAX));
    let result = Rc::new(std::cell::RefCell::new(None));
    let found = Rc::clone(&result);
    let program = program(endpoint.clone());
    thread.spawn(&endpoint, async move {
        let value = program.await;
        *found.borrow_mut() = Some(value);
    });
    thread.run().map_err(|error| error.to_string())?;
    result
        .take()
        .ok_or_else(|| "what all nodes do together was not done".to_owned())
}
