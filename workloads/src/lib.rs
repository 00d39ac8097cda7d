//! Workloads, driver, results and figures of dmtree, and its command line.
//!
//! | concept | module |
//! |---|---|
//! | which keys: uniform, exact Zipf | [`distribution`], [`permutation`] |
//! | which operations | [`mix`] |
//! | locks alone, without a tree | [`lock_bench`] |
//! | closed-loop clients, warm-up, measured window | [`driver`] |
//! | what inserts cost, by purpose | [`inserts`] |
//! | whether memory holds what was acknowledged | [`verify`] |
//! | latency histograms and what may be read from them | [`latency`] |
//! | finished runs in files, to go on from | `store` |
//! | one simulated run; many of them on all cores | [`run`], [`sweep`] |
//! | a run with several seeds, told as one | [`seeds`] |
//! | what a run does, verb by verb; its queues over time | [`trace`], [`timeline`] |
//! | results: JSON, CSV, `.hgrm`, tables, SVG | [`report`], [`csv_text`], [`hgrm`], [`table`], [`plot`], [`page`] |
//! | published claims, and how the measured compares | [`claims`] |
//! | options by flag and by TOML file | [`settings`] |
//! | what the claims depend on | [`sensitivity`] |
//! | the commands, what they run and how that is done | [`command`], [`plan`], [`perform`], [`figures`], [`cli`] |

pub mod claims;
pub mod cli;
pub mod command;
mod console;
pub mod csv_text;
pub mod distribution;
pub mod driver;
mod error;
pub mod figures;
mod files;
mod fitting;
pub mod hgrm;
pub mod inserts;
mod jobs;
pub mod latency;
pub mod lock_bench;
mod lock_memory;
mod memory;
pub mod mix;
pub mod page;
pub mod perform;
pub mod permutation;
pub mod plan;
pub mod plot;
mod progress;
pub mod real;
mod remarks;
pub mod report;
pub mod results;
pub mod run;
pub mod seeds;
pub mod sensitivity;
pub mod settings;
mod store;
pub mod sweep;
pub mod table;
pub mod timeline;
pub mod trace;
pub mod verify;

pub use error::{Failure, Result};
pub use progress::Progress;
