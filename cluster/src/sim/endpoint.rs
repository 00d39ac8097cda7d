//! [`SimEndpoint`]: a client of the simulated cluster.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use rand::RngExt;

use super::queue::{Event, Time, from_ns};
use super::world::{Waiting, World};
use crate::{
    Capabilities, Chain, ClientId, Endpoint, Error, GlobalAddr, Line, NodeId, Result, WaitBounds,
    WaitFor,
};

/// CPU time of cache hits that may gather before the clock moves. Hits are 1.5 ns; a loop of nothing else must
/// not stop time.
const MAX_DEBT: Time = from_ns(100);

/// A client's handle on the simulated cluster. Clones are the same client.
#[derive(Clone)]
pub struct SimEndpoint {
    world: Rc<RefCell<World>>,
    client: u32,
    node: NodeId,
}

impl std::fmt::Debug for SimEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimEndpoint({} on {})", ClientId(self.client), self.node)
    }
}

impl SimEndpoint {
    pub(super) fn new(world: Rc<RefCell<World>>, client: u32, node: NodeId) -> Self {
        Self {
            world,
            client,
            node,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.client
    }

    pub(super) fn is_of(&self, world: &Rc<RefCell<World>>) -> bool {
        Rc::ptr_eq(&self.world, world)
    }

    /// Lets `cost` of CPU time pass. A cache hit's time is added to the next one's instead, so that it costs no
    /// event: between two accesses that miss, a core's hits happen at one instant. Hostile runs interleave them
    /// all.
    fn spend(&self, cost: Time) -> Delay<'_> {
        let mut world = self.world.borrow_mut();
        if self.fold(&mut world, cost) {
            return Delay {
                endpoint: self,
                until: 0,
            };
        }
        let total = cost + std::mem::take(&mut world.clients[self.client as usize].debt);
        self.pass(&mut world, total)
    }

    /// Folds `cost` into what the client's next access costs, if it is a hit's.
    #[inline]
    fn fold(&self, world: &mut World, cost: Time) -> bool {
        let client = &mut world.clients[self.client as usize];
        let folds = cost <= world.costs.foldable && client.debt < MAX_DEBT;
        if folds {
            client.debt += cost;
        }
        folds
    }

    /// Lets `total` pass: at once when nothing else would happen meanwhile, by an event otherwise.
    fn pass(&self, world: &mut World, total: Time) -> Delay<'_> {
        let until = world.now.saturating_add(total);
        if until < world.queue.next_time() && until <= world.horizon {
            world.now = until;
            world.stats.events += 1;
            return Delay {
                endpoint: self,
                until: 0,
            };
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

    /// A CPU access to one word, which costs `fence` beyond its line: at once when its time is folded into a later
    /// access's, else when its time has passed.
    #[inline]
    async fn word<T>(
        &self,
        what: &'static str,
        addr: GlobalAddr,
        writes: bool,
        fence: bool,
        access: impl FnOnce(&mut World) -> T,
    ) -> Result<T> {
        let delay = {
            let mut world = self.world.borrow_mut();
            let world = &mut *world;
            world.check_cpu(self.client, what, addr, 1)?;
            let fence = if fence { world.costs.cpu_fence } else { 0 };
            let cost = world.line_cost(self.client, addr, writes) + fence;
            if self.fold(world, cost) {
                return Ok(access(world));
            }
            let total = cost + std::mem::take(&mut world.clients[self.client as usize].debt);
            self.pass(world, total)
        };
        delay.await;
        Ok(access(&mut self.world.borrow_mut()))
    }

    async fn read_modify_write(
        &self,
        what: &'static str,
        addr: GlobalAddr,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<u64> {
        let access = |world: &mut World| {
            let found = world.cpu_load(addr);
            if let Some(value) = change(found) {
                world.cpu_store(addr, value);
            }
            found
        };
        self.word(what, addr, true, true, access).await
    }
}

/// A span of virtual time.
struct Delay<'a> {
    endpoint: &'a SimEndpoint,
    /// 0 when it has passed already.
    until: Time,
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

/// A chain in flight.
struct Completion<'a> {
    endpoint: &'a SimEndpoint,
    op: u32,
    collected: bool,
}

impl Future for Completion<'_> {
    type Output = Chain;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Chain> {
        let mut world = self.endpoint.world.borrow_mut();
        if !world.is_done(self.op) {
            return Poll::Pending;
        }
        let chain = world.collect(self.op);
        drop(world);
        self.collected = true;
        Poll::Ready(chain)
    }
}

