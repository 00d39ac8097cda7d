//! [`Classic`]: the locks that send everybody the same way, through the RNIC: one of them, chosen at run time.

use std::rc::Rc;

use dmtree_cluster::{Endpoint, GlobalAddr};

use crate::mcs::{Mcs, McsGuard};
use crate::member::Member;
use crate::tas::{Tas, TasGuard};
use crate::ticket::{Ticket, TicketGuard};
use crate::{ErrorKind, LockProtocol, Result, WriteBack};

/// One client's part of such a lock.
#[derive(Debug)]
#[non_exhaustive]
pub enum Classic {
    /// Test and set.
    Tas(Tas),
    /// The ticket lock.
    Ticket(Ticket),
    /// MCS.
    Mcs(Mcs),
}

/// Holds a lock of [`Classic`].
#[derive(Debug)]
#[must_use = "a guard that is dropped leaves the lock held and poisons the client"]
#[non_exhaustive]
pub enum ClassicGuard {
    /// Of test and set.
    Tas(TasGuard),
    /// Of the ticket lock.
    Ticket(TicketGuard),
    /// Of MCS.
    Mcs(McsGuard),
}

impl ClassicGuard {
    /// The lock.
    pub fn lock(&self) -> GlobalAddr {
        match self {
            ClassicGuard::Tas(guard) => guard.lock(),
            ClassicGuard::Ticket(guard) => guard.lock(),
            ClassicGuard::Mcs(guard) => guard.lock(),
        }
    }
}

impl Classic {
    pub(crate) fn member(&self) -> &Rc<Member> {
        match self {
            Classic::Tas(lock) => lock.member(),
            Classic::Ticket(lock) => lock.member(),
            Classic::Mcs(lock) => lock.member(),
        }
    }
}

impl<E: Endpoint> LockProtocol<E> for Classic {
    type Guard = ClassicGuard;

    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<ClassicGuard> {
        Ok(match self {
            Classic::Tas(protocol) => ClassicGuard::Tas(protocol.acquire(ep, lock).await?),
            Classic::Ticket(protocol) => ClassicGuard::Ticket(protocol.acquire(ep, lock).await?),
            Classic::Mcs(protocol) => ClassicGuard::Mcs(protocol.acquire(ep, lock).await?),
        })
    }

    fn hint(&self, ep: &E, lock: GlobalAddr) {
        self.member().hint(ep, lock, lock);
    }

    async fn release(
        &mut self,
        ep: &E,
        guard: ClassicGuard,
        write_back: WriteBack<'_>,
    ) -> Result<()> {
        match (self, guard) {
            (Classic::Tas(protocol), ClassicGuard::Tas(guard)) => {
                protocol.release(ep, guard, write_back).await
            }
            (Classic::Ticket(protocol), ClassicGuard::Ticket(guard)) => {
                protocol.release(ep, guard, write_back).await
            }
            (Classic::Mcs(protocol), ClassicGuard::Mcs(guard)) => {
                protocol.release(ep, guard, write_back).await
            }
            (protocol, guard) => Err(ErrorKind::ForeignGuard {
                client: protocol.member().client(),
                lock: guard.lock(),
            }
            .into()),
        }
    }
}
