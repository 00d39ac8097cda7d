//! [`PageReader`]: a client's two ways to read a page.

use std::sync::atomic::Ordering;

use dmtree_cluster::{
    Chain, Endpoint, Error as ClusterError, ErrorKind, GlobalAddr, Slot, WaitFor,
};
use dmtree_lock::DataPath;

use crate::page::{PageLayout, SEQ, settled};
use crate::{PageFormat, PageView, Result, sherman};

/// Reads pages into memory that is reused from one page to the next.
#[derive(Debug)]
pub(crate) struct PageReader {
    layout: PageLayout,
    chain: Chain,
    /// For reads by CPU; those by verbs leave their page in the chain.
    page: Box<[u64]>,
    /// Reads that did not settle, over the reader's life.
    torn: u64,
    /// READs that lock-free reads have sent, over the reader's life.
    verbs: u64,
}

impl PageReader {
    pub(crate) fn new(layout: PageLayout) -> Self {
        let page = vec![0; layout.words()].into_boxed_slice();
        Self {
            layout,
            chain: Chain::new(),
            page,
            torn: 0,
            verbs: 0,
        }
    }

    /// How many reads had to be made again because a structural change was under way.
    pub(crate) fn torn(&self) -> u64 {
        self.torn
    }

    /// How many READs were sent to read pages without their locks.
    pub(crate) fn verbs(&self) -> u64 {
        self.verbs
    }

    /// Whether `ep` reaches the page by CPU.
    pub(crate) fn by_cpu<E: Endpoint>(ep: &E, page: GlobalAddr, path: DataPath) -> bool {
        path == DataPath::Cpu && ep.node() == page.node()
    }

    /// Reads a page without its lock: as it was at one instant, but for values and a key that is being added
    /// ([`crate::page`], the claim). In Sherman's format: as `sherman.rs` tells, and no better.
    ///
    /// Reads again while a structural change is under way, within the endpoint's bounds on waiting.
    pub(crate) async fn read_settled<E: Endpoint>(
        &mut self,
        ep: &E,
        addr: GlobalAddr,
        path: DataPath,
    ) -> Result<std::result::Result<PageView<'_>, &'static str>> {
        let by_cpu = Self::by_cpu(ep, addr, path);
        let sampled = self.layout.format() == PageFormat::Sound;
        let seq = addr.word(SEQ as u64);
        let mut waiting: Option<Waiting> = None;
        let words = loop {
            let (samples, slot) = if !by_cpu {
                // READ→READ is ordered within a chain: the body is read between the two samples.
                self.chain.clear();
                let before = sampled.then(|| self.chain.read(seq, 8));
                let body = self.chain.read(addr, self.layout.page_bytes() as usize);
                let after = sampled.then(|| self.chain.read(seq, 8));
                ep.execute(&mut self.chain).await?;
                self.verbs += self.chain.verbs().len() as u64;
                let value = |slot| self.chain.value(slot);
                (before.map(value).zip(after.map(value)), Some(body))
            } else if sampled {
                // Acquire loads, in program order: the body is read between the two samples.
                let before = ep.load(seq, Ordering::Acquire).await?;
                ep.load_words(addr, &mut self.page).await?;
                let after = ep.load(seq, Ordering::Acquire).await?;
                (Some((before, after)), None)
            } else {
                ep.load_words(addr, &mut self.page).await?;
                (None, None)
            };
            let is_settled = match samples {
                Some((before, after)) => settled(before, after),
                None => sherman::is_settled(self.words(slot)),
            };
            if is_settled {
                break self.words(slot);
            }
            self.again(ep, addr, &mut waiting)?;
        };
        Ok(PageView::parse(self.layout, words))
    }

    /// To be called after a read that cannot be used, and before the next one: counts it, and bounds the wait.
    pub(crate) fn again<E: Endpoint>(
        &mut self,
        ep: &E,
        page: GlobalAddr,
        waiting: &mut Option<Waiting>,
    ) -> Result<()> {
        self.torn += 1;
        waiting
            .get_or_insert_with(|| Waiting::new(ep, page))
            .go_on(ep)
    }

    /// Reads a page whose lock the client holds, so that nobody else writes it, and spends the CPU time of a search
    /// of it.
    ///
    /// Each `Caller` has a copy of its own: with one for all, the compiler calls it where it could be part of the
    /// caller's future, and an update takes 140 instructions more.
    #[allow(clippy::extra_unused_type_parameters)] // See above.
    pub(crate) async fn search_held<E: Endpoint, Caller>(
        &mut self,
        ep: &E,
        addr: GlobalAddr,
        path: DataPath,
        search_ns: u64,
    ) -> Result<std::result::Result<PageView<'_>, &'static str>> {
        let slot = if Self::by_cpu(ep, addr, path) {
            ep.scan_words(addr, &mut self.page, search_ns).await?;
            None
        } else {
            self.chain.clear();
            let body = self.chain.read(addr, self.layout.page_bytes() as usize);
            ep.execute(&mut self.chain).await?;
            if search_ns > 0 {
                ep.work(search_ns).await;
            }
            Some(body)
        };
        Ok(PageView::parse(self.layout, self.words(slot)))
    }

    fn words(&self, slot: Option<Slot>) -> &[u64] {
        slot.map_or(&*self.page, |slot| self.chain.words(slot))
    }
}

/// A reader's wait for a structural change to end.
#[derive(Debug)]
pub(crate) struct Waiting {
    since: u64,
    reported: bool,
    page: GlobalAddr,
}

impl Waiting {
    const WHAT: &'static str = "index: a page to settle";

    fn new<E: Endpoint>(ep: &E, page: GlobalAddr) -> Self {
        Self {
            since: ep.now(),
            reported: false,
            page,
        }
    }

    /// Reports a long wait, and ends one that is too long.
    fn go_on<E: Endpoint>(&mut self, ep: &E) -> Result<()> {
        let (waited, bounds) = (ep.now() - self.since, ep.wait_bounds());
        if waited > bounds.limit_ns {
            let (what, addr) = (Self::WHAT, self.page);
            let kind = ErrorKind::WaitLimit {
                what,
                addr,
                waited_ns: waited,
            };
            return Err(ClusterError::from(kind).into());
        }
        if waited > bounds.report_ns && !self.reported {
            self.reported = true;
            ep.report_wait(WaitFor::new(Self::WHAT, self.page), waited);
        }
        Ok(())
    }
}
