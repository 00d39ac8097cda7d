//! What all fabrics in real time have in common: the executor of a thread's clients, and their endpoint. How chains reach
//! other nodes is what [`QueuePairs`] are.
//!
//! | concept | module |
//! |---|---|
//! | how a thread's chains travel | `queue_pairs` |
//! | the executor of a thread's clients; a client's endpoint | `thread`, `endpoint` |
//! | the end of all waiting, from outside | `abort` |

mod abort;
mod endpoint;
mod queue_pairs;
mod thread;

pub use abort::Abort;
pub use endpoint::WallEndpoint;
pub use queue_pairs::{Answers, QueuePairs, RequestId};
pub use thread::{ClientThread, ThreadOptions};
