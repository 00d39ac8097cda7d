//! [`Tree`]: one client's handle on a B-link tree.
//!
//! A page is responsible for the keys between its fences, and every page knows its right sibling; so whoever
//! arrives left of its key moves right, and pointers may be out of date (Lehman, Yao, TODS 1981; Sherman, SIGMOD
//! 2022, section 4.2). At every instant exactly one leaf is responsible for a key, and only it can hold the key.
//!
//! # Linearizability
//! * **update** takes effect when the word of the value is written, under the lock of the leaf whose fences
//!   cover the key (checked under the lock); it returns after that write has completed. Updates of one key are
//!   ordered by that lock. An update that finds no key takes effect while it holds the lock.
//! * **insert** holds the same lock. Of a key that is there it is an update. Into a free slot it takes effect when
//!   the word of the bitmap is written. With a split it takes effect when the page that was there becomes settled
//!   again: the new page has been written before and nobody could know it, and no reader accepts the old one in
//!   between. Who finds the key absent under the lock is the one that adds it.
//! * **get** takes effect at one of the instants between its two sequence samples. By the claim at [`crate::page`]
//!   the leaf's fences and keys are the same throughout, but for at most one key that an insert adds at an instant
//!   b. So the leaf is the responsible one throughout, and
//!   - a key that is there throughout has, at the instant at which its value's word was read, that value: it never
//!     changes its slot while it is only updated, so that it is never "not there";
//!   - the key that is added at b is found if its bit was read after b, and then with a value that it had at that
//!     instant or, if its value's word was read before b, had at b; otherwise it was not there when its bit was
//!     read;
//!   - any other key is not there throughout.
//!
//!   A get that comes to a leaf while it is split waits until it is settled; one that has come before, and
//!   accepted it, has taken effect before; one that comes after finds the new fence and moves right, to a page
//!   that is whole for everybody ([`insert`](Tree::insert) waits for that before it points to it).
//!
//!   The instants lie within the call, and verbs agree on the words' values: a completed WRITE is seen by every
//!   later verb, and so is a CPU store by everybody once the lock that it was made under has been released.
//!
//! The one case that the contract does not grant is a get **by CPU**, [`TreeOptions::read_path`]: a completed
//! WRITE of a remote client reaches the CPU "a little later", so that a get which began after that update or
//! insert returned may still find what was before. What it finds the key has been at some time, a value or absent,
//! and never a mix: stores to the sequence word are seen in order, and with each what its writer has written
//! before it. But it is not linearizable, and this is why gets of a leaf use verbs (loopback) unless the option
//! says otherwise. Holders of a lock do not have the problem: what the lock hands them carries the previous
//! holder's write-back with it, and a new page is visible to everybody before anybody can lock it.
//!
//! Above the leaves nothing has to be fresh: whatever inner page a descent saw, the fences of the leaf decide.
//! This is also why it does not matter when, or in which order, splits are told to the levels above.

mod climb;
mod insert;
mod root;
mod stats;

use std::sync::Arc;

pub use stats::{GrowthStats, TreeStats, Verbs};

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, LINE_BYTES, Mark};
use dmtree_lock::{DataPath, LockProtocol, LockTable, WriteBack};

use crate::cache::{Foresight, Hit};
use crate::reader::PageReader;
use crate::sherman::ENTRY_SPAN;
use crate::spares::Spares;
use crate::split::Images;
use crate::walk::{Away, Onward, Position, Via, Walk};
use crate::{IndexCache, Result, TreeMeta, leaf};

/// CPU time to search a page of 1 KB, in nanoseconds: assumed (16 lines, not in the core's own cache).
pub const DEFAULT_SEARCH_NS: u64 = 100;
/// CPU time to look a key up in the index cache, in nanoseconds: assumed (a search in a map of thousands of pages
/// and one in a page).
pub const DEFAULT_LOOKUP_NS: u64 = 100;

/// How a client goes about its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// How a client on a page's own node reads and writes the page while it holds its lock, and how it reads
    /// inner pages.
    pub data_path: DataPath,
    /// How a client on a leaf's own node reads it without its lock. By CPU it is fast and not linearizable (see
    /// [the tree](crate::tree)).
    pub read_path: DataPath,
    /// CPU time to search a page that was read, in nanoseconds.
    pub search_ns: u64,
    /// CPU time of a lookup in the index cache, in nanoseconds.
    pub lookup_ns: u64,
}

