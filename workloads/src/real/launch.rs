//! `dmtree cluster`: begins all nodes, as processes of this machine or by OpenSSH on theirs, one run after the other.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command as Program, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dmtree_cluster::tcp::Key;

use super::given::Given;
use super::node::{defaults, outcome, read_key, real_options};
use super::nodes::Nodes;
use super::rdma::DeviceFlags;
use super::report::NodeReport;
use super::told::Told;
use crate::command::{BENCH, Command};
use crate::console::Console;
use crate::error::{Failure, Result};
use crate::figures::{Figure, figure, figure12};
use crate::jobs::{Job, threads_for};
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

/// Where the nodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Machines {
    /// All on this one; so many of them, or as the options say.
    This(Option<u16>),
    /// Those of a config file, which are reached by OpenSSH.
    BySsh(PathBuf),
}

/// What `dmtree cluster` is told beside the options of the runs.
#[derive(Clone, Debug)]
pub struct ClusterWanted {
    /// Where the nodes are.
    pub machines: Machines,
    /// How long nodes wait for each other to come.
    pub patience: Option<PositiveTime>,
    /// How long they wait for a sign of life.
    pub peer_limit: Option<PositiveTime>,
    /// The RDMA device of all nodes, where it is not as the file says.
    pub device: DeviceFlags,
}

impl ClusterWanted {
    /// On this machine, and all else as usual.
    pub fn on_this() -> Self {
        Self {
            machines: Machines::This(None),
            patience: None,
            peer_limit: None,
            device: DeviceFlags::default(),
        }
    }
}

