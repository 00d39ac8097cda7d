//! The accessor that lets a protocol be written once for CPU and RDMA: steps on words of one line, made by CPU
//! where they lie in the client's own host memory and by one chain of verbs everywhere else.
//!
//! What the two have in common, and protocols build on: the steps take effect in the order they are given,
//! a store before a load included. On the CPU that is the program order, where the orderings that the protocol
//! names make it so (a store that a later load must not pass: both `SeqCst`). On a queue pair WRITE→anything,
//! READ→READ, atomic→READ and atomic→atomic are ordered as they are; before any other pair stands a
//! [`Steps::fence`].
//!
//! A step's effect is one instant for everybody: a READ or an atomic takes effect after the WRITEs that its
//! queue pair sent before it, for the host's CPU too (over PCIe a read request pushes posted writes).

use std::sync::atomic::Ordering;

use dmtree_cluster::{Chain, Endpoint, GlobalAddr, Line, Op, PollBackoff, Slot, WaitFor};

use crate::{DataPath, Result, WriteBack};

/// Steps that a chain by CPU has at most; they are words of one line.
const MAX_STEPS: usize = 8;

/// Whether the client reaches `addr` by CPU.
fn by_cpu<E: Endpoint>(ep: &E, addr: GlobalAddr) -> bool {
    addr.node() == ep.node() && !addr.is_device()
}

/// Steps to be made in order, all on one node.
pub(crate) struct Steps<'a, E: Endpoint> {
    ep: &'a E,
    by_cpu: bool,
    chain: Chain,
    /// What the CPU needs to know beyond the chain; verbs need no orderings.
    orders: [Ordering; MAX_STEPS],
}

impl<'a, E: Endpoint> Steps<'a, E> {
    /// No steps yet, all of them to be made where `addr` lies.
    pub(crate) fn new(ep: &'a E, addr: GlobalAddr) -> Self {
        let chain = ep.take_chain();
        Self {
            ep,
            by_cpu: by_cpu(ep, addr),
            chain,
            orders: [Ordering::SeqCst; MAX_STEPS],
        }
    }

    fn order(&mut self, order: Ordering) {
        if self.by_cpu {
            self.orders[self.chain.verbs().len()] = order;
        }
    }

    /// Stores `words` in increasing address order.
    pub(crate) fn write(&mut self, addr: GlobalAddr, words: &[u64], order: Ordering) {
        self.order(order);
        self.chain.write_words(addr, words);
    }

    /// Loads `count` words.
    pub(crate) fn read(&mut self, addr: GlobalAddr, count: usize, order: Ordering) -> Slot {
        self.order(order);
        self.chain.read(addr, count * 8)
    }

    /// Compare-exchange; the word as it was is its value.
    pub(crate) fn cas(
        &mut self,
        addr: GlobalAddr,
        expected: u64,
        new: u64,
        order: Ordering,
    ) -> Slot {
        self.order(order);
        self.chain.cas(addr, expected, new)
    }

    /// Fetch-add; the word as it was is its value.
    pub(crate) fn faa(&mut self, addr: GlobalAddr, add: u64, order: Ordering) -> Slot {
        self.order(order);
        self.chain.faa(addr, add)
    }

    /// Orders the next step behind every READ and atomic before it.
    pub(crate) fn fence(&mut self) {
        self.chain.fence();
    }

    /// The holder's write-back before the steps to come. By verbs it is part of the same chain: WRITE→anything
    /// is ordered. When the steps are the CPU's, all of the write-back has taken effect on return.
    pub(crate) async fn write_back(
        &mut self,
        write_back: WriteBack<'_>,
        lock: GlobalAddr,
    ) -> Result<()> {
        if self.by_cpu {
            // Without a flush: a completed loopback verb is visible to the host.
            return write_back.complete(self.ep, lock, false).await;
        }
        write_back.append(self.ep, lock, &mut self.chain);
        Ok(())
    }

    /// Makes the steps and waits until they have taken effect.
    pub(crate) async fn run(&mut self) -> Result<()> {
        if !self.by_cpu {
            return Ok(self.ep.execute(&mut self.chain).await?);
        }
        for index in 0..self.chain.verbs().len() {
            let verb = self.chain.verbs()[index];
            let (order, word) = (self.orders[index], verb.data_word());
            match verb.op {
                Op::Read { len } => {
                    for nth in 0..len as usize / 8 {
                        let value = self.ep.load(verb.addr.word(nth as u64), order).await?;
                        self.chain.data_mut()[word + nth] = value;
                    }
                }
                Op::Write { len } => {
                    for nth in 0..len as usize / 8 {
                        let value = self.chain.data()[word + nth];
                        self.ep
                            .store(verb.addr.word(nth as u64), value, order)
                            .await?;
                    }
                }
                Op::Cas { expected, new } => {
                    let outcome = self
                        .ep
                        .compare_exchange(verb.addr, expected, new, order)
                        .await?;
                    let (Ok(found) | Err(found)) = outcome;
                    self.chain.data_mut()[word] = found;
                }
                Op::Faa { add } => {
                    self.chain.data_mut()[word] = self.ep.fetch_add(verb.addr, add, order).await?;
                }
                Op::Swap { new } => {
                    self.chain.data_mut()[word] = self.ep.swap(verb.addr, new, order).await?;
                }
            }
        }
        Ok(())
    }