impl Drop for Completion<'_> {
    fn drop(&mut self) {
        if !self.collected {
            self.endpoint.world.borrow_mut().abandon(self.op);
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

    fn now(&self) -> u64 {
        let world = self.world.borrow();
        (world.now + world.clients[self.client as usize].debt) / 1000
    }

    fn random(&self) -> u64 {
        self.world.borrow_mut().clients[self.client as usize]
            .rng
            .random()
    }

    async fn execute(&self, chain: &mut Chain) -> Result<()> {
        if chain.is_empty() {
            return Ok(());
        }
        let op = {
            let mut world = self.world.borrow_mut();
            let op = world.post(self.client, chain)?;
            world.clients[self.client as usize].debt = 0;
            op
        };
        *chain = Completion {
            endpoint: self,
            op,
            collected: false,
        }
        .await;
        Ok(())
    }

    async fn load(&self, addr: GlobalAddr, _: Ordering) -> Result<u64> {
        let access = |world: &mut World| world.cpu_load(addr);
        self.word("CPU load", addr, false, false, access).await
    }

    async fn store(&self, addr: GlobalAddr, value: u64, order: Ordering) -> Result<()> {
        let fence = order == Ordering::SeqCst;
        let access = |world: &mut World| world.cpu_store(addr, value);
        self.word("CPU store", addr, true, fence, access).await
    }

    async fn swap(&self, addr: GlobalAddr, value: u64, _: Ordering) -> Result<u64> {
        self.read_modify_write("CPU swap", addr, |_| Some(value))
            .await
    }

    async fn compare_exchange(
        &self,
        addr: GlobalAddr,
        expected: u64,
        new: u64,
        _: Ordering,
    ) -> Result<std::result::Result<u64, u64>> {
        let change = |found| (found == expected).then_some(new);
        let found = self
            .read_modify_write("CPU compare-exchange", addr, change)
            .await?;
        Ok(if found == expected {
            Ok(found)
        } else {
            Err(found)
        })
    }

    async fn fetch_add(&self, addr: GlobalAddr, add: u64, _: Ordering) -> Result<u64> {
        self.read_modify_write("CPU fetch-add", addr, |found| Some(found.wrapping_add(add)))
            .await
    }

    async fn load_words(&self, addr: GlobalAddr, words: &mut [u64]) -> Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        let cost = self.cpu("CPU copy", addr, words.len(), false)?;
        let access = {
            let mut world = self.world.borrow_mut();
            let debt = world.clients[self.client as usize].debt;
            let end = world.now + cost + debt;
            world.cpu_copy_begin(addr, words.len(), end)
        };
        let copy = Copy {
            endpoint: self,
            addr,
            access,
            done: false,
        };
        self.spend_now(cost).await;
        copy.finish(words);
        Ok(())
    }

    async fn store_words(&self, addr: GlobalAddr, words: &[u64]) -> Result<()> {
        match words {
            [] => Ok(()),
            [word] => self.store(addr, *word, Ordering::Release).await,
            _ => {
                let cost = self.cpu("CPU copy", addr, words.len(), true)?;
                if self.one_line(addr, words.len()) {
                    self.spend(cost).await;
                    let mut world = self.world.borrow_mut();
                    for (index, word) in words.iter().enumerate() {
                        world.cpu_store(addr.word(index as u64), *word);
                    }
                    return Ok(());
                }
                let access = {
                    let mut world = self.world.borrow_mut();
                    let debt = world.clients[self.client as usize].debt;
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
            let cost = self.cpu("CPU wait", addr, count, false)?;
            self.spend(cost).await;
            let watch = {
                let mut world = self.world.borrow_mut();
                let mut line = Line::default();
                for (word, value) in line.iter_mut().enumerate().take(count) {
                    *value = world.cpu_load(addr.word(word as u64));
                }
                if predicate(&line[..count]) {
                    return Ok(line);
                }
                let now = world.now;
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
            watch.await;
            let mut world = self.world.borrow_mut();
            let now = world.now;
            let client = &mut world.clients[self.client as usize];
            reported |= client
                .waiting
                .take()
                .is_some_and(|waiting| waiting.reported);
            if std::mem::take(&mut client.timed_out) {
                world.unwatch(self.client, addr);
                let waited_ns = (now - since.unwrap_or(now)) / 1000;
                return Err(Error::WaitLimit {
                    what: wait.what,
                    addr: wait.addr,
                    waited_ns,
                });
            }
        }
    }

    async fn work(&self, ns: u64) {
        let cost = from_ns(ns);
        {
            let mut world = self.world.borrow_mut();
            let deferrable = world.costs.deferrable;
            let debt = &mut world.clients[self.client as usize].debt;
            // Not on top of a full debt: a loop of nothing else must not stop time.
            if cost <= deferrable && *debt < deferrable {
                // Nobody can see when within the next access's delay it passes.
                *debt += cost;
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
        let debt = std::mem::take(&mut world.clients[self.client as usize].debt);
        let total = cost.saturating_add(debt);
        self.pass(&mut world, total)
    }
}

/// A CPU copy out of memory that is going on.
struct Copy<'a> {
    endpoint: &'a SimEndpoint,
    addr: GlobalAddr,
    access: u32,
    done: bool,
}

impl Copy<'_> {
    fn finish(mut self, words: &mut [u64]) {
        self.done = true;
        self.endpoint
            .world
            .borrow_mut()
            .cpu_copy_end(self.addr, self.access, words);
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.endpoint
                .world
                .borrow_mut()
                .cpu_copy_cancel(self.addr, self.access);
        }
    }
}

/// A CPU copy into memory that is going on; it ends when dropped (a store once begun cannot be taken back).
struct Fill<'a> {
    endpoint: &'a SimEndpoint,
    addr: GlobalAddr,
    access: u32,
    words: usize,
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        self.endpoint
            .world
            .borrow_mut()
            .cpu_fill_end(self.addr, self.access, self.words);
    }
}
