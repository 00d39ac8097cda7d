//! One node's part of a run in real time: its memory, its tree where it has one, and its clients.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{ClientThread, Cluster, Key, Server, ServerConfig, ThreadConfig};
use dmtree_cluster::wall::{self, QueuePairs};
use dmtree_cluster::{ClientId, ErrorKind, GlobalAddr, NodeId, WaitBounds};
use dmtree_index::{IndexCache, LoadedTree, Tree, TreeOptions};

use super::clients::{cache_of_node, client_places, places_of_keys};
use super::{RunPlan, SERVER, WorkPlan, nanos};
use crate::distribution::KeyChooser;
use crate::driver::{ClientTask, Outcome, Schedule, drive, loaded_key};
use crate::error::{Failure, Result};
use crate::real::afterwards::Check;
use crate::real::conductor::{Cast, Limits, Played, conduct, connect};
use crate::real::control::Control;
use crate::real::crew::{Crew, Order, Times};
use crate::real::nodes::Nodes;
use crate::real::rdma::{DeviceFlags, Rdma};
use crate::real::report::NodeReport;
use crate::real::told::Told;
use crate::settings::choice::{Fabric, Swap};

/// Which node, of which cluster, in which run.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) node: NodeId,
    pub(crate) key: Key,
    pub(crate) cluster: Cluster,
    pub(crate) limits: Limits,
    pub(crate) device: DeviceFlags,
    pub(crate) told: Told,
}

/// What a thread of clients has.
struct Station {
    own: (NodeId, u16),
    config: ThreadConfig,
    regions: Arc<Regions>,
    cache: Arc<IndexCache>,
    control: Control,
    /// Over RDMA, if it is.
    rdma: Option<Rdma>,
}

/// Tells the crew that a thread has ended, however it does.
struct Attendance<'a> {
    crew: &'a Crew,
    report: NodeReport,
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report.failure = Some("a thread of clients has panicked".to_owned());
        }
        self.crew.has_done(std::mem::take(&mut self.report));
    }
}

/// Serves the node's memory.
fn serve(place: &Place<'_>, cluster: &Cluster, regions: &Arc<Regions>) -> Result<Server> {
    let mut config = ServerConfig::new(place.key.clone(), cluster.clone());
    config.tls = place.nodes.tls;
    config.listen = place.nodes.addresses()?[usize::from(place.node.0)];
    Server::start(config, Arc::clone(regions)).map_err(|error| {
        Failure::Usage(format!(
            "{}: {error}; its address in [[cluster.nodes]] is to be one of this machine, and free",
            place.node
        ))
    })
}

