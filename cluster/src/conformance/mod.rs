//! The contract as tests: one suite that every fabric is held to.
//!
//! *Must-tests* ([`must_tests`]) state what a protocol may rely on; every fabric passes them, always. *May-tests*
//! ([`may_tests`]) state what it may not rely on: each tries to catch the fabric taking one of the contract's
//! freedoms and says whether it did. A kind fabric shows none; one that is meant to find bugs must show all.
//!
//! A fabric takes part by implementing [`TestBed`]. Clients of a test talk through the fabric alone, so they
//! may be in threads or processes of their own; what they report goes through [`Shared`].
//!
//! ```no_run
//! # use dmtree_cluster::conformance::{TestBed, must_tests};
//! fn holds(bed: &impl TestBed) {
//!     for test in must_tests() {
//!         if let Err(violation) = (test.run)(bed) {
//!             panic!("{} ({}): {violation}", test.name, test.contract);
//!         }
//!     }
//! }
//! ```

/// Ends the program with a [`Violation`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Violation::new(format!($($message)+)));
        }
    };
}

mod atomics;
mod bytes;
mod chains;
mod coroutines;
mod cpu;
mod dekker;
mod dropped;
mod errors;
mod fences;
mod freedoms;
mod lost;
mod order;
mod results;
mod scenario;
mod succession;
mod visibility;
mod waits;
mod words;

use std::fmt;

pub use scenario::{ClientProgram, Memory, Program, Scenario, Shared};

use crate::{Endpoint, Error};

/// A fabric that the suite can run on.
pub trait TestBed {
    /// Its clients' handle.
    type Endpoint: Endpoint + 'static;

    /// How many rounds a test of a race makes. Where a run is one of many seeds, few suffice; where only real
    /// time brings variety, thousands are needed.
    fn rounds(&self) -> u64 {
        20
    }

    /// Builds the cluster that the scenario asks for, runs its clients until all have finished, and returns
    /// what host memory then holds, late WRITEs included.
    ///
    /// Clients get the numbers of their places in [`Scenario::clients`].
    ///
    /// # Errors
    /// When the cluster cannot be built or its clients do not come to an end, in words.
    fn run(&self, scenario: Scenario<Self::Endpoint>) -> Result<Memory, String>;
}

/// What a fabric did against the contract, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    /// A violation, told in words.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// A call that should have succeeded has failed.
impl From<Error> for Violation {
    fn from(error: Error) -> Self {
        Self(format!("a call failed: {error}"))
    }
}

/// What a test or a client's program finds.
pub type Outcome<T = ()> = Result<T, Violation>;

/// A test that every fabric passes.
#[derive(Debug)]
pub struct MustTest<B> {
    /// What it is called.
    pub name: &'static str,
    /// The line of [the contract](crate#the-contract) that it states.
    pub contract: &'static str,
    /// Runs it.
    pub run: fn(&B) -> Outcome,
}

/// A test of one of the contract's freedoms.
#[derive(Debug)]
pub struct MayTest<B> {
    /// What it is called.
    pub name: &'static str,
    /// The line of [the contract](crate#the-contract) that leaves the freedom.
    pub contract: &'static str,
    /// Runs it: whether the fabric took the freedom this time.
    pub run: fn(&B) -> Outcome<bool>,
}

/// Every must-test.
pub fn must_tests<B: TestBed>() -> Vec<MustTest<B>> {
    [
        results::tests(),
        bytes::tests(),
        chains::tests(),
        order::tests(),
        fences::tests(),
        dekker::tests(),
        words::tests(),
        visibility::tests(),
        succession::tests(),
        atomics::tests(),
        cpu::tests(),
        waits::tests(),
        errors::tests(),
        dropped::tests(),
        coroutines::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Every may-test.
pub fn may_tests<B: TestBed>() -> Vec<MayTest<B>> {
    freedoms::tests().into_iter().chain(lost::tests()).collect()
}
