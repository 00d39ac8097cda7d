//! `--timeline`: the queues of a run's locks over virtual time, as a figure or as CSV.
//!
//! The measured window is cut into intervals. Of each: how many clients wait for a lock and how many hold one at its
//! end, the longest queue of any one lock then, and how many acquires began, tickets were taken and grants came within
//! it. All of it follows from what clients mark ([`dmtree_cluster::Mark`]), from the beginning of the run on, so that
//! queues that stood before the window are known in it.

mod csv;
mod sampler;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

use dmtree_cluster::{Chain, ClientId, Mark, NodeId, TraceSink};

use crate::error::Result;
use crate::files::write_whole;
use crate::plot::Caption;
use crate::plot::timeline::timeline_svg;
use crate::settings::{TimelineFormat, TimelineWanted};
pub(crate) use csv::timeline_csv;
use sampler::Sampler;
pub(crate) use sampler::{Sample, Samples};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineSummary {
    /// The file.
    pub path: PathBuf,
    /// Intervals.
    pub intervals: usize,
    /// Acquires that began in them, of local and of remote clients.
    pub acquires: [u64; 2],
    /// Grants in them, of local and of remote clients.
    pub grants: [u64; 2],
}

impl TimelineSummary {
    /// In words.
    pub fn text(&self) -> String {
        format!(
            "timeline: {} intervals with {} acquires and {} grants are in {}\n",
            self.intervals,
            self.acquires.iter().sum::<u64>(),
            self.grants.iter().sum::<u64>(),
            self.path.display()
        )
    }
}

/// Samples a run. Clones are the same timeline.
#[derive(Clone, Debug)]
pub(crate) struct Timeline(Rc<RefCell<Sampler>>);

impl Timeline {
    /// Of clients on `nodes` (in the order of their numbers): `window` and the length of an interval in picoseconds.
    pub(crate) fn new(
        nodes: impl Iterator<Item = NodeId>,
        window: Range<u64>,
        every_ps: u64,
    ) -> Self {
        Self(Rc::new(RefCell::new(Sampler::new(nodes, window, every_ps))))
    }

    /// For the simulation.
    pub(crate) fn sink(&self) -> Box<dyn TraceSink> {
        Box::new(self.clone())
    }

    /// Ends it at `now_ps` and writes what is `wanted`.
    ///
    /// # Errors
    /// [`crate::Failure::Work`] when the file cannot be written; nothing is left then.
    pub(crate) fn finish(
        &self,
        now_ps: u64,
        wanted: &TimelineWanted,
        caption: &Caption,
    ) -> Result<TimelineSummary> {
        let samples = self.0.borrow_mut().finish(now_ps);
        let text = match wanted.format {
            TimelineFormat::Svg => timeline_svg(&samples, caption)?,
            TimelineFormat::Csv => timeline_csv(&samples),
        };
        let path = wanted.place.path();
        write_whole(path, &text)?;
        let total = |of: fn(&Sample) -> [u64; 2]| {
            samples.rows.iter().fold([0, 0], |sum, row| {
                let more = of(row);
                [sum[0] + more[0], sum[1] + more[1]]
            })
        };
        Ok(TimelineSummary {
            path: path.to_owned(),
            intervals: samples.rows.len(),
            acquires: total(|row| row.acquires),
            grants: total(|row| row.grants),
        })
    }
}

impl TraceSink for Timeline {
    fn chain(&mut self, _: ClientId, _: u64, _: u64, _: &Chain) {}

    fn mark(&mut self, client: ClientId, at_ps: u64, mark: Mark) {
        self.0.borrow_mut().mark(client, at_ps, mark);
    }
}
