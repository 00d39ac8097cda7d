//! `dmtree doctor`: whether this machine can be a node, and what to do where it cannot.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::node::{defaults, read_key, real_options};
use super::nodes::Nodes;
use crate::command::BENCH;
use crate::console::Console;
use crate::error::{Failure, Result};
use crate::memory::available_bytes;
use crate::plan::Plan;
use crate::run::bytes_needed;
use crate::settings::quantity::bytes_text;
use crate::settings::{Options, Settings, read_config};

/// How long a peer may take to take a connection.
const REACH: Duration = Duration::from_secs(2);
/// Files that a process has beside its connections.
const OTHER_FILES: u64 = 64;
/// Registered memory that a verbs fabric is not worth having without.
const LOCKED_BYTES: u64 = 1 << 30;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Good,
    /// It works, and could be better.
    Note,
    /// It will not work.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    grade: Grade,
    what: String,
    found: String,
    /// What to do; nothing where it is good.
    remedy: String,
}

impl Finding {
    fn new(grade: Grade, what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            grade,
            what: what.to_owned(),
            found: found.into(),
            remedy: remedy.into(),
        }
    }

    fn good(what: &str, found: impl Into<String>) -> Self {
        Self::new(Grade::Good, what, found, "")
    }
}

/// What `dmtree doctor` is told.
#[derive(Clone, Debug)]
pub struct DoctorWanted {
    /// The config file of a cluster that this machine is to be a node of.
    pub config: Option<PathBuf>,
    /// Which node.
    pub node: Option<u16>,
}

/// What of the cluster matters here.
struct Cluster {
    nodes: Nodes,
    settings: Settings,
}

/// Looks at the machine, and tells.
///
/// # Errors
/// [`Failure::Usage`] when the config file is wrong, [`Failure::Work`] when something will not work.
pub fn perform(wanted: &DoctorWanted, given: Options) -> Result<()> {
    let cluster = match &wanted.config {
        None => None,
        Some(file) => {
            let nodes = Nodes::read(file)?;
            let options = real_options(given.or(read_config(file)?), nodes.count())?;
            let plan = Plan::with_defaults(&BENCH, options, defaults())?;
            Some(Cluster {
                settings: plan.base().clone(),
                nodes,
            })
        }
    };
    let own = match (&cluster, wanted.node) {
        (Some(cluster), Some(node)) if node >= cluster.nodes.count() => {
            return Err(Failure::Usage(format!(
                "--node {node}: the cluster has {} nodes, 0 to {}",
                cluster.nodes.count(),
                cluster.nodes.count() - 1
            )));
        }
        (None, Some(node)) => {
            return Err(Failure::Usage(format!(
                "--node {node}: of which cluster? --config FILE says so"
            )));
        }
        (_, node) => node,
    };
    let mut findings = vec![cores(&cluster), files(&cluster), memory(&cluster)];
    findings.extend([huge_pages(), locked_memory(), clock()]);
    match &cluster {
        Some(cluster) => {
            findings.push(key(&cluster.nodes));
            let addresses = cluster.nodes.addresses()?;
            for (number, address) in addresses.iter().enumerate() {
                findings.push(if own == Some(number as u16) {
                    port(number, *address)
                } else {
                    peer(number, *address)
                });
            }
        }
        None => findings.push(port(0, SocketAddr::from(([127, 0, 0, 1], 0)))),
    }
    Console::Stdout.print(&text(&findings))?;
    match findings
        .iter()
        .filter(|found| found.grade == Grade::Problem)
        .count()
    {
        0 => Ok(()),
        1 => Err(Failure::Work("one thing has to be mended first".to_owned())),
        all => Err(Failure::Work(format!(
            "{all} things have to be mended first"
        ))),
    }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let grade = match finding.grade {
            Grade::Good => "good   ",
            Grade::Note => "note   ",
            Grade::Problem => "PROBLEM",
        };
        // A String takes whatever it is given.
        let _ = writeln!(text, "{grade}  {}: {}", finding.what, finding.found);
        if !finding.remedy.is_empty() {
            let _ = writeln!(text, "         {}", finding.remedy);
        }
    }
    text
}

fn cores(cluster: &Option<Cluster>) -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let Some(cluster) = cluster else {
        return Finding::good("cores", cores.to_string());
    };
    // One serves memory.
    let threads = usize::from(cluster.settings.threads) + 1;
    if threads <= cores {
        return Finding::good("cores", format!("{cores}, for {threads} threads"));
    }
    Finding::new(
        Grade::Note,
        "cores",
        format!(
            "{cores}, for {threads} threads: a server and its clients take turns, and latencies are those of the scheduler"
        ),
        "fewer --threads, or pin the server to a core of its own (docs/cluster.md)",
    )
}

fn files(cluster: &Option<Cluster>) -> Finding {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let needed = cluster.as_ref().map_or(OTHER_FILES, |cluster| {
        // Each thread of each node, and each node's own, has a connection to each server.
        let (nodes, threads) = (
            u64::from(cluster.nodes.count()),
            u64::from(cluster.settings.threads),
        );
        nodes * (threads + 1) + (threads + 1) * nodes + OTHER_FILES
    });
    if limit >= needed {
        return Finding::good("open files", format!("{limit} allowed, {needed} needed"));
    }
    Finding::new(
        Grade::Problem,
        "open files",
        format!("{limit} allowed, {needed} needed"),
        format!("ulimit -n {needed}, or nofile in /etc/security/limits.conf"),
    )
}

