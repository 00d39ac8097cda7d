//! [`Member`]: what a lock client is apart from its protocol: its number, its monitor, its backoff, its poison.

use std::cell::Cell;
use std::rc::Rc;

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, Mark};

use crate::monitor::Moment;
use crate::{Backoff, Cohort, Error, ErrorKind, Monitor, Result};

/// A client of a lock, shared by its protocol and its guards.
#[derive(Debug)]
pub(crate) struct Member {
    client: ClientId,
    monitor: Option<Rc<Monitor>>,
    poison: Cell<Option<(&'static str, GlobalAddr)>>,
    /// Told once, before the first acquire.
    backoff: Cell<Backoff>,
    #[cfg(any(test, feature = "faults"))]
    pub(crate) fault: Cell<Option<crate::Fault>>,
}

/// Whether `member` is to make the mistake `$fault`: never in production builds, where nothing is left of it.
macro_rules! sabotaged {
    ($member:expr, $fault:ident) => {{
        #[cfg(any(test, feature = "faults"))]
        let sabotaged = $member.fault.get() == Some($crate::Fault::$fault);
        #[cfg(not(any(test, feature = "faults")))]
        let (sabotaged, _) = (false, &$member);
        sabotaged
    }};
}
pub(crate) use sabotaged;

impl Member {
    pub(crate) fn new(client: ClientId, monitor: Option<Rc<Monitor>>) -> Rc<Self> {
        Rc::new(Self {
            client,
            monitor,
            poison: Cell::new(None),
            backoff: Cell::new(Backoff::None),
            #[cfg(any(test, feature = "faults"))]
            fault: Cell::new(None),
        })
    }

    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    /// Lets the client pause so between attempts.
    pub(crate) fn back_off(&self, backoff: Backoff) {
        self.backoff.set(backoff);
    }

    /// How the client pauses between attempts.
    pub(crate) fn backoff(&self) -> Backoff {
        self.backoff.get()
    }

    /// [`ErrorKind::Poisoned`] once something of this client was dropped or failed half-way; the first of it stays.
    pub(crate) fn poisoned(&self) -> Option<Error> {
        self.poison.get().map(|(what, lock)| {
            ErrorKind::Poisoned {
                client: self.client,
                what,
                lock,
            }
            .into()
        })
    }

    /// Fails when the client is poisoned.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        self.poisoned().map_or(Ok(()), Err)
    }

    /// Poisons the client for `what` of `lock`.
    pub(crate) fn poison(&self, what: &'static str, lock: GlobalAddr) {
        if self.poison.get().is_none() {
            self.poison.set(Some((what, lock)));
        }
        if let Some(monitor) = &self.monitor {
            monitor.abandoned(self.client, lock);
        }
    }

    /// Brings near what the monitor knows of `lock`, and `word`, if the client reaches it by CPU.
    pub(crate) fn hint<E: Endpoint>(&self, ep: &E, lock: GlobalAddr, word: GlobalAddr) {
        if let Some(monitor) = &self.monitor {
            monitor.hint(lock);
        }
        if word.node() == ep.node() && !word.is_device() {
            ep.hint(word, 8);
        }
    }

    /// A line to the monitor about `lock`.
    #[inline]
    pub(crate) fn watch<'a, E: Endpoint>(&'a self, ep: &'a E, lock: GlobalAddr) -> Watch<'a, E> {
        Watch {
            member: self,
            ep,
            lock,
        }
    }
}

/// Tells the monitor, if there is one, and the fabric's trace what a client does to one lock.
pub(crate) struct Watch<'a, E> {
    member: &'a Member,
    ep: &'a E,
    lock: GlobalAddr,
}

impl<E: Endpoint> Watch<'_, E> {
    /// The client's acquire begins. The monitor is told by the protocol, when others can see the request.
    #[inline(always)]
    pub(crate) fn asks(&self) {
        self.ep.mark(Mark::Requested { lock: self.lock });
    }

    /// The client has taken a ticket; the monitor is told by the protocol, which.
    #[inline(always)]
    pub(crate) fn took_ticket(&self) {
        self.ep.mark(Mark::Ticket { lock: self.lock });
    }

    /// The client knows that it holds the lock.
    #[inline(always)]
    pub(crate) fn granted(&self, cohort: Cohort) -> Result<()> {
        // Not by `tell`: its closure would be a function of its own.
        if let Some(monitor) = &self.member.monitor {
            monitor.granted(self.moment(), cohort)?;
        }
        self.ep.mark(Mark::Granted { lock: self.lock });
        Ok(())
    }

    /// The holder is about to take the first step that can let the next one in.
    #[inline(always)]
    pub(crate) fn released(&self) -> Result<()> {
        if let Some(monitor) = &self.member.monitor {
            monitor.released(self.moment())?;
        }
        self.ep.mark(Mark::Released { lock: self.lock });
        Ok(())
    }

    #[inline(always)]
    fn moment(&self) -> Moment {
        Moment {
            lock: self.lock,
            client: self.member.client,
            now_ns: self.ep.now(),
        }
    }

    /// Tells the monitor at the present instant. Without a monitor nothing is told and nothing is known.
    #[inline(always)] // As what it tells.
    pub(crate) fn tell<T: Default>(
        &self,
        tell: impl FnOnce(&Monitor, Moment) -> Result<T>,
    ) -> Result<T> {
        match &self.member.monitor {
            Some(monitor) => tell(monitor, self.moment()),
            None => Ok(T::default()),
        }
    }
}
