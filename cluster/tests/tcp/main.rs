//! The fabric over TCP: the contract, with servers in this process and in processes of their own; what becomes of it when
//! peers die, hang, lie or are strangers.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod bed;
mod conformance;
mod failure;
mod strangers;
