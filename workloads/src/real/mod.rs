//! Runs in real time: nodes as processes that reach each other over TCP.
//!
//! One config file tells all processes the same: the nodes with their addresses and roles, and what a simulated run is
//! told under the same names. Each process lays out the same memory map from it, serves its own node's part, and runs its
//! own node's clients. Nothing but verbs passes between them, also to begin together and to bring results to node 0
//! ([`control`]).
//!
//! | concept | module |
//! |---|---|
//! | the nodes of a cluster | [`nodes`] |
//! | beginning and ending together, over the fabric itself | [`control`] |
//! | one node's part of a run | [`node`] |
//! | the threads of its clients; who brings them through the run; what is verified then | `crew`, `conductor`, `afterwards` |
//! | verbs by RDMA, where it is asked for | [`rdma`] |
//! | whether a machine can be a node | [`doctor`] |
//! | whether somebody wants the process to end | `told` |
//! | what a node has measured, as bytes | [`report`] |
//! | all nodes, begun on this machine or by OpenSSH on theirs | [`launch`], `given` |

pub(crate) mod afterwards;
pub(crate) mod conductor;
pub mod control;
pub(crate) mod crew;
pub mod doctor;
pub(crate) mod given;
pub mod launch;
pub mod node;
pub mod nodes;
pub mod rdma;
pub mod report;
pub(crate) mod told;

use std::path::Path;

use dmtree_cluster::tcp::Key;

use crate::error::{Failure, Result};

/// Makes a new key in a new file.
///
/// # Errors
/// [`Failure::Usage`] when the file cannot be made, also when there is one already.
pub fn new_key(file: &Path) -> Result<()> {
    let key =
        Key::generate().map_err(|error| Failure::Work(format!("no random numbers: {error}")))?;
    key.write_new(file)
        .map_err(|error| Failure::Usage(error.to_string()))
}
