//! [`Control`]: how the nodes of a run begin and end together, notice who is gone, and bring what they have measured to
//! node 0. By verbs on words of node 0's memory, which no lock and no page has.
//!
//! | line | words | who writes | what |
//! |---|---|---|---|
//! | shared | `go` | node 0 | 1 when all serve their memory, and clients connect; 2 when all have, and clients begin |
//! | | `stop` | whoever is first (CAS) | why the run ends before its time; see [`Stop`] |
//! | | `quiet` | node 0 | 1 when no client of any node does anything any more, and all is verified from then on |
//! | | `end` | node 0 | 1 when it has everything: servers may end |
//! | one a node | `ready` | that node | 1 when its clients are connected |
//! | | `beat` | that node | changes as long as it is there; not 0 as soon as it serves its memory |
//! | | `heard` | that node | 1 when it has seen `end`, and asks for nothing more |
//! | ticks | one | verifying clients (FAA) | a clock that all nodes share |
//!
//! Beside these each node has a mailbox: `sent` (bytes that lie there, 0 when node 0 has taken them; its highest bit says
//! that they are the last) and a part of a message. The node writes the part first and `sent` when that has completed, so
//! that who sees `sent` sees the part.

use std::sync::atomic::Ordering;

use dmtree_cluster::region::Regions;
use dmtree_cluster::{
    Chain, Endpoint, Error, GlobalAddr, LINE_BYTES, MemoryKind, MemoryMap, NodeId, PollBackoff,
    WaitFor,
};

use crate::run::SERVER;

/// Of a message, sent at once: frames may be longer, but nobody else should wait for one.
const PART_BYTES: usize = 64 << 10;
const MAILBOX_BYTES: u64 = PART_BYTES as u64 + 8;
/// In `sent`: nothing comes behind it.
const LAST: u64 = 1 << 63;
/// The longest message: a node that sends more is not what it should be.
const MESSAGE_BYTES: usize = 4 << 30;
/// Between two looks at a mailbox.
const LOOK: PollBackoff = PollBackoff {
    first_ns: 200_000,
    max_ns: 2_000_000,
};

const GO: u64 = 0;
const STOP: u64 = 1;
const QUIET: u64 = 2;
const END: u64 = 3;
const SHARED_WORDS: usize = 4;

const READY: u64 = 0;
const BEAT: u64 = 1;
const HEARD: u64 = 2;
const NODE_WORDS: usize = LINE_BYTES / 8;

/// Why a run ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Somebody told that node's process to end.
    Told(NodeId),
    /// Nothing was heard of that node any more.
    Gone(NodeId),
    /// Something failed there; it tells what itself.
    Failed(NodeId),
    /// That node had not come when the others had waited long enough.
    Missing(NodeId),
}

impl Stop {
    fn to_word(self) -> u64 {
        let (kind, node) = match self {
            Self::Told(node) => (1, node),
            Self::Gone(node) => (2, node),
            Self::Failed(node) => (3, node),
            Self::Missing(node) => (4, node),
        };
        kind << 16 | u64::from(node.0)
    }

    fn of_word(word: u64) -> Option<Self> {
        let node = NodeId(word as u16);
        match word >> 16 {
            0 => None,
            1 => Some(Self::Told(node)),
            2 => Some(Self::Gone(node)),
            4 => Some(Self::Missing(node)),
            _ => Some(Self::Failed(node)),
        }
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Told(node) => write!(f, "{node} was told to end"),
            Self::Gone(node) => write!(f, "{node} is gone: nothing was heard of it any more"),
            Self::Failed(node) => write!(f, "{node} has failed"),
            Self::Missing(node) => write!(f, "{node} is missing"),
        }
    }
}

/// What all may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Go {
    /// Nothing yet.
    #[default]
    Wait,
    /// All serve their memory: clients connect.
    Connect,
    /// All clients are connected: they begin.
    Begin,
}

/// What the shared words say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// What all may do.
    pub go: Go,
    /// Why all are to stop, if they are.
    pub stop: Option<Stop>,
    /// Whether nobody does anything any more.
    pub quiet: bool,
    /// Whether all may end.
    pub end: bool,
}

/// What node 0 sees of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether its clients are connected.
    pub ready: bool,
    /// A number that changes as long as it is there.
    pub beat: u64,
    /// Whether it asks for nothing more.
    pub heard: bool,
}

/// Where the words lie.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    shared: GlobalAddr,
    lines: GlobalAddr,
    ticks: GlobalAddr,
    mailboxes: GlobalAddr,
    nodes: u16,
}

type Result<T> = std::result::Result<T, Error>;

impl Control {
    /// Reserves the words, behind everything else.
    pub fn reserve(map: &mut MemoryMap) -> Self {
        let nodes = map.nodes();
        let mut host = |bytes: u64| map.reserve(SERVER, MemoryKind::Host, bytes, LINE_BYTES as u64);
        Self {
            shared: host(LINE_BYTES as u64),
            lines: host(u64::from(nodes) * LINE_BYTES as u64),
            ticks: host(LINE_BYTES as u64),
            mailboxes: host(u64::from(nodes) * MAILBOX_BYTES),
            nodes,
        }
    }

    /// The clock that all nodes share.
    pub fn ticks(&self) -> GlobalAddr {
        self.ticks
    }

    fn line(&self, node: NodeId) -> GlobalAddr {
        self.lines.add(u64::from(node.0) * LINE_BYTES as u64)
    }

