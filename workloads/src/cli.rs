//! The command line.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::command::{BENCH, Figure, figure, perform};
use crate::sensitivity;
use crate::settings::value::Place;
use crate::settings::{Options, read_config};

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
        /// 12, or sensitivity: what the claims about Figure 12 depend on
        figure: String,
        #[command(flatten)]
        common: Common,
    },
    /// Measure throughput and tail latency of the tree, for locks and distributions of one's choice
    Bench {
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
        .init();
    let cli = Cli::parse();
    let (figure, common) = match cli.command {
        Choice::Figure {
            figure: name,
            common,
        } => (figure(&name), common),
        Choice::Bench { common } => (Ok(Figure::Sweep(&BENCH)), common),
    };
    let done = figure.and_then(|figure| {
        let config = match &common.config {
            Some(file) => read_config(file.path())?,
            None => Options::default(),
        };
        let options = common.options.or(config);
        match figure {
            Figure::Sweep(command) => perform(command, options, common.print_config),
            Figure::Sensitivity => sensitivity::perform(options, common.print_config),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}
