//! [`Held`]: the mark that a lock is held or about to be, and poisons its client when it gets lost.

use std::rc::Rc;

use dmtree_cluster::GlobalAddr;

use crate::member::Member;
use crate::{ErrorKind, Result};

/// Exists from just before others can see the request (its descriptor gets linked, its ticket taken) until the
/// release has completed. Dropped in between, it poisons the client: others may wait for it for ever, or still
/// touch its descriptor.
#[derive(Debug)]
pub(crate) struct Held {
    member: Rc<Member>,
    lock: GlobalAddr,
    stage: Stage,
}

/// How far a request is. A byte, because guards are moved from hand to hand.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Acquiring,
    Held,
    Releasing,
    Over,
}

impl Stage {
    /// What gets lost when a [`Held`] is dropped now.
    fn loss(self) -> Option<&'static str> {
        match self {
            Stage::Acquiring => Some("an acquire"),
            Stage::Held => Some("a guard"),
            Stage::Releasing => Some("a release"),
            Stage::Over => None,
        }
    }
}

impl Held {
    /// Marks that `member`'s request for `lock` is about to become visible.
    pub(crate) fn arm(member: &Rc<Member>, lock: GlobalAddr) -> Self {
        Self {
            member: Rc::clone(member),
            lock,
            stage: Stage::Acquiring,
        }
    }

    pub(crate) fn lock(&self) -> GlobalAddr {
        self.lock
    }

    /// The lock is granted: from now on a guard gets lost.
    pub(crate) fn granted(&mut self) {
        self.stage = Stage::Held;
    }

    /// The release begins. Fails when the guard is not `member`'s, and poisons whose it is.
    pub(crate) fn releasing(&mut self, member: &Rc<Member>) -> Result<()> {
        if !Rc::ptr_eq(&self.member, member) {
            return Err(ErrorKind::ForeignGuard {
                client: member.client(),
                lock: self.lock,
            }
            .into());
        }
        self.stage = Stage::Releasing;
        Ok(())
    }

    /// The release has completed.
    pub(crate) fn disarm(mut self) {
        self.stage = Stage::Over;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(what) = self.stage.loss() {
            self.member.poison(what, self.lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmtree_cluster::{ClientId, NodeId};

    #[test]
    fn whatever_is_lost_first_poisons() {
        let lock = |slot: u64| GlobalAddr::new(NodeId(0), 64 * (slot + 1));
        let poison = |what, slot| {
            Some(
                ErrorKind::Poisoned {
                    client: ClientId(7),
                    what,
                    lock: lock(slot),
                }
                .into(),
            )
        };
        let member = Member::new(ClientId(7), None);
        let mut held = Held::arm(&member, lock(0));
        held.granted();
        assert_eq!(held.releasing(&member), Ok(()));
        held.disarm();
        assert_eq!((member.poisoned(), member.check()), (None, Ok(())));

        let mut guard = Held::arm(&member, lock(1));
        let acquire = Held::arm(&member, lock(2));
        guard.granted();
        drop(guard);
        drop(acquire);
        assert_eq!(member.poisoned(), poison("a guard", 1));

        let member = Member::new(ClientId(7), None);
        drop(Held::arm(&member, lock(3)));
        assert_eq!(member.poisoned(), poison("an acquire", 3));
        assert!(member.check().is_err());

        let member = Member::new(ClientId(7), None);
        let mut failed = Held::arm(&member, lock(4));
        failed.granted();
        assert_eq!(failed.releasing(&member), Ok(()));
        drop(failed);
        assert_eq!(member.poisoned(), poison("a release", 4));
    }

    #[test]
    fn a_guard_given_to_another_client_is_lost() {
        let (owner, other) = (
            Member::new(ClientId(1), None),
            Member::new(ClientId(2), None),
        );
        let lock = GlobalAddr::new(NodeId(0), 64);
        let mut held = Held::arm(&owner, lock);
        held.granted();
        assert_eq!(
            held.releasing(&other),
            Err(ErrorKind::ForeignGuard {
                client: ClientId(2),
                lock
            }
            .into())
        );
        drop(held);
        assert!(owner.poisoned().is_some() && other.poisoned().is_none());
    }
}
