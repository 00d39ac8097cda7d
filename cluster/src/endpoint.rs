//! [`Endpoint`]: a client's handle on the fabric, the one door to memory.

use std::sync::atomic::Ordering;

use crate::{Chain, ClientId, ErrorKind, GlobalAddr, Mark, NodeId, Result};

/// What a fabric offers beyond READ, WRITE, CAS and FAA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Chain::swap`] is there (masked CAS or a swap verb). Otherwise a swap is a loop of CAS.
    pub native_swap: bool,
}

/// What a wait is for, told when it takes longer than it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitFor {
    /// In words: `"farlock: qgrant"`.
    pub what: &'static str,
    /// The lock (or other object) that is waited for.
    pub addr: GlobalAddr,
}

impl WaitFor {
    /// A wait for `what`, of the lock at `addr`.
    pub const fn new(what: &'static str, addr: GlobalAddr) -> Self {
        Self { what, addr }
    }
}

/// The words of one cache line; those that were not asked for are zero.
pub type Line = [u64; 8];

/// How long [`Endpoint::poll_until`] pauses between two READs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollBackoff {
    /// The pause after the first READ that failed the predicate, in nanoseconds.
    pub first_ns: u64,
    /// The pause doubles up to this.
    pub max_ns: u64,
}

impl PollBackoff {
    /// READ again at once: the round trip is the pause. What the published protocols do.
    pub const NONE: Self = Self {
        first_ns: 0,
        max_ns: 0,
    };
}

/// A client's handle on the fabric.
///
/// Futures are not `Send`: a thread runs its own clients on its own executor, on every fabric. Calls take
/// `&self`, yet a client is sequential: it awaits one call before it makes the next.
///
/// Every call fails with an [`crate::Error`] when the peer is gone, the address is out of bounds or misaligned, the
/// access is not permitted, or (waits) the configured limit has passed.
#[allow(async_fn_in_trait)] // One executor a thread, on purpose: no future of this trait is ever `Send`.
pub trait Endpoint {
    /// The node that the client runs on.
    fn node(&self) -> NodeId;

    /// The client.
    fn client(&self) -> ClientId;

    /// What the fabric offers.
    fn capabilities(&self) -> Capabilities;

    /// The fabric's clock, in nanoseconds from an origin of its own.
    fn now(&self) -> u64;

    /// 64 random bits of the client's own seeded generator.
    fn random(&self) -> u64;

    /// Posts the chain and waits for its completion; results are then in the chain. An empty chain completes
    /// at once. When it fails, any prefix of it may have taken effect. A future that is dropped after its first poll
    /// may leave the chain empty: its verbs go on without it.
    async fn execute(&self, chain: &mut Chain) -> Result<()>;

    /// Loads a word of the own node's host memory.
    async fn load(&self, addr: GlobalAddr, order: Ordering) -> Result<u64>;

    /// Stores a word of the own node's host memory.
    async fn store(&self, addr: GlobalAddr, value: u64, order: Ordering) -> Result<()>;

    /// Swaps a word of the own node's host memory. Atomic against CPUs, NOT against RNIC atomics.
    async fn swap(&self, addr: GlobalAddr, value: u64, order: Ordering) -> Result<u64>;

    /// Compare-exchange of a word of the own node's host memory; `Ok(Err(found))` when it did not match.
    /// Atomic against CPUs, NOT against RNIC atomics.
    async fn compare_exchange(
        &self,
        addr: GlobalAddr,
        expected: u64,
        new: u64,
        order: Ordering,
    ) -> Result<std::result::Result<u64, u64>>;

    /// Fetch-add of a word of the own node's host memory. Atomic against CPUs, NOT against RNIC atomics.
    async fn fetch_add(&self, addr: GlobalAddr, add: u64, order: Ordering) -> Result<u64>;

    /// Copies the own node's host memory at `addr` (8-byte aligned) into `words`: each word by an acquire
    /// load, no two of them at one instant.
    async fn load_words(&self, addr: GlobalAddr, words: &mut [u64]) -> Result<()>;

    /// [`Endpoint::load_words`] and then [`Endpoint::work`] on them for `ns` nanoseconds, such as a search: in one
    /// call, so that a fabric in virtual time can let both pass as one.
    async fn scan_words(&self, addr: GlobalAddr, words: &mut [u64], ns: u64) -> Result<()> {
        self.load_words(addr, words).await?;
        if ns > 0 {
            self.work(ns).await;
        }
        Ok(())
    }

    /// Copies `words` into the own node's host memory at `addr` (8-byte aligned): each word by a release
    /// store, in increasing address order.
    async fn store_words(&self, addr: GlobalAddr, words: &[u64]) -> Result<()>;

    /// Hints that this client is about to access `bytes` bytes at `addr`, so that a fabric in this process can
    /// bring them near meanwhile. Costs no time on the fabric's clock and never fails.
    fn hint(&self, addr: GlobalAddr, bytes: usize) {
        let _ = (addr, bytes);
    }

    /// Tells the fabric's trace, if there is one, what this client does. Costs no time on the fabric's clock and
    /// never fails.
    fn mark(&self, mark: Mark) {
        let _ = mark;
    }

    /// Waits until `predicate` holds for the `count` words at `addr`, which lie in one line of the own node's
    /// host memory, and returns them. Each word is read by an acquire load; a predicate over several words
    /// sees each at some instant of its own.
    ///
    /// # Panics
    /// When the words do not lie in one line.
    async fn wait_until<P: FnMut(&[u64]) -> bool>(
        &self,
        addr: GlobalAddr,
        count: usize,
        wait: WaitFor,
        predicate: P,
    ) -> Result<Line>;

