//! `dmtree node`: one node of a cluster, in this process.

use std::path::PathBuf;
use std::time::Duration;

use dmtree_cluster::NodeId;
use dmtree_cluster::tcp::{Cluster, Key};

use super::conductor::Limits;
use super::given::Given;
use super::nodes::{Nodes, Role};
use super::rdma::{DeviceFlags, WITHOUT};
use super::report::NodeReport;
use super::told::Told;
use crate::command::{BENCH, Command};
use crate::console::Console;
use crate::error::{Failure, Result};
use crate::jobs::threads_for;
use crate::perform::{check_outputs, deliver};
use crate::plan::Plan;
use crate::run::{Partial, Place, RunOutcome, RunPlan, RunSpec, SERVER, runs_of};
use crate::settings::choice::Fabric;
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::value::Bounded;
use crate::settings::{Options, Settings, config_text, read_config};

/// Long enough to begin a few processes by hand.
const PATIENCE: Duration = Duration::from_secs(60);
/// Far longer than a process of an overloaded machine is not scheduled.
const PEER_LIMIT: Duration = Duration::from_secs(5);

/// What a `dmtree node` is told beside the options of the run.
#[derive(Clone, Debug)]
pub struct NodeWanted {
    /// The config file of all nodes; none of nodes that are given it by their standard input.
    pub config: Option<PathBuf>,
    /// Which of them this process is.
    pub node: u16,
    /// The number of the run, of node 0 that of the first: processes with another one are of another run, and refused.
    /// None of nodes that take part in whichever node 0 is in.
    pub run: Option<u64>,
    /// How many runs, one after the other; 0 for as many as come until it is told to end.
    pub runs: u64,
    /// The only role that it is to have; whatever the file says where none is given.
    pub only: Option<Role>,
    /// How long to wait for the others to come, if not as the file says.
    pub patience: Option<PositiveTime>,
    /// How long to wait for a sign of life of one that has come, if not as the file says.
    pub peer_limit: Option<PositiveTime>,
    /// Its RDMA device, where it is not as the file says.
    pub device: DeviceFlags,
}

/// What holds in real time where nothing is said: small enough for a laptop with a few cores.
pub(crate) fn defaults() -> Options {
    Options {
        threads: Some(Bounded::new(2)),
        keys: Some(Bounded::new(1_000_000)),
        seconds: Some(PositiveTime::from_ns(2_000_000_000)),
        warmup: Some(Time::from_ns(500_000_000)),
        ..Options::default()
    }
}

