//! Progress of a sweep, shown on a terminal only.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::Console;

/// Progress over all runs of a command, in virtual time. Shared by the threads that run them.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Over `total_ns` nanoseconds of virtual time, on standard error if that is a terminal.
    pub fn new(total_ns: u64) -> Self {
        Self::resumed(total_ns, 0)
    }

    /// The same, `done_ns` of which were done by an earlier command: they count as done, and the time that is left is
    /// estimated from what this one does.
    pub fn resumed(total_ns: u64, done_ns: u64) -> Self {
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
        begin_at(&bar, done_ns / 1000);
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

    /// Prints `text` on standard error, above the bar.
    pub(crate) fn tell(&self, text: &str) {
        // Where standard error cannot be written to there is nobody to tell.
        self.bar.suspend(|| drop(Console::Stderr.print(text)));
    }

    /// Takes the bar off the terminal.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Has the bar begin at `position`, which says nothing of how fast it goes. Before its ticker is on: the estimate is
/// told of the position by a tick from here.
fn begin_at(bar: &ProgressBar, position: u64) {
    bar.set_position(position);
    bar.tick();
    bar.reset_eta();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_is_no_speed() {
        let bar = ProgressBar::with_draw_target(Some(1_000_000), ProgressDrawTarget::hidden());
        begin_at(&bar, 900_000);
        assert_eq!(bar.position(), 900_000);
        std::thread::sleep(Duration::from_millis(30));
        bar.set_position(900_100);
        bar.tick();
        // 100 steps in 30 ms or more; a tenth of the bar is left.
        assert!(bar.per_sec() < 4_000.0, "{}", bar.per_sec());
        assert!(bar.eta() > Duration::from_secs(20), "{:?}", bar.eta());
    }
}
