//! How a split is told to the levels above it.
//!
//! Until it is, the new page is found by its left neighbour's sibling pointer: nothing depends on when the
//! separator arrives, or in which order those of several splits do (Lehman, Yao, TODS 1981). Each split's client
//! tells its own separator exactly once, so that with the end of all operations every page has been told of.

use dmtree_cluster::{Endpoint, GlobalAddr, Mark};
use dmtree_lock::{LockProtocol, WriteBack};

use super::insert::unsettled;
use super::{Climb, Tree};
use crate::Result;
use crate::cache::CacheId;
use crate::reader::PageReader;
use crate::walk::{Position, Via, Walk};

/// A split of which the level above does not know yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// Of the page that was split.
    pub level: u8,
    /// The new page's low fence.
    pub separator: u64,
    /// The new page.
    pub child: GlobalAddr,
}

impl<E: Endpoint, L: LockProtocol<E>> Tree<E, L> {
    /// Tells the levels above of `split`, and of the splits that this leads to. `parent` is the page that led to
    /// the one that was split.
    pub(super) async fn climb(&mut self, split: Split, parent: Option<CacheId>) -> Result<()> {
        let before = self.unlocked_reads();
        let mut next = self.add_separator(split, parent).await?;
        while let Some(split) = next {
            next = self.add_separator(split, None).await?;
        }
        self.stats.growth.split.reads += self.unlocked_reads() - before;
        Ok(())
    }

    /// Puts a separator where it belongs; returns the split of that page if it had no room.
    async fn add_separator(
        &mut self,
        split: Split,
        parent: Option<CacheId>,
    ) -> Result<Option<Split>> {
        let (level, separator) = (split.level + 1, split.separator);
        let mut walk = Walk::new(separator);
        let known = parent.or_else(|| self.cache.page(separator, level));
        let mut at = match known {
            Some(id) => Position::new(id.addr(), Some(level), Via::Parent(id)),
            None => self.descend(&mut walk, level).await?,
        };
        loop {
            if at.level < Some(level) {
                if self.grow(split).await? {
                    return Ok(None);
                }
                at = self.descend(&mut walk, level).await?;
                continue;
            }
            self.meta.check(at.page)?;
            let lock = self.locks.lock_of(at.page);
            self.ep.mark(Mark::Guards { page: at.page });
            let guard = self.lock.acquire(&self.ep, lock).await?;
            let path = self.options.data_path;
            let by_verb = u64::from(!PageReader::by_cpu(&self.ep, at.page, path));
            let page = match self
                .reader
                .search_held::<_, Climb>(&self.ep, at.page, path, self.options.search_ns)
                .await
            {
                Ok(page) => page,
                Err(failure) => return self.give_up(guard, failure).await,
            };
            let verbs = &mut self.stats.growth.split;
            (verbs.locks, verbs.reads) = (verbs.locks + 1, verbs.reads + by_verb);
            let page = match at.arrive(page, separator) {
                Ok(page) => page,
                Err(away) => {
                    self.lock.release(&self.ep, guard, WriteBack::NONE).await?;
                    at = self.go_on(&mut walk, at, away, level).await?;
                    continue;
                }
            };
            let seq = page.seq();
            let inner = match page.inner() {
                Some(inner) if page.is_settled() => inner,
                _ => return self.give_up(guard, unsettled(at.page)).await,
            };
            if inner.len() < self.meta.layout().inner_slots() {
                let images = &mut self.growth.images;
                images.add_child(&page, &inner, separator, split.child);
                self.stats.growth.split.writes += self.publish(guard, at.page, seq).await?;
                self.remember(at.page, &self.growth.images.left);
                return Ok(None);
            }
            let (took, reserved) = self.growth.spares.reserve(&self.ep, 1).await;
            self.stats.growth.split.atomics += took;
            let spare = match reserved {
                Ok(spare) => spare,
                Err(failure) => return self.give_up(guard, failure).await,
            };
            let images = &mut self.growth.images;
            let added = (separator, split.child);
            let separator = images.split_inner(&page, &inner, added, spare.addr);
            self.stats.growth.split.writes +=
                self.write_and_publish(spare, guard, at.page, seq).await?;
            self.stats.growth.splits += 1;
            self.remember(at.page, &self.growth.images.left);
            self.remember(spare.addr, &self.growth.images.right);
            return Ok(Some(Split {
                level,
                separator,
                child: spare.addr,
            }));
        }
    }
}
