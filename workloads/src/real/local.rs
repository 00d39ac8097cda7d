//! `dmtree cluster --local N`: all nodes as processes of this machine, one run after the other.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use dmtree_cluster::tcp::Key;

use super::node::{defaults, outcome, real_options};
use super::nodes::{Node, Nodes, Role};
use super::report::NodeReport;
use super::told::Told;
use crate::command::{BENCH, Command};
use crate::console::Console;
use crate::error::{Failure, Result};
use crate::figures::{Figure, figure, figure12};
use crate::jobs::Job;
use crate::perform::{check_outputs, deliver};
use crate::plan::Plan;
use crate::run::{RunOutcome, WorkSpec};
use crate::settings::choice::path_name;
use crate::settings::quantity::PositiveTime;
use crate::settings::{Options, config_text};

/// How long the others get to notice that one has ended, before they are ended.
const GRACE: Duration = Duration::from_secs(15);
/// Between two looks at the processes.
const LOOK: Duration = Duration::from_millis(5);

/// The command whose runs `dmtree cluster` makes: that of the figure `name`, or `bench`.
///
/// # Errors
/// [`Failure::Usage`] when there is no such figure.
pub fn command_of(name: Option<&str>) -> Result<&'static Command> {
    match name.map(figure).transpose()? {
        None => Ok(&BENCH),
        Some(Figure::Sweep(command)) => Ok(command),
        Some(Figure::All | Figure::Sensitivity) => Err(Failure::Usage(format!(
            "--figure {}: {ONLY_12}",
            name.unwrap_or_default()
        ))),
    }
}

const ONLY_12: &str =
    "figure 12 can be run by processes over TCP; the others are simulated, by dmtree figure";

/// Processes where nothing is said: as many as a small machine has cores.
const USUAL_NODES: u16 = 2;

/// What `dmtree cluster --local` is told beside the options of the runs.
#[derive(Clone, Debug, Default)]
pub struct LocalWanted {
    /// How many nodes; as the options say otherwise.
    pub nodes: Option<u16>,
    /// How long nodes wait for each other to come.
    pub patience: Option<PositiveTime>,
    /// How long they wait for a sign of life.
    pub peer_limit: Option<PositiveTime>,
}

/// Makes the runs of `command` that `given` asks for, with processes of this machine.
///
/// # Errors
/// [`Failure::Usage`] before anything has begun, [`Failure::Work`] when a node fails.
pub fn perform(
    command: &'static Command,
    wanted: &LocalWanted,
    given: Options,
    only_print: bool,
) -> Result<()> {
    if ![BENCH.name, figure12::COMMAND.name].contains(&command.name) {
        return Err(Failure::Usage(format!(
            "{} with --fabric tcp: bench and {ONLY_12}",
            command.name
        )));
    }
    let asked = given.nodes.map(|nodes| nodes.get() as u16);
    let nodes = wanted.nodes.or(asked).unwrap_or(USUAL_NODES);
    let options = real_options(given, nodes)?;
    let plan = Plan::with_defaults(command, options, defaults())?;
    if only_print {
        return Console::Stdout.print(&plan.effective_config()?);
    }
    check_outputs(plan.base(), command.file_name)?;
    let told = Told::by_signals()?;
    let directory = Directory::make()?;
    let key =
        Key::generate().map_err(|error| Failure::Work(format!("no random numbers: {error}")))?;
    key.write_new(&directory.0.join(KEY))
        .map_err(|error| Failure::Work(error.to_string()))?;
    let jobs = plan.jobs();
    let mut outcomes = Vec::new();
    let mut failure = None;
    for (number, job) in jobs.iter().enumerate() {
        let title = job.settings.title_of(&job.spec);
        // Where nobody can be told, the results are worth no less.
        drop(Console::Stderr.print(&format!("run {} of {}: {title}\n", number + 1, jobs.len())));
        let (outcome, why) = run(job, wanted, number as u64 + 1, &directory.0, &told)?;
        outcomes.extend(outcome);
        if why.is_some() {
            failure = why;
            break;
        }
    }
    // What was measured up to a failure is worth having.
    let delivered = deliver(&plan.results(outcomes)?);
    failure.map_or(delivered, Err)
}

const KEY: &str = "cluster.key";
const CONFIG: &str = "cluster.toml";

/// A directory of its own, which goes with it.
struct Directory(PathBuf);

impl Directory {
    fn make() -> Result<Self> {
        let base = std::env::temp_dir();
        let stamp = std::process::id();
        for attempt in 0..1000 {
            let path = base.join(format!("dmtree-{stamp}-{attempt}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Failure::Work(format!(
                        "cannot make {}: {error}",
                        path.display()
                    )));
                }
            }
        }
        Err(Failure::Work(format!(
            "cannot make a directory in {}",
            base.display()
        )))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As many free ports of loopback. Somebody else may take one before its node does; that node tells so.
fn addresses(nodes: u16) -> Result<Vec<String>> {
    let listeners: std::io::Result<Vec<TcpListener>> = (0..nodes)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect();
    let addresses = listeners.and_then(|listeners| {
        let addresses = listeners.iter().map(TcpListener::local_addr);
        addresses.collect::<std::io::Result<Vec<_>>>()
    });
    let addresses =
        addresses.map_err(|error| Failure::Work(format!("no free ports on loopback: {error}")))?;
    Ok(addresses.iter().map(ToString::to_string).collect())
}