impl TreeOptions {
    /// Everything but `data_path` as it is where nothing else is said: linearizable, with assumed CPU times.
    pub const fn new(data_path: DataPath) -> Self {
        Self {
            data_path,
            read_path: DataPath::Loopback,
            search_ns: DEFAULT_SEARCH_NS,
            lookup_ns: DEFAULT_LOOKUP_NS,
        }
    }
}

/// What [`Tree::hint`] has found out, by the operation that it is for.
#[derive(Debug, Default)]
struct Hints {
    this: Option<(Foresight, Hit)>,
    next: Option<(Foresight, Hit)>,
    later: Option<Foresight>,
}

/// Names [`PageReader::search_held`]'s callers.
struct Update;
struct Insert;
struct Climb;

/// What it takes to make the tree grow.
#[derive(Debug)]
struct Growth {
    spares: Spares,
    images: Images,
    #[cfg(any(test, feature = "faults"))]
    fault: Option<crate::Fault>,
}

/// Whether `tree` is to make the mistake `$fault`: never in production builds, where nothing is left of it.
macro_rules! sabotaged {
    ($tree:expr, $fault:ident) => {{
        #[cfg(any(test, feature = "faults"))]
        let sabotaged = $tree.growth.fault == Some(crate::Fault::$fault);
        #[cfg(not(any(test, feature = "faults")))]
        let sabotaged = false;
        sabotaged
    }};
}
use sabotaged;

impl Growth {
    fn new(meta: &TreeMeta, client: ClientId) -> Self {
        let (heap, layout) = (Arc::clone(meta.heap()), *meta.layout());
        Self {
            spares: Spares::new(heap, layout.page_bytes(), client.0 as usize),
            images: Images::new(layout),
            #[cfg(any(test, feature = "faults"))]
            fault: None,
        }
    }
}

/// One client's handle on a tree.
#[derive(Debug)]
pub struct Tree<E, L> {
    ep: E,
    lock: L,
    meta: Arc<TreeMeta>,
    locks: LockTable,
    cache: Arc<IndexCache>,
    options: TreeOptions,
    reader: PageReader,
    stats: TreeStats,
    hints: Hints,
    growth: Growth,
}

impl<E: Endpoint, L: LockProtocol<E>> Tree<E, L> {
    /// A handle of the client `ep`, which locks by `lock`.
    ///
    /// `locks` has a table on every memory server of `meta`; `cache` is that of `ep`'s node.
    pub fn new(
        ep: E,
        lock: L,
        meta: Arc<TreeMeta>,
        locks: LockTable,
        cache: Arc<IndexCache>,
        options: TreeOptions,
    ) -> Self {
        let reader = PageReader::new(*meta.layout());
        let growth = Growth::new(&meta, ep.client());
        Self {
            ep,
            lock,
            meta,
            locks,
            cache,
            options,
            reader,
            stats: TreeStats::default(),
            hints: Hints::default(),
            growth,
        }
    }

    /// The client's endpoint.
    pub fn endpoint(&self) -> &E {
        &self.ep
    }

    /// Makes inserts commit `fault` from now on.
    #[cfg(any(test, feature = "faults"))]
    #[doc(hidden)]
    pub fn sabotage(&mut self, fault: crate::Fault) {
        self.growth.fault = Some(fault);
    }

    /// What the handle has met so far.
    pub fn stats(&self) -> TreeStats {
        TreeStats {
            torn_reads: self.reader.torn(),
            ..self.stats
        }
    }

    /// Hints at the keys of this client's next operation and of the one after it, so that what memory of this
    /// process they will touch is near by then: `later`'s entry in the index cache, and of `next`'s leaf and lock
    /// what the client reaches by CPU. It costs no time on the fabric's clock and changes no result.
    pub fn hint(&mut self, next: u64, later: u64) {
        self.hints.this = self.hints.next.take();
        let foreseen = match self.hints.later {
            Some(foreseen) if foreseen.key == next => foreseen,
            _ => self.cache.foresee(next),
        };
        if let Some(hit) = self.cache.lookup_foreseen(&foreseen) {
            if self.meta.check(hit.child).is_ok() {
                self.lock.hint(&self.ep, self.locks.lock_of(hit.child));
                self.hint_page(hit.child, LINE_BYTES);
            }
            self.hints.next = Some((foreseen, hit));
        }
        self.hints.later = Some(self.cache.foresee(later));
    }

