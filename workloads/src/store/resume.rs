//! [`Resume`]: what of a command's runs is done already.

use std::fs::File;

use super::{Found, Store};
use crate::error::Result;
use crate::progress::Progress;
use crate::run::{RunOutcome, RunSpec};
use crate::settings::Settings;

/// The runs of a command, of which some may have been done before.
#[derive(Debug)]
pub(crate) struct Resume<'a> {
    settings: &'a Settings,
    store: Option<Store>,
    /// While it is open nobody else works in the store.
    lock: Option<File>,
    /// A run each, in the order of the results.
    found: Vec<Option<RunOutcome>>,
    /// Files that are not trusted.
    unusable: Vec<String>,
}

impl<'a> Resume<'a> {
    /// Looks for the `runs` of `settings`; writes nothing. Without `--resume on` nothing is looked for and nothing
    /// kept, nor when a trace or a timeline is wanted, which only a run makes.
    ///
    /// # Errors
    /// [`crate::Failure::Usage`] when the program cannot read itself.
    pub(crate) fn of(settings: &'a Settings, runs: &[RunSpec]) -> Result<Self> {
        let recorded = settings.trace.is_some() || settings.timeline.is_some();
        let store = match &settings.out {
            Some(out) if settings.resume && !recorded => Some(Store::of(out)?),
            _ => None,
        };
        Self::from(store, settings, runs)
    }

    pub(super) fn from(
        store: Option<Store>,
        settings: &'a Settings,
        runs: &[RunSpec],
    ) -> Result<Self> {
        let mut unusable = Vec::new();
        let mut found = Vec::new();
        for spec in runs {
            found.push(match &store {
                None => None,
                Some(store) => match store.find(settings, spec)? {
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
            settings,
            store,
            lock: None,
            found,
            unusable,
        })
    }

    /// Those of `runs` that are left to do.
    pub(crate) fn left(&self, runs: &[RunSpec]) -> Vec<RunSpec> {
        let all = runs.iter().zip(&self.found);
        all.filter(|(_, found)| found.is_none())
            .map(|(spec, _)| spec.clone())
            .collect()
    }

    /// How many are done.
    pub(crate) fn done(&self) -> usize {
        self.found.iter().flatten().count()
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
            self.done(),
            self.found.len(),
            store.directory().display()
        )
    }

    /// Keeps what a run has found. That it cannot be kept is told and costs no result: it would have to be run again.
    pub(crate) fn keep(&self, outcome: &RunOutcome, progress: &Progress) {
        let Some(store) = &self.store else { return };
        if let Err(failure) = store.keep(self.settings, outcome) {
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
