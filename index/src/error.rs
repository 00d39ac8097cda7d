//! What can go wrong with a tree.

use dmtree_cluster::GlobalAddr;

/// Why an operation on a tree, or building one, failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The fabric failed.
    #[error(transparent)]
    Cluster(dmtree_cluster::Error),
    /// A page's lock failed.
    #[error(transparent)]
    Lock(dmtree_lock::Error),
    /// A pointer led to what is no page of the tree: memory was overwritten, or the peer serves another tree.
    #[error("the page at {page} is damaged: {why}")]
    BadPage {
        /// Where the pointer led.
        page: GlobalAddr,
        /// What is wrong there.
        why: &'static str,
    },
    /// A descent did not arrive at a leaf that is responsible for the key.
    #[error(
        "no way to the leaf of key {key}: gave up after {restarts} restarts and {moves} moves to the right, last at {page}: {why}"
    )]
    Astray {
        /// The key that was looked for.
        key: u64,
        /// How often the descent began anew.
        restarts: u32,
        /// How many siblings it followed.
        moves: u32,
        /// The page that it saw last.
        page: GlobalAddr,
        /// What was wrong there.
        why: &'static str,
    },
    /// An option that cannot be.
    #[error("{option}: {why}")]
    Options {
        /// Its name.
        option: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A tree of that size cannot be addressed.
    #[error(
        "a tree of {keys} keys, with the memory that is spare, takes {bytes} bytes; no address reaches as far"
    )]
    TooLarge {
        /// Keys to be loaded.
        keys: u64,
        /// Bytes of the pages and of what is spare.
        bytes: u128,
    },
    /// Bulk load was given a key that is not beyond the one before.
    #[error("bulk load needs keys in ascending order, each once: {key} came after {previous}")]
    Unsorted {
        /// The key before.
        previous: u64,
        /// The key.
        key: u64,
    },
    /// Bulk load was given more keys than its plan reserved memory for.
    #[error("bulk load was planned for {planned} keys and was given more")]
    MoreThanPlanned {
        /// Keys of the plan.
        planned: u64,
    },
}

/// Why an operation on a tree, or building one, failed: an [`ErrorKind`] behind a pointer.
///
/// One word, so that a result is one too where it brings nothing: results go up through every layer of futures
/// at every step of a protocol, errors hardly ever.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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

impl From<dmtree_lock::Error> for Error {
    #[cold]
    #[inline(never)]
    fn from(error: dmtree_lock::Error) -> Self {
        ErrorKind::Lock(error).into()
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
