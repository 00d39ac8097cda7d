//! [`QueuePairs`]: how the chains of a thread's clients travel, and how [`Answers`] come back to them.

use std::collections::VecDeque;
use std::time::Duration;

use slab::Slab;

use super::thread::Client;
use crate::{Chain, Error, NodeId, Result};

/// A posted chain, among those of its thread.
pub type RequestId = usize;

/// A thread's queue pairs, one to each node that serves memory, its own one among them.
///
/// Chains of one queue pair take effect as the contract says. What is posted is answered once, by [`Answers::answer`] or
/// [`Answers::fail`].
pub trait QueuePairs {
    /// Whether `node` serves what `chain` wants.
    ///
    /// # Errors
    /// What keeps the chain from being posted.
    fn check(&mut self, node: NodeId, chain: &Chain) -> Result<()>;

    /// Posts a chain that was checked; it may travel with the next [`QueuePairs::send`].
    fn post(&mut self, node: NodeId, chain: &Chain, request: RequestId);

    /// Lets travel what was posted; whether anything did.
    fn send(&mut self) -> bool;

    /// Takes what has come of queue pairs that owe something, or of `all` of them; whether anything has.
    fn receive(&mut self, all: bool, answers: &mut Answers<'_>) -> bool;

    /// Gives up nodes that have owed an answer for longer than `limit`.
    fn expire(&mut self, limit: Duration, answers: &mut Answers<'_>);

    /// Gives up all of them, with `why`.
    fn abandon(&mut self, why: &Error, answers: &mut Answers<'_>);

    /// Whether an answer is owed.
    fn is_waiting(&self) -> bool;

    /// Whether something posted has not travelled yet.
    fn has_unsent(&self) -> bool;

    /// Sleeps until something comes, for no longer than `timeout`, and takes it.
    ///
    /// # Errors
    /// When the operating system does not let it.
    fn wait(&mut self, timeout: Duration, answers: &mut Answers<'_>) -> Result<()>;
}

/// What became of a posted chain.
pub(super) enum Request {
    /// Nothing yet. Its client, and the chain while its future is not polled: results go there.
    Posted {
        client: usize,
        chain: Chain,
    },
    Answered(Chain),
    Failed(Chain, Error),
    /// Its future was dropped: the answer is for nobody.
    Dropped(Chain),
}

/// Where answers go.
pub struct Answers<'a> {
    pub(super) requests: &'a mut Slab<Request>,
    pub(super) clients: &'a mut [Client],
    pub(super) ready: &'a mut VecDeque<usize>,
    pub(super) lost: &'a mut Option<Error>,
}

impl std::fmt::Debug for Answers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Answers({} requests)", self.requests.len())
    }
}

impl Answers<'_> {
    fn wake(&mut self, client: usize) {
        if !std::mem::replace(&mut self.clients[client].is_ready, true) {
            self.ready.push_back(client);
        }
    }

    /// `request` was answered: `fill` brings the results into its chain.
    ///
    /// # Errors
    /// Those of `fill`; the request is as it was then.
    pub fn answer<E>(
        &mut self,
        request: RequestId,
        fill: impl FnOnce(&mut Chain) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(state) = self.requests.get_mut(request) else {
            return Ok(());
        };
        match state {
            Request::Posted { client, chain } => {
                fill(chain)?;
                let client = *client;
                *state = Request::Answered(std::mem::take(chain));
                self.wake(client);
            }
            Request::Dropped(chain) => {
                fill(chain)?;
                self.requests.remove(request);
            }
            // One that was answered or failed is not posted any more.
            Request::Answered(_) | Request::Failed(..) => {}
        }
        Ok(())
    }

    /// `request` will not be answered.
    pub fn fail(&mut self, request: RequestId, error: &Error) {
        let Some(state) = self.requests.get_mut(request) else {
            return;
        };
        match std::mem::replace(state, Request::Dropped(Chain::new())) {
            Request::Posted { client, chain } => {
                *state = Request::Failed(chain, error.clone());
                self.wake(client);
            }
            _ => drop(self.requests.remove(request)),
        }
    }

    /// A node is lost: what a client waits for in memory may never come.
    pub fn lose(&mut self, error: Error) {
        self.lost.get_or_insert(error);
    }
}
