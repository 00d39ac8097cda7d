//! Bulk load: [`TreePlan`] reserves the memory, then builds the tree level by level before the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmtree_cluster::{
    ChunkHeap, DEFAULT_CHUNK_BYTES, Error as ClusterError, ErrorKind as ClusterErrorKind,
    GlobalAddr, LINE_BYTES, MemoryKind, MemoryMap, NodeId, SetupAllocator,
};

use crate::{
    DEFAULT_PAGE_BYTES, ErrorKind, IndexPages, PageFormat, PageLayout, PageView, Result, TreeMeta,
    inner, leaf, page,
};

/// Where bulk load writes to.
///
/// Implemented for closures, and for the memories of the nodes, as words from offset 0.
pub trait PageSink {
    /// Writes `words` to `addr`: a whole page, or a word of the tree's own.
    ///
    /// # Errors
    /// Whatever keeps it from doing so; the load ends with it.
    fn write(&mut self, addr: GlobalAddr, words: &[u64]) -> Result<()>;
}

impl<F: FnMut(GlobalAddr, &[u64]) -> Result<()>> PageSink for F {
    fn write(&mut self, addr: GlobalAddr, words: &[u64]) -> Result<()> {
        self(addr, words)
    }
}

impl PageSink for BTreeMap<NodeId, &mut [u64]> {
    fn write(&mut self, addr: GlobalAddr, words: &[u64]) -> Result<()> {
        let memory = self
            .get_mut(&addr.node())
            .map_or(&mut [][..], |memory| &mut **memory);
        let limit = memory.len() as u64 * 8;
        let from = addr.offset() as usize / 8;
        let Some(place) = memory.get_mut(from..from + words.len()) else {
            let len = size_of_val(words) as u64;
            let kind = ClusterErrorKind::OutOfBounds {
                what: "bulk load",
                addr,
                len,
                limit,
            };
            return Err(ClusterError::from(kind).into());
        };
        place.copy_from_slice(words);
        Ok(())
    }
}

/// How a tree is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadOptions {
    /// How full pages are made, 0 < fill ≤ 1; at least one key a leaf and two children an inner page.
    pub fill: f64,
    /// Bytes of a page, see [`PageLayout::new`].
    pub page_bytes: u32,
    /// How a page tells its readers that it is whole.
    pub page_format: PageFormat,
    /// Bytes of a chunk: a multiple of 64, no less than a page.
    pub chunk_bytes: u64,
    /// Memory for pages beyond those of the load, in bytes over all servers; rounded up to chunks.
    pub spare_bytes: u64,
}

impl Default for LoadOptions {
    /// 1 KB pages 80 % full, as in Sherman's evaluation (SIGMOD 2022, section 5.1), chunks of 8 MiB, none spare.
    fn default() -> Self {
        Self {
            fill: 0.8,
            page_bytes: DEFAULT_PAGE_BYTES,
            page_format: PageFormat::Sound,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
            spare_bytes: 0,
        }
    }
}

/// Refused beyond: a node's offsets have 47 bits, and this is far beyond any machine.
const MAX_TREE_BYTES: u128 = 1 << 46;

/// A tree whose memory is reserved, to be loaded once.
#[derive(Clone, Debug)]
pub struct TreePlan {
    meta: Arc<TreeMeta>,
    keys: u64,
    keys_a_leaf: usize,
    children_a_page: usize,
    pages: u64,
    leaves: u64,
}