    /// Hints at the first `bytes` of a leaf, if the client is to reach it by CPU.
    ///
    /// A core can have about as many misses outstanding as a page has lines, and then waits. So the first line comes
    /// an operation ahead, with who has the page in its cache; the first half as the operation begins; and the rest,
    /// by the endpoint itself, when the page is read.
    fn hint_page(&self, page: GlobalAddr, bytes: usize) {
        if self.options.data_path == DataPath::Cpu && page.node() == self.ep.node() {
            self.ep.hint(page, bytes);
        }
    }

    /// The value of `key`; none when it is not there. Takes no lock.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Cluster`] of the fabric, also when a page stays in the middle of a change beyond the
    /// endpoint's bounds on waiting; [`crate::ErrorKind::BadPage`] and [`crate::ErrorKind::Astray`] when memory holds
    /// no tree.
    pub async fn get(&mut self, key: u64) -> Result<Option<u64>> {
        let (mut walk, mut waiting) = (Walk::new(key), None);
        let mut at = self.descend(&mut walk, 0).await?;
        loop {
            self.meta.check(at.page)?;
            let page = self
                .reader
                .read_settled(&self.ep, at.page, self.options.read_path)
                .await?;
            work(&self.ep, self.options.search_ns).await;
            match at.arrive_at_leaf(page, key) {
                Ok(leaf) => match leaf.find(key) {
                    Some(slot) if !leaf.is_whole(slot) => {
                        self.reader.again(&self.ep, at.page, &mut waiting)?;
                    }
                    slot => return Ok(slot.map(|slot| leaf.value(slot))),
                },
                Err(away) => at = self.go_on(&mut walk, at, away, 0).await?,
            }
        }
    }

    /// Gives `key`, if it is there, the value `value`; says whether it was there. Writes the value's word and
    /// nothing else, also when it holds that value already.
    ///
    /// # Errors
    /// As [`Tree::get`], and [`crate::ErrorKind::Lock`]. When a release fails the value may or may not have been
    /// written, and the lock counts as held.
    pub async fn update(&mut self, key: u64, value: u64) -> Result<bool> {
        let mut walk = Walk::new(key);
        let mut at = self.descend(&mut walk, 0).await?;
        loop {
            self.meta.check(at.page)?;
            self.ep.mark(Mark::Guards { page: at.page });
            let guard = self
                .lock
                .acquire(&self.ep, self.locks.lock_of(at.page))
                .await?;
            let read = self
                .reader
                .search_held::<_, Update>(
                    &self.ep,
                    at.page,
                    self.options.data_path,
                    self.options.search_ns,
                )
                .await;
            let page = match read {
                Ok(page) => page,
                Err(failure) => {
                    // What failed first is told; should the release fail as well, the lock's client is poisoned
                    // and says so at its next acquire.
                    let _ = self.lock.release(&self.ep, guard, WriteBack::NONE).await;
                    return Err(failure);
                }
            };
            let away = match at.arrive_at_leaf(page, key) {
                Ok(leaf) => match leaf.find(key) {
                    Some(slot) => {
                        let mut scratch = [0; ENTRY_SPAN];
                        let (word, words) = leaf::replace(&leaf, slot, value, &mut scratch);
                        let writes = &[(at.page.word(word), words)];
                        let write_back = WriteBack {
                            path: self.options.data_path,
                            writes,
                        };
                        self.lock.release(&self.ep, guard, write_back).await?;
                        return Ok(true);
                    }
                    None => None,
                },
                Err(away) => Some(away),
            };
            self.lock.release(&self.ep, guard, WriteBack::NONE).await?;
            match away {
                None => return Ok(false),
                // No lock is held while another is taken.
                Some(away) => at = self.go_on(&mut walk, at, away, 0).await?,
            }
        }
    }

    /// Goes from the root, or from the lowest page that the cache knows, to the page of level `floor` that should
    /// be responsible for the key; to the root where that is of a lower level.
    async fn descend(&mut self, walk: &mut Walk, floor: u8) -> Result<Position> {
        let at = self.start(walk.key, floor).await?;
        if at.level.is_some_and(|level| level <= floor) {
            return Ok(at);
        }
        self.descend_from(walk, at, floor).await
    }

