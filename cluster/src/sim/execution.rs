//! [`Execution`]: what a client that posts a chain waits for.
//!
//! | stage | becomes | by |
//! |---|---|---|
//! | new | over | an empty chain, or one that is refused: nothing was posted |
//! | new | owes | a thread of several clients, and CPU time that the client owes |
//! | new, owes | posted | the post, as soon as nothing is owed |
//! | posted | over | the completion, which gives the chain back |
//!
//! Dropped while posted, the chain's verbs go on, in the operation's own memory; the caller keeps the empty chain that it
//! was exchanged for. A future by hand, since an `async` block moves the chain twice more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::debt::Debt;
use super::endpoint::SimEndpoint;
use super::queue::Time;
use crate::{Chain, Result};

/// How far a chain has come.
enum Stage {
    New,
    /// What the client owes passes until then.
    Owes(Time),
    /// In flight, as the operation of that number. The caller's chain is that of an unused operation meanwhile.
    Posted(u32),
    Over,
}

/// A chain's way from its post to its completion.
pub(super) struct Execution<'e, 'c> {
    endpoint: &'e SimEndpoint,
    chain: &'c mut Chain,
    stage: Stage,
}

impl<'e, 'c> Execution<'e, 'c> {
    /// That of `chain`, not yet posted.
    #[inline]
    pub(super) fn new(endpoint: &'e SimEndpoint, chain: &'c mut Chain) -> Self {
        Self {
            endpoint,
            chain,
            stage: Stage::New,
        }
    }

    /// Before the post. Not begun before the first poll: a future that nobody polls posts nothing.
    #[inline]
    fn begin(&mut self) -> Poll<Result<()>> {
        if self.chain.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let owed = {
            let mut world = self.endpoint.world.borrow_mut();
            world.owed_before_post(self.endpoint.client)
        };
        if owed > 0 {
            self.owe(owed)
        } else {
            self.post()
        }
    }

    #[inline(never)]
    fn owe(&mut self, owed: Time) -> Poll<Result<()>> {
        let until = self
            .endpoint
            .pass(&mut self.endpoint.world.borrow_mut(), owed)
            .until;
        self.stage = Stage::Owes(until);
        self.owed()
    }

    #[inline(never)]
    fn owed(&mut self) -> Poll<Result<()>> {
        match self.stage {
            Stage::Owes(until) if self.endpoint.world.borrow().now < until => Poll::Pending,
            _ => self.post(),
        }
    }

    #[inline]
    fn post(&mut self) -> Poll<Result<()>> {
        let mut world = self.endpoint.world.borrow_mut();
        let op = world.post(self.endpoint.client, self.chain)?;
        world.clients[self.endpoint.client as usize].debt = Debt::NONE;
        self.stage = Stage::Posted(op);
        // The event of its completion polls the client.
        Poll::Pending
    }
}

impl Future for Execution<'_, '_> {
    type Output = Result<()>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        match self.stage {
            Stage::Posted(op) => {
                let this = &mut *self;
                if this.endpoint.world.borrow_mut().collect(op, this.chain) {
                    this.stage = Stage::Over;
                    Poll::Ready(Ok(()))
                } else {
                    Poll::Pending
                }
            }
            Stage::New => self.begin(),
            Stage::Owes(_) => self.owed(),
            Stage::Over => Poll::Ready(Ok(())),
        }
    }
}

impl Drop for Execution<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Posted(op) = self.stage {
            self.endpoint.world.borrow_mut().abandon(op);
        }
    }
}
