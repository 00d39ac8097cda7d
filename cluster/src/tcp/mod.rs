//! A real cluster: nodes as processes that reach each other's memory over TCP.
//!
//! A node's process owns its memory ([`crate::region::Regions`]), serves it by a [`Server`], and runs its clients by
//! threads of its own, a [`ClientThread`] each. A client thread has one connection to every memory server, its own one
//! among them: a queue pair. A frame on it carries a chain; the server executes its verbs in order, knows nothing of
//! locks and trees, and answers with one frame. CPU accesses of a node's own clients go to the same words directly.
//!
//! | concept | module |
//! |---|---|
//! | a chain as bytes | [`wire`] |
//! | who may connect | [`key`], `handshake` |
//! | serving memory | `server` |
//! | a queue pair; all of a thread's | `link`, `queue_pairs` |
//! | a thread's clients; a client | [`crate::wall`] |
//!
//! # What is kinder than the contract
//! Verbs of a queue pair take effect in posting order whether they are fenced or not, and RNIC atomics are atomic against
//! CPUs. No protocol may count on it: the simulated fabric shows what happens then.
//!
//! # Failure
//! A server that closes its connection, or owes an answer for longer than [`ThreadConfig::answer_limit`], is gone: all
//! verbs on their way to it, and later ones, fail with [`crate::ErrorKind::PeerGone`], which names it, and so does every
//! wait of the thread's clients for their own memory, as the one who was to write there may be gone with it. A server
//! survives its clients.
//!
//! # Security
//! Only who has the cluster's key gets beyond the handshake; see `handshake.rs` for what that is worth.

#[doc(hidden)]
pub mod fuzz;
mod handshake;
pub mod key;
mod link;
mod queue_pairs;
mod server;
mod transport;
pub mod wire;

pub use handshake::Cluster;
pub use key::{Key, KeyError};
pub use queue_pairs::{TcpQueuePairs, ThreadConfig};
pub use server::{Server, ServerConfig};
pub use wire::Malformed;

/// A thread's clients over TCP.
pub type ClientThread = crate::wall::ClientThread<TcpQueuePairs>;
/// A client over TCP.
pub type TcpEndpoint = crate::wall::WallEndpoint<TcpQueuePairs>;
