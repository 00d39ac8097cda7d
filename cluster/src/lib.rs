//! Addresses, verbs and fabrics of a disaggregated-memory cluster.
//!
//! Nodes serve memory; clients reach any of it through an [`Endpoint`], by one-sided verbs posted alone or in
//! [`Chain`]s, and reach their own node's memory by CPU as well. Locks and trees are written once over
//! [`Endpoint`] and run on every fabric:
//!
//! | situation | use |
//! |---|---|
//! | results in virtual time from one process, reproducible to the byte | [`sim`] |
//! | nodes as processes, on one machine or several, in real time | [`tcp`] |
//!
//! # The contract
//! What a protocol may rely on, and no more. A fabric may be kinder.
//!
//! * One queue pair (one client thread, one target node): WRITE→anything, READ→READ, atomic→READ and
//!   atomic→atomic take effect in posting order. READ→WRITE, READ→atomic and atomic→WRITE do so only with a
//!   fence on the later one ([`Chain::fence`]). Between queue pairs there is no order: a verb is ordered after
//!   another's completion only.
//! * A READ or an atomic takes effect after the WRITEs that its queue pair sent before it for everybody, the
//!   host's CPU included (over PCIe a read request pushes the posted writes before it). Stores to one word, by CPU
//!   or verb, are seen by all in the order in which they take effect.
//! * WRITEs of one queue pair become visible to acquire loads of the host CPU in order. CPU stores before a
//!   post precede that verb. A completed loopback verb is visible to the host; a completed remote verb is
//!   visible to later verbs of anybody at that node, to its CPU a little later.
//! * Only an aligned 8-byte word is read or written at one instant. A longer WRITE lands word by word in
//!   increasing address order; a longer READ may mix old and new words.
//! * RNIC atomics are atomic among themselves, per node. Against CPU stores and read-modify-writes of the same
//!   word they are NOT, nor against WRITEs: what changes the word between an atomic's read and its write is lost.
//!   Words that any RNIC atomic touches are modified through the RNIC only, also by their own host, or never
//!   concurrently.

mod addr;
mod chunks;
pub mod conformance;
mod endpoint;
mod error;
mod memory_map;
mod prefetch;
pub mod region;
pub mod sim;
pub mod tcp;
mod trace;
mod verb;
#[cfg(feature = "verbs")]
pub mod verbs;
pub mod wall;

pub use addr::{ClientId, GlobalAddr, LINE_BYTES, NodeId};
pub use chunks::{ChunkAllocator, ChunkHeap, DEFAULT_CHUNK_BYTES, SetupAllocator};
pub use endpoint::{Capabilities, Endpoint, Line, PollBackoff, WaitBounds, WaitFor};
pub use error::{Error, ErrorKind, Result};
pub use memory_map::{MemoryKind, MemoryMap};
pub use prefetch::prefetch;
pub use trace::{Mark, TraceSink};
pub use verb::{Chain, Op, Slot, Verb};
