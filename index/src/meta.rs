//! [`TreeMeta`]: what every client of a tree knows from the start.

use std::sync::Arc;

use dmtree_cluster::{ChunkHeap, GlobalAddr};

use crate::{ErrorKind, PageLayout, Result};

/// Where a tree lies and what its pages look like.
#[derive(Clone, Debug)]
pub struct TreeMeta {
    layout: PageLayout,
    heap: Arc<ChunkHeap>,
    root_word: GlobalAddr,
}

impl TreeMeta {
    pub(crate) fn new(layout: PageLayout, heap: Arc<ChunkHeap>, root_word: GlobalAddr) -> Self {
        Self {
            layout,
            heap,
            root_word,
        }
    }

    /// Geometry of its pages.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// The memory that its pages come from.
    pub fn heap(&self) -> &Arc<ChunkHeap> {
        &self.heap
    }

    /// The word that holds the root page's address. RNIC-atomic: it is read by READ and changed by CAS, also by
    /// clients on its own node.
    pub fn root_word(&self) -> GlobalAddr {
        self.root_word
    }

    /// Holds an address that was read from memory against the heap, before it is followed.
    pub(crate) fn check(&self, page: GlobalAddr) -> Result<()> {
        if self.heap.contains(page, self.layout.page_bytes()) {
            Ok(())
        } else {
            Err(ErrorKind::BadPage {
                page,
                why: "it is not in the memory of the tree's pages",
            }
            .into())
        }
    }
}
