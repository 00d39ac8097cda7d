//! The accessor that lets a protocol be written once for CPU and RDMA: steps on words of one line, made by CPU
//! where they lie in the client's own host memory and by one chain of verbs everywhere else.
//!
//! What the two have in common, and protocols build on: the steps take effect in the order they are given,
//! a store before a load included. On the CPU that is the program order, where the orderings that the protocol
//! names make it so (a store that a later load must not pass: both `SeqCst`). On a queue pair WRITE→anything,
//! READ→READ, atomic→READ and atomic→atomic are ordered as they are; before any other pair stands a
//! [`Steps::fence`]. When they take effect is not the same: by CPU each before the call that gives it returns,
//! by verbs all of them before [`Steps::run`] does. What must precede a step's effect stands before the step.
//!
//! A step's effect is one instant for everybody: a READ or an atomic takes effect after the WRITEs that its
//! queue pair sent before it, for the host's CPU too (over PCIe a read request pushes posted writes).

use std::sync::atomic::Ordering;

use dmtree_cluster::{Chain, Endpoint, ErrorKind, GlobalAddr, PollBackoff, WaitFor};

use crate::backoff::Pauses;
use crate::member::Member;
use crate::step::{Brought, InTurn, Step};
use crate::{DataPath, Result, WriteBack};

/// Whether the client reaches `addr` by CPU.
#[inline]
pub(crate) fn by_cpu<E: Endpoint>(ep: &E, addr: GlobalAddr) -> bool {
    addr.node() == ep.node() && !addr.is_device()
}

/// Steps to be made in order, all on one node.
pub(crate) struct Steps<'a, E: Endpoint> {
    ep: &'a E,
    /// The steps that are still to be made, all by verbs; none where the CPU makes each as it is given.
    chain: Option<Chain>,
}

impl<'a, E: Endpoint> Steps<'a, E> {
    /// No steps yet, all of them to be made where `addr` lies.
    #[inline]
    pub(crate) fn new(ep: &'a E, addr: GlobalAddr) -> Self {
        let chain = (!by_cpu(ep, addr)).then(|| ep.take_chain());
        Self { ep, chain }
    }

    /// Stores a word.
    #[inline(always)] // All steps: a few instructions, and fewer where it is known how they are made.
    pub(crate) fn write(
        &mut self,
        addr: GlobalAddr,
        word: u64,
        order: Ordering,
    ) -> Step<impl Future<Output = dmtree_cluster::Result<()>>, ()> {
        match &mut self.chain {
            Some(chain) => {
                chain.write_words(addr, &[word]);
                Step::brings(())
            }
            None => Step::access(self.ep.store(addr, word, order)),
        }
    }

    /// Stores two neighbouring words, the first one first; by verbs it is one WRITE.
    pub(crate) async fn write_two(
        &mut self,
        addr: GlobalAddr,
        words: [u64; 2],
        order: Ordering,
    ) -> Result<()> {
        if let Some(chain) = &mut self.chain {
            chain.write_words(addr, &words);
            return Ok(());
        }
        self.write(addr, words[0], order).await?;
        self.write(addr.word(1), words[1], order).await
    }

    /// Loads a word.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        addr: GlobalAddr,
        order: Ordering,
    ) -> Step<impl Future<Output = dmtree_cluster::Result<u64>>, Brought<1>> {
        match &mut self.chain {
            Some(chain) => Step::brings(Brought::Verb(chain.read(addr, 8))),
            None => Step::access(self.ep.load(addr, order)),
        }
    }

    /// Loads two neighbouring words, each at an instant of its own.
    #[inline(always)]
    pub(crate) fn read_two(
        &mut self,
        addr: GlobalAddr,
        order: Ordering,
    ) -> Step<impl Future<Output = dmtree_cluster::Result<[u64; 2]>>, Brought<2>> {
        match &mut self.chain {
            Some(chain) => Step::brings(Brought::Verb(chain.read(addr, 16))),
            None => Step::access(InTurn::new(
                self.ep.load(addr, order),
                self.ep.load(addr.word(1), order),
            )),
        }
    }

    /// Compare-exchange; brings the word as it was.
    #[inline(always)]
    pub(crate) fn cas(
        &mut self,
        addr: GlobalAddr,
        expected: u64,
        new: u64,
        order: Ordering,
    ) -> Step<impl Future<Output = dmtree_cluster::Result<std::result::Result<u64, u64>>>, Brought<1>>
    {
        match &mut self.chain {
            Some(chain) => Step::brings(Brought::Verb(chain.cas(addr, expected, new))),
            None => Step::access(self.ep.compare_exchange(addr, expected, new, order)),
        }
    }

    /// Fetch-add; brings the word as it was.
    #[inline(always)]
    pub(crate) fn faa(
        &mut self,
        addr: GlobalAddr,
        add: u64,
        order: Ordering,
    ) -> Step<impl Future<Output = dmtree_cluster::Result<u64>>, Brought<1>> {
        match &mut self.chain {
            Some(chain) => Step::brings(Brought::Verb(chain.faa(addr, add))),
            None => Step::access(self.ep.fetch_add(addr, add, order)),
        }
    }

    /// Orders the next step behind every READ and atomic before it.
    #[inline]
    pub(crate) fn fence(&mut self) {
        if let Some(chain) = &mut self.chain {
            chain.fence();
        }
    }

    /// The holder's write-back before the steps to come. By verbs it is part of the same chain: WRITE→anything
    /// is ordered. When the steps are the CPU's, all of the write-back has taken effect on return.
    #[inline]
    pub(crate) async fn write_back(
        &mut self,
        write_back: WriteBack<'_>,
        lock: GlobalAddr,
    ) -> Result<()> {
        if let Some(chain) = &mut self.chain {
            write_back.append(self.ep, lock, chain);
            return Ok(());
        }
        if !write_back.by_cpu(self.ep, lock) {
            // Without a flush: a completed loopback verb is visible to the host.
            return write_back.complete(self.ep, lock, false).await;
        }
        for (addr, words) in write_back.writes {
            self.ep.store_words(*addr, words).await?;
        }
        Ok(())
    }

    /// Makes the steps that are not made yet, and waits until they have taken effect.
    #[inline(always)]
    pub(crate) fn run(&mut self) -> Step<impl Future<Output = dmtree_cluster::Result<()>>, ()> {
        match &mut self.chain {
            Some(chain) => Step::access(self.ep.execute(chain)),
            None => Step::brings(()),
        }
    }

    /// The words that a step brought, after [`Steps::run`].
    #[inline]
    pub(crate) fn words<const N: usize>(&self, brought: Brought<N>) -> [u64; N] {
        let mut words = [0; N];
        match (brought, &self.chain) {
            (Brought::Words(found), _) => words = found,
            (Brought::Verb(slot), Some(chain)) => words.copy_from_slice(chain.words(slot)),
            (Brought::Verb(_), None) => unreachable!("verbs are steps of a chain"),
        }
        words
    }

    /// The word that a step brought, after [`Steps::run`].
    #[inline]
    pub(crate) fn value(&self, brought: Brought<1>) -> u64 {
        self.words(brought)[0]
    }
}

