//! Running the program.

#![allow(dead_code)] // Each test program uses a part of it.

#[cfg(unix)]
pub(crate) mod cluster;

use std::path::Path;
use std::process::{Command, Output};

/// A run that takes well under a second.
pub(crate) const SMALL: [&str; 10] = [
    "--nodes",
    "3",
    "--threads",
    "2",
    "--keys",
    "20k",
    "--seconds",
    "4ms",
    "--warmup",
    "1ms",
];

/// `dmtree ARGS…` in `directory`.
pub(crate) fn dmtree(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dmtree"))
        .args(args)
        .current_dir(directory)
        .env_remove("RUST_LOG")
        .output()
        .expect("the program starts")
}

/// Standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Names of the files below `directory`.
pub(crate) fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}