    /// As [`Tree::descend`], from the page at `at` on.
    async fn descend_from(
        &mut self,
        walk: &mut Walk,
        mut at: Position,
        floor: u8,
    ) -> Result<Position> {
        while at.level.is_none_or(|level| level > floor) {
            self.meta.check(at.page)?;
            // What the CPU sees of an inner page may be late, and lead astray once.
            let path = if walk.restarts == 0 {
                self.options.data_path
            } else {
                DataPath::Loopback
            };
            let page = self.reader.read_settled(&self.ep, at.page, path).await?;
            work(&self.ep, self.options.search_ns).await;
            self.stats.inner_reads += 1;
            let page = match at.arrive(page, walk.key) {
                Ok(page) => page,
                Err(away) => {
                    at = match self.leave(walk, &at, away)? {
                        Onward::Right(at) => at,
                        Onward::Restart => self.start(walk.key, floor).await?,
                    };
                    continue;
                }
            };
            if at.via == Via::Root {
                self.cache.set_root(at.page, page.level());
            }
            let level = Some(page.level());
            at = match (page.inner(), self.cache.insert(at.page, &page)) {
                (Some(inner), Some(id)) if level > Some(floor) => Position::new(
                    inner.child(walk.key),
                    Some(page.level() - 1),
                    Via::Parent(id),
                ),
                // The root is as low as that.
                _ => Position { level, ..at },
            };
        }
        Ok(at)
    }

    /// Where a descent to level `floor` begins.
    #[inline]
    async fn start(&mut self, key: u64, floor: u8) -> Result<Position> {
        work(&self.ep, self.options.lookup_ns).await;
        match self.known_start(key, floor) {
            Some(at) => Ok(at),
            None => self.read_root().await,
        }
    }

    /// Where it begins by what the cache knows.
    #[inline]
    fn known_start(&mut self, key: u64, floor: u8) -> Option<Position> {
        // Taken by the operation's first descent, which is to the leaf.
        let foreseen = self.hints.this.take();
        let foreseen = foreseen
            .filter(|(foreseen, _)| foreseen.key == key && self.cache.is_as_foreseen(foreseen));
        let hit = match foreseen {
            Some((_, hit)) => {
                let page_bytes = self.meta.layout().page_bytes() as usize;
                self.hint_page(hit.child, page_bytes / 2);
                Some(hit)
            }
            None => self.cache.lookup(key, floor),
        };
        if let Some(hit) = hit {
            let via = Via::Parent(hit.parent);
            return Some(Position::new(hit.child, Some(hit.child_level), via));
        }
        let (root, level) = self.cache.root()?;
        Some(Position::new(root, Some(level), Via::KnownRoot))
    }

    async fn read_root(&mut self) -> Result<Position> {
        self.stats.root_reads += 1;
        // By verb also on its own node: an RNIC-atomic word.
        let root = GlobalAddr::from_bits(self.ep.read_u64(self.meta.root_word()).await?);
        Ok(Position::new(root, None, Via::Root))
    }

    /// Leaves a page that is not the one for the key.
    fn leave(&mut self, walk: &mut Walk, at: &Position, away: Away) -> Result<Onward> {
        match at.via {
            Via::Parent(parent) => self.stats.stale += u64::from(self.cache.invalidate(&parent)),
            Via::KnownRoot => self.cache.forget_root(at.page),
            Via::Root | Via::Sibling => {}
        }
        self.stats.no_page += u64::from(matches!(away, Away::NoPage(_)));
        let onward = walk.leave(at, away)?;
        match onward {
            Onward::Right(_) => self.stats.moves += 1,
            Onward::Restart => self.stats.restarts += 1,
        }
        Ok(onward)
    }

    /// Goes on from a page of level `floor` that is not the one for the key.
    async fn go_on(
        &mut self,
        walk: &mut Walk,
        at: Position,
        away: Away,
        floor: u8,
    ) -> Result<Position> {
        match self.leave(walk, &at, away)? {
            Onward::Right(at) => Ok(at),
            Onward::Restart => self.descend(walk, floor).await,
        }
    }
}

/// Keeps the CPU busy; nothing costs nothing.
async fn work<E: Endpoint>(ep: &E, ns: u64) {
    if ns > 0 {
        ep.work(ns).await;
    }
}
