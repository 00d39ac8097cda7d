//! [`Walk`]: one operation's way through the tree, and its bounds.

use dmtree_cluster::GlobalAddr;

use crate::cache::CacheId;
use crate::leaf::Leaf;
use crate::page::{PageView, Side};
use crate::{Error, ErrorKind, Result};

/// Descents that may begin anew. Each drops at least one pointer that is out of date; a healthy tree needs
/// as many as it has levels.
const MAX_RESTARTS: u32 = 64;
/// Siblings that one operation may follow: splits that happened since the pointers were read.
const MAX_MOVES: u32 = 100_000;
/// Siblings followed in a row, from a page that the cache led to, before a descent from better knowledge
/// promises less: about its cost.
const MAX_RUN: u32 = 8;
/// Descents after which siblings are followed however many there are.
const MAX_RUN_RESTARTS: u32 = 8;

/// How a walk came to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By a copy of its parent that is in the cache.
    Parent(CacheId),
    /// As the root that the cache remembers.
    KnownRoot,
    /// As the root, just read.
    Root,
    /// As a right sibling.
    Sibling,
}

/// A page that a walk is about to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub page: GlobalAddr,
    /// The level it should have; none when nothing is known of it.
    pub level: Option<u8>,
    pub via: Via,
    /// Siblings followed in a row to come here.
    pub run: u32,
}

impl Position {
    pub(crate) fn new(page: GlobalAddr, level: Option<u8>, via: Via) -> Self {
        Self {
            page,
            level,
            via,
            run: 0,
        }
    }

    /// The page that was found here, if it is responsible for `key`.
    pub(crate) fn arrive<'a>(
        &self,
        page: std::result::Result<PageView<'a>, &'static str>,
        key: u64,
    ) -> std::result::Result<PageView<'a>, Away> {
        let page = page.map_err(Away::NoPage)?;
        if self.level.is_some_and(|level| level != page.level()) {
            return Err(Away::Astray("it has another level than its parent says"));
        }
        match page.side(key) {
            Side::Left => Err(Away::Astray("the key is below its low fence")),
            Side::Here => Ok(page),
            Side::Right(right) => Err(Away::Right(right)),
        }
    }

    /// The leaf that was found here, if it is responsible for `key`.
    pub(crate) fn arrive_at_leaf<'a>(
        &self,
        page: std::result::Result<PageView<'a>, &'static str>,
        key: u64,
    ) -> std::result::Result<Leaf<'a>, Away> {
        self.arrive(page, key)?
            .leaf()
            .ok_or(Away::Astray("it is no leaf"))
    }
}

/// Why a page is not the one for a walk's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Away {
    /// The key is right of it, from this page on.
    Right(GlobalAddr),
    /// It cannot lead to the key, for this reason.
    Astray(&'static str),
    /// There is no page, for this reason.
    NoPage(&'static str),
}

/// Whether a walk goes on to the right or begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    Right(Position),
    Restart,
}

/// One operation's way to the leaf of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub key: u64,
    pub restarts: u32,
    pub moves: u32,
}

impl Walk {
    pub(crate) fn new(key: u64) -> Self {
        Self {
            key,
            restarts: 0,
            moves: 0,
        }
    }

    /// Leaves the page at `at`: to the right, or by beginning anew where that is shorter or the only way.
    ///
    /// # Errors
    /// [`ErrorKind::Astray`] when it has gone on for too long.
    pub(crate) fn leave(&mut self, at: &Position, away: Away) -> Result<Onward> {
        match away {
            Away::Right(right) => self.right(at, right),
            Away::Astray(why) | Away::NoPage(why) => self.restart(at, why),
        }
    }
    /// A remembered root with a sibling is the root no more: there may be a whole tree above it. But a root
    /// that was just read can have one, while the client that split it has not changed the root word yet.
    fn right(&mut self, at: &Position, right: GlobalAddr) -> Result<Onward> {
        let far = at.run >= MAX_RUN && self.restarts < MAX_RUN_RESTARTS;
        if at.via == Via::KnownRoot || far {
            return self.restart(at, "the key is far to its right");
        }
        self.moves += 1;
        if self.moves > MAX_MOVES {
            return Err(self.astray(at, "the key is still right of it"));
        }
        Ok(Onward::Right(Position {
            page: right,
            via: Via::Sibling,
            run: at.run + 1,
            ..*at
        }))
    }

    fn restart(&mut self, at: &Position, why: &'static str) -> Result<Onward> {
        self.restarts += 1;
        if self.restarts > MAX_RESTARTS {
            Err(self.astray(at, why))
        } else {
            Ok(Onward::Restart)
        }
    }

    fn astray(&self, at: &Position, why: &'static str) -> Error {
        let Self {
            key,
            restarts,
            moves,
        } = *self;
        ErrorKind::Astray {
            key,
            restarts,
            moves,
            page: at.page,
            why,
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use dmtree_cluster::NodeId;

    use super::*;

    fn page(number: u64) -> GlobalAddr {
        GlobalAddr::new(NodeId(0), 1024 * (number + 1))
    }

    /// Follows siblings from `via` until the walk begins anew; how many it followed.
    fn run(walk: &mut Walk, via: Via) -> Result<u32> {
        let mut at = Position::new(page(0), Some(0), via);
        let before = walk.moves;
        loop {
            match walk.leave(&at, Away::Right(page(1)))? {
                Onward::Right(next) => {
                    assert_eq!(
                        (next.page, next.via, next.level),
                        (page(1), Via::Sibling, at.level)
                    );
                    at = next;
                }
                Onward::Restart => return Ok(walk.moves - before),
            }
        }
    }

    #[test]
    fn a_walk_prefers_a_new_descent_to_many_siblings_but_not_for_ever() {
        let mut walk = Walk::new(7);
        for _ in 0..MAX_RUN_RESTARTS {
            assert_eq!(run(&mut walk, Via::Root), Ok(MAX_RUN));
        }
        let gave_up = run(&mut walk, Via::Root).unwrap_err();
        assert!(
            matches!(gave_up.kind(), ErrorKind::Astray { key: 7, moves, .. } if *moves > MAX_MOVES),
            "{gave_up:?}"
        );
    }

    #[test]
    fn a_remembered_root_is_not_followed_to_the_right() {
        let mut walk = Walk::new(7);
        for _ in 0..MAX_RESTARTS {
            assert_eq!(run(&mut walk, Via::KnownRoot), Ok(0));
        }
        assert!(run(&mut walk, Via::KnownRoot).is_err());
    }
}
