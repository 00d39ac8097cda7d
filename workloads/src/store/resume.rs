//! [`Resume`]: what of a command's runs is done already.

use std::fs::File;

use super::{Found, Store};
use crate::error::Result;
use crate::jobs::Job;
use crate::progress::Progress;
use crate::run::RunOutcome;
use crate::settings::Settings;

/// The runs of a command, of which some may have been done before.
#[derive(Debug)]
pub(crate) struct Resume {
    store: Option<Store>,
    /// While it is open nobody else works in the store.
    lock: Option<File>,
    /// A run each, in the order of the results.
    found: Vec<Option<RunOutcome>>,
    /// Files that are not trusted.
    unusable: Vec<String>,
}

impl Resume {
    /// Looks for the runs that `jobs` are, where the command's `settings` have results; writes nothing. Without
    /// `--resume on` nothing is looked for and nothing kept, nor when a trace or a timeline is wanted, which only a run
    /// makes.
    ///
    /// # Errors
    /// [`crate::Failure::Usage`] when the program cannot read itself.
    pub(crate) fn of(settings: &Settings, jobs: &[Job<'_>]) -> Result<Self> {
        let recorded = settings.trace.is_some() || settings.timeline.is_some();
        let store = match &settings.out {
            Some(out) if settings.resume && !recorded => Some(Store::of(out)?),
            _ => None,
        };
        Self::from(store, jobs)
    }

    pub(super) fn from(store: Option<Store>, jobs: &[Job<'_>]) -> Result<Self> {
        let mut unusable = Vec::new();
        let mut found = Vec::new();
        for job in jobs {
            found.push(match &store {
                None => None,
                Some(store) => match store.find(job.settings, &job.spec)? {
                    Found::Run(outcome) => Some(*outcome),
                    Found::Nothing => None,
                    Found::Unusable(why) => {
                        unusable.push(why);
                        None
                    }
                },
            });
        }
        Ok(Self {
            store,
            lock: None,
            found,
            unusable,
        })
    }

    /// Those of `jobs` that are left to do.
    pub(crate) fn left<'a>(&self, jobs: &[Job<'a>]) -> Vec<Job<'a>> {
        let all = jobs.iter().zip(&self.found);
        all.filter(|(_, found)| found.is_none())
            .map(|(job, _)| job.clone())
            .collect()
    }

    /// Makes sure that runs can be kept.
    ///
    /// # Errors
    /// [`crate::Failure::Usage`] when they cannot, or another process keeps its own there.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        self.lock = self.store.as_ref().map(Store::take).transpose()?;
        Ok(())
    }

    /// What people are told of it.
    pub(crate) fn text(&self) -> String {
        let Some(store) = &self.store else {
            return String::new();
        };
        let again: String = self
            .unusable
            .iter()
            .map(|why| format!("{why}; the run is done again\n"))
            .collect();
        format!(
            "{again}{} of {} runs are taken from {}\n",
            self.found.iter().flatten().count(),
            self.found.len(),
            store.directory().display()
        )
    }

    /// Keeps what a run with these `settings` has found. That it cannot be kept is told and costs no result: it would
    /// have to be run again.
    pub(crate) fn keep(&self, settings: &Settings, outcome: &RunOutcome, progress: &Progress) {
        let Some(store) = &self.store else { return };
        if let Err(failure) = store.keep(settings, outcome) {
            progress.tell(&format!(
                "warning: {failure}; a later command will have to run it again\n"
            ));
        }
    }

    /// All runs, in the order of the results, with those that were left to do.
    pub(crate) fn complete(self, new: Vec<RunOutcome>) -> Vec<RunOutcome> {
        let mut new = new.into_iter();
        self.found
            .into_iter()
            .filter_map(|found| found.or_else(|| new.next()))
            .collect()
    }
}
