//! [`Spares`]: pages that a client has taken from the heap and that no pointer leads to yet.

use std::sync::Arc;

use dmtree_cluster::{ChunkAllocator, ChunkHeap, Endpoint, GlobalAddr};

use crate::Result;

/// A page that nobody but its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    pub addr: GlobalAddr,
    /// The sequence word that the client has written there last; 0, as the heap is zeroed, when it has not.
    pub seq: u64,
}

/// A client's pages for splits to come.
#[derive(Debug)]
pub(crate) struct Spares {
    allocator: ChunkAllocator,
    page_bytes: u64,
    pages: Vec<Spare>,
}

impl Spares {
    /// No pages yet. Clients whose `number`s differ ask different servers first.
    pub(crate) fn new(heap: Arc<ChunkHeap>, page_bytes: u64, number: usize) -> Self {
        Self {
            allocator: ChunkAllocator::new(heap, number),
            page_bytes,
            pages: Vec::new(),
        }
    }

    /// Sees to it that there are `count` pages, at least one, and takes one of them. Returns as well how many FAAs
    /// it took: one when the client's chunk is used up, else none.
    ///
    /// # Errors
    /// [`dmtree_cluster::ErrorKind::OutOfMemory`] when the heap is used up; whatever the fabric fails with. Pages stay
    /// here then.
    pub(crate) async fn reserve<E: Endpoint>(
        &mut self,
        ep: &E,
        count: usize,
    ) -> (u64, Result<Spare>) {
        let before = self.allocator.trips();
        let outcome = self.fill(ep, count).await;
        (self.allocator.trips() - before, outcome)
    }

    async fn fill<E: Endpoint>(&mut self, ep: &E, count: usize) -> Result<Spare> {
        while self.pages.len() < count {
            let addr = self.allocator.alloc(ep, self.page_bytes).await?;
            // The pages that were carved first are used first.
            self.pages.insert(0, Spare { addr, seq: 0 });
        }
        match self.pages.pop() {
            Some(spare) => Ok(spare),
            None => {
                let addr = self.allocator.alloc(ep, self.page_bytes).await?;
                Ok(Spare { addr, seq: 0 })
            }
        }
    }

    /// Gives back a page that nobody has come to know, with what its client has written there.
    pub(crate) fn give_back(&mut self, spare: Spare) {
        self.pages.push(spare);
    }
}
