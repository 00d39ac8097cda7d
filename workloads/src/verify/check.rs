//! [`verify_run`]: the tree, its values and its caches against what was acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmtree_cluster::{GlobalAddr, NodeId};
use dmtree_index::{Defect, IndexCache, SoundLeaf, Survey, TreeMeta};
use serde::Serialize;

use super::expected::Expectation;
use super::history::History;

/// The memory that a run left behind.
///
/// Implemented for closures, and for the memories of nodes, as words from offset 0.
pub trait Memory {
    /// Brings the words at `addr`, which nobody changes any more.
    ///
    /// # Errors
    /// Whatever keeps it from doing so; the verification ends with it.
    fn read(&mut self, addr: GlobalAddr, words: &mut [u64]) -> dmtree_index::Result<()>;
}

impl<F: FnMut(GlobalAddr, &mut [u64]) -> dmtree_index::Result<()>> Memory for F {
    fn read(&mut self, addr: GlobalAddr, words: &mut [u64]) -> dmtree_index::Result<()> {
        self(addr, words)
    }
}

impl Memory for BTreeMap<NodeId, &[u64]> {
    fn read(&mut self, addr: GlobalAddr, words: &mut [u64]) -> dmtree_index::Result<()> {
        let memory = self.get(&addr.node()).copied().unwrap_or_default();
        let from = addr.offset() as usize / 8;
        let Some(place) = memory.get(from..from + words.len()) else {
            return beyond(addr, words, memory.len());
        };
        words.copy_from_slice(place);
        Ok(())
    }
}

/// The tree leads beyond a memory of `limit` words.
pub(crate) fn beyond(addr: GlobalAddr, words: &[u64], limit: usize) -> dmtree_index::Result<()> {
    let kind = dmtree_cluster::ErrorKind::OutOfBounds {
        what: "verification",
        addr,
        len: size_of_val(words) as u64,
        limit: limit as u64 * 8,
    };
    Err(dmtree_cluster::Error::from(kind).into())
}

/// What is verified.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The tree.
    pub meta: &'a TreeMeta,
    /// What was written to it, by all processes.
    pub history: &'a History,
    /// The index cache of every compute server, in their order; those of other processes are verified there.
    pub caches: &'a [Arc<IndexCache>],
}

