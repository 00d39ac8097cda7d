//! CPU accesses within one line: what nearly all accesses of a lock's CPU side are.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::endpoint::{Delay, SimEndpoint};
use crate::{GlobalAddr, Result};

impl SimEndpoint {
    /// A CPU access to `words` words of a line at once, its time folded into a later access's: what nearly all are.
    /// None when it takes an event, has somebody to respect, or is to be refused; nothing has happened then.
    #[inline(always)] // A few dozen instructions, which are fewer where `words` and `writes` are known.
    pub(super) fn at_once<T>(
        &self,
        addr: GlobalAddr,
        words: usize,
        writes: bool,
        fence: bool,
        access: impl FnOnce(&mut [u8]) -> T,
    ) -> Option<T> {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let cost = world.costs.cpu_hit + if fence { world.costs.cpu_fence } else { 0 };
        let debt = &mut world.clients[self.client as usize].debt;
        if cost > world.costs.foldable || !debt.has_room() {
            return None;
        }
        // Beyond any memory when it is on another node, or the device's.
        let start = addr.to_bits() ^ GlobalAddr::new(self.node, 0).to_bits();
        let space = &mut world.nodes[usize::from(self.node.0)].spaces[0];
        let bytes = space.at_hand(start as usize, words * 8, self.core, writes)?;
        debt.fold(cost);
        world.stats.folded += 1;
        Some(access(bytes))
    }

    /// A CPU access to one word, which costs a fence beyond its line if `fence` says so: at once when its time is
    /// folded into a later access's, else when its time has passed.
    #[inline(always)] // As `Word::poll`.
    pub(super) fn word<T, C: Fn(u64) -> (Option<u64>, T)>(
        &self,
        what: &'static str,
        addr: GlobalAddr,
        writes: bool,
        fence: bool,
        change: C,
    ) -> Word<'_, C> {
        Word {
            endpoint: self,
            what,
            addr,
            writes,
            fence,
            change,
            delay: None,
        }
    }

    /// Begins an access to one word that is not made at once.
    #[inline(never)]
    fn begin_word(
        &self,
        what: &'static str,
        addr: GlobalAddr,
        writes: bool,
        fence: bool,
    ) -> Result<Delay<'_>> {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        world.check_cpu(self.client, what, addr, 1)?;
        let fence = if fence { world.costs.cpu_fence } else { 0 };
        let cost = world.line_cost(self.client, addr, writes) + fence;
        if self.fold(world, cost) {
            return Ok(Delay::over(self));
        }
        let total = cost + world.clients[self.client as usize].debt.settle();
        Ok(self.pass(world, total))
    }
}

/// A CPU access to one word: `change` says, from what is there, what to store if anything, and what to return.
pub(super) struct Word<'a, C> {
    endpoint: &'a SimEndpoint,
    what: &'static str,
    addr: GlobalAddr,
    writes: bool,
    fence: bool,
    change: C,
    /// None before the first poll.
    delay: Option<Delay<'a>>,
}

impl<T, C: Fn(u64) -> (Option<u64>, T) + Unpin> Future for Word<'_, C> {
    type Output = Result<T>;

    // Into the caller, who then sees that an access made at once does not fail: results are large to pass on.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let endpoint = this.endpoint;
        if this.delay.is_none() {
            let at_once = endpoint.at_once(this.addr, 1, this.writes, this.fence, |bytes| {
                let (value, found) = (this.change)(word_of(bytes));
                if let Some(value) = value {
                    bytes.copy_from_slice(&value.to_ne_bytes());
                }
                found
            });
            if let Some(found) = at_once {
                return Poll::Ready(Ok(found));
            }
        }
        match this.late(context) {
            Poll::Ready(Ok(())) => {
                let mut world = endpoint.world.borrow_mut();
                let (value, found) = (this.change)(world.cpu_load(this.addr));
                if let Some(value) = value {
                    world.cpu_store(this.addr, value);
                }
                Poll::Ready(Ok(found))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<C> Word<'_, C> {
    /// Waits until the time of an access that is not made at once has passed.
    #[inline(always)]
    fn late(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let delay = match &mut self.delay {
            Some(delay) => delay,
            None => {
                let begun = self
                    .endpoint
                    .begin_word(self.what, self.addr, self.writes, self.fence);
                match begun {
                    Ok(delay) => self.delay.insert(delay),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        };
        Pin::new(delay).poll(context).map(Ok)
    }
}

/// The word that these 8 bytes are.
#[inline]
pub(super) fn word_of(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from_ne_bytes(*word))
}
