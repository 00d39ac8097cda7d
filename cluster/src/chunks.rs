//! [`ChunkHeap`]: the memory that servers hand out in chunks, and clients carve into pieces.
//!
//! A memory server does nothing but serve verbs, so handing out is one RNIC fetch-and-add on a counter of its
//! own; a client pays that trip once a chunk and carves the chunk without any (Sherman, SIGMOD 2022, section
//! 4.2.4: chunks of 8 MB, round-robin over the servers).
//!
//! | what | where | written by |
//! |---|---|---|
//! | counter: chunks handed out so far | one line of its own a server | RNIC FAA only, also by the server's own clients (loopback), since an RNIC's atomics are not atomic against a CPU's |
//! | chunks | one range a server | whoever took them |
//!
//! The counter runs past the last chunk when clients ask for more than there is; nothing is ever given back, so
//! it cannot wrap in practice (2⁶⁴ trips).

use std::sync::Arc;

use crate::{Endpoint, ErrorKind, GlobalAddr, LINE_BYTES, MemoryKind, MemoryMap, NodeId, Result};

/// Bytes of a chunk where nothing else is said (Sherman, SIGMOD 2022, section 4.2.4).
pub const DEFAULT_CHUNK_BYTES: u64 = 8 << 20;

/// Alignment of a heap: pages of memory, so that chunks of whole pages share none.
const HEAP_ALIGN: u64 = 4096;

#[derive(Clone, Copy, Debug)]
struct ServerHeap {
    counter: GlobalAddr,
    start: GlobalAddr,
    chunks: u64,
}

/// The heaps of all memory servers, as every client knows them from the start.
#[derive(Clone, Debug)]
pub struct ChunkHeap {
    chunk_bytes: u64,
    servers: Vec<ServerHeap>,
    /// Index into `servers` by node; none where the node serves no heap.
    by_node: Vec<Option<u16>>,
}

impl ChunkHeap {
    /// Reserves a heap of as many chunks of `chunk_bytes` bytes on each server as stands beside it.
    ///
    /// # Panics
    /// When `servers` is empty or names a node twice or one that `map` does not have, or `chunk_bytes` is not a
    /// multiple of a line (64 bytes) or is 0.
    pub fn reserve(map: &mut MemoryMap, servers: &[(NodeId, u64)], chunk_bytes: u64) -> Self {
        assert!(!servers.is_empty(), "a heap has servers");
        assert!(
            chunk_bytes > 0 && chunk_bytes.is_multiple_of(LINE_BYTES as u64),
            "chunks are whole lines"
        );
        let mut by_node = vec![None; usize::from(map.nodes())];
        let servers = servers.iter().enumerate().map(|(index, (node, chunks))| {
            let entry = &mut by_node[usize::from(node.0)];
            assert!(entry.is_none(), "{node} serves two heaps");
            *entry = Some(index as u16);
            let line = LINE_BYTES as u64;
            ServerHeap {
                counter: map.reserve(*node, MemoryKind::Host, line, line),
                start: map.reserve(*node, MemoryKind::Host, chunks * chunk_bytes, HEAP_ALIGN),
                chunks: *chunks,
            }
        });
        Self {
            chunk_bytes,
            servers: servers.collect(),
            by_node,
        }
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// The memory servers, in the order of the round-robin.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.servers.iter().map(|server| server.start.node())
    }

    /// The RNIC-atomic counter word of server number `server`.
    ///
    /// # Panics
    /// When there is no such server.
    pub fn counter(&self, server: usize) -> GlobalAddr {
        self.servers[server].counter
    }

    /// The start of chunk number `index` of server number `server`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] when the server's heap ends before it.
    ///
    /// # Panics
    /// When there is no such server.
    pub fn chunk(&self, server: usize, index: u64) -> Result<GlobalAddr> {
        let heap = self.servers[server];
        if index >= heap.chunks {
            return Err(ErrorKind::OutOfMemory {
                node: heap.start.node(),
                heap_bytes: heap.chunks * self.chunk_bytes,
            }
            .into());
        }
        Ok(heap.start.add(index * self.chunk_bytes))
    }

    /// Whether `bytes` bytes at `addr`, 8-byte aligned, lie in one heap: what an address that was read from
    /// memory is held against before it is used.
    pub fn contains(&self, addr: GlobalAddr, bytes: u64) -> bool {
        let index = self
            .by_node
            .get(usize::from(addr.node().0))
            .copied()
            .flatten();
        let Some(heap) = index.map(|index| self.servers[usize::from(index)]) else {
            return false;
        };
        let offset = addr.offset();
        !addr.is_device()
            && offset.is_multiple_of(8)
            && offset >= heap.start.offset()
            && offset + bytes <= heap.start.offset() + heap.chunks * self.chunk_bytes
    }
}

/// What is left of a chunk.
#[derive(Clone, Copy, Debug)]
struct Rest {
    next: GlobalAddr,
    bytes: u64,
}

impl Rest {
    const NONE: Self = Self {
        next: GlobalAddr::NULL,
        bytes: 0,
    };

