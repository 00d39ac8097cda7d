//! [`WallEndpoint`]: a client's handle on a cluster in real time.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rand::Rng;

use super::queue_pairs::{QueuePairs, Request, RequestId};
use super::thread::{Reactor, Waiting};
use crate::region::Regions;
use crate::{
    Capabilities, Chain, ClientId, Endpoint, ErrorKind, GlobalAddr, LINE_BYTES, Line, NodeId,
    Result, WaitBounds, WaitFor,
};

/// A client's handle on a cluster in real time. Clones are the same client.
pub struct WallEndpoint<Q> {
    reactor: Rc<RefCell<Reactor<Q>>>,
    own: Arc<Regions>,
    /// Among those of its thread.
    number: usize,
    client: ClientId,
    node: NodeId,
}

// Not derived: queue pairs need not be.
impl<Q> Clone for WallEndpoint<Q> {
    fn clone(&self) -> Self {
        Self {
            reactor: Rc::clone(&self.reactor),
            own: Arc::clone(&self.own),
            ..*self
        }
    }
}

impl<Q> std::fmt::Debug for WallEndpoint<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WallEndpoint({} on {})", self.client, self.node)
    }
}

impl<Q: QueuePairs> WallEndpoint<Q> {
    pub(super) fn new(
        reactor: Rc<RefCell<Reactor<Q>>>,
        own: Arc<Regions>,
        number: usize,
        client: ClientId,
    ) -> Self {
        let node = own.node();
        Self {
            reactor,
            own,
            number,
            client,
            node,
        }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn is_of(&self, reactor: &Rc<RefCell<Reactor<Q>>>) -> bool {
        Rc::ptr_eq(&self.reactor, reactor)
    }

    /// Whether the CPU of this node may access `words` words at `addr`.
    fn check_cpu(&self, what: &'static str, addr: GlobalAddr, words: usize) -> Result<()> {
        let refused = |why| Err(ErrorKind::NotPermitted { what, addr, why }.into());
        if addr.node() != self.node {
            return refused("a CPU accesses its own node's memory only");
        }
        if addr.is_device() {
            return refused("a CPU does not reach device memory");
        }
        self.own.sizes().check(what, addr, words as u64 * 8, true)
    }

    fn wait(&self, waiting: Waiting) {
        self.reactor.borrow_mut().clients[self.number].waiting = waiting;
    }

    fn copy(&self, addr: GlobalAddr, into: &mut [u64]) {
        let from = self.own.words_at(addr, into.len());
        for (word, from) in into.iter_mut().zip(from) {
            *word = from.load(Ordering::Acquire);
        }
    }
}

/// A load cannot release.
fn for_load(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        order => order,
    }
}

/// A store cannot acquire.
fn for_store(order: Ordering) -> Ordering {
    match order {
        Ordering::Acquire => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Release,
        order => order,
    }
}

/// A posted chain on its way. When it is dropped the verbs go on, and their results are nobody's.
struct Execution<'a, 'c, Q: QueuePairs> {
    endpoint: &'a WallEndpoint<Q>,
    chain: &'c mut Chain,
    request: Option<RequestId>,
}

impl<Q: QueuePairs> Future for Execution<'_, '_, Q> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let mut reactor = this.endpoint.reactor.borrow_mut();
        let Some(request) = this.request else {
            if this.chain.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match reactor.post(this.endpoint.number, this.chain) {
                Ok(request) => this.request = Some(request),
                Err(error) => return Poll::Ready(Err(error)),
            }
            return Poll::Pending;
        };
        if matches!(reactor.requests[request], Request::Posted { .. }) {
            return Poll::Pending;
        }
        this.request = None;
        Poll::Ready(match reactor.requests.remove(request) {
            Request::Answered(chain) => {
                *this.chain = chain;
                Ok(())
            }
            Request::Failed(chain, error) => {
                *this.chain = chain;
                Err(error)
            }
            Request::Posted { .. } | Request::Dropped(_) => {
                unreachable!("a posted request is left alone, a dropped one has no future")
            }
        })
    }
}

impl<Q: QueuePairs> Drop for Execution<'_, '_, Q> {
    fn drop(&mut self) {
        let Some(request) = self.request else { return };
        let mut reactor = self.endpoint.reactor.borrow_mut();
        match &mut reactor.requests[request] {
            Request::Posted { chain, .. } => {
                let chain = std::mem::take(chain);
                reactor.requests[request] = Request::Dropped(chain);
            }
            Request::Answered(_) | Request::Failed(..) | Request::Dropped(_) => {
                drop(reactor.requests.remove(request));
            }
        }
    }
}