impl TreePlan {
    /// Reserves the memory of a tree of up to `keys` keys, chunk by chunk in turn on each of `servers`; the root
    /// word is on the first.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] when an option is out of its range, `servers` is empty, names a node twice or one that
    /// `map` does not have; [`ErrorKind::TooLarge`] when the tree is beyond any memory.
    pub fn reserve(
        map: &mut MemoryMap,
        servers: &[NodeId],
        keys: u64,
        options: LoadOptions,
    ) -> Result<Self> {
        let refuse = |option, why| Err(ErrorKind::Options { option, why }.into());
        let LoadOptions {
            fill,
            page_bytes,
            page_format,
            chunk_bytes,
            spare_bytes,
        } = options;
        let layout = PageLayout::with_format(page_bytes, page_format)?;
        if !(fill > 0.0 && fill <= 1.0) {
            return refuse("fill", format!("{fill} is not above 0 and at most 1"));
        }
        if chunk_bytes < layout.page_bytes() || !chunk_bytes.is_multiple_of(LINE_BYTES as u64) {
            let why =
                format!("{chunk_bytes} is not a multiple of 64 that holds a page of {page_bytes}");
            return refuse("chunk_bytes", why);
        }
        let known: std::collections::BTreeSet<_> = servers
            .iter()
            .filter(|server| server.0 < map.nodes())
            .collect();
        if servers.is_empty() || known.len() != servers.len() {
            let why = format!(
                "{servers:?} are not one or more nodes of {}, each once",
                map.nodes()
            );
            return refuse("servers", why);
        }
        let filled = |slots: usize, least| ((slots as f64 * fill + 1e-9) as usize).max(least);
        let keys_a_leaf = filled(layout.leaf_slots(), 1);
        let children_a_page = filled(layout.inner_slots(), 2);
        let leaves = keys.div_ceil(keys_a_leaf as u64).max(1);
        let (mut pages, mut level) = (leaves, leaves);
        while level > 1 {
            level = level.div_ceil(children_a_page as u64);
            pages += level;
        }
        let bytes = u128::from(pages) * u128::from(layout.page_bytes()) + u128::from(spare_bytes);
        let bytes = bytes.max(u128::from(chunk_bytes));
        if bytes > MAX_TREE_BYTES {
            return Err(ErrorKind::TooLarge { keys, bytes }.into());
        }
        // What the load takes in turn, and then what is spare in the same turn.
        let pages_a_chunk = chunk_bytes / layout.page_bytes();
        let chunks = pages.div_ceil(pages_a_chunk) + spare_bytes.div_ceil(chunk_bytes);
        let turns = servers.len() as u64;
        let heaps = servers.iter().zip(0..);
        let heaps = heaps.map(|(node, turn)| (*node, (chunks + turns - 1 - turn) / turns));
        let heap = ChunkHeap::reserve(map, &heaps.collect::<Vec<_>>(), chunk_bytes);
        let line = LINE_BYTES as u64;
        let root_word = map.reserve(servers[0], MemoryKind::Host, line, line);
        let meta = Arc::new(TreeMeta::new(layout, Arc::new(heap), root_word));
        Ok(Self {
            meta,
            keys,
            keys_a_leaf,
            children_a_page,
            pages,
            leaves,
        })
    }

    /// What every client of the tree has to know.
    pub fn meta(&self) -> &Arc<TreeMeta> {
        &self.meta
    }

    /// Bytes of the pages that a load of all planned keys makes.
    pub fn bytes(&self) -> u64 {
        self.pages * self.meta.layout().page_bytes()
    }

    /// Builds the tree of `pairs` (key, value) in zeroed memory: keys ascending, each once, no more than planned.
    ///
    /// Leaves are written one after another as the pairs come, then the levels above, then the root word and the
    /// chunk counters.
    ///
    /// # Errors
    /// [`ErrorKind::Unsorted`], [`ErrorKind::MoreThanPlanned`], and what the sink fails with.
    pub fn load<S: PageSink>(
        &self,
        pairs: impl IntoIterator<Item = (u64, u64)>,
        sink: &mut S,
    ) -> Result<LoadedTree> {
        let mut writer = Writer::new(&self.meta, sink)?;
        // The low fence and the address of each page of the level that was built last.
        let mut level = Vec::with_capacity(self.leaves as usize);
        let keys = self.load_leaves(pairs, &mut writer, &mut level)?;
        let leaves = level.len() as u64;
        let (mut index, mut height) = (IndexPages::default(), 1);
        while level.len() > 1 {
            level = self.load_inner(height, &level, &mut writer, &mut index)?;
            height += 1;
        }
        let root = level[0].1;
        index.set_root(root, height - 1);
        let Writer {
            allocator,
            sink,
            pages,
            ..
        } = writer;
        sink.write(self.meta.root_word(), &[root.to_bits()])?;
        for (counter, taken) in allocator.counters() {
            sink.write(counter, &[taken])?;
        }
        Ok(LoadedTree {
            root,
            height,
            keys,
            leaves,
            inner_pages: pages - leaves,
            page_bytes: self.meta.layout().page_bytes(),
            index: Arc::new(index),
        })
    }