    /// What the step brought, after [`Steps::run`].
    pub(crate) fn value(&self, slot: Slot) -> u64 {
        self.chain.value(slot)
    }

    /// The words that a read brought, after [`Steps::run`].
    pub(crate) fn words(&self, slot: Slot) -> &[u64] {
        self.chain.words(slot)
    }
}

impl<E: Endpoint> Drop for Steps<'_, E> {
    fn drop(&mut self) {
        self.ep.put_chain(std::mem::take(&mut self.chain));
    }
}

/// Swaps the word at `addr`: by CPU or through the RNIC, always the same way for one client. `SeqCst` on the
/// CPU. Through an RNIC without swap it guesses null first: an uncontended queue is empty.
pub(crate) async fn swap<E: Endpoint>(ep: &E, addr: GlobalAddr, new: u64) -> Result<u64> {
    if by_cpu(ep, addr) {
        Ok(ep.swap(addr, new, Ordering::SeqCst).await?)
    } else {
        Ok(ep.rdma_swap(addr, GlobalAddr::NULL.to_bits(), new).await?)
    }
}

/// Waits until `predicate` holds for `count` words of a line: watches own memory, polls elsewhere without a
/// pause between the READs, as published. Each word is an acquire load, or a READ's, at an instant of its own.
pub(crate) async fn wait<E: Endpoint, P: FnMut(&[u64]) -> bool>(
    ep: &E,
    addr: GlobalAddr,
    count: usize,
    wait: WaitFor,
    predicate: P,
) -> Result<Line> {
    if by_cpu(ep, addr) {
        Ok(ep.wait_until(addr, count, wait, predicate).await?)
    } else {
        Ok(ep
            .poll_until(addr, count, PollBackoff::NONE, wait, predicate)
            .await?)
    }
}

/// Bounds a loop of verbs as the endpoint bounds its own waits: reported once, failed at the limit.
pub(crate) struct Patience {
    wait: WaitFor,
    since_ns: u64,
    reported: bool,
}

impl Patience {
    pub(crate) fn new<E: Endpoint>(ep: &E, wait: WaitFor) -> Self {
        Self {
            wait,
            since_ns: ep.now(),
            reported: false,
        }
    }

    /// To be called after each attempt that did not succeed.
    pub(crate) fn check<E: Endpoint>(&mut self, ep: &E) -> Result<()> {
        let (bounds, waited_ns) = (ep.wait_bounds(), ep.now() - self.since_ns);
        if waited_ns > bounds.limit_ns {
            let WaitFor { what, addr } = self.wait;
            return Err(dmtree_cluster::Error::WaitLimit {
                what,
                addr,
                waited_ns,
            }
            .into());
        }
        if waited_ns > bounds.report_ns && !self.reported {
            self.reported = true;
            ep.report_wait(self.wait, waited_ns);
        }
        Ok(())
    }
}

impl WriteBack<'_> {
    /// Makes all of the write-back, and returns when it has taken effect: for whoever gets a grant that travels
    /// another way than the write-back.
    ///
    /// A completed WRITE is visible to later verbs, to the CPU of the lock's node only "a little later"; and the
    /// client that gets the grant may never touch those words before it lets in one that reads them by CPU.
    /// With `flush` a READ follows the WRITEs, which takes effect after them for everybody. It is sent only
    /// where clients reach page data by CPU at all.
    pub(crate) async fn complete<E: Endpoint>(
        &self,
        ep: &E,
        lock: GlobalAddr,
        flush: bool,
    ) -> Result<()> {
        self.store(ep, lock).await?;
        let mut chain = ep.take_chain();
        self.append(ep, lock, &mut chain);
        if flush && self.path == DataPath::Cpu {
            self.flush(&mut chain);
        }
        let outcome = ep.execute(&mut chain).await;
        ep.put_chain(chain);
        Ok(outcome?)
    }

    /// Lets the chain of the write-back's WRITEs, if there are any, end with a READ, which takes effect after
    /// them for everybody.
    pub(crate) fn flush(&self, chain: &mut Chain) {
        if let Some(last) = chain.verbs().last() {
            chain.read(last.addr, 8);
        }
    }
}
