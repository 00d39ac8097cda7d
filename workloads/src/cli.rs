//! The command line.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::command::BENCH;
use crate::error::{Failure, Result};
use crate::figures::{Figure, all, figure};
use crate::lock_bench::command::LOCK_BENCH;
use crate::perform::perform;
use crate::real::doctor::{self, DoctorWanted};
use crate::real::launch::{ClusterWanted, Machines};
use crate::real::rdma::DeviceFlags;
use crate::real::{self, node::NodeWanted, nodes::Role};
use crate::sensitivity;
use crate::settings::quantity::PositiveTime;
use crate::settings::switches::joined;
use crate::settings::value::Place;
use crate::settings::{Options, Subject, read_config};

/// A B+tree on disaggregated memory with swappable page locks: figures and benchmarks.
///
/// Exit status: 0 done, 1 the work failed, 2 wrong usage or config.
#[derive(Debug, Parser)]
#[command(
    name = "dmtree",
    version,
    max_term_width = 100,
    args_override_self = true
)]
struct Cli {
    #[command(subcommand)]
    command: Choice,
}

#[derive(Debug, Subcommand)]
enum Choice {
    /// Reproduce a figure of the FARLock paper, and print what was published beside what was
    /// measured
    Figure {
        /// 3, 7, 8, 9, 10, 11 or 12; all of them; or sensitivity: what the claims about Figure 12 depend on
        figure: String,
        #[command(flatten)]
        common: Common,
    },
    /// Measure throughput and tail latency of the tree, for locks and distributions of one's choice
    Bench {
        #[command(flatten)]
        common: Common,
    },
    /// Begin a cluster of processes on this machine, and measure the tree over TCP in real time
    Cluster {
        /// So many nodes, each a process of this machine
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        local: Option<u16>,
        /// The nodes of the config file, begun on their machines over OpenSSH
        #[arg(
            long,
            requires = "config",
            conflicts_with = "local",
            required_unless_present = "local"
        )]
        ssh: bool,
        /// Make the runs of this figure: 12
        #[arg(long, value_name = "FIGURE")]
        figure: Option<String>,
        #[command(flatten)]
        waits: Waits,
        #[command(flatten)]
        device: DeviceFlags,
        #[command(flatten)]
        common: Common,
    },
    /// Look at this machine, and at the nodes of a config file from here: what is wrong, and what to do about it
    Doctor {
        /// The node that this machine is to be
        #[arg(long, value_name = "N")]
        node: Option<u16>,
        #[command(flatten)]
        common: Common,
    },
    /// Make a new key for a cluster, in a file that its owner alone may read
    Key {
        /// The file, which must not exist yet
        file: PathBuf,
    },
    /// Be one node of a cluster over TCP, with all of its roles in this process
    Node {
        #[command(flatten)]
        part: Part,
    },
    /// The same for a node that serves memory and runs no clients
    MemoryServer {
        #[command(flatten)]
        part: Part,
    },
    /// The same for a node that runs clients and serves no pages
    ComputeServer {
        #[command(flatten)]
        part: Part,
    },
    /// Measure locks alone, without a tree: throughput, tail latency and fairness of clients that take one, work, and
    /// give it back
    LockBench {
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "What holds where nothing is said: --print-config shows it.")]
struct Common {
    #[command(flatten)]
    options: Options,
    /// Read options from this TOML file, under the flags' names; flags win
    #[arg(long, value_name = "FILE")]
    config: Option<Place>,
    /// Print the effective options as a config file, and do nothing
    #[arg(long)]
    print_config: bool,
}

impl Common {
    /// The flags, over the config file.
    fn options(&self) -> Result<Options> {
        let config = match &self.config {
            Some(file) => read_config(file.path())?,
            None => Options::default(),
        };
        Ok(self.options.clone().or(config))
    }

    fn perform(&self, figure: Figure) -> Result<()> {
        let options = self.options()?;
        match figure {
            Figure::Sweep(command) => perform(command, options, self.print_config),
            Figure::All => all::perform(options, self.print_config),
            Figure::Sensitivity => sensitivity::perform(options, self.print_config),
        }
    }
}

#[derive(Args, Debug)]
struct Waits {
    /// How long nodes wait for each other to come [default: 60s]
    #[arg(long, value_name = "TIME")]
    patience: Option<PositiveTime>,
    /// How long nothing is heard of a node before it counts as gone, and the run ends [default: 5s]
    #[arg(long, value_name = "TIME")]
    peer_limit: Option<PositiveTime>,
}

#[derive(Args, Debug)]
struct Part {
    /// Which node of the config file's [cluster] this process is
    #[arg(long, value_name = "N")]
    node: u16,
    /// The number of the run: a process of another run is refused [default: node 0: 1, others: what node 0 is in]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    run: Option<u64>,
    /// Node 0: stay for so many runs, one after the other, each on fresh memory; 0 for as many as come
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u64,
    #[command(flatten)]
    waits: Waits,
    #[command(flatten)]
    device: DeviceFlags,
    /// Take config file and key from standard input, and end when that does
    #[arg(long, hide = true, conflicts_with = "config")]
    given: bool,
    #[command(flatten)]
    common: Common,
}

