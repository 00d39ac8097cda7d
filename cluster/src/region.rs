//! [`Regions`]: one node's registered memory in this process, shared by those who serve it and the node's own clients.
//!
//! Every access is made word by word with the hardware's atomics, so that only aligned words are read or written at one
//! instant, and nothing is a data race whoever accesses it meanwhile:
//!
//! | access | words | why |
//! |---|---|---|
//! | READ, CPU copy out | acquire loads, increasing addresses | what was written before the word is seen by who sees the word |
//! | WRITE, CPU copy in | release stores, increasing addresses | WRITEs of one queue pair become visible in order |
//! | RNIC atomics | sequentially consistent read-modify-writes | atomic among themselves |
//! | CPU accesses | as asked for | – |
//!
//! That is kinder than the contract: RNIC atomics are atomic against CPUs here, too. No protocol may count on it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use memmap2::{MmapMut, MmapOptions};

use crate::{ErrorKind, GlobalAddr, LINE_BYTES, MemoryKind, MemoryMap, NodeId, Op, Result};

/// Zeroed words that any thread may access.
#[derive(Debug)]
struct Words {
    /// None of no words: nothing can be mapped then.
    map: Option<MmapMut>,
}

impl Words {
    fn zeroed(bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let map = (bytes > 0).then(|| MmapMut::map_anon(bytes)).transpose()?;
        #[cfg(target_os = "linux")]
        if let Some(map) = &map {
            // A kernel without huge pages, or told to give none, serves small ones.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { map })
    }

    /// The first `bytes` of `file`, which others may have mapped as well.
    fn shared(file: &File, offset: u64, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let map = (bytes > 0)
            .then(|| {
                // SAFETY: the mapping is only accessed through atomics of `get`, so that changes by others who have
                // mapped the file are no data race. A file that is cut short meanwhile ends the process by a signal,
                // which is what `Regions::shared` tells its callers.
                unsafe { MmapOptions::new().offset(offset).len(bytes).map_mut(file) }
            })
            .transpose()?;
        Ok(Self { map })
    }

    fn get(&self) -> &[AtomicU64] {
        let Some(map) = &self.map else { return &[] };
        let words = map.len() / 8;
        // SAFETY: a mapping begins at a page, so it is aligned; it is `words` words long and lives as long as `self`;
        // AtomicU64 has the layout of u64, for which any bytes are valid; nobody accesses the mapping but through here.
        unsafe { std::slice::from_raw_parts(map.as_ptr().cast::<AtomicU64>(), words) }
    }

    fn bytes(&self) -> u64 {
        self.map.as_ref().map_or(0, |map| map.len() as u64)
    }
}

/// How large the memories of a node are, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Of host memory.
    pub host: u64,
    /// Of device memory.
    pub device: u64,
}

impl Sizes {
    /// What `map` wants of `node`.
    ///
    /// # Panics
    /// When it has no such node.
    pub fn of(map: &MemoryMap, node: NodeId) -> Self {
        Self {
            host: map.bytes(node, MemoryKind::Host),
            device: map.bytes(node, MemoryKind::Device),
        }
    }

    fn limit(self, addr: GlobalAddr) -> u64 {
        if addr.is_device() {
            self.device
        } else {
            self.host
        }
    }

    /// Whether an access of `len` bytes at `addr` is one to memory of these sizes. The node's number is not looked at.
    ///
    /// # Errors
    /// [`ErrorKind::Misaligned`], [`ErrorKind::OutOfBounds`]. Nothing is within bounds that is empty, or in the first
    /// line of host memory, which is never handed out.
    pub fn check(
        self,
        what: &'static str,
        addr: GlobalAddr,
        len: u64,
        aligned: bool,
    ) -> Result<()> {
        if aligned && !addr.offset().is_multiple_of(8) {
            return Err(ErrorKind::Misaligned { what, addr }.into());
        }
        let limit = self.limit(addr);
        let first = if addr.is_device() {
            0
        } else {
            LINE_BYTES as u64
        };
        let is_inside = addr.offset() >= first
            && len > 0
            && addr
                .offset()
                .checked_add(len)
                .is_some_and(|end| end <= limit);
        if is_inside {
            return Ok(());
        }
        Err(ErrorKind::OutOfBounds {
            what,
            addr,
            len,
            limit,
        }
        .into())
    }

