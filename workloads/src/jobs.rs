//! [`Job`]: a run and the settings that it is made with. Jobs of many settings are one sweep.

use std::thread::available_parallelism;

use crate::error::{Failure, Result};
use crate::fitting::advice;
use crate::memory::{available_bytes, runs_that_fit};
use crate::progress::Progress;
use crate::run::{RunOutcome, RunPlan, RunSpec, bytes_needed, nanos, runs_of};
use crate::settings::Settings;
use crate::store::{Resume, settings_of};
use crate::sweep::run_all;

/// One run, with everything that it needs.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    /// Whose run it is, where a command has several settings: in errors.
    pub(crate) of: &'a str,
    /// What it is made with.
    pub(crate) settings: &'a Settings,
    /// Which run.
    pub(crate) spec: RunSpec,
}

impl<'a> Job<'a> {
    /// All runs of `settings`.
    pub(crate) fn all_of(
        of: &'a str,
        settings: &'a Settings,
    ) -> impl Iterator<Item = Self> + use<'a> {
        let runs = runs_of(settings).into_iter();
        runs.map(move |spec| Self { of, settings, spec })
    }

    /// What tells the run from others: two with the same are one run.
    ///
    /// # Errors
    /// None in practice.
    pub(crate) fn identity(&self) -> Result<String> {
        Ok(settings_of(self.settings, &self.spec)?.to_string())
    }

    fn virtual_ns(&self) -> u64 {
        nanos(self.settings.warmup + self.settings.window)
    }

    /// The failure, with whose it is.
    fn failed(&self, failure: Failure) -> Failure {
        let with = |why: String| match self.of {
            "" => why,
            of => format!("{of}: {why}"),
        };
        match failure {
            Failure::Usage(why) => Failure::Usage(with(why)),
            Failure::Work(why) => Failure::Work(with(why)),
        }
    }
}

/// On how many threads the jobs fit into memory, the largest of them at once.
///
/// # Errors
/// [`Failure::Usage`] when not even one does, with what would.
pub(crate) fn threads_for(jobs: &[Job<'_>]) -> Result<usize> {
    let mut most: Option<(u128, &Job<'_>)> = None;
    for job in jobs {
        let bytes = bytes_needed(job.settings, &job.spec).map_err(|failure| job.failed(failure))?;
        if most.is_none_or(|(most, _)| bytes > most) {
            most = Some((bytes, job));
        }
    }
    let Some((bytes, largest)) = most else {
        return Ok(1);
    };
    let cores = available_parallelism().map_or(1, |cores| cores.get());
    runs_that_fit(bytes, available_bytes(), cores.min(jobs.len()), |usable| {
        advice(largest.settings, &runs_of(largest.settings), usable)
    })
    .map_err(|failure| largest.failed(failure))
}

/// Runs the `jobs` that `resume` has not found, and keeps what they find; the outcomes of all, in their order. Progress
/// counts what was found as done.
///
/// # Errors
/// That of the first job that fails.
pub(crate) fn run_jobs(
    jobs: &[Job<'_>],
    resume: Resume,
    threads: usize,
) -> Result<Vec<RunOutcome>> {
    let left = resume.left(jobs);
    let ns = |jobs: &[Job<'_>]| jobs.iter().map(Job::virtual_ns).sum::<u64>();
    let progress = Progress::resumed(ns(jobs), ns(jobs) - ns(&left));
    let new = run_all(&left, threads, |job, abandon| {
        let outcome = RunPlan::new(job.settings, &job.spec)
            .and_then(|plan| plan.execute(&progress, abandon))
            .map_err(|failure| job.failed(failure))?;
        resume.keep(job.settings, &outcome, &progress);
        Ok(outcome)
    });
    progress.end();
    Ok(resume.complete(new?))
}
