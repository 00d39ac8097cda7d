//! [`Exchange`]: how two ends of an RDMA connection learn of each other, by verbs over the authenticated TCP fabric.
//!
//! Each node's memory has two entries for each thread of each node: what that thread's end is (`request`), and what the node's
//! own end for it is (`reply`). The last word of an entry says that it is there, and is written behind all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::sys::{Contact, Device, DeviceError, Served};
use super::target::Target;
use crate::region::Regions;
use crate::{
    Endpoint, GlobalAddr, LINE_BYTES, MemoryKind, MemoryMap, NodeId, PollBackoff, Result, WaitFor,
};

const ENTRY_BYTES: usize = 2 * LINE_BYTES;
const ENTRY_WORDS: usize = ENTRY_BYTES / 8;
/// Where an entry says that it is there.
const STATE: usize = ENTRY_WORDS - 1;
/// Words of a contact.
const WORDS: usize = 9;
const _: () = assert!(WORDS <= STATE);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Where the lines lie.
#[derive(Clone, Debug)]
pub struct Exchange {
    lines: Vec<GlobalAddr>,
    threads: u16,
}

fn to_words(contact: &Contact) -> [u64; WORDS] {
    let [host, device] = contact.memories;
    let mut gid = [0; 2];
    for (word, bytes) in gid.iter_mut().zip(contact.gid.chunks(8)) {
        *word = bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    [
        u64::from(contact.number) << 32 | u64::from(contact.sequence),
        u64::from(contact.lid) << 32 | u64::from(contact.mtu),
        gid[0],
        gid[1],
        u64::from(device.remote_key) << 32 | u64::from(host.remote_key),
        host.start,
        device.start,
        host.bytes,
        device.bytes,
    ]
}

fn of_words(words: &[u64]) -> Contact {
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&words[2].to_be_bytes());
    gid[8..].copy_from_slice(&words[3].to_be_bytes());
    Contact {
        number: (words[0] >> 32) as u32,
        sequence: words[0] as u32,
        lid: (words[1] >> 32) as u16,
        mtu: words[1] as u32,
        gid,
        memories: [
            Served {
                remote_key: words[4] as u32,
                start: words[5],
                bytes: words[7],
            },
            Served {
                remote_key: (words[4] >> 32) as u32,
                start: words[6],
                bytes: words[8],
            },
        ],
    }
}

impl Exchange {
    /// Reserves the entries for `threads` threads of each node.
    pub fn reserve(map: &mut MemoryMap, threads: u16) -> Self {
        let nodes = map.nodes();
        let bytes = u64::from(nodes) * u64::from(threads) * 2 * ENTRY_BYTES as u64;
        let line = |node| map.reserve(NodeId(node), MemoryKind::Host, bytes, LINE_BYTES as u64);
        Self {
            lines: (0..nodes).map(line).collect(),
            threads,
        }
    }

    fn slots(&self) -> usize {
        self.lines.len() * usize::from(self.threads)
    }

    /// The request entry of `thread` of `node`, in the memory of `at`; the reply is behind it.
    fn line(&self, at: NodeId, slot: usize) -> GlobalAddr {
        self.lines[usize::from(at.0)].add((slot * 2 * ENTRY_BYTES) as u64)
    }

    /// Tells `at` of the end of this thread, and brings what it answers.
    pub(super) async fn ask(
        &self,
        ep: &impl Endpoint,
        thread: u16,
        at: NodeId,
        own: &Contact,
    ) -> Result<Contact> {
        let slot = usize::from(ep.node().0) * usize::from(self.threads) + usize::from(thread);
        let request = self.line(at, slot);
        ep.write_words(request, &to_words(own)).await?;
        ep.write_words(request.word(STATE as u64), &[1]).await?;
        let reply = request.add(ENTRY_BYTES as u64);
        let wait = WaitFor::new("the other end of an RDMA connection", reply);
        let look = PollBackoff {
            first_ns: 200_000,
            max_ns: 2_000_000,
        };
        ep.poll_until(reply.word(STATE as u64), 1, look, wait, |words| {
            words[0] != 0
        })
        .await?;
        let mut words = [0; WORDS];
        ep.read_words(reply, &mut words).await?;
        Ok(of_words(&words))
    }
}

/// A thread that answers those who want to reach this node's memory by RDMA. Connections are kept until this is dropped.
#[derive(Debug)]
pub struct Acceptor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Begins to let others reach `served`. They ask, over TCP, in `asked`, which may be the same memory and has the entries
    /// of `exchange`.
    ///
    /// # Errors
    /// When the memory cannot be registered.
    pub fn start(
        device: &Arc<Device>,
        served: &Arc<Regions>,
        asked: Arc<Regions>,
        exchange: Exchange,
    ) -> std::result::Result<Self, DeviceError> {
        let mut target = Target::new(device, served)?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let serve = move || {
            let node = asked.node();
            let mut answered = vec![false; exchange.slots()];
            while !is_stopped.load(Ordering::Acquire) {
                for (slot, answered) in answered.iter_mut().enumerate() {
                    let from = exchange.line(node, slot).offset() as usize / 8;
                    let words = &asked.host_words()[from..][..2 * ENTRY_WORDS];
                    // The other words were there before this one was written.
                    if *answered || words[STATE].load(Ordering::Acquire) == 0 {
                        continue;
                    }
                    *answered = true;
                    let request: Vec<u64> = words[..WORDS]
                        .iter()
                        .map(|word| word.load(Ordering::Acquire))
                        .collect();
                    match target.accept(&of_words(&request)) {
                        Ok(contact) => {
                            let reply = &words[ENTRY_WORDS..];
                            for (word, value) in reply.iter().zip(to_words(&contact)) {
                                word.store(value, Ordering::Release);
                            }
                            reply[STATE].store(1, Ordering::Release);
                        }
                        // Who asked gives up in time.
                        Err(error) => {
                            tracing::warn!(%node, %error, "an RDMA connection is not accepted");
                        }
                    }
                }
                std::thread::sleep(LOOK);
            }
        };
        let thread = std::thread::Builder::new()
            .name("dmtree-acceptor".to_owned())
            .spawn(serve)
            .map_err(|error| DeviceError::Call {
                what: "no thread for RDMA connections",
                error,
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