    /// Whether a verb is one to memory of these sizes.
    ///
    /// # Errors
    /// As [`Sizes::check`].
    pub fn check_verb(self, op: Op, addr: GlobalAddr) -> Result<()> {
        let len = u64::from(op.remote_bytes());
        self.check(op.name(), addr, len, op.is_atomic())
    }
}

/// One node's host and device memory.
#[derive(Debug)]
pub struct Regions {
    node: NodeId,
    host: Words,
    device: Words,
}

impl Regions {
    /// Memory of zeros, as large as `map` wants it of `node`.
    ///
    /// # Errors
    /// When the operating system does not give it.
    ///
    /// # Panics
    /// When `map` has no such node.
    pub fn zeroed(node: NodeId, map: &MemoryMap) -> io::Result<Self> {
        let Sizes { host, device } = Sizes::of(map, node);
        Ok(Self {
            node,
            host: Words::zeroed(host)?,
            device: Words::zeroed(device)?,
        })
    }

    /// Memory that is the contents of `file`, which is made as long as it has to be; other processes may map the same.
    /// Whoever cuts the file short ends all of them.
    ///
    /// # Errors
    /// When the file cannot be grown or mapped.
    ///
    /// # Panics
    /// When `map` has no such node.
    pub fn shared(node: NodeId, map: &MemoryMap, file: &File) -> io::Result<Self> {
        // Mappings begin at pages.
        const PAGE: u64 = 64 << 10;
        let Sizes { host, device } = Sizes::of(map, node);
        let begin = host.next_multiple_of(PAGE);
        if file.metadata()?.len() < begin + device {
            file.set_len(begin + device)?;
        }
        Ok(Self {
            node,
            host: Words::shared(file, 0, host)?,
            device: Words::shared(file, begin, device)?,
        })
    }

