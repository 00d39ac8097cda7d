//! [`Release`]: how a holder finds out whether somebody waits behind it in a queue.

/// What a release of MCS or of ALock does first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Release {
    /// It looks whether a successor is linked, in the holder's own memory, and sends the CAS of the tail only if
    /// there is none.
    #[default]
    Look,
    /// It sends the CAS of the tail always, and looks for its successor when that has failed: as the published code
    /// of both locks (`cas-release`).
    Cas,
}

impl Release {
    /// What is written behind a lock's name for [`Release::Cas`].
    pub(crate) const CAS: &'static str = "cas-release";

    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Release::Look => "look",
            Release::Cas => "cas",
        }
    }

    /// What stands behind a lock's name for it.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Release::Look => "",
            Release::Cas => ":cas-release",
        }
    }
}
