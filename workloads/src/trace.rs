//! `--trace`: what the clients of a run do, verb by verb, as a file that Perfetto and chrome://tracing open.
//!
//! Nodes are processes, clients are threads. A thread has slices for waits for locks, for critical sections, and
//! within and between them for chains of verbs, from posting to completion. All that overlap the traced window are in
//! the file, whole: a wait may begin before the window and end after it.
//!
//! Waits and critical sections are pairs of a begin and an end, chains are complete slices written when they
//! complete; that is the order of each thread's time, and since nothing is kept back a run of any length can be
//! traced. Times are virtual.

mod event;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use dmtree_cluster::{Chain, ClientId, Mark, NodeId, TraceSink};

use crate::error::Result;
use crate::files::{Growing, cannot_write};
use writer::Writer;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TraceSummary {
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Events of the file, those that name processes and threads among them.
    pub events: u64,
    /// Chains.
    pub chains: u64,
    /// Verbs of these chains.
    pub verbs: u64,
    /// Waits for locks.
    pub waits: u64,
    /// Critical sections.
    pub critical_sections: u64,
}

impl TraceSummary {
    /// In words.
    pub fn text(&self) -> String {
        format!(
            "trace: {} events ({} chains of {} verbs, {} lock waits, {} critical sections) are in {}\n",
            self.events,
            self.chains,
            self.verbs,
            self.waits,
            self.critical_sections,
            self.path.display()
        )
    }
}

/// A client's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) node: NodeId,
    pub(crate) thread: u16,
    /// Among those of its thread; none where each thread has one.
    pub(crate) coroutine: Option<u16>,
}

/// What the file says of its run.
#[derive(Debug, serde::Serialize)]
pub(crate) struct About {
    pub(crate) program: &'static str,
    pub(crate) version: &'static str,
    /// The run in words.
    pub(crate) run: String,
    pub(crate) profile: &'static str,
    pub(crate) seed: u64,
    /// Whose: `virtual`.
    pub(crate) time: &'static str,
}

/// Writes the trace of a run. Clones are the same trace.
#[derive(Clone, Debug)]
pub(crate) struct Trace(Rc<RefCell<Writer>>);

impl Trace {
    /// Begins the file at `path` for a run of clients at `places`, of which what is in `window` (in picoseconds) is
    /// wanted; `server` is the memory server.
    ///
    /// # Errors
    /// [`crate::Failure::Work`] when the file cannot be made.
    pub(crate) fn create(
        path: &Path,
        places: impl Iterator<Item = Place>,
        server: NodeId,
        window: Range<u64>,
    ) -> Result<Self> {
        let file = Growing::create(path).map_err(|error| cannot_write(path, &error))?;
        let mut writer = Writer::new(file, path, window);
        writer.name_all(places, server);
        Ok(Self(Rc::new(RefCell::new(writer))))
    }

    /// For the simulation.
    pub(crate) fn sink(&self) -> Box<dyn TraceSink> {
        Box::new(self.clone())
    }

    /// Ends the file at `now_ps`; without the simulation going on.
    ///
    /// # Errors
    /// [`crate::Failure::Work`] when something could not be written since the beginning; nothing is left then.
    pub(crate) fn finish(&self, now_ps: u64, about: &About) -> Result<TraceSummary> {
        let mut writer = self.0.borrow_mut();
        writer
            .finish(now_ps, about)
            .map_err(|error| cannot_write(writer.path(), &error))?;
        Ok(writer.summary())
    }
}

impl TraceSink for Trace {
    fn chain(&mut self, client: ClientId, posted_ps: u64, completed_ps: u64, chain: &Chain) {
        self.0
            .borrow_mut()
            .chain(client, posted_ps, completed_ps, chain);
    }

    fn mark(&mut self, client: ClientId, at_ps: u64, mark: Mark) {
        self.0.borrow_mut().mark(client, at_ps, mark);
    }
}