    fn mailbox(&self, node: NodeId) -> GlobalAddr {
        self.mailboxes.add(u64::from(node.0) * MAILBOX_BYTES)
    }

    /// Tells that `ep`'s node is ready.
    ///
    /// # Errors
    /// [`dmtree_cluster::ErrorKind::PeerGone`], as of everything here.
    pub async fn ready(&self, ep: &impl Endpoint) -> Result<()> {
        let own = self.line(ep.node()).word(READY);
        ep.write_words(own, &[1]).await
    }

    /// Tells that `ep`'s node is there, by a `beat` that differs from the one before, and what the shared words say.
    ///
    /// # Errors
    /// As above.
    pub async fn beat(&self, ep: &impl Endpoint, beat: u64) -> Result<Signals> {
        ep.write_words(self.line(ep.node()).word(BEAT), &[beat])
            .await?;
        let mut words = [0; SHARED_WORDS];
        ep.read_words(self.shared, &mut words).await?;
        Ok(Signals {
            go: match words[GO as usize] {
                0 => Go::Wait,
                1 => Go::Connect,
                _ => Go::Begin,
            },
            stop: Stop::of_word(words[STOP as usize]),
            quiet: words[QUIET as usize] != 0,
            end: words[END as usize] != 0,
        })
    }

    /// Asks all to stop. Who asked first is right.
    ///
    /// # Errors
    /// As above.
    pub async fn stop(&self, ep: &impl Endpoint, why: Stop) -> Result<()> {
        let word = self.shared.word(STOP);
        ep.rdma_cas(word, 0, why.to_word()).await.map(drop)
    }

    /// On node 0: what it sees of all nodes, in their order.
    ///
    /// # Errors
    /// As above.
    pub async fn see(&self, ep: &impl Endpoint) -> Result<Vec<Seen>> {
        let mut words = vec![0; usize::from(self.nodes) * NODE_WORDS];
        ep.read_words(self.lines, &mut words).await?;
        let seen = words.chunks(NODE_WORDS).map(|line| Seen {
            ready: line[READY as usize] != 0,
            beat: line[BEAT as usize],
            heard: line[HEARD as usize] != 0,
        });
        Ok(seen.collect())
    }

    /// On node 0: lets all do `what`.
    ///
    /// # Errors
    /// As above.
    pub async fn go(&self, ep: &impl Endpoint, what: Go) -> Result<()> {
        ep.write_words(self.shared.word(GO), &[what as u64]).await
    }

    /// On node 0: tells that nobody does anything any more.
    ///
    /// # Errors
    /// As above.
    pub async fn quiet(&self, ep: &impl Endpoint) -> Result<()> {
        ep.write_words(self.shared.word(QUIET), &[1]).await
    }

    /// On node 0: lets all end.
    ///
    /// # Errors
    /// As above.
    pub async fn end(&self, ep: &impl Endpoint) -> Result<()> {
        ep.write_words(self.shared.word(END), &[1]).await
    }

    /// Tells that `ep`'s node has seen the end. Node 0 may be gone before it says that it has taken this.
    pub async fn heard(&self, ep: &impl Endpoint) {
        let own = self.line(ep.node()).word(HEARD);
        drop(ep.write_words(own, &[1]).await);
    }

    /// Brings `message` to node 0, part by part, once that has taken all before it.
    ///
    /// # Errors
    /// As above; [`dmtree_cluster::ErrorKind::WaitLimit`] when node 0 does not take a part.
    pub async fn send(&self, ep: &impl Endpoint, message: &[u8]) -> Result<()> {
        let sent = self.mailbox(ep.node());
        let wait = WaitFor::new("node 0 to take a message", sent);
        let mut rest = message;
        loop {
            ep.poll_until(sent, 1, LOOK, wait, |words| words[0] == 0)
                .await?;
            let (part, behind) = rest.split_at(rest.len().min(PART_BYTES));
            rest = behind;
            let mut chain = Chain::new();
            chain.write(sent.word(1), part);
            ep.execute(&mut chain).await?;
            // Behind the completion of the part: who sees this sees that.
            let last = if rest.is_empty() { LAST } else { 0 };
            ep.write_words(sent, &[part.len() as u64 | last]).await?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// On node 0: what has come of the message of `node` since the last look, and whether that is its end. It reads its
    /// own memory.
    pub fn receive(&self, regions: &Regions, node: NodeId, message: &mut Vec<u8>) -> bool {
        let from = (self.mailbox(node).offset() / 8) as usize;
        let words = &regions.host_words()[from..];
        // The part was there before this was written.
        let sent = words[0].load(Ordering::Acquire);
        let length = (sent & !LAST) as usize;
        if length > PART_BYTES || message.len() + length > MESSAGE_BYTES {
            // No node of this program sends that.
            return false;
        }
        let part = &words[1..][..length.div_ceil(8)];
        let bytes = part
            .iter()
            .flat_map(|word| word.load(Ordering::Acquire).to_ne_bytes());
        message.extend(bytes.take(length));
        // Its place is free behind the reads above.
        words[0].store(0, Ordering::Release);
        sent & LAST != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_to_stop_survives_its_word() {
        for node in [0, 1, u16::MAX].map(NodeId) {
            for stop in [
                Stop::Told(node),
                Stop::Gone(node),
                Stop::Failed(node),
                Stop::Missing(node),
            ] {
                assert_eq!(Stop::of_word(stop.to_word()), Some(stop));
            }
        }
        assert_eq!(Stop::of_word(0), None);
    }
}