/// Whether nothing was given that only a simulated cluster has.
///
/// # Errors
/// [`Failure::Usage`] naming the flag.
pub(crate) fn check_real(given: &Options) -> Result<()> {
    let simulated = [
        ("--profile", given.profile.is_some()),
        ("--set", !given.set.is_empty()),
        ("--jitter", given.jitter.is_some()),
        ("--hostile", given.hostile.is_some()),
        ("--qp-cache", given.qp_cache.is_some()),
        ("--search-time", given.search_time.is_some()),
        ("--lock-memory", given.lock_memory.is_some()),
        ("--trace", given.trace.is_some()),
        ("--timeline", given.timeline.is_some()),
        (
            "--resume",
            given.resume.is_some_and(|resume| resume.is_on()),
        ),
    ];
    if let Some((flag, _)) = simulated.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::Usage(format!(
            "{flag}: it is for the simulated cluster; over TCP and RDMA time is real: leave it out"
        )));
    }
    match given.fabric {
        Some(Fabric::Sim) => Err(Failure::Usage(
            "--fabric sim: the nodes of a cluster are processes, over tcp or verbs; bench and figure simulate".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// The options of a run in real time; of those that were given, none is of the simulation only.
pub(crate) fn real_options(given: Options, nodes: u16) -> Result<Options> {
    check_real(&given)?;
    if given.fabric == Some(Fabric::Verbs) && !cfg!(feature = "verbs") {
        return Err(Failure::Usage(WITHOUT.to_owned()));
    }
    let count = Bounded::new(u64::from(nodes));
    if given.nodes.is_some_and(|given| given != count) {
        return Err(Failure::Usage(format!(
            "--nodes {}: the cluster has {nodes}",
            given.nodes.map_or(0, Bounded::get)
        )));
    }
    Ok(Options {
        nodes: Some(count),
        fabric: given.fabric.or(Some(Fabric::Tcp)),
        ..given
    })
}

/// The settings of the one run that `options` ask for, by `command`.
fn plan_of_one(command: &'static Command, options: Options) -> Result<(Plan, RunSpec)> {
    let plan = Plan::with_defaults(command, options, defaults())?;
    let mut runs = runs_of(plan.base());
    match (plan.parts().len(), runs.len()) {
        (1, 1) => {}
        (_, runs) => {
            return Err(Failure::Usage(format!(
                "a node takes part in one run, and these are {runs}: give one --lock, one --distribution, one --data-path \
                 and one seed; dmtree cluster makes several, one after the other"
            )));
        }
    }
    let spec = runs.remove(0);
    Ok((plan, spec))
}

/// What all processes have to have in common, a setting a line: every option that can change a result, and the nodes.
fn in_common(nodes: &Nodes, settings: &Settings) -> Result<String> {
    let mut text = config_text(&settings.options)?;
    text += &format!("verify = {}\n", settings.verify);
    for (number, node) in nodes.nodes.iter().enumerate() {
        text += &format!("node {number} = {} as {:?}\n", node.address, node.roles);
    }
    Ok(text)
}

/// Takes part in a run as one node; `given` are the flags, which win over the file.
///
/// # Errors
/// [`Failure::Usage`] before anything has begun, [`Failure::Work`] when a peer is missing or gone.
pub fn perform(wanted: &NodeWanted, given: Options, only_print: bool) -> Result<()> {
    let source = Source::read(wanted)?;
    let nodes = &source.nodes;
    let node = NodeId(wanted.node);
    restrict(&source, node, wanted)?;
    let options = real_options(given.or(source.options.clone()), nodes.count())?;
    let (plan, spec) = plan_of_one(&BENCH, options)?;
    if only_print {
        return Console::Stdout.print(&plan.effective_config()?);
    }
    let settings = plan.base();
    let is_first = node == SERVER;
    if is_first {
        threads_for(&plan.jobs())?;
    }
    if wanted.runs != 1 {
        check_several(wanted, settings, node)?;
    }
    if is_first && !source.is_given {
        check_outputs(settings, BENCH.file_name)?;
    }
    let told = Told::by_signals()?;
    if source.is_given {
        told.or_by_the_end_of_stdin()?;
    }
    let mut epoch = match (wanted.run, is_first) {
        (Some(run), _) => run,
        (None, true) => 1,
        (None, false) => Cluster::ANY_EPOCH,
    };
    let config = in_common(nodes, settings)?;
    let mut done = 0;
    loop {
        let place = Place {
            nodes,
            node,
            key: source.key.clone(),
            cluster: Cluster::new(config.clone(), epoch),
            limits: limits(nodes, wanted),
            device: wanted.device.or(&nodes.nodes[usize::from(node.0)].device),
            told: told.clone(),
        };
        let ended = one_run(source.is_given, &plan, &spec, &place);
        done += 1;
        if done == wanted.runs || told.is_told() {
            return ended;
        }
        if let Err(failure) = ended {
            // It is there for the next run, whatever became of this one.
            Console::Stderr.print(&format!("error: {failure}\n"))?;
        }
        epoch += u64::from(epoch != Cluster::ANY_EPOCH);
    }
}

/// Whether a process can be there for several runs.
fn check_several(wanted: &NodeWanted, settings: &Settings, node: NodeId) -> Result<()> {
    let runs = wanted.runs;
    if node != SERVER {
        return Err(Failure::Usage(format!(
            "--runs {runs}: node 0 is there for several runs; begin the others anew for each"
        )));
    }
    let files = [
        ("--out", settings.out.is_some()),
        (
            "--json",
            settings
                .json
                .as_ref()
                .is_some_and(|place| !place.is_stdout()),
        ),
        (
            "--csv",
            settings
                .csv
                .as_ref()
                .is_some_and(|place| !place.is_stdout()),
        ),
    ];
    match files.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Failure::Usage(format!(
            "{flag} with --runs {runs}: each run would write over the one before; --json - tells all of them"
        ))),
        None => Ok(()),
    }
}

/// One run, and what comes of it.
fn one_run(is_given: bool, plan: &Plan, spec: &RunSpec, place: &Place<'_>) -> Result<()> {
    let node = place.node;
    let is_first = node == SERVER;
    let played = RunPlan::new(plan.base(), spec)?.execute_on_node(place)?;
    let report = played.report;
    let failure = report.failure.clone();
    let told = if !is_first && played.is_delivered {
        // Node 0 tells it.
        Ok(())
    } else if is_given {
        print_report(&report)
    } else {
        let results = plan.results(vec![outcome(spec.clone(), report)])?;
        if is_first {
            deliver(&results)
        } else {
            // The files are node 0's to write, and it may be a node of the same machine.
            Console::Stdout.print(&(BENCH.tell)(&results))
        }
    };
    match failure {
        Some(why) => Err(Failure::Work(format!(
            "{node}: {why}; what it knows of what was measured up to then is told, and is not whole"
        ))),
        None => told,
    }
}

/// How long is waited for whom.
fn limits(nodes: &Nodes, wanted: &NodeWanted) -> Limits {
    let time = |flag: Option<PositiveTime>, file: Option<PositiveTime>, usual: Duration| {
        let given = flag.or(file);
        given.map_or(usual, |time| Duration::from_nanos(time.get().ns))
    };
    Limits {
        patience: time(wanted.patience, nodes.patience, PATIENCE),
        peer: time(wanted.peer_limit, nodes.peer_limit, PEER_LIMIT),
        is_host: wanted.runs != 1,
    }
}

/// What all nodes are told.
struct Source {
    /// The name of the file.
    name: String,
    nodes: Nodes,
    options: Options,
    key: Key,
    is_given: bool,
}

impl Source {
    fn read(wanted: &NodeWanted) -> Result<Self> {
        let Some(file) = &wanted.config else {
            let given = Given::read()?;
            return Ok(Self {
                name: "what it was given".to_owned(),
                nodes: given.nodes()?,
                options: given.options()?,
                key: given.key()?,
                is_given: true,
            });
        };
        let nodes = Nodes::read(file)?;
        Ok(Self {
            name: file.display().to_string(),
            options: read_config(file)?,
            key: read_key(&nodes)?,
            nodes,
            is_given: false,
        })
    }
}

/// The cluster's key.
///
/// # Errors
/// [`Failure::Usage`] naming the file.
pub(crate) fn read_key(nodes: &Nodes) -> Result<Key> {
    Key::read(&nodes.key).map_err(|error| {
        Failure::Usage(format!(
            "[cluster] key: {error}; dmtree key FILE makes one, and all nodes need the same"
        ))
    })
}

/// Whether the file has the node, and in the one role that this process is to have.
fn restrict(source: &Source, node: NodeId, wanted: &NodeWanted) -> Result<()> {
    let count = source.nodes.count();
    let Some(own) = source.nodes.nodes.get(usize::from(node.0)) else {
        return Err(Failure::Usage(format!(
            "--node {}: {} has {count} nodes, 0 to {}",
            node.0,
            source.name,
            count - 1
        )));
    };
    match wanted.only {
        Some(only) if own.roles != [only] => Err(Failure::Usage(format!(
            "node {} has the roles {:?} in {}: dmtree node is for several roles at once; a node of one has that alone",
            node.0, own.roles, source.name,
        ))),
        _ => Ok(()),
    }
}

fn print_report(report: &NodeReport) -> Result<()> {
    let bytes = report.to_bytes().map_err(Failure::Work)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| Failure::Work(format!("a report is no text: {error}")))?;
    Console::Stdout.print(&(text + "\n"))
}

/// What the nodes have measured, as the outcome of a run.
pub(crate) fn outcome(spec: RunSpec, report: NodeReport) -> RunOutcome {
    let measured = Duration::from_nanos(report.measured_ns);
    RunOutcome {
        partial: report.failure.map(|why| Partial { why, measured }),
        verified: report.verified,
        spec,
        local: report.local,
        remote: report.remote,
        growth: report.growth,
        events: 0,
        folded: 0,
        verbs: report.verbs,
        event_loop: Duration::ZERO,
        load: Duration::ZERO,
        trace: None,
        timeline: None,
        fairness: None,
        order: Vec::new(),
    }
}
