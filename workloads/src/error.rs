//! How a command fails.

use std::process::ExitCode;

/// Why a command did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The command line, the config file or the machine does not allow it. Exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The work itself failed: a check found a violation, a result could not be written. Exit
    /// status 1.
    #[error("{0}")]
    Work(String),
}

impl Failure {
    /// The same with another line of text.
    #[must_use]
    pub(crate) fn with_line(self, line: &str) -> Self {
        match self {
            Failure::Usage(why) => Failure::Usage(format!("{why}\n{line}")),
            Failure::Work(why) => Failure::Work(format!("{why}\n{line}")),
        }
    }

    /// The exit status.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Work(_) => ExitCode::from(1),
        }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Failure>;
