//! [`Tree::insert`]: the leaf's part of it.
//!
//! # Order of writes
//! *A key into a free slot* takes two WRITEs, in this order and together with the release: the entry, then one
//! WRITE from the sequence word to the word of the bitmap that changes, so that the sequence word lands before the
//! bit (a WRITE lands in increasing address order; what is between them is written as it is). [`crate::page`]
//! argues why that needs no odd sequence word.
//!
//! *A split*, under the lock of the full page:
//! 1. The new page is written and its completion waited for ([`Tree::write_new`]). It may be on another node and
//!    so on another queue pair: nothing but completion orders it before step 2.
//! 2. The old page is written with its new high fence and sibling, between an odd and an even sequence word,
//!    together with the release. It is here that the new page becomes reachable, and that the split (and the
//!    insert, in whichever half the key is) takes effect: no lock-free reader accepts a page between the two
//!    sequence words.
//! 3. Without any lock the separator is told to the level above (`climb.rs`).
//!
//! # Out of memory
//! Pages for a split of every level and a new root are taken before step 1. Without them the insert fails before
//! it has written anything.

use dmtree_cluster::{Endpoint, GlobalAddr, Mark};
use dmtree_lock::{DataPath, LockProtocol, WriteBack};

use super::climb::Split;
use super::{Insert, Tree, sabotaged};
use crate::leaf;
use crate::page::{PageView, SEQ};
use crate::reader::PageReader;
use crate::sherman::ENTRY_SPAN;
use crate::spares::Spare;
use crate::split::{settle, unsettle, used};
use crate::walk::{Away, Via, Walk};
use crate::{Error, ErrorKind, Result};

/// Levels that the tree may grow by while one split climbs up: it takes pages for these as well.
const SPARE_LEVELS: usize = 2;

impl<E: Endpoint, L: LockProtocol<E>> Tree<E, L> {
    /// Gives `key` the value `value`; says whether the key was there, and so its value replaced.
    ///
    /// # Errors
    /// As [`Tree::update`]; [`dmtree_cluster::ErrorKind::OutOfMemory`], with nothing changed, when a page has to be
    /// split and there is no memory for the pages that this may take. (Should the tree grow by more than two
    /// levels meanwhile, the same error can come after the key is in: it and all others are still found.)
    pub async fn insert(&mut self, key: u64, value: u64) -> Result<bool> {
        let before = self.unlocked_reads();
        let mut walk = Walk::new(key);
        let mut at = self.descend(&mut walk, 0).await?;
        loop {
            self.meta.check(at.page)?;
            let sent = self.unlocked_reads() - before;
            let lock = self.locks.lock_of(at.page);
            self.ep.mark(Mark::Guards { page: at.page });
            let guard = self.lock.acquire(&self.ep, lock).await?;
            let path = self.options.data_path;
            let by_verb = u64::from(!PageReader::by_cpu(&self.ep, at.page, path));
            let page = match self
                .reader
                .search_held::<_, Insert>(&self.ep, at.page, path, self.options.search_ns)
                .await
            {
                Ok(page) => page,
                Err(failure) => return self.give_up(guard, failure).await,
            };
            let arrived = at.arrive(page, key).and_then(|page| match page.leaf() {
                Some(leaf) => Ok((page, leaf)),
                None => Err(Away::Astray("it is no leaf")),
            });
            let (page, leaf) = match arrived {
                Ok(arrived) => arrived,
                Err(away) => {
                    self.lock.release(&self.ep, guard, WriteBack::NONE).await?;
                    let way = &mut self.stats.growth.way;
                    (way.locks, way.reads) = (way.locks + 1, way.reads + by_verb);
                    // No lock is held while another is taken.
                    at = self.go_on(&mut walk, at, away, 0).await?;
                    continue;
                }
            };
            let growth = &mut self.stats.growth;
            growth.way.reads += sent;
            growth.leaf.locks += 1;
            growth.leaf.reads += by_verb;
            if let Some(slot) = leaf.find(key) {
                let mut scratch = [0; ENTRY_SPAN];
                let (word, words) = leaf::replace(&leaf, slot, value, &mut scratch);
                let writes = &[(at.page.word(word), words)];
                self.lock
                    .release(&self.ep, guard, WriteBack { path, writes })
                    .await?;
                self.stats.growth.leaf.writes += by_verb;
                self.stats.growth.replaced += 1;
                return Ok(true);
            }
            let seq = page.seq();
            if !page.is_settled() {
                return self.give_up(guard, unsettled(at.page)).await;
            }
            if let Some(slot) = leaf.free_slot() {
                let image = &mut self.growth.images.left;
                let ranges = leaf::fill(&page, image, slot, (key, value));
                if sabotaged!(self, SameSequence) {
                    image[SEQ] = seq;
                }
                let image = &self.growth.images.left;
                let mut writes =
                    ranges.map(|range| (at.page.word(range.start as u64), &image[range]));
                if sabotaged!(self, BitBeforeEntry) {
                    writes.reverse();
                }
                // In Sherman's format the first one is all.
                let count = writes.iter().filter(|(_, words)| !words.is_empty()).count();
                let writes = &writes[..count];
                self.lock
                    .release(&self.ep, guard, WriteBack { path, writes })
                    .await?;
                self.stats.growth.leaf.writes += count as u64 * by_verb;
                self.stats.growth.added += 1;
                return Ok(false);
            }
            let levels = self.cache.root().map_or(0, |(_, level)| usize::from(level));
            // This leaf, a page of each level above it, and a root.
            let pages = levels + 2 + SPARE_LEVELS;
            let (took, reserved) = self.growth.spares.reserve(&self.ep, pages).await;
            self.stats.growth.split.atomics += took;
            let spare = match reserved {
                Ok(spare) => spare,
                Err(failure) => return self.give_up(guard, failure).await,
            };
            let images = &mut self.growth.images;
            let separator = images.split_leaf(&page, &leaf, (key, value), spare.addr);
            // Boxed, as what follows, since it is rare and large: clients that insert are hardly larger than
            // others.
            let published = Box::pin(self.write_and_publish(spare, guard, at.page, seq)).await?;
            // Of a leaf that was not split these are the leaf's.
            self.stats.growth.leaf.writes += published;
            self.stats.growth.splits += 1;
            self.stats.growth.added += 1;
            let parent = match at.via {
                Via::Parent(parent) => Some(parent),
                _ => None,
            };
            let split = Split {
                level: 0,
                separator,
                child: spare.addr,
            };
            Box::pin(self.climb(split, parent)).await?;
            return Ok(false);
        }
    }