impl<Q: QueuePairs + 'static> Endpoint for WallEndpoint<Q> {
    fn node(&self) -> NodeId {
        self.node
    }

    fn client(&self) -> ClientId {
        self.client
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_swap: self.reactor.borrow().options.native_swap,
        }
    }

    fn now(&self) -> u64 {
        let origin = self.reactor.borrow().options.origin;
        origin.elapsed().as_nanos() as u64
    }

    fn random(&self) -> u64 {
        self.reactor.borrow_mut().clients[self.number]
            .rng
            .next_u64()
    }

    fn execute(&self, chain: &mut Chain) -> impl Future<Output = Result<()>> {
        Execution {
            endpoint: self,
            chain,
            request: None,
        }
    }

    async fn load(&self, addr: GlobalAddr, order: Ordering) -> Result<u64> {
        self.check_cpu("CPU load", addr, 1)?;
        Ok(self.own.word(addr).load(for_load(order)))
    }

    async fn store(&self, addr: GlobalAddr, value: u64, order: Ordering) -> Result<()> {
        self.check_cpu("CPU store", addr, 1)?;
        self.own.word(addr).store(value, for_store(order));
        Ok(())
    }

    async fn swap(&self, addr: GlobalAddr, value: u64, order: Ordering) -> Result<u64> {
        self.check_cpu("CPU swap", addr, 1)?;
        Ok(self.own.word(addr).swap(value, order))
    }

    async fn compare_exchange(
        &self,
        addr: GlobalAddr,
        expected: u64,
        new: u64,
        order: Ordering,
    ) -> Result<std::result::Result<u64, u64>> {
        self.check_cpu("CPU compare-exchange", addr, 1)?;
        let word = self.own.word(addr);
        Ok(word.compare_exchange(expected, new, order, for_load(order)))
    }

    async fn fetch_add(&self, addr: GlobalAddr, add: u64, order: Ordering) -> Result<u64> {
        self.check_cpu("CPU fetch-add", addr, 1)?;
        Ok(self.own.word(addr).fetch_add(add, order))
    }

    async fn load_words(&self, addr: GlobalAddr, words: &mut [u64]) -> Result<()> {
        if !words.is_empty() {
            self.check_cpu("CPU copy", addr, words.len())?;
            self.copy(addr, words);
        }
        Ok(())
    }

    async fn store_words(&self, addr: GlobalAddr, words: &[u64]) -> Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        self.check_cpu("CPU copy", addr, words.len())?;
        let into = self.own.words_at(addr, words.len());
        for (word, value) in into.iter().zip(words) {
            word.store(*value, Ordering::Release);
        }
        Ok(())
    }

    async fn wait_until<P: FnMut(&[u64]) -> bool>(
        &self,
        addr: GlobalAddr,
        count: usize,
        wait: WaitFor,
        mut predicate: P,
    ) -> Result<Line> {
        let start = addr.offset() as usize % LINE_BYTES;
        assert!(
            count > 0 && start + count * 8 <= LINE_BYTES,
            "the words of one line"
        );
        self.check_cpu("CPU wait", addr, count)?;
        let mut since = None;
        let mut reported = false;
        let mut line = Line::default();
        poll_fn(|_| {
            self.copy(addr, &mut line[..count]);
            if predicate(&line[..count]) {
                self.wait(Waiting::Event);
                return Poll::Ready(Ok(line));
            }
            // Behind the look: what a peer did before it died may be what was waited for.
            if let Some(lost) = &self.reactor.borrow().lost {
                return Poll::Ready(Err(lost.clone()));
            }
            let now = self.now();
            let waited_ns = now - *since.get_or_insert(now);
            let bounds = self.wait_bounds();
            if waited_ns > bounds.limit_ns {
                let WaitFor { what, addr } = wait;
                return Poll::Ready(Err(ErrorKind::WaitLimit {
                    what,
                    addr,
                    waited_ns,
                }
                .into()));
            }
            if waited_ns > bounds.report_ns && !reported {
                reported = true;
                self.report_wait(wait, waited_ns);
            }
            self.wait(Waiting::Memory);
            Poll::Pending
        })
        .await
    }

    async fn work(&self, ns: u64) {
        // The CPU is busy: no other client of the thread goes on meanwhile.
        let until = Instant::now() + Duration::from_nanos(ns);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    async fn sleep(&self, ns: u64) {
        let until = Instant::now() + Duration::from_nanos(ns);
        poll_fn(|_| {
            if Instant::now() >= until {
                self.wait(Waiting::Event);
                return Poll::Ready(());
            }
            self.wait(Waiting::Until(until));
            Poll::Pending
        })
        .await;
    }

    fn wait_bounds(&self) -> WaitBounds {
        self.reactor.borrow().options.waits
    }

    fn take_chain(&self) -> Chain {
        self.reactor.borrow_mut().clients[self.number]
            .chains
            .pop()
            .unwrap_or_default()
    }

    fn put_chain(&self, mut chain: Chain) {
        chain.clear();
        self.reactor.borrow_mut().clients[self.number]
            .chains
            .push(chain);
    }
}
