//! [`AnyLock`]: a lock that is chosen at run time.

use dmtree_cluster::{Endpoint, GlobalAddr};

use crate::alock::{Alock, AlockGuard};
use crate::classic::{Classic, ClassicGuard};
use crate::farlock::{Farlock, FarlockGuard};
use crate::farlock_g::{FarlockG, FarlockGGuard};
use crate::member::Member;
use crate::sherman::{Sherman, ShermanGuard};
use crate::{Backoff, Error, ErrorKind, LockProtocol, Result, WriteBack};

/// One client's part of some lock.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyLock {
    /// Sherman's.
    Sherman(Sherman),
    /// ALock.
    Alock(Alock),
    /// FARLock.
    Farlock(Farlock),
    /// FARLock with groups.
    FarlockG(FarlockG),
    /// Test and set, ticket or MCS.
    // One variant: a future for each of them here would cost all others instructions with every step.
    Classic(Classic),
}

/// Holds a lock of [`AnyLock`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
#[non_exhaustive]
pub enum AnyGuard {
    /// Of Sherman's.
    Sherman(ShermanGuard),
    /// Of ALock.
    Alock(AlockGuard),
    /// Of FARLock.
    Farlock(FarlockGuard),
    /// Of FARLock with groups.
    FarlockG(FarlockGGuard),
    /// Of test and set, ticket or MCS.
    Classic(ClassicGuard),
}

impl AnyGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        match self {
            AnyGuard::Sherman(guard) => guard.lock(),
            AnyGuard::Alock(guard) => guard.lock(),
            AnyGuard::Farlock(guard) => guard.lock(),
            AnyGuard::FarlockG(guard) => guard.lock(),
            AnyGuard::Classic(guard) => guard.lock(),
        }
    }
}

impl AnyLock {
    fn member(&self) -> &Member {
        match self {
            AnyLock::Sherman(lock) => lock.member(),
            AnyLock::Alock(lock) => lock.member(),
            AnyLock::Farlock(lock) => lock.member(),
            AnyLock::FarlockG(lock) => lock.member(),
            AnyLock::Classic(lock) => lock.member(),
        }
    }

    /// [`ErrorKind::Poisoned`] once an acquire or release of this client was dropped half-way or failed, or a guard
    /// of it was dropped; for a driver to look at in the end.
    pub fn poisoned(&self) -> Option<Error> {
        self.member().poisoned()
    }

    /// Lets the client pause so between attempts; before its first acquire.
    pub(crate) fn back_off(&self, backoff: Backoff) {
        self.member().back_off(backoff);
    }

    /// Makes the protocol commit `fault` from now on.
    #[cfg(any(test, feature = "faults"))]
    #[doc(hidden)]
    pub fn sabotage(&self, fault: crate::Fault) {
        self.member().fault.set(Some(fault));
    }
}

impl<E: Endpoint> LockProtocol<E> for AnyLock {
    type Guard = AnyGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<AnyGuard> {
        Ok(match self {
            AnyLock::Sherman(protocol) => AnyGuard::Sherman(protocol.acquire(ep, lock).await?),
            AnyLock::Alock(protocol) => AnyGuard::Alock(protocol.acquire(ep, lock).await?),
            AnyLock::Farlock(protocol) => AnyGuard::Farlock(protocol.acquire(ep, lock).await?),
            AnyLock::FarlockG(protocol) => AnyGuard::FarlockG(protocol.acquire(ep, lock).await?),
            AnyLock::Classic(protocol) => AnyGuard::Classic(protocol.acquire(ep, lock).await?),
        })
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        match self {
            AnyLock::Sherman(protocol) => protocol.hint(ep, lock),
            AnyLock::Alock(protocol) => protocol.hint(ep, lock),
            AnyLock::Farlock(protocol) => protocol.hint(ep, lock),
            AnyLock::FarlockG(protocol) => protocol.hint(ep, lock),
            AnyLock::Classic(protocol) => protocol.hint(ep, lock),
        }
    }

    async fn release(&mut self, ep: &E, guard: AnyGuard, write_back: WriteBack<'_>) -> Result<()> {
        match (self, guard) {
            (AnyLock::Sherman(protocol), AnyGuard::Sherman(guard)) => {
                protocol.release(ep, guard, write_back).await
            }
            (AnyLock::Alock(protocol), AnyGuard::Alock(guard)) => {
                protocol.release(ep, guard, write_back).await
            }
            (AnyLock::Farlock(protocol), AnyGuard::Farlock(guard)) => {
                protocol.release(ep, guard, write_back).await
            }
            (AnyLock::FarlockG(protocol), AnyGuard::FarlockG(guard)) => {
                protocol.release(ep, guard, write_back).await
            }
            (AnyLock::Classic(protocol), AnyGuard::Classic(guard)) => {
                protocol.release(ep, guard, write_back).await
            }
            (protocol, guard) => {
                let client = protocol.member().client();
                Err(ErrorKind::ForeignGuard {
                    client,
                    lock: guard.lock(),
                }
                .into())
            }
        }
    }
}