    /// Releases a lock under which nothing was written, for `failure` is what has to be told.
    pub(super) async fn give_up<T>(&mut self, guard: L::Guard, failure: Error) -> Result<T> {
        // Should the release fail as well, the lock's client is poisoned and says so at its next acquire.
        let _ = self.lock.release(&self.ep, guard, WriteBack::NONE).await;
        Err(failure)
    }

    /// Writes the new page and then, with the release, the one that points to it. Returns how many WRITEs the
    /// latter is.
    pub(super) async fn write_and_publish(
        &mut self,
        new: Spare,
        guard: L::Guard,
        addr: GlobalAddr,
        seq: u64,
    ) -> Result<u64> {
        if sabotaged!(self, PublishedBeforeWritten) {
            let writes = self.publish(guard, addr, seq).await?;
            self.write_new(new).await?;
            return Ok(writes);
        }
        if let Err(failure) = self.write_new(new).await {
            return self.give_up(guard, failure).await;
        }
        self.publish(guard, addr, seq).await
    }

    /// Writes the right image to a page that no pointer leads to, and returns when everybody would see all of it:
    /// verbs, since the WRITEs have completed; and where clients reach pages by CPU the CPU of its node too, since
    /// a READ that follows them takes effect after them for everybody. So whoever gets to know the page, by
    /// whatever pointer and on whatever path, finds it whole; and needs nothing of its lock, which nobody has held
    /// yet.
    ///
    /// Pointers that led there before (memory that was a page earlier) find it changing between an odd and an even
    /// sequence word beyond those of before, as any structural change.
    pub(super) async fn write_new(&mut self, spare: Spare) -> Result<()> {
        let layout = *self.meta.layout();
        let image = &mut self.growth.images.right;
        let even = unsettle(&layout, image, spare.seq);
        let (words, seq) = (used(&layout, image), spare.addr.word(SEQ as u64));
        if PageReader::by_cpu(&self.ep, spare.addr, self.options.data_path) {
            self.ep.store_words(spare.addr, words).await?;
            if let Some(even) = even {
                self.ep.store_words(seq, &[even]).await?;
            }
        } else {
            let mut chain = self.ep.take_chain();
            chain.write_words(spare.addr, words);
            if let Some(even) = even {
                chain.write_words(seq, &[even]);
            }
            let verbs = &mut self.stats.growth.split;
            verbs.writes += chain.verbs().len() as u64;
            let cpus_read =
                [self.options.data_path, self.options.read_path].contains(&DataPath::Cpu);
            // A completed loopback verb is visible to the host as it is.
            if cpus_read
                && self.ep.node() != spare.addr.node()
                && !sabotaged!(self, NewPageUnflushed)
            {
                chain.read(spare.addr, 8);
                verbs.reads += 1;
            }
            let outcome = self.ep.execute(&mut chain).await;
            self.ep.put_chain(chain);
            outcome?;
        }
        settle(image, even);
        Ok(())
    }

    /// Writes the left image over the page at `addr`, whose sequence word is `seq` and whose lock `guard` holds,
    /// and releases the lock. Returns how many WRITEs that is.
    pub(super) async fn publish(
        &mut self,
        guard: L::Guard,
        addr: GlobalAddr,
        seq: u64,
    ) -> Result<u64> {
        let layout = *self.meta.layout();
        let image = &mut self.growth.images.left;
        let even = unsettle(&layout, image, seq);
        let writes = [
            (addr, used(&layout, image)),
            (addr.word(SEQ as u64), even.as_slice()),
        ];
        // In Sherman's format the first one is all.
        let writes = &writes[..1 + usize::from(even.is_some())];
        let path = self.options.data_path;
        let by_verb = u64::from(!PageReader::by_cpu(&self.ep, addr, path));
        let count = writes.len() as u64 * by_verb;
        self.lock
            .release(&self.ep, guard, WriteBack { path, writes })
            .await?;
        settle(image, even);
        Ok(count)
    }

    /// Puts an image that was written to `addr` into the own node's cache, if it is an inner page.
    pub(super) fn remember(&self, addr: GlobalAddr, image: &[u64]) {
        if let Ok(page) = PageView::parse(*self.meta.layout(), image) {
            self.cache.insert(addr, &page);
        }
    }

    /// READs sent so far without a lock.
    pub(super) fn unlocked_reads(&self) -> u64 {
        self.reader.verbs() + self.stats.root_reads
    }
}

/// A page whose last change never ended: its lock's holder failed. Nothing can be said of what is in it.
pub(super) fn unsettled(page: GlobalAddr) -> Error {
    ErrorKind::BadPage {
        page,
        why: "a change of it has never ended",
    }
    .into()
}
