//! [`Told`]: whether somebody wants this process to end.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dmtree_cluster::ErrorKind;
use dmtree_cluster::wall::Abort;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::error::{Failure, Result};

/// Whether somebody wants this process to end: by Ctrl-C, by SIGTERM, or as the one who began it has gone. Clones are the
/// same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    is_told: Arc<AtomicBool>,
    /// Ends attempts to reach others.
    connecting: Abort,
}

impl Told {
    /// Listens to signals from now on. The first lets the run end cleanly; the second ends the process at once.
    ///
    /// # Errors
    /// [`Failure::Work`] when the operating system does not let it.
    pub(crate) fn by_signals() -> Result<Self> {
        let failed =
            |error: std::io::Error| Failure::Work(format!("cannot listen to signals: {error}"));
        let told = Self::default();
        let second = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: what the first sets is seen by the second only.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&second))
                .map_err(failed)?;
            flag::register(signal, Arc::clone(&second)).map_err(failed)?;
        }
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let heard = told.clone();
        let listen = move || {
            for signal in signals.forever() {
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
                heard.tell(name);
            }
        };
        std::thread::Builder::new()
            .name("dmtree-signals".to_owned())
            .spawn(listen)
            .map_err(failed)?;
        Ok(told)
    }

    /// Ends as well when nothing more can come from standard input: the process that began this one has gone.
    ///
    /// # Errors
    /// [`Failure::Work`] when the operating system does not let it.
    pub(crate) fn or_by_the_end_of_stdin(&self) -> Result<()> {
        let heard = self.clone();
        let listen = move || {
            let mut bytes = [0; 256];
            while matches!(std::io::stdin().read(&mut bytes), Ok(read) if read > 0) {}
            heard.tell("the end of its standard input");
        };
        std::thread::Builder::new()
            .name("dmtree-stdin".to_owned())
            .spawn(listen)
            .map(drop)
            .map_err(|error| Failure::Work(format!("cannot listen to standard input: {error}")))
    }

    fn tell(&self, by: &str) {
        if !self.is_told.swap(true, Ordering::AcqRel) {
            tracing::warn!(by, "told to end");
        }
        let why = format!("told so by {by}");
        self.connecting.ask(ErrorKind::Aborted { why }.into());
    }

    /// Whether somebody has said so.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Acquire)
    }

    /// What ends attempts to reach others.
    pub(crate) fn connecting(&self) -> Abort {
        self.connecting.clone()
    }
}