impl Part {
    fn perform(self, only: Option<Role>) -> Result<()> {
        let Common {
            options,
            config,
            print_config,
        } = self.common;
        if config.is_none() && !self.given {
            return Err(Failure::Usage(
                "--config FILE: a node needs the file with the [cluster] that it is of".to_owned(),
            ));
        }
        let wanted = NodeWanted {
            config: config.map(|config| config.path().to_owned()),
            node: self.node,
            run: self.run,
            runs: self.runs,
            only,
            patience: self.waits.patience,
            peer_limit: self.waits.peer_limit,
            device: self.device,
        };
        real::node::perform(&wanted, options, print_config)
    }
}

/// The command line, on which each command shows the options that mean something to it.
fn cli_command() -> clap::Command {
    let hide = |command: clap::Command, subject: Subject| {
        command.mut_args(|arg| {
            let is_foreign = subject.foreign().contains(&arg.get_id().as_str());
            arg.hide(is_foreign)
        })
    };
    Cli::command()
        .mut_subcommand("bench", |command| hide(command, Subject::Tree))
        .mut_subcommand("cluster", |command| hide(command, Subject::Tree))
        .mut_subcommand("doctor", |command| hide(command, Subject::Tree))
        .mut_subcommand("node", |command| hide(command, Subject::Tree))
        .mut_subcommand("memory-server", |command| hide(command, Subject::Tree))
        .mut_subcommand("compute-server", |command| hide(command, Subject::Tree))
        .mut_subcommand("lock-bench", |command| hide(command, Subject::Locks))
}

/// The `dmtree` program.
pub fn main() -> ExitCode {
    // Events of the libraries, long waits for example: off standard output, which belongs to
    // results.
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // They would be printed to standard error, which is what has failed, and panic.
        .log_internal_errors(false)
        .init();
    let matches = cli_command().get_matches_from(joined(std::env::args_os()));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = match cli.command {
        Choice::Figure {
            figure: name,
            common,
        } => figure(&name).and_then(|figure| common.perform(figure)),
        Choice::Bench { common } => common.perform(Figure::Sweep(&BENCH)),
        Choice::LockBench { common } => common.perform(Figure::Sweep(&LOCK_BENCH)),
        Choice::Cluster {
            local,
            ssh,
            figure,
            waits,
            device,
            common,
        } => common.options().and_then(|options| {
            let machines = match &common.config {
                Some(config) if ssh => Machines::BySsh(config.path().to_owned()),
                _ => Machines::This(local),
            };
            let wanted = ClusterWanted {
                machines,
                patience: waits.patience,
                peer_limit: waits.peer_limit,
                device,
            };
            let command = real::launch::command_of(figure.as_deref())?;
            real::launch::perform(command, &wanted, options, common.print_config)
        }),
        Choice::Doctor { node, common } => {
            let wanted = DoctorWanted {
                config: common
                    .config
                    .as_ref()
                    .map(|config| config.path().to_owned()),
                node,
            };
            doctor::perform(&wanted, common.options)
        }
        Choice::Key { file } => real::new_key(&file),
        Choice::Node { part } => part.perform(None),
        Choice::MemoryServer { part } => part.perform(Some(Role::Memory)),
        Choice::ComputeServer { part } => part.perform(Some(Role::Compute)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Whoever has closed standard error, or filled its disk, has the exit status.
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            failure.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    use crate::settings::switches::SWITCHES;

    fn options(args: &[&str]) -> Options {
        let args = args.iter().map(OsString::from);
        let cli = Cli::try_parse_from(joined(args)).expect("parsed");
        match cli.command {
            Choice::Figure { common, .. }
            | Choice::Bench { common }
            | Choice::Cluster { common, .. }
            | Choice::Doctor { common, .. }
            | Choice::LockBench { common } => common.options,
            Choice::Key { .. } => Options::default(),
            Choice::Node { part }
            | Choice::MemoryServer { part }
            | Choice::ComputeServer { part } => part.common.options,
        }
    }

    #[test]
    fn switches_do_with_and_without_a_value() {
        for switch in SWITCHES {
            let joined = format!("{switch}=off");
            for (given, expected) in [
                (&["dmtree", "bench", switch][..], true),
                (&["dmtree", "bench", switch, "on"], true),
                (&["dmtree", "bench", switch, "off"], false),
                (&["dmtree", "bench", &joined], false),
                (&["dmtree", "figure", switch, "12"], true),
                (&["dmtree", "figure", switch, "off", "12"], false),
                (&["dmtree", "bench", switch, "--nodes", "3"], true),
            ] {
                let options = options(given);
                let value = match switch {
                    "--hostile" => options.hostile,
                    "--prefill-cache" => options.prefill_cache,
                    "--qp-cache" => options.qp_cache,
                    "--paper" => options.paper,
                    "--quick" => options.quick,
                    "--resume" => options.resume,
                    _ => options.verify,
                };
                assert_eq!(
                    value.map(|value| value.is_on()),
                    Some(expected),
                    "{given:?}"
                );
            }
        }
    }

    #[test]
    fn every_flag_of_on_and_off_is_a_switch() {
        let command = Cli::command();
        let bench = command.find_subcommand("bench").expect("bench");
        let mut flags: Vec<String> = bench
            .get_arguments()
            .filter(|arg| {
                arg.get_value_names()
                    .is_some_and(|names| names.iter().any(|name| name.as_str() == "on|off"))
            })
            .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
            .collect();
        flags.sort();
        assert_eq!(flags, SWITCHES);
    }
}