/// Makes the runs of `command` that `given` asks for, with a process for each node.
///
/// # Errors
/// [`Failure::Usage`] before anything has begun, [`Failure::Work`] when a node fails.
pub fn perform(
    command: &'static Command,
    wanted: &ClusterWanted,
    given: Options,
    only_print: bool,
) -> Result<()> {
    if ![BENCH.name, figure12::COMMAND.name].contains(&command.name) {
        return Err(Failure::Usage(format!(
            "{} with --fabric tcp or verbs: bench and {ONLY_12}",
            command.name
        )));
    }
    let asked = given.nodes.map(|nodes| nodes.get() as u16);
    let (nodes, key) = match &wanted.machines {
        Machines::This(nodes) => {
            let count = nodes.or(asked).unwrap_or(USUAL_NODES);
            let key = Key::generate()
                .map_err(|error| Failure::Work(format!("no random numbers: {error}")))?;
            (Nodes::on_loopback(count), key)
        }
        Machines::BySsh(config) => {
            let nodes = Nodes::read(config)?;
            let key = read_key(&nodes)?;
            (nodes, key)
        }
    };
    let mut nodes = nodes;
    for node in &mut nodes.nodes {
        node.device = wanted.device.or(&node.device);
    }
    let nodes = Nodes {
        patience: wanted.patience.or(nodes.patience),
        peer_limit: wanted.peer_limit.or(nodes.peer_limit),
        ..nodes
    };
    let options = real_options(given, nodes.count())?;
    let plan = Plan::with_defaults(command, options, defaults())?;
    if only_print {
        return Console::Stdout.print(&plan.effective_config()?);
    }
    let jobs = plan.jobs();
    if matches!(wanted.machines, Machines::This(_)) {
        threads_for(&jobs)?;
    }
    check_outputs(plan.base(), command.file_name)?;
    let told = Told::by_signals()?;
    let mut launch = Launch {
        nodes,
        is_here: matches!(wanted.machines, Machines::This(_)),
        key,
        told,
    };
    let mut outcomes = Vec::new();
    let mut failure = None;
    for (number, job) in jobs.iter().enumerate() {
        let title = job.settings.title_of(&job.spec);
        // Where nobody can be told, the results are worth no less.
        drop(Console::Stderr.print(&format!("run {} of {}: {title}\n", number + 1, jobs.len())));
        let (outcome, why) = launch.run(job, number as u64 + 1)?;
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

/// As many free ports of loopback. Somebody else may take one before its node does; that node tells so.
fn addresses(nodes: usize) -> Result<Vec<String>> {
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

/// What begins processes.
struct Launch {
    nodes: Nodes,
    /// Whether all of them are on this machine.
    is_here: bool,
    key: Key,
    told: Told,
}

impl Launch {
    /// The config file of a run.
    fn config(&self, job: &Job<'_>) -> Result<String> {
        #[derive(serde::Serialize)]
        struct File<'a> {
            cluster: &'a Nodes,
        }
        let cluster = toml::to_string(&File {
            cluster: &self.nodes,
        });
        let cluster = cluster.map_err(|error| {
            Failure::Work(format!("the nodes cannot be written as TOML: {error}"))
        })?;
        let options = config_text(&job.settings.options)?;
        Ok(format!("{options}\n{cluster}"))
    }

    /// The program that is, or begins, node `number`.
    fn program(&self, number: usize) -> Result<Program> {
        if self.is_here {
            let own = std::env::current_exe()
                .map_err(|error| Failure::Work(format!("this program is not found: {error}")))?;
            return Ok(Program::new(own));
        }
        let node = &self.nodes.nodes[number];
        let host = node.address.rsplit_once(':').map_or("", |(host, _)| host);
        let machine = node.ssh.as_deref().unwrap_or(host.trim_matches(['[', ']']));
        let mut program = Program::new("ssh");
        // It asks nobody anything: a question would be waited for in vain.
        program.args(["-T", "-o", "BatchMode=yes"]);
        program.args(&self.nodes.ssh_options).arg("--").arg(machine);
        program.arg(self.nodes.program.as_deref().unwrap_or("dmtree"));
        Ok(program)
    }

    /// One run: what was found, if anything was, and why it is not whole.
    fn run(&mut self, job: &Job<'_>, number: u64) -> Result<(Option<RunOutcome>, Option<Failure>)> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::Work(format!("run {number}: {error}"));
        if self.is_here {
            // Those of the run before may still be taken.
            let addresses = addresses(self.nodes.nodes.len())?;
            for (node, address) in self.nodes.nodes.iter_mut().zip(addresses) {
                node.address = address;
            }
        }
        let line = Given::new(self.config(job)?, &self.key).line()?;
        let mut processes = Processes(Vec::new());
        for node in 0..self.nodes.nodes.len() {
            let mut program = self.program(node)?;
            program.args(["node", "--given", "--node", &node.to_string()]);
            program
                .args(["--run", &number.to_string()])
                .args(flags(job));
            let name = program.get_program().to_string_lossy().into_owned();
            let process = Process::begin(program, &line)
                .map_err(|error| failed(&format!("{name} does not begin: {error}")))?;
            processes.0.push(process);
        }
        let ended = processes.wait(&self.told);
        let mut report: Option<NodeReport> = None;
        for answer in processes.answers() {
            // Node 0 tells for all; where it could not, each one tells for itself.
            if !answer.is_empty() {
                let other = NodeReport::from_bytes(&answer).map_err(|error| failed(&error))?;
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

/// A node's process, or the `ssh` that has begun one.
struct Process {
    child: Child,
    /// As long as it is there, so is the node.
    tie: Option<ChildStdin>,
    /// What reads its standard output.
    answer: Option<JoinHandle<Vec<u8>>>,
}

impl Process {
    /// Begins it, and gives it `line`.
    fn begin(mut program: Program, line: &str) -> std::io::Result<Self> {
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn()?;
        let mut tie = child.stdin.take();
        if let Some(tie) = &mut tie {
            // One that has ended already tells why itself.
            let _ = tie.write_all(line.as_bytes()).and_then(|()| tie.flush());
        }
        let mut output = child.stdout.take();
        let read = move || {
            let mut answer = Vec::new();
            if let Some(output) = &mut output {
                // What there is of it, when it breaks off.
                let _ = output.read_to_end(&mut answer);
            }
            answer
        };
        Ok(Self {
            child,
            tie,
            answer: Some(std::thread::spawn(read)),
        })
    }
}

/// The nodes' processes, which are ended with it.
struct Processes(Vec<Process>);

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
                    .for_each(|process| drop(process.tie.take()));
            }
            for (node, process) in self.0.iter_mut().enumerate() {
                if ended[node].is_none() {
                    ended[node] = process
                        .child
                        .try_wait()
                        .map_err(|error| error.to_string())?;
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

    /// What they have answered, when they have ended.
    fn answers(&mut self) -> Vec<Vec<u8>> {
        self.end();
        let answers = self.0.iter_mut().map(|process| {
            let answer = process.answer.take().map(JoinHandle::join);
            answer.and_then(std::result::Result::ok).unwrap_or_default()
        });
        answers.collect()
    }

    fn end(&mut self) {
        for process in &mut self.0 {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end();
    }
}
