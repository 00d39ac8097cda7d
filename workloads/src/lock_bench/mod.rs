//! The lock microbenchmark (FARLock, OSDI 2026, section 5): locks on one node, no tree, and clients that do nothing but
//! take one, work, and give it back.
//!
//! | concept | module |
//! |---|---|
//! | how long a critical section takes | [`section`] |
//! | requests at given times instead of a closed loop | [`arrivals`] |
//! | what clients do | [`driver`] |
//! | who was overtaken, and how a lock went from cohort to cohort | [`fairness`], `waiting` |
//! | who was served when | [`order`] |
//! | what a command line asks for | [`wanted`] |
//! | results as tables | [`table`] |
//! | `dmtree lock-bench` | [`command`] |

pub mod arrivals;
pub mod command;
pub mod driver;
pub mod fairness;
pub mod order;
pub mod section;
pub mod table;
mod waiting;
pub mod wanted;

pub use fairness::{Fairness, FairnessRow, FairnessTally};
pub use order::{Order, Served};
pub use wanted::LockBench;
