//! What can go wrong between a client and the memory it reaches.

use crate::{GlobalAddr, NodeId};

/// Why a verb, a CPU access or a wait failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The peer died, hangs or cannot be reached.
    #[error("{node} is gone: {why}")]
    PeerGone {
        /// The peer.
        node: NodeId,
        /// What was seen of it last.
        why: String,
    },
    /// The peer is of another version, configuration or run, or is not who it was taken for.
    #[error("{node} does not fit: {why}")]
    PeerDiffers {
        /// The peer.
        node: NodeId,
        /// What differs, with both values.
        why: String,
    },
    /// The access ends beyond the memory that the node serves.
    #[error("{what} of {len} bytes at {addr} is outside of that node's memory of {limit} bytes")]
    OutOfBounds {
        /// The verb or CPU access.
        what: &'static str,
        /// Where it starts.
        addr: GlobalAddr,
        /// Its length in bytes.
        len: u64,
        /// What the node serves there, in bytes.
        limit: u64,
    },
    /// An atomic or a CPU word access that is not 8-byte aligned.
    #[error("{what} at {addr} is not aligned to 8 bytes")]
    Misaligned {
        /// The verb or CPU access.
        what: &'static str,
        /// Where.
        addr: GlobalAddr,
    },
    /// The access is one that this endpoint may not make.
    #[error("{what} at {addr} is not permitted: {why}")]
    NotPermitted {
        /// The verb or CPU access.
        what: &'static str,
        /// Where.
        addr: GlobalAddr,
        /// The rule.
        why: &'static str,
    },
    /// A wait passed the configured limit.
    #[error("gave up waiting for {what} at {addr} after {} us", .waited_ns / 1000)]
    WaitLimit {
        /// What was waited for.
        what: &'static str,
        /// The lock or word.
        addr: GlobalAddr,
        /// For how long, in nanoseconds of the fabric's clock.
        waited_ns: u64,
    },
    /// Somebody from outside ended what was waited for.
    #[error("ended: {why}")]
    Aborted {
        /// Who, and why.
        why: String,
    },
    /// A memory server has no chunk left to hand out.
    #[error("{node} has no free memory left: its heap of {heap_bytes} bytes is handed out")]
    OutOfMemory {
        /// The memory server.
        node: NodeId,
        /// The size of its heap.
        heap_bytes: u64,
    },
}

/// Why a verb, a CPU access or a wait failed: an [`ErrorKind`] behind a pointer.
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

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