    fn load_leaves<S: PageSink>(
        &self,
        pairs: impl IntoIterator<Item = (u64, u64)>,
        writer: &mut Writer<'_, S>,
        level: &mut Vec<(u64, GlobalAddr)>,
    ) -> Result<u64> {
        let layout = self.meta.layout();
        let (mut keys, mut slot, mut previous) = (0, 0, None);
        writer.begin(0, 0);
        for (key, value) in pairs {
            if let Some(previous) = previous.filter(|previous| key <= *previous) {
                return Err(ErrorKind::Unsorted { previous, key }.into());
            }
            if keys == self.keys {
                return Err(ErrorKind::MoreThanPlanned { planned: self.keys }.into());
            }
            if slot == self.keys_a_leaf {
                level.push(writer.finish(Some(key))?);
                writer.begin(0, key);
                slot = 0;
            }
            leaf::put(layout, &mut writer.page, slot, key, value);
            (keys, slot, previous) = (keys + 1, slot + 1, Some(key));
        }
        level.push(writer.finish(None)?);
        Ok(keys)
    }

    fn load_inner<S: PageSink>(
        &self,
        height: u8,
        children: &[(u64, GlobalAddr)],
        writer: &mut Writer<'_, S>,
        index: &mut IndexPages,
    ) -> Result<Vec<(u64, GlobalAddr)>> {
        let mut level = Vec::with_capacity(children.len().div_ceil(self.children_a_page));
        let mut groups = children.chunks(self.children_a_page).peekable();
        while let Some(group) = groups.next() {
            writer.begin(height, group[0].0);
            for (separator, child) in group {
                inner::push(&mut writer.page, *separator, *child);
            }
            let (low, addr) = writer.finish(groups.peek().map(|next| next[0].0))?;
            level.push((low, addr));
            if let Ok(page) = PageView::parse(*self.meta.layout(), &writer.page) {
                index.insert(addr, &page);
            }
        }
        Ok(level)
    }
}

/// Writes pages of a level from left to right, out of one buffer.
struct Writer<'a, S> {
    page_bytes: u64,
    allocator: SetupAllocator,
    sink: &'a mut S,
    page: Box<[u64]>,
    low: u64,
    /// Where the page in the buffer goes.
    addr: GlobalAddr,
    pages: u64,
}

impl<'a, S: PageSink> Writer<'a, S> {
    fn new(meta: &TreeMeta, sink: &'a mut S) -> Result<Self> {
        let page_bytes = meta.layout().page_bytes();
        let allocator = SetupAllocator::new(meta.heap().clone());
        let page = vec![0; meta.layout().words()].into_boxed_slice();
        Ok(Self {
            page_bytes,
            allocator,
            sink,
            page,
            low: 0,
            addr: GlobalAddr::NULL,
            pages: 0,
        })
    }

    fn begin(&mut self, level: u8, low: u64) {
        page::begin(&mut self.page, level, low);
        self.low = low;
    }

    /// Writes the page; the next one of its level, if any, begins at `next`. Returns its low fence and address.
    fn finish(&mut self, next: Option<u64>) -> Result<(u64, GlobalAddr)> {
        if self.addr.is_null() {
            self.addr = self.allocator.alloc(self.page_bytes)?;
        }
        let addr = self.addr;
        self.addr = GlobalAddr::NULL;
        if let Some(high) = next {
            self.addr = self.allocator.alloc(self.page_bytes)?;
            page::set_right(&mut self.page, high, self.addr);
        }
        self.sink.write(addr, &self.page)?;
        self.pages += 1;
        Ok((self.low, addr))
    }
}

/// What a bulk load has made.
#[derive(Clone, Debug)]
pub struct LoadedTree {
    /// The root page.
    pub root: GlobalAddr,
    /// Levels; a single leaf has one.
    pub height: u8,
    /// Keys loaded.
    pub keys: u64,
    /// Pages at level 0.
    pub leaves: u64,
    /// Pages above.
    pub inner_pages: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// All inner pages, to fill index caches with: [`crate::IndexCache::prefilled`].
    pub index: Arc<IndexPages>,
}

impl LoadedTree {
    /// Bytes of all pages.
    pub fn bytes(&self) -> u64 {
        (self.leaves + self.inner_pages) * self.page_bytes
    }

    /// Bytes of all pages a key; none without keys.
    pub fn bytes_per_key(&self) -> Option<f64> {
        (self.keys > 0).then(|| self.bytes() as f64 / self.keys as f64)
    }
}