    /// Waits until `predicate` holds for the `count` words (at most 8) at `addr`, on any node, by sending
    /// READs; returns the words.
    async fn poll_until<P: FnMut(&[u64]) -> bool>(
        &self,
        addr: GlobalAddr,
        count: usize,
        backoff: PollBackoff,
        wait: WaitFor,
        mut predicate: P,
    ) -> Result<Line> {
        assert!(count <= 8, "at most one line");
        let started = self.now();
        let mut reported = false;
        let mut pause = backoff.first_ns;
        let mut chain = self.take_chain();
        loop {
            chain.clear();
            let slot = chain.read(addr, count * 8);
            let outcome = self.execute(&mut chain).await;
            if outcome.is_err() {
                self.put_chain(chain);
                return outcome.map(|()| Line::default());
            }
            if predicate(chain.words(slot)) {
                let mut line = Line::default();
                line[..count].copy_from_slice(chain.words(slot));
                self.put_chain(chain);
                return Ok(line);
            }
            let bounds = self.wait_bounds();
            let waited = self.now().saturating_sub(started);
            if waited > bounds.limit_ns {
                self.put_chain(chain);
                return Err(ErrorKind::WaitLimit {
                    what: wait.what,
                    addr: wait.addr,
                    waited_ns: waited,
                }
                .into());
            }
            if waited > bounds.report_ns && !reported {
                reported = true;
                self.report_wait(wait, waited);
            }
            if pause > 0 {
                self.sleep(pause).await;
                pause = (pause * 2).min(backoff.max_ns);
            }
        }
    }

    /// Keeps the CPU busy for `ns` nanoseconds: a critical section, a search in a page.
    async fn work(&self, ns: u64);

    /// Lets `ns` nanoseconds pass without using the CPU.
    async fn sleep(&self, ns: u64);

    /// After how long a wait is reported, and after how long it fails.
    fn wait_bounds(&self) -> WaitBounds;

    /// Tells that a wait has passed [`WaitBounds::report_ns`]. Once a wait.
    fn report_wait(&self, wait: WaitFor, waited_ns: u64) {
        tracing::warn!(
            client = self.client().0,
            node = self.node().0,
            waiting_for = wait.what,
            at = %wait.addr,
            waited_us = waited_ns / 1000,
            "long wait"
        );
    }

    /// A cleared chain from the client's own store of them, so that small verbs need no allocation.
    fn take_chain(&self) -> Chain;

    /// Gives a chain back to the store.
    fn put_chain(&self, chain: Chain);

    /// READs the word at `addr`, on any node.
    async fn read_u64(&self, addr: GlobalAddr) -> Result<u64> {
        let mut chain = self.take_chain();
        let slot = chain.read(addr, 8);
        let outcome = self.execute(&mut chain).await.map(|()| chain.value(slot));
        self.put_chain(chain);
        outcome
    }

    /// READs `words` from `addr`, on any node.
    async fn read_words(&self, addr: GlobalAddr, words: &mut [u64]) -> Result<()> {
        let mut chain = self.take_chain();
        let slot = chain.read(addr, size_of_val(words));
        let outcome = self.execute(&mut chain).await;
        if outcome.is_ok() {
            words.copy_from_slice(chain.words(slot));
        }
        self.put_chain(chain);
        outcome
    }

    /// WRITEs `words` to `addr`, on any node, and waits for the completion.
    async fn write_words(&self, addr: GlobalAddr, words: &[u64]) -> Result<()> {
        let mut chain = self.take_chain();
        chain.write_words(addr, words);
        let outcome = self.execute(&mut chain).await;
        self.put_chain(chain);
        outcome
    }

    /// RNIC compare-and-swap; returns the word as it was, so it won when that is `expected`.
    async fn rdma_cas(&self, addr: GlobalAddr, expected: u64, new: u64) -> Result<u64> {
        let mut chain = self.take_chain();
        let slot = chain.cas(addr, expected, new);
        let outcome = self.execute(&mut chain).await.map(|()| chain.value(slot));
        self.put_chain(chain);
        outcome
    }

    /// RNIC fetch-and-add; returns the word as it was.
    async fn rdma_faa(&self, addr: GlobalAddr, add: u64) -> Result<u64> {
        let mut chain = self.take_chain();
        let slot = chain.faa(addr, add);
        let outcome = self.execute(&mut chain).await.map(|()| chain.value(slot));
        self.put_chain(chain);
        outcome
    }

    /// RNIC swap; returns the word as it was.
    ///
    /// Where the fabric has no native swap it is a loop of CAS: guess `guess`, retry with what came back.
    /// Under contention every success invalidates every other guess, so the loop is metastable when many
    /// start at once.
    async fn rdma_swap(&self, addr: GlobalAddr, guess: u64, new: u64) -> Result<u64> {
        if self.capabilities().native_swap {
            let mut chain = self.take_chain();
            let slot = chain.swap(addr, new);
            let outcome = self.execute(&mut chain).await.map(|()| chain.value(slot));
            self.put_chain(chain);
            return outcome;
        }
        let mut expected = guess;
        loop {
            let found = self.rdma_cas(addr, expected, new).await?;
            if found == expected {
                return Ok(found);
            }
            expected = found;
        }
    }
}

/// Bounds on waiting, in nanoseconds of the fabric's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitBounds {
    /// A wait longer than this is reported once and goes on.
    pub report_ns: u64,
    /// A wait longer than this fails with [`ErrorKind::WaitLimit`].
    pub limit_ns: u64,
}

impl Default for WaitBounds {
    /// Reported after 100 ms, given up after 10 s: an operation takes microseconds.
    fn default() -> Self {
        Self {
            report_ns: 100_000_000,
            limit_ns: 10_000_000_000,
        }
    }
}