fn memory(cluster: &Option<Cluster>) -> Finding {
    let free = available_bytes();
    let free_text = bytes_text(u128::from(free));
    let Some(cluster) = cluster else {
        return Finding::good("memory", format!("{free_text} free"));
    };
    let needed = crate::run::runs_of(&cluster.settings)
        .iter()
        .map(|spec| bytes_needed(&cluster.settings, spec))
        .try_fold(0, |most, bytes| bytes.map(|bytes| bytes.max(most)));
    match needed {
        Ok(needed) if needed <= u128::from(free) => Finding::good(
            "memory",
            format!("{free_text} free, {} needed on node 0", bytes_text(needed)),
        ),
        Ok(needed) => Finding::new(
            Grade::Problem,
            "memory",
            format!("{free_text} free, {} needed on node 0", bytes_text(needed)),
            "fewer --keys",
        ),
        Err(failure) => Finding::new(Grade::Problem, "memory", failure.to_string(), ""),
    }
}

/// What a file of the kernel's says; none where there is no such thing.
fn kernel(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn huge_pages() -> Finding {
    let Some(mode) = kernel("/sys/kernel/mm/transparent_hugepage/enabled") else {
        return Finding::new(
            Grade::Note,
            "huge pages",
            "this kernel does not tell",
            "random accesses to a large tree miss the TLB more often without them",
        );
    };
    let chosen = mode.split(['[', ']']).nth(1).unwrap_or(&mode).to_owned();
    if ["always", "madvise"].contains(&chosen.as_str()) {
        return Finding::good("huge pages", format!("transparent ones: {chosen}"));
    }
    Finding::new(
        Grade::Note,
        "huge pages",
        format!("transparent ones: {chosen}"),
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, for fewer TLB misses on a large tree",
    )
}

fn locked_memory() -> Finding {
    let limit = getrlimit(Resource::Memlock).current;
    match limit {
        None => Finding::good("locked memory", "no limit"),
        Some(bytes) if bytes >= LOCKED_BYTES => {
            Finding::good("locked memory", bytes_text(u128::from(bytes)))
        }
        Some(bytes) => Finding::new(
            Grade::Note,
            "locked memory",
            format!(
                "{} allowed; TCP needs none, RDMA registers all of a node's memory",
                bytes_text(u128::from(bytes))
            ),
            "ulimit -l unlimited, or memlock in /etc/security/limits.conf, before RDMA is used",
        ),
    }
}

fn clock() -> Finding {
    const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match kernel(PATH) {
        Some(source)
            if [
                "tsc",
                "kvm-clock",
                "arch_sys_counter",
                "hyperv_clocksource_tsc_page",
            ]
            .contains(&source.as_str()) =>
        {
            Finding::good(
                "clock",
                format!("{source}, which is read without a system call"),
            )
        }
        Some(source) => Finding::new(
            Grade::Note,
            "clock",
            format!("{source}, which may take a system call to read, and adds to every latency"),
            format!(
                "see what else there is in {}",
                PATH.replace("current", "available")
            ),
        ),
        None => Finding::new(
            Grade::Note,
            "clock",
            "this kernel does not tell which it uses",
            "",
        ),
    }
}

fn key(nodes: &Nodes) -> Finding {
    match read_key(nodes) {
        Ok(_) => Finding::good("cluster key", nodes.key.display().to_string()),
        Err(failure) => Finding::new(Grade::Problem, "cluster key", failure.to_string(), ""),
    }
}

/// Whether the node's own address can be listened at.
fn port(number: usize, address: SocketAddr) -> Finding {
    let what = format!("address of node {number}, {address}");
    match TcpListener::bind(address) {
        Ok(_) => Finding::good(&what, "free, and of this machine"),
        Err(error) => Finding::new(
            Grade::Problem,
            &what,
            format!("cannot be listened at: {error}"),
            match error.kind() {
                ErrorKind::AddrInUse => {
                    "end the process that has it (ss -ltnp tells which), or take another port"
                }
                ErrorKind::AddrNotAvailable => {
                    "take an address of this machine (ip addr tells them), or another --node"
                }
                ErrorKind::PermissionDenied => "take a port from 1024 on",
                _ => "take another address",
            },
        ),
    }
}

/// Whether another node's machine can be reached.
fn peer(number: usize, address: SocketAddr) -> Finding {
    let what = format!("node {number} at {address}");
    match TcpStream::connect_timeout(&address, REACH) {
        Ok(_) => Finding::good(&what, "somebody listens there"),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            Finding::good(&what, "its machine is reached; nobody listens there yet")
        }
        Err(error) => Finding::new(
            Grade::Problem,
            &what,
            format!("not reached: {error}"),
            "is the machine on, the address right, and the port let through by the firewalls of both?",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_comes_with_what_to_do() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let found = port(3, address);
        assert_eq!(found.grade, Grade::Problem);
        assert!(found.what.contains("node 3") && found.remedy.contains("ss -ltnp"));
        assert_eq!(peer(3, address).grade, Grade::Good);
        drop(taken);
        assert_eq!(port(3, address).grade, Grade::Good);
        let refused = peer(3, address);
        assert_eq!(refused.grade, Grade::Good);
        assert!(refused.found.contains("nobody listens"), "{refused:?}");
        // Of documentation only: nobody has it.
        let foreign = port(0, "192.0.2.1:7100".parse().unwrap());
        assert!(foreign.remedy.contains("ip addr"), "{foreign:?}");
        let text = text(&[foreign, Finding::good("cores", "2")]);
        assert!(text.starts_with("PROBLEM  address of node 0") && text.ends_with("cores: 2\n"));
    }
}