/// The config file of a run, in `directory`.
fn write_config(job: &Job<'_>, wanted: &LocalWanted, directory: &Path) -> Result<PathBuf> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Work(format!("cannot write the nodes' config file: {error}"))
    };
    let nodes = addresses(job.settings.nodes)?.into_iter().enumerate();
    let nodes = Nodes {
        key: KEY.into(),
        patience: wanted.patience,
        peer_limit: wanted.peer_limit,
        nodes: nodes
            .map(|(node, address)| Node {
                address,
                roles: match node {
                    0 => vec![Role::Memory, Role::Compute],
                    _ => vec![Role::Compute],
                },
            })
            .collect(),
    };
    #[derive(serde::Serialize)]
    struct File<'a> {
        cluster: &'a Nodes,
    }
    let cluster = toml::to_string(&File { cluster: &nodes }).map_err(|error| failed(&error))?;
    let options = config_text(&job.settings.options)?;
    let config = directory.join(CONFIG);
    fs::write(&config, format!("{options}\n{cluster}")).map_err(|error| failed(&error))?;
    Ok(config)
}

/// One run: what was found, if anything was, and why it is not whole.
fn run(
    job: &Job<'_>,
    wanted: &LocalWanted,
    number: u64,
    directory: &Path,
    told: &Told,
) -> Result<(Option<RunOutcome>, Option<Failure>)> {
    let failed = |error: &dyn std::fmt::Display| Failure::Work(format!("run {number}: {error}"));
    let config = write_config(job, wanted, directory)?;
    let own = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut processes = Processes(Vec::new());
    let found = |node: u16| directory.join(format!("found-{number}-{node}"));
    for node in 0..job.settings.nodes {
        let mut program = Program::new(&own);
        program.arg("node").arg("--config").arg(&config);
        program.args(["--node", &node.to_string(), "--run", &number.to_string()]);
        program.args(flags(job)).arg("--tied");
        program.arg("--outcome").arg(found(node));
        // It ends when this process does, however that ends.
        program.stdin(Stdio::piped());
        processes
            .0
            .push(program.spawn().map_err(|error| failed(&error))?);
    }
    let ended = processes.wait(told);
    let mut report: Option<NodeReport> = None;
    for node in 0..job.settings.nodes {
        // Node 0 tells for all; where it could not, each one tells for itself.
        let path = found(node);
        if path.exists() {
            let bytes = fs::read(&path).map_err(|error| failed(&error))?;
            let other = NodeReport::from_bytes(&bytes).map_err(|error| failed(&error))?;
            match &mut report {
                Some(report) => report.merge(other),
                None => report = Some(other),
            }
        }
    }
    let failure = match (ended, &mut report) {
        (Ok(()), Some(_)) => None,
        (Ok(()), None) => return Err(failed(&"no node has told what it measured")),
        (Err(why), Some(report)) => {
            let why = report.failure.get_or_insert(why);
            Some(failed(why))
        }
        (Err(why), None) => Some(failed(&why)),
    };
    Ok((
        report.map(|report| outcome(job.spec.clone(), report)),
        failure,
    ))
}

/// What tells the run from the others of the command.
fn flags(job: &Job<'_>) -> Vec<String> {
    let spec = &job.spec;
    let mut flags = vec!["--lock".to_owned(), spec.lock.to_string()];
    if let WorkSpec::Tree {
        distribution,
        data_path,
    } = spec.work
    {
        flags.extend(["--distribution".to_owned(), distribution.to_string()]);
        flags.extend(["--data-path".to_owned(), path_name(data_path).to_owned()]);
    }
    flags.extend(["--seed".to_owned(), spec.seed.to_string()]);
    flags.extend(["--seeds".to_owned(), "1".to_owned()]);
    if job.settings.verify {
        flags.extend(["--verify".to_owned(), "on".to_owned()]);
    }
    flags
}

/// The nodes' processes, which are ended with it.
struct Processes(Vec<Child>);

impl Processes {
    /// Waits for all of them; when one fails the others get some time to notice.
    fn wait(&mut self, told: &Told) -> std::result::Result<(), String> {
        let mut ended: Vec<Option<ExitStatus>> = vec![None; self.0.len()];
        let mut first: Option<(usize, ExitStatus, Instant)> = None;
        loop {
            if told.is_told() {
                // That is how they hear of it.
                self.0
                    .iter_mut()
                    .for_each(|process| drop(process.stdin.take()));
            }
            for (node, process) in self.0.iter_mut().enumerate() {
                if ended[node].is_none() {
                    ended[node] = process.try_wait().map_err(|error| error.to_string())?;
                    if let Some(status) = ended[node]
                        && !status.success()
                        && first.is_none()
                    {
                        first = Some((node, status, Instant::now()));
                    }
                }
            }
            let all = ended.iter().all(Option::is_some);
            match first {
                None if all => return Ok(()),
                Some((node, status, when)) if all || when.elapsed() > GRACE => {
                    return Err(format!("node {node} has failed ({status})"));
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
