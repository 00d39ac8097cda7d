//! [`Control`]: how the nodes of a run begin and end together, and bring what they have measured to node 0. By verbs on
//! words of node 0's memory, which no lock and no page has.
//!
//! | words | who writes | what |
//! |---|---|---|
//! | `ready`, one a node | that node | 1 when its clients are connected |
//! | `go` | node 0 | 1 when all are ready |
//! | mailbox, one a node: length, then bytes | that node | what it has measured; the length comes last, and is not 0 |
//! | `end` | node 0 | 1 when it has everything: servers may end |

use std::time::{Duration, Instant};

use dmtree_cluster::region::Regions;
use dmtree_cluster::{
    Chain, Endpoint, GlobalAddr, LINE_BYTES, MemoryKind, MemoryMap, NodeId, PollBackoff, WaitFor,
};

use crate::run::SERVER;

/// The most bytes that a node's report has: histograms take some ten kilobytes.
const MAILBOX_BYTES: u64 = 1 << 20;
/// Written at once.
const CHUNK_BYTES: usize = 32 << 10;
/// Between two looks at a word of node 0.
const LOOK: PollBackoff = PollBackoff {
    first_ns: 200_000,
    max_ns: 2_000_000,
};

/// Where the words lie.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    ready: GlobalAddr,
    go: GlobalAddr,
    end: GlobalAddr,
    mailboxes: GlobalAddr,
    nodes: u16,
}

impl Control {
    /// Reserves the words, behind everything else.
    pub fn reserve(map: &mut MemoryMap) -> Self {
        let nodes = map.nodes();
        let mut host = |bytes: u64| map.reserve(SERVER, MemoryKind::Host, bytes, LINE_BYTES as u64);
        Self {
            ready: host(u64::from(nodes) * 8),
            go: host(8),
            end: host(8),
            mailboxes: host(u64::from(nodes) * MAILBOX_BYTES),
            nodes,
        }
    }

    fn mailbox(&self, node: NodeId) -> GlobalAddr {
        self.mailboxes.add(u64::from(node.0) * MAILBOX_BYTES)
    }

    /// Tells that `ep`'s node is ready, and waits for all others; node 0 gives the signal.
    ///
    /// # Errors
    /// In words that name the nodes that are missing after `limit`.
    pub async fn begin(&self, ep: &impl Endpoint, limit: Duration) -> Result<(), String> {
        let say = |error: dmtree_cluster::Error| error.to_string();
        let own = self.ready.word(u64::from(ep.node().0));
        ep.write_words(own, &[1]).await.map_err(say)?;
        let until = Instant::now() + limit;
        if ep.node() != SERVER {
            let wait = WaitFor::new("the beginning of the run", self.go);
            ep.poll_until(self.go, 1, LOOK, wait, |words| words[0] == 1)
                .await
                .map_err(say)?;
            return Ok(());
        }
        loop {
            let mut ready = vec![0; usize::from(self.nodes)];
            ep.read_words(self.ready, &mut ready).await.map_err(say)?;
            let missing: Vec<String> = (0..self.nodes)
                .filter(|node| ready[usize::from(*node)] == 0)
                .map(|node| node.to_string())
                .collect();
            if missing.is_empty() {
                break;
            }
            if Instant::now() > until {
                return Err(format!(
                    "after {limit:?} these nodes are missing: {}",
                    missing.join(", ")
                ));
            }
            ep.sleep(LOOK.first_ns).await;
        }
        ep.write_words(self.go, &[1]).await.map_err(say)
    }

    /// Brings `report` to node 0, and waits until that has everything.
    ///
    /// # Errors
    /// In words.
    pub async fn deliver(&self, ep: &impl Endpoint, report: &[u8]) -> Result<(), String> {
        let say = |error: dmtree_cluster::Error| error.to_string();
        let mailbox = self.mailbox(ep.node());
        if report.len() as u64 > MAILBOX_BYTES - 8 {
            return Err(format!("a report of {} bytes is too long", report.len()));
        }
        let mut at = mailbox.word(1);
        for chunk in report.chunks(CHUNK_BYTES) {
            let mut chain = Chain::new();
            chain.write(at, chunk);
            ep.execute(&mut chain).await.map_err(say)?;
            at = at.add(chunk.len() as u64);
        }
        // Behind the completion of the last: who sees the length sees all.
        ep.write_words(mailbox, &[report.len() as u64])
            .await
            .map_err(say)?;
        let wait = WaitFor::new("the end of the run", self.end);
        ep.poll_until(self.end, 1, LOOK, wait, |words| words[0] == 1)
            .await
            .map_err(say)?;
        Ok(())
    }

    /// On node 0: the other nodes' reports, in the order of their numbers; of one that does not come within `limit`, why.
    pub async fn collect(
        &self,
        ep: &impl Endpoint,
        regions: &Regions,
        limit: Duration,
    ) -> Vec<Result<Vec<u8>, String>> {
        let until = Instant::now() + limit;
        let mut reports = Vec::new();
        for node in (1..self.nodes).map(NodeId) {
            let mailbox = self.mailbox(node);
            let report = loop {
                match ep.read_u64(mailbox).await {
                    Err(error) => break Err(error.to_string()),
                    Ok(0) if Instant::now() > until => {
                        break Err(format!(
                            "{node} has not told what it measured within {limit:?}"
                        ));
                    }
                    Ok(0) => ep.sleep(LOOK.first_ns).await,
                    Ok(length) => break Ok(bytes_at(regions, mailbox.word(1), length)),
                }
            };
            reports.push(report);
        }
        reports
    }

    /// On node 0: lets all end.
    ///
    /// # Errors
    /// In words.
    pub async fn end(&self, ep: &impl Endpoint) -> Result<(), String> {
        ep.write_words(self.end, &[1])
            .await
            .map_err(|error| error.to_string())
    }
}

/// `length` bytes of own memory.
fn bytes_at(regions: &Regions, at: GlobalAddr, length: u64) -> Vec<u8> {
    let from = (at.offset() / 8) as usize;
    let length = length.min(MAILBOX_BYTES - 8) as usize;
    let words = &regions.host_words()[from..][..length.div_ceil(8)];
    let mut bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| {
            word.load(std::sync::atomic::Ordering::Acquire)
                .to_ne_bytes()
        })
        .collect();
    bytes.truncate(length);
    bytes
}