    /// Whose memory it is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// How large it is.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            host: self.host.bytes(),
            device: self.device.bytes(),
        }
    }

    /// All words of host memory, for those who fill it before clients begin, and look at it afterwards.
    pub fn host_words(&self) -> &[AtomicU64] {
        self.host.get()
    }

    /// All words of host memory, and of what stands for device memory.
    #[cfg(feature = "verbs")]
    pub(crate) fn all_words(&self) -> [&[AtomicU64]; 2] {
        [self.host.get(), self.device.get()]
    }

    /// Makes every word 0.
    pub fn clear(&self) {
        for word in self.host.get().iter().chain(self.device.get()) {
            word.store(0, Ordering::Release);
        }
    }

    fn words(&self, addr: GlobalAddr) -> &[AtomicU64] {
        if addr.is_device() {
            self.device.get()
        } else {
            self.host.get()
        }
    }

    /// The word at `addr`, which has been checked.
    pub(crate) fn word(&self, addr: GlobalAddr) -> &AtomicU64 {
        &self.words(addr)[(addr.offset() / 8) as usize]
    }

    /// The `count` words at `addr`, which have been checked.
    pub(crate) fn words_at(&self, addr: GlobalAddr, count: usize) -> &[AtomicU64] {
        &self.words(addr)[(addr.offset() / 8) as usize..][..count]
    }

    /// A READ of `len` bytes that has been checked, appended to `into` and filled up with zeros to whole words.
    pub(crate) fn read(&self, addr: GlobalAddr, len: usize, into: &mut Vec<u8>) {
        let skip = (addr.offset() % 8) as usize;
        let covered = self.words_at(addr, (skip + len).div_ceil(8));
        let begin = into.len();
        for word in covered {
            into.extend_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
        }
        if skip > 0 {
            into.drain(begin..begin + skip);
        }
        into.truncate(begin + len);
        into.resize(begin + len.next_multiple_of(8), 0);
    }

    /// A WRITE of `bytes` that has been checked.
    pub(crate) fn write(&self, addr: GlobalAddr, bytes: &[u8]) {
        let skip = (addr.offset() % 8) as usize;
        let covered = self.words_at(addr, (skip + bytes.len()).div_ceil(8));
        let mut rest = bytes;
        for (index, word) in covered.iter().enumerate() {
            let from = if index == 0 { skip } else { 0 };
            let (now, later) = rest.split_at(rest.len().min(8 - from));
            rest = later;
            if let Ok(whole) = <[u8; 8]>::try_from(now) {
                word.store(u64::from_ne_bytes(whole), Ordering::Release);
                continue;
            }
            // A part of a word: the other bytes are not this WRITE's, and stay as they are.
            let merge = |found: u64| {
                let mut merged = found.to_ne_bytes();
                merged[from..from + now.len()].copy_from_slice(now);
                Some(u64::from_ne_bytes(merged))
            };
            // The closure never refuses.
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, merge);
        }
    }

    /// An atomic that has been checked; what the word was.
    pub(crate) fn atomic(&self, addr: GlobalAddr, op: Op) -> u64 {
        let word = self.word(addr);
        let order = Ordering::SeqCst;
        match op {
            Op::Cas { expected, new } => word
                .compare_exchange(expected, new, order, order)
                .unwrap_or_else(|found| found),
            Op::Faa { add } => word.fetch_add(add, order),
            Op::Swap { new } => word.swap(new, order),
            Op::Read { .. } | Op::Write { .. } => word.load(order),
        }
    }

    /// Between a WRITE and what follows it on its queue pair: a READ or an atomic takes effect after the WRITEs before
    /// it for everybody, which release stores and acquire loads alone do not give (store then load of another word).
    pub(crate) fn settle() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions() -> (Regions, GlobalAddr, GlobalAddr) {
        let mut map = MemoryMap::new(1);
        let host = map.reserve(NodeId(0), MemoryKind::Host, 256, 64);
        let device = map.reserve(NodeId(0), MemoryKind::Device, 64, 64);
        (Regions::zeroed(NodeId(0), &map).unwrap(), host, device)
    }

    #[test]
    fn bytes_of_any_alignment_are_written_and_read() {
        let (regions, host, device) = regions();
        for at in [host, device] {
            for (begin, length) in [
                (0, 8),
                (0, 24),
                (1, 1),
                (3, 4),
                (5, 11),
                (7, 2),
                (7, 17),
                (0, 3),
            ] {
                regions.clear();
                let mut model = [0u8; 64];
                let bytes: Vec<u8> = (1..=length as u8).collect();
                model[begin..begin + length].copy_from_slice(&bytes);
                regions.write(at.add(begin as u64), &bytes);
                let mut all = Vec::new();
                regions.read(at, 64, &mut all);
                assert_eq!(all, model, "{begin}, {length}");
                let mut found = vec![9];
                regions.read(at.add(begin as u64), length, &mut found);
                assert_eq!(found[1..=length], bytes);
                assert_eq!(found.len() - 1, length.next_multiple_of(8), "whole words");
                assert!(found[1 + length..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn atomics_return_what_was_there() {
        let (regions, host, _) = regions();
        let atomic = |op| regions.atomic(host, op);
        assert_eq!(atomic(Op::Faa { add: 5 }), 0);
        let cas = |expected| Op::Cas { expected, new: 7 };
        assert_eq!(atomic(cas(1)), 5);
        assert_eq!(atomic(cas(5)), 5);
        assert_eq!(atomic(Op::Swap { new: 1 }), 7);
        assert_eq!(atomic(Op::Faa { add: u64::MAX }), 1);
        assert_eq!(regions.word(host).load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_outside_is_refused() {
        let (regions, host, device) = regions();
        let sizes = regions.sizes();
        assert!(sizes.check("READ", host, 256, false).is_ok());
        assert!(sizes.check("READ", device, 64, false).is_ok());
        for (at, len) in [
            (host, 0),
            (host, 257),
            (host.add(255), 2),
            (device, 65),
            (GlobalAddr::NULL, 8),
            (GlobalAddr::new(NodeId(0), 63), 2),
            (GlobalAddr::from_bits((1 << 47) - 8), 8),
            (GlobalAddr::from_bits((1 << 48) - 8), u64::MAX),
        ] {
            let error = sizes.check("READ", at, len, false).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::OutOfBounds { .. }),
                "{at}, {len}"
            );
        }
        let error = sizes.check("CAS", host.add(4), 8, true).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misaligned { .. }));
    }

    #[test]
    fn a_file_is_shared() {
        let mut map = MemoryMap::new(1);
        let host = map.reserve(NodeId(0), MemoryKind::Host, 64, 64);
        let device = map.reserve(NodeId(0), MemoryKind::Device, 64, 64);
        let file = tempfile::tempfile().unwrap();
        let [one, other] = [(); 2].map(|()| Regions::shared(NodeId(0), &map, &file).unwrap());
        one.write(host, &[1; 8]);
        one.write(device, &[2; 8]);
        let mut found = Vec::new();
        other.read(host, 8, &mut found);
        other.read(device, 8, &mut found);
        assert_eq!(found, [[1; 8], [2; 8]].concat());
    }
}