impl RunPlan<'_> {
    /// Does the part of `place`'s node, and ends when all nodes have.
    ///
    /// # Errors
    /// [`Failure::Usage`] when its address cannot be listened at, [`Failure::Work`] naming the peer that is missing, of
    /// another cluster, or gone before anything could be measured.
    pub(crate) fn execute_on_node(&self, place: &Place<'_>) -> Result<Played> {
        let failed = |why: String| Failure::Work(format!("{}: {why}", place.node));
        let mut map = self.map.clone();
        let control = Control::reserve(&mut map);
        let settings = self.settings;
        let rdma = (settings.fabric == Fabric::Verbs)
            .then(|| Rdma::reserve(&place.device, &mut map, settings.threads))
            .transpose()?;
        let regions = Regions::zeroed(place.node, &map)
            .map_err(|error| failed(format!("cannot get its memory: {error}")))?;
        let regions = Arc::new(regions);
        let WorkPlan::Tree(tree, ..) = &self.work else {
            return Err(failed(
                "locks alone are measured in virtual time only".to_owned(),
            ));
        };
        let loaded = self.load_node(place.node, &regions)?;
        let cache = cache_of_node(self.settings, &loaded);
        drop(loaded);
        let mut cluster = place.cluster.clone();
        // Node 0 serves before anybody connects. The others learn from it which run this is before they serve.
        let reach = |cluster: &Cluster| {
            let config = self.thread_config(place, cluster)?;
            connect(&config, &regions).map_err(|error| match error.kind() {
                ErrorKind::PeerDiffers { .. } => Failure::Usage(format!("{}: {error}", place.node)),
                _ => failed(error.to_string()),
            })
        };
        let (_server, control_thread) = if place.node == SERVER {
            let server = serve(place, &cluster, &regions)?;
            (server, reach(&cluster)?)
        } else {
            let thread = reach(&cluster)?;
            cluster.epoch = thread.epoch_of(SERVER).unwrap_or(cluster.epoch);
            (serve(place, &cluster, &regions)?, thread)
        };
        // It ends before the server does: by it others ask to be connected.
        let _acceptor = rdma.as_ref().map(|rdma| rdma.serve(&regions)).transpose()?;
        let config = self.thread_config(place, &cluster)?;
        let threads = if place.nodes.computes(place.node) {
            settings.threads
        } else {
            0
        };
        let times = Times {
            stagger: settings.stagger,
            warmup: settings.warmup,
            window: settings.window,
        };
        let (crew, receivers) = Crew::new(config.origin, times, usize::from(threads));
        let crew = Arc::new(crew);
        let check = Check {
            meta: Arc::clone(tree.meta()),
            cache: Arc::clone(&cache),
            regions: Arc::clone(&regions),
            keys: settings.keys,
            server_bytes: map.bytes(SERVER, dmtree_cluster::MemoryKind::Host),
            is_wanted: settings.verify,
        };

        let played = std::thread::scope(|scope| {
            for (number, heard) in receivers.into_iter().enumerate() {
                let station = Station {
                    own: (place.node, number as u16),
                    config: config.clone(),
                    regions: Arc::clone(&regions),
                    cache: Arc::clone(&cache),
                    control,
                    rdma: rdma.clone(),
                };
                let crew = &crew;
                scope.spawn(move || {
                    let mut attendance = Attendance {
                        crew,
                        report: NodeReport::default(),
                    };
                    attendance.report = self.work_at(&station, crew, &heard);
                });
            }
            let cast = Cast {
                nodes: config.peers.len(),
                regions: Arc::clone(&regions),
                control,
                crew: Arc::clone(&crew),
                limits: place.limits,
                told: place.told.clone(),
            };
            conduct(control_thread, cast, check)
        });
        played.map_err(failed)
    }

    /// Pages and locks are on the first node, descriptors on those of their clients: all are peers.
    fn thread_config(&self, place: &Place<'_>, cluster: &Cluster) -> Result<ThreadConfig> {
        let peers = place.nodes.addresses()?.into_iter().map(Some).collect();
        let limit_ns = nanos(self.settings.wait_limit);
        let mut config = ThreadConfig::new(peers, place.key.clone(), cluster.clone());
        config.tls = place.nodes.tls;
        config.seed = self.spec.seed;
        config.origin = Instant::now();
        config.connect_limit = place.limits.patience;
        config.answer_limit = place.limits.peer;
        config.abort = place.told.connecting();
        config.native_swap = self.settings.swap == Swap::Native;
        config.waits = WaitBounds {
            report_ns: 1_000_000_000.min(limit_ns),
            limit_ns,
        };
        Ok(config)
    }

    /// Loads the tree on the memory server; elsewhere only its inner pages, for the index cache.
    fn load_node(&self, node: NodeId, regions: &Regions) -> Result<LoadedTree> {
        let WorkPlan::Tree(tree, ..) = &self.work else {
            return Err(self.failure("there is no tree to load"));
        };
        let words = regions.host_words();
        let mut sink = |addr: GlobalAddr, page: &[u64]| {
            if node == SERVER {
                let from = (addr.offset() / 8) as usize;
                for (word, value) in words[from..].iter().zip(page) {
                    // Nobody reads it yet: the server begins later.
                    word.store(*value, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        let pairs = (0..self.settings.keys).map(|index| (loaded_key(index), index));
        tree.load(pairs, &mut sink)
            .map_err(|error| self.failure(error))
    }

    /// What one thread does: the clients that are its own, from the beginning to the end of the run.
    fn work_at(&self, station: &Station, crew: &Crew, heard: &mpsc::Receiver<Order>) -> NodeReport {
        // Else the run ends before it has begun, and who conducts it tells why.
        let Ok(Order::Connect) = heard.recv() else {
            return NodeReport::default();
        };
        let failed = |error: dmtree_cluster::Error| NodeReport {
            failure: Some(error.to_string()),
            ..NodeReport::default()
        };
        let own = || Arc::clone(&station.regions);
        let mut tcp = match ClientThread::connect(station.config.clone(), own()) {
            Ok(thread) => thread,
            Err(error) => return failed(error),
        };
        let Some(rdma) = &station.rdma else {
            return self.work_on(tcp, station, crew, heard);
        };
        let options = station.config.options();
        match rdma.connect(&mut tcp, station.own.1, own(), options) {
            Ok(thread) => self.work_on(thread, station, crew, heard),
            Err(error) => failed(error),
        }
    }

    /// The same once the thread has its connections, whatever they are.
    fn work_on<Q: QueuePairs + 'static>(
        &self,
        thread: wall::ClientThread<Q>,
        station: &Station,
        crew: &Crew,
        heard: &mpsc::Receiver<Order>,
    ) -> NodeReport {
        let mut thread = thread.with_abort(crew.aborting());
        crew.has_connected();
        let Ok(Order::Begin(schedule)) = heard.recv() else {
            return NodeReport::default();
        };
        let outcome = if self.settings.verify {
            Outcome::with_history_by(station.control.ticks())
        } else {
            Outcome::default()
        };
        let outcome = Rc::new(outcome.stopping_by(crew.stopping()));
        self.spawn_at(station, &mut thread, schedule, &outcome);
        let ran = thread.run();
        let (local, remote) = outcome.latencies();
        let node = station.own.0;
        let failure = outcome.failure().map(|(client, why, all)| match all {
            1 => format!("{client} on {node}: {why}"),
            all => format!("{client} on {node}: {why} ({all} clients of its thread gave up)"),
        });
        NodeReport {
            local,
            remote,
            growth: outcome.growth(),
            verbs: thread.verbs(),
            failure: failure.or(ran.err().map(|error| error.to_string())),
            history: self.settings.verify.then(|| outcome.take_history()),
            ..NodeReport::default()
        }
    }

    fn spawn_at<Q: QueuePairs + 'static>(
        &self,
        station: &Station,
        thread: &mut wall::ClientThread<Q>,
        schedule: Schedule,
        outcome: &Rc<Outcome>,
    ) {
        let settings = self.settings;
        let WorkPlan::Tree(tree, distribution, data_path) = &self.work else {
            return;
        };
        let task = ClientTask {
            seed: self.spec.seed,
            server: SERVER,
            keys: KeyChooser::new(*distribution, places_of_keys(settings)),
            mix: settings.mix.clone(),
            schedule,
        };
        let places = client_places(settings).enumerate();
        for (client, _) in places.filter(|(_, place)| *place == station.own) {
            let client = ClientId(client as u32);
            let endpoint = thread.endpoint(client);
            let client_tree = Tree::new(
                endpoint.clone(),
                self.locks.client(client, None),
                Arc::clone(tree.meta()),
                self.locks.table().clone(),
                Arc::clone(&station.cache),
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
    }
}
