//! One-sided verbs, and chains of them.

use crate::{GlobalAddr, NodeId};

/// What one verb does. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Copy `len` bytes of remote memory into the chain.
    Read {
        /// Bytes.
        len: u32,
    },
    /// Copy `len` bytes of the chain into remote memory, word by word in increasing address order.
    Write {
        /// Bytes.
        len: u32,
    },
    /// RNIC compare-and-swap of an aligned word; returns the word as it was.
    Cas {
        /// The word that lets the swap happen.
        expected: u64,
        /// What is then stored.
        new: u64,
    },
    /// RNIC fetch-and-add of an aligned word; returns the word as it was.
    Faa {
        /// The addend, wrapping.
        add: u64,
    },
    /// RNIC swap of an aligned word (a masked CAS with an empty compare mask); returns the word as it was.
    /// Only where [`crate::Capabilities::native_swap`] says so.
    Swap {
        /// What is stored.
        new: u64,
    },
}

impl Op {
    /// The verb's name, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read { .. } => "READ",
            Op::Write { .. } => "WRITE",
            Op::Cas { .. } => "CAS",
            Op::Faa { .. } => "FAA",
            Op::Swap { .. } => "SWAP",
        }
    }

    /// How many bytes of remote memory it touches.
    pub const fn remote_bytes(self) -> u32 {
        match self {
            Op::Read { len } | Op::Write { len } => len,
            Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => 8,
        }
    }

    /// Bytes of payload that it takes to its target.
    #[inline]
    pub(crate) const fn sent_bytes(self) -> u32 {
        match self {
            Op::Write { len } => len,
            Op::Read { .. } | Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => 0,
        }
    }

    /// Bytes of payload, beyond an atomic's word, that its response brings back.
    #[inline]
    pub(crate) const fn returned_bytes(self) -> u32 {
        match self {
            Op::Read { len } => len,
            Op::Write { .. } | Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. } => 0,
        }
    }

    /// Whether it is executed by the RNIC's atomic unit.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Op::Cas { .. } | Op::Faa { .. } | Op::Swap { .. })
    }
}

/// A verb within a chain.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// What it does.
    pub op: Op,
    /// Where.
    pub addr: GlobalAddr,
    /// Whether it waits until every earlier READ and atomic of its queue pair has completed.
    pub fenced: bool,
    /// Where its payload or its result lies in the chain's buffer, in words.
    word: u32,
    /// A note of the fabric's own while the chain is in flight.
    pub(crate) note: u32,
}

impl Verb {
    /// Where its payload or result lies in [`Chain::data`], in words.
    pub fn data_word(&self) -> usize {
        self.word as usize
    }
}

/// Verbs a chain has at most.
pub(crate) const MAX_VERBS: usize = 511;

/// Names a verb of a chain, to fetch its result by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

#[cfg(test)]
impl Slot {
    /// The verb at this place of a chain.
    pub(crate) fn of(number: u32) -> Self {
        Self(number)
    }
}

/// Verbs that are posted together on one queue pair to one node, with one completion.
///
/// A chain owns the bytes that its WRITEs send and its READs bring, so that they stay valid while the fabric
/// works on them whatever becomes of the future that posted it. It is reusable: [`Chain::clear`] keeps the
/// allocations.
///
/// It has less than 512 verbs of less than 4 GiB each.
///
/// Order within a chain is that of one queue pair (see [the contract](crate#the-contract)): WRITE→anything,
/// READ→READ, atomic→READ and atomic→atomic take effect in posting order; READ→WRITE, READ→atomic and
/// atomic→WRITE only with [`Chain::fence`] between.
#[derive(Debug, Default)]
pub struct Chain {
    verbs: Vec<Verb>,
    data: Vec<u64>,
    fence_next: bool,
}

impl Chain {
    /// An empty chain.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the verbs, keeps the memory.
    pub fn clear(&mut self) {
        self.verbs.clear();
        self.data.clear();
        self.fence_next = false;
    }

    /// The verbs in posting order.
    pub fn verbs(&self) -> &[Verb] {
        &self.verbs
    }

    /// Whether there is nothing to post.
    pub fn is_empty(&self) -> bool {
        self.verbs.is_empty()
    }

    /// The node that all of its verbs go to; none for an empty chain.
    pub fn node(&self) -> Option<NodeId> {
        self.verbs.first().map(|verb| verb.addr.node())
    }

    /// The verbs, for the fabric's notes.
    pub(crate) fn verbs_mut(&mut self) -> &mut [Verb] {
        &mut self.verbs
    }

    /// The verbs, for the fabric's notes, and the payload and result words.
    #[inline]
    pub(crate) fn parts_mut(&mut self) -> (&mut [Verb], &mut [u64]) {
        (&mut self.verbs, &mut self.data)
    }

    /// The payload and result words, for fabrics.
    pub fn data(&self) -> &[u64] {
        &self.data
    }

