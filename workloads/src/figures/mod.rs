//! The figures of the FARLock paper (Hu et al., OSDI 2026), and studies around them.

pub mod all;
pub mod figure10;
pub mod figure11;
pub mod figure12;
pub mod figure3;
pub mod figure7;
pub mod figure8;
pub mod figure9;
mod microbench;
mod order_drawing;
pub(crate) mod round_trip;
mod sweep_drawing;
pub mod threshold;

use crate::command::Command;
use crate::error::{Failure, Result};

/// What `figure` performs.
#[derive(Clone, Copy, Debug)]
pub enum Figure {
    /// One sweep.
    Sweep(&'static Command),
    /// All of those that are sweeps, by [`all`].
    All,
    /// The study of [`sensitivity`](crate::sensitivity).
    Sensitivity,
}

/// The figure called `name`.
///
/// # Errors
/// [`Failure::Usage`] when there is none, naming those that exist.
pub fn figure(name: &str) -> Result<Figure> {
    Ok(match name {
        "3" => Figure::Sweep(&figure3::COMMAND),
        "7" => Figure::Sweep(&figure7::COMMAND),
        "8" => Figure::Sweep(&figure8::COMMAND),
        "9" => Figure::Sweep(&figure9::COMMAND),
        "10" => Figure::Sweep(&figure10::COMMAND),
        "11" => Figure::Sweep(&figure11::COMMAND),
        "12" => Figure::Sweep(&figure12::COMMAND),
        "threshold" => Figure::Sweep(&threshold::COMMAND),
        "all" => Figure::All,
        "sensitivity" => Figure::Sensitivity,
        _ => {
            return Err(Failure::Usage(format!(
                "there is no figure {name} here; there are 3, 7, 8, 9, 10, 11, 12, all, sensitivity and threshold"
            )));
        }
    })
}