    fn carve(&mut self, bytes: u64) -> Option<GlobalAddr> {
        (self.bytes >= bytes).then(|| {
            let piece = self.next;
            *self = Self {
                next: piece.add(bytes),
                bytes: self.bytes - bytes,
            };
            piece
        })
    }
}

/// One client's way to memory of the heap.
///
/// Pieces are never given back; the end of a chunk that is too short for the next piece is left unused.
#[derive(Debug)]
pub struct ChunkAllocator {
    heap: Arc<ChunkHeap>,
    next_server: usize,
    rest: Rest,
    trips: u64,
}

impl ChunkAllocator {
    /// An allocator with no chunk yet, whose first one will come from server number `first` (modulo their
    /// number): clients that start at different servers do not meet at one counter.
    pub fn new(heap: Arc<ChunkHeap>, first: usize) -> Self {
        let next_server = first % heap.servers.len();
        Self {
            heap,
            next_server,
            rest: Rest::NONE,
            trips: 0,
        }
    }

    /// How many FAAs it has sent.
    pub fn trips(&self) -> u64 {
        self.trips
    }

    /// A piece of `bytes` bytes, with whatever the memory holds (zeros, as nothing is ever given back).
    ///
    /// One FAA when the chunk at hand is used up, else no trip. A server whose heap is used up is passed over.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] when all heaps are used up, naming the server that was asked last; whatever
    /// the fabric fails with.
    ///
    /// # Panics
    /// When `bytes` is more than a chunk.
    pub async fn alloc<E: Endpoint>(&mut self, ep: &E, bytes: u64) -> Result<GlobalAddr> {
        assert!(
            bytes <= self.heap.chunk_bytes,
            "a piece is no larger than a chunk"
        );
        if let Some(piece) = self.rest.carve(bytes) {
            return Ok(piece);
        }
        let mut used_up = 0;
        loop {
            let server = self.next_server;
            self.next_server = (server + 1) % self.heap.servers.len();
            // Also on the server itself by its RNIC: the word is never touched by a CPU's atomics.
            self.trips += 1;
            let index = ep.rdma_faa(self.heap.counter(server), 1).await?;
            match self.heap.chunk(server, index) {
                Ok(start) => {
                    self.rest = Rest {
                        next: start.add(bytes),
                        bytes: self.heap.chunk_bytes - bytes,
                    };
                    return Ok(start);
                }
                Err(failure) => {
                    used_up += 1;
                    if used_up == self.heap.servers.len() {
                        return Err(failure);
                    }
                }
            }
        }
    }
}

/// The way to memory of the heap before the run, when nobody else takes any: bulk load.
///
/// Takes the same chunks in the same round-robin without a fabric; [`SetupAllocator::counters`] tells what the
/// counter words have to hold when the run begins.
#[derive(Debug)]
pub struct SetupAllocator {
    heap: Arc<ChunkHeap>,
    taken: Vec<u64>,
    next_server: usize,
    rest: Rest,
}

impl SetupAllocator {
    /// An allocator over a heap of which nothing is taken yet.
    pub fn new(heap: Arc<ChunkHeap>) -> Self {
        let taken = vec![0; heap.servers.len()];
        Self {
            heap,
            taken,
            next_server: 0,
            rest: Rest::NONE,
        }
    }

