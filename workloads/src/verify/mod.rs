//! Whether what a run left behind in memory is what it was told to have done.
//!
//! | concept | module |
//! |---|---|
//! | what can still be the final value of each key that was written | [`history`] |
//! | that, with the loaded keys, as an expectation of each key | [`expected`] |
//! | the tree, its values and its caches against it | [`check`] |
//!
//! Nothing here knows a fabric: memory is read through [`Memory`], and the [`History`] of each process of a run can be
//! sent (it is `serde`'s) and merged into one.

pub mod check;
pub mod expected;
pub mod history;

pub(crate) use check::beyond;
pub use check::{Memory, Subject, Verified, Violation, verify_cache, verify_run};
pub use expected::{Expectation, Expected};
pub use history::{History, Register, Write};
