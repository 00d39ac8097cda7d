//! The figures of the FARLock paper (Hu et al., OSDI 2026), and studies around them.

pub mod figure12;

use crate::command::Command;
use crate::error::{Failure, Result};

/// What `figure` performs.
#[derive(Clone, Copy, Debug)]
pub enum Figure {
    /// One sweep.
    Sweep(&'static Command),
    /// The study of [`sensitivity`](crate::sensitivity).
    Sensitivity,
}

/// The figure called `name`.
///
/// # Errors
/// [`Failure::Usage`] when there is none, naming those that exist.
pub fn figure(name: &str) -> Result<Figure> {
    match name {
        "12" => Ok(Figure::Sweep(&figure12::COMMAND)),
        "sensitivity" => Ok(Figure::Sensitivity),
        _ => Err(Failure::Usage(format!(
            "there is no figure {name} here; there are 12 and sensitivity"
        ))),
    }
}