impl<E: Endpoint> Drop for Steps<'_, E> {
    #[inline]
    fn drop(&mut self) {
        if let Some(chain) = self.chain.take() {
            self.ep.put_chain(chain);
        }
    }
}

/// The tail of a queue, by who joins it and hence how: no word is changed atomically by both a CPU and an RNIC.
///
/// Types, because a protocol has one kind: what is not its way is not compiled into it.
pub(crate) trait Tail {
    /// Whether everybody swaps it through the RNIC, also clients on its node.
    const SHARED: bool;

    /// Where it is.
    fn addr(&self) -> GlobalAddr;
}

/// The tail of one cohort's queue: local clients swap it by CPU, remote ones through the RNIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfCohort(pub(crate) GlobalAddr);

/// The tail of a queue for both cohorts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared(pub(crate) GlobalAddr);

impl Tail for OfCohort {
    const SHARED: bool = false;

    #[inline(always)]
    fn addr(&self) -> GlobalAddr {
        self.0
    }
}

impl Tail for Shared {
    const SHARED: bool = true;

    #[inline(always)]
    fn addr(&self) -> GlobalAddr {
        self.0
    }
}

/// Swaps the word at `addr` through the RNIC. Without a native swap it is a loop of CAS, which guesses null first, as
/// an uncontended queue is empty.
pub(crate) async fn rnic_swap<E: Endpoint>(
    ep: &E,
    addr: GlobalAddr,
    new: u64,
    member: &Member,
) -> Result<u64> {
    let guess = GlobalAddr::NULL.to_bits();
    if ep.capabilities().native_swap {
        return Ok(ep.rdma_swap(addr, guess, new).await?);
    }
    match ep.rdma_cas(addr, guess, new).await? {
        found if found == guess => Ok(found),
        found => swap_on(ep, addr, new, found, member).await,
    }
}

/// Goes on with the loop of CAS after an attempt that `found` something else, with the pauses of the member's backoff.
async fn swap_on<E: Endpoint>(
    ep: &E,
    addr: GlobalAddr,
    new: u64,
    mut found: u64,
    member: &Member,
) -> Result<u64> {
    let mut patience = Patience::new(WaitFor::new("a queue's tail", addr));
    let mut pauses = Pauses::new(member.backoff());
    loop {
        patience.check(ep)?;
        let mut expected = found;
        if pauses.pass(ep).await {
            // What was found is old by now; a READ brings what is there without loading the atomic unit.
            expected = ep.read_u64(addr).await?;
        }
        found = ep.rdma_cas(addr, expected, new).await?;
        if found == expected {
            return Ok(found);
        }
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
) -> Result<()> {
    if by_cpu(ep, addr) {
        ep.wait_until(addr, count, wait, predicate).await?;
    } else {
        ep.poll_until(addr, count, PollBackoff::NONE, wait, predicate)
            .await?;
    }
    Ok(())
}

/// Bounds a loop of verbs as the endpoint bounds its own waits: reported once, failed at the limit.
pub(crate) struct Patience {
    wait: WaitFor,
    /// Since when: the first attempt that did not succeed.
    since_ns: Option<u64>,
    reported: bool,
}

impl Patience {
    pub(crate) fn new(wait: WaitFor) -> Self {
        Self {
            wait,
            since_ns: None,
            reported: false,
        }
    }

    /// To be called after each attempt that did not succeed.
    pub(crate) fn check<E: Endpoint>(&mut self, ep: &E) -> Result<()> {
        let (bounds, now_ns) = (ep.wait_bounds(), ep.now());
        let waited_ns = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        if waited_ns > bounds.limit_ns {
            let WaitFor { what, addr } = self.wait;
            let kind = ErrorKind::WaitLimit {
                what,
                addr,
                waited_ns,
            };
            return Err(dmtree_cluster::Error::from(kind).into());
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
        if self.by_cpu(ep, lock) {
            return self.store(ep, lock).await;
        }
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
