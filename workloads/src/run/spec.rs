//! [`RunSpec`]: what distinguishes the runs of a sweep.

use std::fmt;

use dmtree_lock::{DataPath, LockSpec};

use crate::distribution::Distribution;
use crate::settings::Settings;
use crate::settings::choice::path_name;

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// The lock.
    pub lock: LockSpec,
    /// What its clients do.
    pub work: WorkSpec,
    /// The seed.
    pub seed: u64,
}

/// What the clients of a run do, as far as runs of one sweep differ in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkSpec {
    /// Operations on the tree.
    Tree {
        /// The request distribution.
        distribution: Distribution,
        /// How local clients reach page data.
        data_path: DataPath,
    },
    /// Taking locks and giving them back.
    Locks {
        /// How many there are.
        lock_count: u32,
    },
}

impl RunSpec {
    /// Whether it is the same run as `other`, with the same or another seed.
    pub fn is_but_for_seed(&self, other: &Self) -> bool {
        let seed = other.seed;
        Self {
            seed,
            ..self.clone()
        } == *other
    }

    /// In words, without the seed.
    pub fn title(&self) -> String {
        match self.work {
            WorkSpec::Tree {
                distribution,
                data_path,
            } => format!("{}, {distribution}, {}", self.lock, path_name(data_path)),
            WorkSpec::Locks { .. } => format!("{}, {}", self.lock, self.work),
        }
    }

    /// Part of the names of its files, `alock-20-5-zipf-0.99-cpu`: what a lock and a distribution are separated by is
    /// no part of file names everywhere.
    pub(crate) fn file_name(&self) -> String {
        match self.work {
            WorkSpec::Tree {
                distribution,
                data_path,
            } => format!("{}-{distribution}-{}", self.lock, path_name(data_path)),
            WorkSpec::Locks { lock_count } => {
                format!("{}-{lock_count}-{}", self.lock, locks_word(lock_count))
            }
        }
        .replace([':', ','], "-")
    }

    /// How many locks a memory server has in it.
    pub(crate) fn lock_count(&self, settings: &Settings) -> u32 {
        match self.work {
            WorkSpec::Tree { .. } => settings.lock_count,
            // The settings have the most of all runs: fewer are asked for where it is tried what would fit.
            WorkSpec::Locks { lock_count } => lock_count.min(settings.lock_count),
        }
    }
}

impl fmt::Display for WorkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree {
                distribution,
                data_path,
            } => write!(f, "{distribution}, data path {}", path_name(*data_path)),
            Self::Locks { lock_count } => f.write_str(&locks_text(*lock_count)),
        }
    }
}

fn locks_word(count: u32) -> &'static str {
    if count == 1 { "lock" } else { "locks" }
}

/// `1 lock`, `30 locks`.
pub(crate) fn locks_text(count: u32) -> String {
    format!("{count} {}", locks_word(count))
}

/// The runs that `settings` ask for, in the order of the results; those of one run's seeds follow each other.
pub fn runs_of(settings: &Settings) -> Vec<RunSpec> {
    let works: Vec<WorkSpec> = match &settings.lock_bench {
        None => {
            let paths = settings.data_paths.each().iter();
            paths
                .flat_map(|data_path| {
                    settings
                        .distributions
                        .iter()
                        .map(|distribution| WorkSpec::Tree {
                            distribution: *distribution,
                            data_path: *data_path,
                        })
                })
                .collect()
        }
        Some(bench) => {
            let counts = bench.lock_counts.iter();
            counts
                .map(|lock_count| WorkSpec::Locks {
                    lock_count: *lock_count,
                })
                .collect()
        }
    };
    let mut runs = Vec::new();
    for work in works {
        for lock in &settings.locks {
            for seed in settings.seeds() {
                runs.push(RunSpec {
                    lock: *lock,
                    work,
                    seed,
                });
            }
        }
    }
    runs
}
