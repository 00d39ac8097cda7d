//! Progress of a sweep, shown on a terminal only.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress over all runs of a command, in virtual time. Shared by the threads that run them.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Over `total_ns` nanoseconds of virtual time, on standard error if that is a terminal.
    pub fn new(total_ns: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(
            Some(total_ns / 1000),
            ProgressDrawTarget::stderr_with_hz(8),
        );
        // The template is a constant; should it not parse, the plain bar does.
        if let Ok(style) =
            ProgressStyle::with_template("{wide_bar} {percent:>3} %  {elapsed} + {eta}  {msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar }
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Self {
            bar: ProgressBar::hidden(),
        }
    }

    /// Tells what has been begun.
    pub fn begin(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// `ns` more nanoseconds of virtual time have passed in some run.
    pub fn advance(&self, ns: u64) {
        self.bar.inc(ns / 1000);
    }

    /// Takes the bar off the terminal.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
