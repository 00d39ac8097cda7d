//! A B-link tree on disaggregated memory, with swappable page locks.
//!
//! Clients on compute servers read and write the tree's pages on memory servers by one-sided verbs (or, on the
//! page's own node, by CPU): the design of Sherman (Wang, Lu, Shu, SIGMOD 2022). Any `u64` is a key, any `u64` a
//! value.
//!
//! | situation | use |
//! |---|---|
//! | a tree to begin with | [`TreePlan`]: reserve its memory, then [`TreePlan::load`] |
//! | operations | [`Tree`], a handle a client; [`IndexCache`], one a compute server |
//! | looking at a tree without a fabric, after a run | [`verify()`], [`Survey`] (index caches too) |
//! | why a reader without a lock sees no half-done page | [`page`] |

mod cache;
mod error;
#[cfg(any(test, feature = "faults"))]
mod fault;
mod format;
mod inner;
mod leaf;
mod load;
mod meta;
pub mod page;
mod reader;
mod sherman;
mod spares;
mod split;
#[cfg(test)]
mod torn;
pub mod tree;
mod verify;
mod walk;

pub use cache::{CacheId, DEFAULT_CACHE_BYTES, Hit, IndexCache, IndexPages};
pub use error::{Error, ErrorKind, Result};
#[cfg(any(test, feature = "faults"))]
#[doc(hidden)]
pub use fault::Fault;
pub use format::{PageFormat, UnknownFormat};
pub use inner::Inner;
pub use leaf::Leaf;
pub use load::{LoadOptions, LoadedTree, PageSink, TreePlan};
pub use meta::TreeMeta;
pub use page::{DEFAULT_PAGE_BYTES, PageLayout, PageView, Side};
pub use tree::{GrowthStats, Tree, TreeOptions, TreeStats, Verbs};
pub use verify::{Defect, SURVEY_BYTES_A_PAGE, Shape, SoundLeaf, Survey, verify};
