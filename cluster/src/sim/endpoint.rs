//! [`SimEndpoint`]: a client of the simulated cluster.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use rand::RngExt;

use super::copy::{Copy, Fill};
use super::execution::Execution;
use super::queue::{Event, Time, from_ns};
use super::word::word_of;
use super::world::{Waiting, World};
use crate::{
    Capabilities, Chain, ClientId, Endpoint, ErrorKind, GlobalAddr, Line, Mark, NodeId, Result,
    WaitBounds, WaitFor,
};

/// A client's handle on the simulated cluster. Clones are the same client.
#[derive(Clone)]
pub struct SimEndpoint {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) client: u32,
    pub(super) node: NodeId,
    /// Its CPU core's number within the node.
    pub(super) core: u8,
    /// Whether the simulation has a trace.
    traced: bool,
}

impl std::fmt::Debug for SimEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimEndpoint({} on {})", ClientId(self.client), self.node)
    }
}

impl SimEndpoint {
    pub(super) fn new(world: Rc<RefCell<World>>, client: u32, node: NodeId) -> Self {
        let core = world.borrow().core(client);
        let traced = world.borrow().trace.is_some();
        Self {
            world,
            client,
            node,
            core,
            traced,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.client
    }

    pub(super) fn is_of(&self, world: &Rc<RefCell<World>>) -> bool {
        Rc::ptr_eq(&self.world, world)
    }

    /// Lets `cost` of CPU time pass. A cache hit's is folded into the next delay instead ([`super::debt`]). Hostile
    /// runs interleave all accesses.
    fn spend(&self, cost: Time) -> Delay<'_> {
        let mut world = self.world.borrow_mut();
        if self.fold(&mut world, cost) {
            return Delay::over(self);
        }
        let total = cost + world.clients[self.client as usize].debt.settle();
        self.pass(&mut world, total)
    }

    /// Folds `cost` into what the client's next access costs, if it is a hit's.
    #[inline]
    pub(super) fn fold(&self, world: &mut World, cost: Time) -> bool {
        let debt = &mut world.clients[self.client as usize].debt;
        let folds = cost <= world.costs.foldable && debt.has_room();
        if folds {
            debt.fold(cost);
            world.stats.folded += 1;
        }
        folds
    }

    /// Lets `total` pass: at once when nothing else would happen meanwhile, by an event otherwise.
    pub(super) fn pass(&self, world: &mut World, total: Time) -> Delay<'_> {
        let until = world.now.saturating_add(total);
        if until < world.queue.next_time() && until <= world.horizon {
            world.now = until;
            world.stats.events += 1;
            return Delay::over(self);
        }
        world.queue.push(until, Event::Wake(self.client));
        Delay {
            endpoint: self,
            until,
        }
    }

    fn cpu(
        &self,
        what: &'static str,
        addr: GlobalAddr,
        words: usize,
        writes: bool,
    ) -> Result<Time> {
        let mut world = self.world.borrow_mut();
        world.check_cpu(self.client, what, addr, words)?;
        Ok(world.cpu_cost(self.client, addr, words, writes))
    }
}

/// A span of virtual time.
pub(super) struct Delay<'a> {
    endpoint: &'a SimEndpoint,
    /// 0 when it has passed already.
    pub(super) until: Time,
}

impl<'a> Delay<'a> {
    /// One that has passed.
    #[inline]
    pub(super) fn over(endpoint: &'a SimEndpoint) -> Self {
        Self { endpoint, until: 0 }
    }
}

impl Future for Delay<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        // A client may be polled for a wake-up of an earlier, dropped future.
        if self.until == 0 || self.endpoint.world.borrow().now >= self.until {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// A watch on a line, taken back when dropped.
struct Watch<'a> {
    endpoint: &'a SimEndpoint,
    addr: GlobalAddr,
    armed: bool,
}

impl Future for Watch<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let woken = self.endpoint.world.borrow().clients[self.endpoint.client as usize].woken;
        if woken {
            self.armed = false;
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut world = self.endpoint.world.borrow_mut();
        if self.armed {
            // Dropped, or timed out, before the line changed.
            world.unwatch(self.endpoint.client, self.addr);
            world.clients[self.endpoint.client as usize].waiting = None;
        }
    }
}

impl Endpoint for SimEndpoint {
    fn node(&self) -> NodeId {
        self.node
    }

