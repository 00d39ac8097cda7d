//! [`Abort`]: ends what a thread's clients wait for, from outside.

use std::sync::{Arc, OnceLock};

use crate::Error;

/// Ends whatever the clients of some threads wait for, and lets every later verb fail. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Abort(Arc<OnceLock<Error>>);

impl Abort {
    /// Lets everything fail with `why`; the first to ask is right.
    pub fn ask(&self, why: Error) {
        let _ = self.0.set(why);
    }

    /// Why everything is to fail, if it is.
    pub fn asked(&self) -> Option<&Error> {
        self.0.get()
    }
}
