//! What is printed for people.

use std::io::{self, Write};

use crate::error::{Failure, Result};

/// Where text for people goes: standard output, or standard error when that is taken by data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Console {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Console {
    /// Prints `text`. A reader that has gone away (`dmtree … | head`) is no failure.
    ///
    /// # Errors
    /// [`Failure::Work`] when it cannot be written, to a full disk for example.
    pub(crate) fn print(self, text: &str) -> Result<()> {
        let written = match self {
            Console::Stdout => write_flushed(io::stdout().lock(), text),
            Console::Stderr => write_flushed(io::stderr().lock(), text),
        };
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let name = if self == Console::Stdout {
                    "output"
                } else {
                    "error"
                };
                Err(Failure::Work(format!(
                    "cannot write to standard {name}: {error}"
                )))
            }
            _ => Ok(()),
        }
    }
}

fn write_flushed(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}
