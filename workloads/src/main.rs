//! The `dmtree` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    dmtree_workloads::cli::main()
}
