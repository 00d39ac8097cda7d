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
//! * **get** takes effect at the instant at which the value's word was read, or, when the key is not there, at
//!   any instant between the two sequence samples: by the claim at [`crate::page`] the leaf's fences and keys
//!   are the same throughout, so the leaf is the responsible one, and it holds the key or does not, at that
//!   instant. A key that is only being updated never changes its slot, so that it is never "not there".
//!   Both instants lie within the call, and verbs agree on the word's values: a completed WRITE is seen by every
//!   later verb, and so is a CPU store by everybody once the lock that it was made under has been released.
//!
//! The one case that the contract does not grant is a get **by CPU**, [`TreeOptions::read_path`]: a completed
//! WRITE of a remote client reaches the CPU "a little later", so that a get which began after that update
//! returned may still find the value before. It finds some value the key has had, never a mix and never nothing;
//! but it is not linearizable, and this is why gets of a leaf use verbs (loopback) unless the option says
//! otherwise. Holders of a lock do not have the problem: what the lock hands them carries the previous holder's
//! write-back with it.
//!
//! Above the leaves nothing has to be fresh: whatever inner page a descent saw, the fences of the leaf decide.

use std::sync::Arc;

use dmtree_cluster::{Endpoint, GlobalAddr};
use dmtree_lock::{DataPath, LockProtocol, LockTable, WriteBack};

use crate::cache::{Foresight, Hit};
use crate::leaf::value_word;
use crate::reader::PageReader;
use crate::walk::{Away, Onward, Position, Via, Walk};
use crate::{IndexCache, Result, TreeMeta};

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

/// What a handle has met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Inner pages that were not in the cache and had to be read.
    pub inner_reads: u64,
    /// READs of the root word.
    pub root_reads: u64,
    /// Siblings followed.
    pub moves: u64,
    /// Descents begun anew because a pointer led to a page that cannot lead to the key.
    pub restarts: u64,
    /// Cached pages dropped as out of date.
    pub stale: u64,
    /// Lock-free reads made again because a structural change was under way.
    pub torn_reads: u64,
}

/// What [`Tree::hint`] has found out, by the operation that it is for.
#[derive(Debug, Default)]
struct Hints {
    this: Option<(Foresight, Hit)>,
    next: Option<(Foresight, Hit)>,
    later: Option<Foresight>,
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
        }
    }

    /// The client's endpoint.
    pub fn endpoint(&self) -> &E {
        &self.ep
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
        let foreseen = self.hints.later.replace(self.cache.foresee(later));
        let foreseen = match foreseen {
            Some(foreseen) if foreseen.key == next => foreseen,
            _ => self.cache.foresee(next),
        };
        let Some(hit) = self.cache.lookup_foreseen(&foreseen) else {
            return;
        };
        if self.meta.check(hit.child).is_ok() {
            self.lock.hint(&self.ep, self.locks.lock_of(hit.child));
            if self.options.data_path == DataPath::Cpu && hit.child.node() == self.ep.node() {
                self.ep.hint(hit.child, self.half_page());
            }
        }
        self.hints.next = Some((foreseen, hit));
    }

    /// Bytes of a leaf that are hinted at at a time. A page at once would take all the misses that a core can have
    /// outstanding, and wait for them.
    fn half_page(&self) -> usize {
        self.meta.layout().page_bytes() as usize / 2
    }

    /// The value of `key`; none when it is not there. Takes no lock.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Cluster`] of the fabric, also when a page stays in the middle of a change beyond the
    /// endpoint's bounds on waiting; [`crate::ErrorKind::BadPage`] and [`crate::ErrorKind::Astray`] when memory holds
    /// no tree.
    pub async fn get(&mut self, key: u64) -> Result<Option<u64>> {
        let mut walk = Walk::new(key);
        let mut at = self.descend(&mut walk).await?;
        loop {
            self.meta.check(at.page)?;
            let page = self
                .reader
                .read_settled(&self.ep, at.page, self.options.read_path)
                .await?;
            work(&self.ep, self.options.search_ns).await;
            match at.arrive_at_leaf(page, key) {
                Ok(leaf) => return Ok(leaf.find(key).map(|slot| leaf.value(slot))),
                Err(away) => at = self.go_on(&mut walk, at, away).await?,
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
        let mut at = self.descend(&mut walk).await?;
        loop {
            self.meta.check(at.page)?;
            let guard = self
                .lock
                .acquire(&self.ep, self.locks.lock_of(at.page))
                .await?;
            let read = self
                .reader
                .search_held(
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
                        let word = at.page.word(value_word(self.meta.layout(), slot) as u64);
                        let writes = &[(word, &[value][..])];
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
                Some(away) => at = self.go_on(&mut walk, at, away).await?,
            }
        }
    }

    /// Goes from the root, or from the lowest page that the cache knows, to the leaf that should have the key.
    async fn descend(&mut self, walk: &mut Walk) -> Result<Position> {
        let mut at = self.start(walk.key).await?;
        while at.level != Some(0) {
            self.meta.check(at.page)?;
            // A page that was allocated a moment ago may not be visible to the CPU yet.
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
                        Onward::Restart => self.start(walk.key).await?,
                    };
                    continue;
                }
            };
            if at.via == Via::Root {
                self.cache.set_root(at.page, page.level());
            }
            at = match (page.inner(), self.cache.insert(at.page, &page)) {
                (Some(inner), Some(id)) => Position::new(
                    inner.child(walk.key),
                    Some(page.level() - 1),
                    Via::Parent(id),
                ),
                // The root is a leaf.
                _ => Position {
                    level: Some(0),
                    ..at
                },
            };
        }
        Ok(at)
    }

    /// Where a descent begins.
    async fn start(&mut self, key: u64) -> Result<Position> {
        work(&self.ep, self.options.lookup_ns).await;
        let foreseen = self.hints.this.take();
        let foreseen = foreseen
            .filter(|(foreseen, _)| foreseen.key == key && self.cache.is_as_foreseen(foreseen));
        let hit = match foreseen {
            Some((_, hit)) => {
                if self.options.data_path == DataPath::Cpu && hit.child.node() == self.ep.node() {
                    let half = self.half_page();
                    self.ep.hint(hit.child.add(half as u64), half);
                }
                Some(hit)
            }
            None => self.cache.lookup(key, 0),
        };
        if let Some(hit) = hit {
            return Ok(Position::new(
                hit.child,
                Some(hit.child_level),
                Via::Parent(hit.parent),
            ));
        }
        if let Some((root, level)) = self.cache.root() {
            return Ok(Position::new(root, Some(level), Via::KnownRoot));
        }
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
        let onward = walk.leave(at, away)?;
        match onward {
            Onward::Right(_) => self.stats.moves += 1,
            Onward::Restart => self.stats.restarts += 1,
        }
        Ok(onward)
    }

    /// Goes on from a leaf that is not the one for the key.
    async fn go_on(&mut self, walk: &mut Walk, at: Position, away: Away) -> Result<Position> {
        match self.leave(walk, &at, away)? {
            Onward::Right(at) => Ok(at),
            Onward::Restart => self.descend(walk).await,
        }
    }
}

/// Keeps the CPU busy; nothing costs nothing.
async fn work<E: Endpoint>(ep: &E, ns: u64) {
    if ns > 0 {
        ep.work(ns).await;
    }
}