    /// A piece of `bytes` zeroed bytes.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] when all heaps are used up, naming the server that was asked last.
    ///
    /// # Panics
    /// When `bytes` is more than a chunk.
    pub fn alloc(&mut self, bytes: u64) -> Result<GlobalAddr> {
        assert!(
            bytes <= self.heap.chunk_bytes,
            "a piece is no larger than a chunk"
        );
        if let Some(piece) = self.rest.carve(bytes) {
            return Ok(piece);
        }
        let mut used_up = 0;
        loop {
            let server = self.next_server;
            self.next_server = (server + 1) % self.heap.servers.len();
            match self.heap.chunk(server, self.taken[server]) {
                Ok(start) => {
                    self.taken[server] += 1;
                    self.rest = Rest {
                        next: start.add(bytes),
                        bytes: self.heap.chunk_bytes - bytes,
                    };
                    return Ok(start);
                }
                Err(failure) => {
                    used_up += 1;
                    if used_up == self.heap.servers.len() {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// Every counter word, and what it has to hold: the chunks taken of that server.
    pub fn counters(&self) -> impl Iterator<Item = (GlobalAddr, u64)> {
        self.taken
            .iter()
            .enumerate()
            .map(|(server, taken)| (self.heap.counter(server), *taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(chunks: &[(u16, u64)], chunk_bytes: u64) -> Arc<ChunkHeap> {
        let mut map = MemoryMap::new(4);
        let servers: Vec<_> = chunks
            .iter()
            .map(|(node, chunks)| (NodeId(*node), *chunks))
            .collect();
        Arc::new(ChunkHeap::reserve(&mut map, &servers, chunk_bytes))
    }

    #[test]
    fn setup_takes_chunks_round_robin_and_fills_them() {
        let heap = heap(&[(0, 2), (3, 2)], 256);
        let mut setup = SetupAllocator::new(heap.clone());
        // Two pieces of 128 bytes a chunk, or one of 192: the rest of a chunk is left.
        let pieces: Vec<_> = [128, 128, 128, 192, 256]
            .map(|bytes| setup.alloc(bytes).unwrap())
            .into();
        let chunk = |server, index| heap.chunk(server, index).unwrap();
        assert_eq!(
            pieces,
            [
                chunk(0, 0),
                chunk(0, 0).add(128),
                chunk(1, 0),
                chunk(0, 1),
                chunk(1, 1)
            ]
        );
        let counters: Vec<_> = setup.counters().collect();
        assert_eq!(counters, [(heap.counter(0), 2), (heap.counter(1), 2)]);
        assert_eq!(
            setup.alloc(64),
            Err(ErrorKind::OutOfMemory {
                node: NodeId(3),
                heap_bytes: 512
            }
            .into())
        );
    }

    #[test]
    fn a_server_that_is_used_up_is_passed_over() {
        let heap = heap(&[(0, 0), (1, 2)], 64);
        let mut setup = SetupAllocator::new(heap.clone());
        assert_eq!(setup.alloc(64), heap.chunk(1, 0));
        assert_eq!(setup.alloc(64), heap.chunk(1, 1));
        assert_eq!(
            setup.alloc(64),
            Err(ErrorKind::OutOfMemory {
                node: NodeId(1),
                heap_bytes: 128
            }
            .into())
        );
    }

    #[test]
    fn only_addresses_within_a_heap_are_its_own() {
        let heap = heap(&[(1, 2), (2, 1)], 128);
        let start = heap.chunk(0, 0).unwrap();
        assert!(heap.contains(start, 256) && heap.contains(start.add(128), 128));
        assert!(!heap.contains(start, 264) && !heap.contains(start.add(128), 136));
        assert!(!heap.contains(start.add(4), 8));
        assert!(!heap.contains(heap.counter(0), 8) && !heap.contains(GlobalAddr::NULL, 8));
        assert!(!heap.contains(GlobalAddr::device(NodeId(1), start.offset()), 8));
        assert!(!heap.contains(GlobalAddr::new(NodeId(0), start.offset()), 8));
        assert!(!heap.contains(GlobalAddr::from_bits(u64::MAX), 8));
    }

    /// Clients of three nodes, two of them memory servers, take all there is: pieces that do not overlap, one trip
    /// a chunk, and then an error.
    #[test]
    fn clients_at_once_share_the_heap_without_overlap() {
        use std::cell::RefCell;
        use std::rc::Rc;

        use crate::sim::{Profile, Sim, SimConfig};

        for seed in 0..50 {
            let mut map = MemoryMap::new(3);
            let heap = ChunkHeap::reserve(&mut map, &[(NodeId(0), 5), (NodeId(2), 4)], 256);
            let heap = Arc::new(heap);
            let mut config = SimConfig::new(Profile::by_name("cx3-fdr").unwrap());
            (config.seed, config.hostile) = (seed, true);
            let mut sim = Sim::new(&config, &map).unwrap();
            // The load has taken one chunk of the first server.
            let mut setup = SetupAllocator::new(heap.clone());
            let loaded = setup.alloc(64).unwrap();
            for (counter, taken) in setup.counters() {
                sim.host_words(counter.node())[counter.offset() as usize / 8] = taken;
            }
            let pieces = Rc::new(RefCell::new(Vec::new()));
            for client in 0..6 {
                let ep = sim.endpoint(NodeId(client % 3), client);
                let mut allocator = ChunkAllocator::new(heap.clone(), usize::from(client));
                let pieces = Rc::clone(&pieces);
                sim.spawn(&ep.clone(), async move {
                    loop {
                        match allocator.alloc(&ep, 64).await {
                            Ok(piece) => pieces.borrow_mut().push(piece),
                            Err(failure) => {
                                assert!(
                                    matches!(failure.kind(), ErrorKind::OutOfMemory { .. }),
                                    "{failure}"
                                );
                                return;
                            }
                        }
                    }
                });
            }
            sim.run().unwrap();
            let mut pieces = pieces.take();
            // Four pieces a chunk, of the eight chunks that are left.
            assert_eq!(pieces.len(), 32, "seed {seed}");
            pieces.push(loaded);
            pieces.sort_unstable();
            assert!(
                pieces.windows(2).all(|pair| pair[0].add(64) <= pair[1]),
                "seed {seed}"
            );
            assert!(pieces.iter().all(|piece| heap.contains(*piece, 64)));
            // A trip a chunk, and each client asks both servers in vain at its end.
            let asked: u64 = (0..2)
                .map(|server| heap.counter(server))
                .map(|at| sim.host_words(at.node())[at.offset() as usize / 8])
                .sum();
            assert_eq!(asked, 1 + sim.stats().verbs, "seed {seed}");
            assert!(
                (8 + 12..=8 + 18).contains(&sim.stats().verbs),
                "{}",
                sim.stats().verbs
            );
        }
    }
}