    fn client(&self) -> ClientId {
        ClientId(self.client)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_swap: self.world.borrow().native_swap(),
        }
    }

    // By force: monitors ask at every step, and it is a few instructions.
    #[inline(always)]
    fn now(&self) -> u64 {
        let world = self.world.borrow();
        (world.now + world.clients[self.client as usize].debt.owed()) / 1000
    }

    fn random(&self) -> u64 {
        self.world.borrow_mut().clients[self.client as usize]
            .rng
            .random()
    }

    #[inline]
    fn execute(&self, chain: &mut Chain) -> impl Future<Output = Result<()>> {
        Execution::new(self, chain)
    }

    #[inline(always)]
    fn load(&self, addr: GlobalAddr, _: Ordering) -> impl Future<Output = Result<u64>> {
        self.word("CPU load", addr, false, false, |found| (None, found))
    }

    #[inline(always)]
    fn store(
        &self,
        addr: GlobalAddr,
        value: u64,
        order: Ordering,
    ) -> impl Future<Output = Result<()>> {
        let fence = order == Ordering::SeqCst;
        self.word("CPU store", addr, true, fence, move |_| (Some(value), ()))
    }

    #[inline(always)]
    fn swap(&self, addr: GlobalAddr, value: u64, _: Ordering) -> impl Future<Output = Result<u64>> {
        let change = move |found| (Some(value), found);
        self.word("CPU swap", addr, true, true, change)
    }

    #[inline(always)]
    fn compare_exchange(
        &self,
        addr: GlobalAddr,
        expected: u64,
        new: u64,
        _: Ordering,
    ) -> impl Future<Output = Result<std::result::Result<u64, u64>>> {
        let change = move |found| {
            if found == expected {
                (Some(new), Ok(found))
            } else {
                (None, Err(found))
            }
        };
        self.word("CPU compare-exchange", addr, true, true, change)
    }

    #[inline(always)]
    fn fetch_add(
        &self,
        addr: GlobalAddr,
        add: u64,
        _: Ordering,
    ) -> impl Future<Output = Result<u64>> {
        let change = move |found: u64| (Some(found.wrapping_add(add)), found);
        self.word("CPU fetch-add", addr, true, true, change)
    }

    async fn load_words(&self, addr: GlobalAddr, words: &mut [u64]) -> Result<()> {
        self.scan_words(addr, words, 0).await
    }

    async fn scan_words(&self, addr: GlobalAddr, words: &mut [u64], ns: u64) -> Result<()> {
        if words.is_empty() {
            if ns > 0 {
                self.work(ns).await;
            }
            return Ok(());
        }
        let (copy, delay) = {
            let mut world = self.world.borrow_mut();
            let world = &mut *world;
            world.check_cpu(self.client, "CPU copy", addr, words.len())?;
            let cost = world.cpu_cost(self.client, addr, words.len(), false);
            let total = cost + world.clients[self.client as usize].debt.settle();
            // What was read is settled at the copy's end, however much later it is looked at.
            let access = world.cpu_copy_begin(addr, words.len(), world.now + total);
            let copy = Copy {
                endpoint: self,
                addr,
                access,
                done: false,
            };
            (copy, self.pass(world, total.saturating_add(from_ns(ns))))
        };
        delay.await;
        copy.finish(words);
        Ok(())
    }

    async fn store_words(&self, addr: GlobalAddr, words: &[u64]) -> Result<()> {
        match words {
            [] => Ok(()),
            [word] => self.store(addr, *word, Ordering::Release).await,
            _ => {
                let one_line = self.one_line(addr, words.len());
                let access = |bytes: &mut [u8]| bytes.copy_from_slice(bytemuck::cast_slice(words));
                if one_line
                    && self
                        .at_once(addr, words.len(), true, false, access)
                        .is_some()
                {
                    return Ok(());
                }
                let cost = self.cpu("CPU copy", addr, words.len(), true)?;
                if one_line {
                    self.spend(cost).await;
                    self.world.borrow_mut().cpu_store_line(addr, words);
                    return Ok(());
                }
                let access = {
                    let mut world = self.world.borrow_mut();
                    let debt = world.clients[self.client as usize].debt.owed();
                    let end = world.now + cost + debt;
                    world.cpu_fill_begin(addr, words, end)
                };
                let fill = Fill {
                    endpoint: self,
                    addr,
                    access,
                    words: words.len(),
                };
                self.spend_now(cost).await;
                drop(fill);
                Ok(())
            }
        }
    }

    fn hint(&self, addr: GlobalAddr, bytes: usize) {
        self.world.borrow_mut().hint(addr, bytes);
    }

    #[inline(always)]
    fn mark(&self, mark: Mark) {
        if self.traced {
            self.trace_mark(mark);
        }
    }

    async fn wait_until<P: FnMut(&[u64]) -> bool>(
        &self,
        addr: GlobalAddr,
        count: usize,
        wait: WaitFor,
        mut predicate: P,
    ) -> Result<Line> {
        let start = addr.offset() as usize % crate::LINE_BYTES;
        assert!(
            count > 0 && start + count * 8 <= crate::LINE_BYTES,
            "the words of one line"
        );
        let mut since = None;
        let mut reported = false;
        loop {
            let mut line = Line::default();
            let at_once = self.at_once(addr, count, false, false, |bytes| {
                let words = line.iter_mut().zip(bytes.chunks_exact(8));
                words.for_each(|(word, bytes)| *word = word_of(bytes));
            });
            if at_once.is_some() {
                if predicate(&line[..count]) {
                    return Ok(line);
                }
            } else {
                let cost = self.cpu("CPU wait", addr, count, false)?;
                self.spend(cost).await;
            }
            {
                let mut world = self.world.borrow_mut();
                for (word, value) in line.iter_mut().enumerate().take(count) {
                    *value = world.cpu_load(addr.word(word as u64));
                }
            }
            if predicate(&line[..count]) {
                return Ok(line);
            }
            let watch = {
                let mut world = self.world.borrow_mut();
                // The wait begins when what the client owes has passed.
                let owed = world.clients[self.client as usize].debt.owed();
                let now = world.now + owed;
                let since = *since.get_or_insert(now);
                // No time passes between looking and watching: no change is missed.
                world.watch(self.client, addr);
                let waiting = &mut world.clients[self.client as usize].waiting;
                *waiting = Some(Waiting {
                    wait,
                    since,
                    reported,
                });
                Watch {
                    endpoint: self,
                    addr,
                    armed: true,
                }
            };
            let watched_at = self.world.borrow().now;
            watch.await;
            let mut world = self.world.borrow_mut();
            let now = world.now;
            let client = &mut world.clients[self.client as usize];
            client.debt.run_down(now - watched_at);
            reported |= client
                .waiting
                .take()
                .is_some_and(|waiting| waiting.reported);
            if std::mem::take(&mut client.timed_out) {
                world.unwatch(self.client, addr);
                let waited_ns = now.saturating_sub(since.unwrap_or(now)) / 1000;
                return Err(ErrorKind::WaitLimit {
                    what: wait.what,
                    addr: wait.addr,
                    waited_ns,
                }
                .into());
            }
        }
    }

    async fn work(&self, ns: u64) {
        let cost = from_ns(ns);
        {
            let mut world = self.world.borrow_mut();
            let most = world.costs.deferrable;
            let debt = &mut world.clients[self.client as usize].debt;
            if debt.defer(cost, most) {
                world.stats.folded += 1;
                return;
            }
        }
        self.spend_now(cost).await;
    }

    async fn sleep(&self, ns: u64) {
        self.spend_now(from_ns(ns)).await;
    }

    fn wait_bounds(&self) -> WaitBounds {
        self.world.borrow().config.waits
    }

    fn take_chain(&self) -> Chain {
        self.world.borrow_mut().clients[self.client as usize]
            .chains
            .pop()
            .unwrap_or_default()
    }

    fn put_chain(&self, mut chain: Chain) {
        chain.clear();
        self.world.borrow_mut().clients[self.client as usize]
            .chains
            .push(chain);
    }
}

impl SimEndpoint {
    /// Whether a copy is so short that it happens at one instant: within a line. Hostile runs tear these too.
    fn one_line(&self, addr: GlobalAddr, words: usize) -> bool {
        let start = addr.offset() as usize % crate::LINE_BYTES;
        start + words * 8 <= crate::LINE_BYTES && !self.world.borrow().config.hostile
    }

    /// Lets `cost` pass on the clock, with the debt of hits before it.
    fn spend_now(&self, cost: Time) -> Delay<'_> {
        let mut world = self.world.borrow_mut();
        let debt = world.clients[self.client as usize].debt.settle();
        let total = cost.saturating_add(debt);
        self.pass(&mut world, total)
    }
}
