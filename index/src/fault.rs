//! Inserts broken on purpose: what the tests must catch. Not compiled into production builds.

/// A step that an insert makes too early or leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// A split page points to its new sibling before that has been written.
    PublishedBeforeWritten,
    /// A slot of a leaf is told occupied before its entry has been written.
    BitBeforeEntry,
    /// A slot is filled without a new sequence word.
    SameSequence,
    /// A new root is put in the place of whatever root there is.
    RootOverwritten,
    /// A new page is not made visible to its node's CPU before it is pointed to.
    NewPageUnflushed,
}
