//! What can go wrong with a lock.

use dmtree_cluster::{ClientId, GlobalAddr};

/// Why an acquire or a release failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The fabric failed.
    #[error(transparent)]
    Cluster(dmtree_cluster::Error),
    /// An invariant that the protocol claims does not hold: a bug in the protocol or the fabric.
    #[error("invariant violated: {0}")]
    Violation(crate::Violation),
    /// An earlier acquire or release of this client was dropped half-way or failed, or one of its guards was
    /// dropped without release: the lock is stuck, and the descriptor may still be in use by others.
    #[error("{client} is poisoned: {what} of the lock at {lock} was dropped or failed")]
    Poisoned {
        /// The client.
        client: ClientId,
        /// `"an acquire"`, `"a guard"` or `"a release"`.
        what: &'static str,
        /// The lock.
        lock: GlobalAddr,
    },
    /// The client holds as many locks as it has descriptors.
    #[error("{client} holds {held} locks at once, as many as it has descriptors for")]
    TooManyGuards {
        /// The client.
        client: ClientId,
        /// Descriptors in use.
        held: usize,
    },
    /// A guard was given to another client or to another protocol than it came from. It counts as dropped.
    #[error("{client} was given a guard of the lock at {lock} that is not its own")]
    ForeignGuard {
        /// Whom the guard was given to.
        client: ClientId,
        /// The lock it guards.
        lock: GlobalAddr,
    },
}

/// Why an acquire or a release failed: an [`ErrorKind`] behind a pointer.
///
/// One word, so that a result is one too where it brings nothing: results go up through every layer of futures
/// at every step of a protocol, errors hardly ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

// As the documentation of `Error` says: results of this size are returned in registers.
const _: () = assert!(size_of::<Error>() == size_of::<usize>());
const _: () = assert!(size_of::<Result<()>>() == size_of::<usize>());

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// What went wrong, taken out.
    pub fn into_kind(self) -> ErrorKind {
        *self.0
    }
}

impl From<ErrorKind> for Error {
    // Out of the way of what does not fail.
    #[cold]
    #[inline(never)]
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<dmtree_cluster::Error> for Error {
    #[cold]
    #[inline(never)]
    fn from(error: dmtree_cluster::Error) -> Self {
        ErrorKind::Cluster(error).into()
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