/// What was looked at and found right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Verified {
    /// Keys, each with its value.
    pub keys: u64,
    /// Of them, keys that were written.
    pub written: u64,
    /// Pages of the tree.
    pub pages: u64,
    /// Copies of pages in index caches.
    pub cached: u64,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Violation {
    /// The memory could not be read.
    #[error("the memory cannot be read: {0}")]
    Unreadable(dmtree_index::Error),
    /// The tree is not sound.
    #[error("the tree is not sound: {0}")]
    Tree(#[from] Defect),
    /// An index cache does not lead to where keys are.
    #[error("the index cache of node {node} is not sound: {defect}")]
    Cache {
        /// Whose.
        node: usize,
        /// What is wrong.
        defect: Defect,
    },
    /// A key has a value that it cannot have.
    #[error("key {key} has the value {found} in page {page}; expected {expected}")]
    Value {
        /// Which key.
        key: u64,
        /// What it has.
        found: u64,
        /// What it can have.
        expected: String,
        /// Where it is.
        page: GlobalAddr,
    },
    /// A key is not there.
    #[error("key {key} is not there, in page {page} or elsewhere; expected {expected}")]
    Missing {
        /// Which key.
        key: u64,
        /// What it can have.
        expected: String,
        /// The leaf that is responsible for it.
        page: GlobalAddr,
    },
    /// A key is there that was not loaded and not written.
    #[error("key {key} has the value {found} in page {page}; expected no such key")]
    Unknown {
        /// Which key.
        key: u64,
        /// What it has.
        found: u64,
        /// Where it is.
        page: GlobalAddr,
    },
}

/// Verifies what a run of a tree, loaded with the pairs `loaded` in the order of their keys, left in `memory`:
///
/// * the tree is sound, by the rules of [`Survey::of`];
/// * each key has the value of its last acknowledged write, or of one that was concurrent with it or in flight at
///   the end; keys that nobody wrote have the value that they were loaded with; added keys are there, nothing else is;
/// * each copy in the index caches leads to, or left of, where keys are, by the rules of [`Survey::check_cache`].
///
/// It takes [`dmtree_index::SURVEY_BYTES_A_PAGE`] of memory for each page beside the history, and nothing for each key.
///
/// # Errors
/// The first violation; one of the tree before those of values, since these may follow from it.
pub fn verify_run(
    subject: Subject<'_>,
    memory: &mut impl Memory,
    loaded: impl IntoIterator<Item = (u64, u64)>,
) -> Result<Verified, Violation> {
    let Subject {
        meta,
        history,
        caches,
    } = subject;
    let mut values = Values {
        expected: history.expected(loaded).peekable(),
        violation: None,
    };
    let survey = Survey::of(
        meta,
        |addr, words| memory.read(addr, words),
        |leaf| values.visit(leaf),
    );
    let survey = survey.map_err(Violation::Unreadable)??;
    if let Some(violation) = values.violation {
        return Err(violation);
    }
    let mut cached = 0;
    for (node, cache) in caches.iter().enumerate() {
        let checked = survey.check_cache(meta, cache, |addr, words| memory.read(addr, words));
        let checked = checked.map_err(Violation::Unreadable)?;
        cached += checked.map_err(|defect| Violation::Cache { node, defect })?;
    }
    let shape = survey.shape();
    Ok(Verified {
        keys: shape.keys,
        written: history.len() as u64,
        pages: shape.pages.iter().sum(),
        cached,
    })
}

/// Verifies the copies in the index cache of `node` alone, as [`verify_run`] does; how many there are.
///
/// # Errors
/// The first violation.
pub fn verify_cache(
    meta: &TreeMeta,
    cache: &IndexCache,
    node: usize,
    memory: &mut impl Memory,
) -> Result<u64, Violation> {
    let survey = Survey::of(meta, |addr, words| memory.read(addr, words), |_| {});
    let survey = survey.map_err(Violation::Unreadable)??;
    let checked = survey.check_cache(meta, cache, |addr, words| memory.read(addr, words));
    let checked = checked.map_err(Violation::Unreadable)?;
    checked.map_err(|defect| Violation::Cache { node, defect })
}

/// Goes over leaves and expectations side by side, both in the order of keys.
struct Values<'a, X: Iterator<Item = Expectation<'a>>> {
    expected: std::iter::Peekable<X>,
    violation: Option<Violation>,
}

impl<'a, X: Iterator<Item = Expectation<'a>>> Values<'a, X> {
    fn visit(&mut self, leaf: SoundLeaf<'_>) {
        if self.violation.is_none() {
            self.violation = self.check(leaf).err();
        }
    }

    /// All that is expected up to the leaf's high fence is in it, and no more.
    fn check(&mut self, leaf: SoundLeaf<'_>) -> Result<(), Violation> {
        let page = leaf.page;
        let mut entries = leaf.entries.iter().copied().peekable();
        let is_here = |key: u64| leaf.high.is_none_or(|high| key < high);
        loop {
            let expectation = self.expected.next_if(|next| {
                // A key that is there before the next one that is expected is told first.
                is_here(next.key) && entries.peek().is_none_or(|(key, _)| next.key <= *key)
            });
            let Some(expectation) = expectation else {
                return match entries.next() {
                    Some((key, found)) => Err(Violation::Unknown { key, found, page }),
                    None => Ok(()),
                };
            };
            let key = expectation.key;
            let found = entries.next_if(|(other, _)| *other == key);
            let found = found.map(|(_, value)| value);
            if !expectation.allows(found) {
                let expected = expectation.to_string();
                return Err(match found {
                    Some(found) => Violation::Value {
                        key,
                        found,
                        expected,
                        page,
                    },
                    None => Violation::Missing {
                        key,
                        expected,
                        page,
                    },
                });
            }
        }
    }
}