    /// The payload and result words, for fabrics.
    pub fn data_mut(&mut self) -> &mut [u64] {
        &mut self.data
    }

    /// Makes the next verb wait, at the requester's RNIC, for the completion of every earlier READ and atomic
    /// of the queue pair.
    pub fn fence(&mut self) -> &mut Self {
        self.fence_next = true;
        self
    }

    fn push(&mut self, op: Op, addr: GlobalAddr, words: usize) -> Slot {
        if let Some(node) = self.node() {
            assert_eq!(node, addr.node(), "a chain goes to one node");
        }
        assert!(
            self.verbs.len() < MAX_VERBS,
            "a chain has at most {MAX_VERBS} verbs"
        );
        let word = self.data.len() as u32;
        self.data.resize(self.data.len() + words, 0);
        self.verbs.push(Verb {
            op,
            addr,
            fenced: self.fence_next,
            word,
            note: 0,
        });
        self.fence_next = false;
        Slot(self.verbs.len() as u32 - 1)
    }

    /// Appends a READ of `len` bytes.
    ///
    /// # Panics
    /// Here and in the other appending calls, when the chain already goes to another node, is full, or the verb is
    /// too long.
    pub fn read(&mut self, addr: GlobalAddr, len: usize) -> Slot {
        let bytes = u32::try_from(len).expect("a verb has less than 4 GiB");
        self.push(Op::Read { len: bytes }, addr, len.div_ceil(8))
    }

    /// Appends a WRITE of `bytes`.
    pub fn write(&mut self, addr: GlobalAddr, bytes: &[u8]) -> Slot {
        let slot = self.push(
            Op::Write {
                len: bytes.len() as u32,
            },
            addr,
            bytes.len().div_ceil(8),
        );
        let word = self.verbs[slot.0 as usize].data_word();
        bytemuck::cast_slice_mut::<u64, u8>(&mut self.data[word..])[..bytes.len()]
            .copy_from_slice(bytes);
        slot
    }

    /// Appends a WRITE of whole words.
    pub fn write_words(&mut self, addr: GlobalAddr, words: &[u64]) -> Slot {
        let len = size_of_val(words) as u32;
        let slot = self.push(Op::Write { len }, addr, 0);
        if let [word] = words {
            self.data.push(*word); // What most are, without a call to copy it.
        } else {
            self.data.extend_from_slice(words);
        }
        slot
    }

    /// Appends a CAS.
    pub fn cas(&mut self, addr: GlobalAddr, expected: u64, new: u64) -> Slot {
        self.push(Op::Cas { expected, new }, addr, 1)
    }

    /// Appends an FAA.
    pub fn faa(&mut self, addr: GlobalAddr, add: u64) -> Slot {
        self.push(Op::Faa { add }, addr, 1)
    }

    /// Appends a native swap.
    pub fn swap(&mut self, addr: GlobalAddr, new: u64) -> Slot {
        self.push(Op::Swap { new }, addr, 1)
    }

    /// The first word of a verb's result: what an atomic found, or what a READ of a word brought.
    ///
    /// # Panics
    /// When `slot` is none of this chain's.
    pub fn value(&self, slot: Slot) -> u64 {
        self.data[self.verbs[slot.0 as usize].data_word()]
    }

    /// The whole words of a verb's result or payload (the last one is filled up with zeros).
    ///
    /// # Panics
    /// When `slot` is none of this chain's.
    pub fn words(&self, slot: Slot) -> &[u64] {
        let verb = &self.verbs[slot.0 as usize];
        let words = (verb.op.remote_bytes() as usize).div_ceil(8);
        &self.data[verb.data_word()..][..words]
    }

    /// The bytes of a verb's result or payload.
    ///
    /// # Panics
    /// When `slot` is none of this chain's.
    pub fn bytes(&self, slot: Slot) -> &[u8] {
        let len = self.verbs[slot.0 as usize].op.remote_bytes() as usize;
        &bytemuck::cast_slice(self.words(slot))[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_keeps_payloads_apart() {
        let at = |offset| GlobalAddr::new(NodeId(3), offset);
        let mut chain = Chain::new();
        let odd = chain.write(at(64), b"odd length");
        let read = chain.read(at(128), 24);
        let cas = chain.fence().cas(at(192), 1, 2);
        assert_eq!(chain.bytes(odd), b"odd length");
        assert_eq!(chain.words(read), [0, 0, 0]);
        assert_eq!(chain.value(cas), 0);
        assert_eq!(
            chain.verbs().iter().map(|v| v.fenced).collect::<Vec<_>>(),
            [false, false, true]
        );
        chain.clear();
        assert!(chain.is_empty() && chain.node().is_none());
    }

    #[test]
    #[should_panic(expected = "a chain goes to one node")]
    fn a_chain_refuses_a_second_node() {
        let mut chain = Chain::new();
        chain.faa(GlobalAddr::new(NodeId(0), 64), 1);
        chain.faa(GlobalAddr::new(NodeId(1), 64), 1);
    }
}
