//! Real RDMA: nodes reach each other's memory by the verbs of an RDMA device, hardware or in software (`rdma_rxe`).
//!
//! A node registers its memory and lets the device serve it; its CPU executes nothing for others. A thread of clients has a
//! reliable connection to every node, its own one among them: a queue pair, which the thread's clients share. A chain is a
//! list of linked work requests with one doorbell, of which the last one alone tells that it is done: completions of a
//! connection come in order. Fences are the work requests' own.
//!
//! Set-up goes over the TCP fabric, which knows who belongs to the cluster; it goes on to serve memory as well, so that what
//! begins, ends and watches a run need not know of RDMA.
//!
//! | concept | module |
//! |---|---|
//! | the verbs library, behind safe types | `sys` |
//! | a node's memory as others reach it | `target` |
//! | how both ends of a connection learn of each other | `exchange` |
//! | a thread's connections | `queue_pairs` |
//!
//! # What there is not
//! Native swaps: no device's interface in the bindings has them; locks use a loop of CAS. The memory of the RNIC itself: host
//! memory stands for it.

mod exchange;
mod queue_pairs;
mod sys;
mod target;

pub use exchange::{Acceptor, Exchange};
pub use queue_pairs::VerbsQueuePairs;
pub use sys::{Device, DeviceChoice, DeviceError, DeviceInfo, devices};

/// A thread's clients over verbs.
pub type ClientThread = crate::wall::ClientThread<VerbsQueuePairs>;
/// A client over verbs.
pub type VerbsEndpoint = crate::wall::WallEndpoint<VerbsQueuePairs>;
