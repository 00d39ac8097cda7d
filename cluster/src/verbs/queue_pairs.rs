//! [`VerbsQueuePairs`]: a thread's RDMA connections, one to each node.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use super::exchange::Exchange;
use super::sys::{
    Completion, CompletionQueue, Connection, Device, DeviceError, Registered, Served, Work, WorkOp,
};
use super::target::sequence;
use crate::region::{Regions, Sizes};
use crate::tcp;
use crate::wall::{Answers, ClientThread, QueuePairs, RequestId, ThreadOptions};
use crate::{Chain, ClientId, Error, ErrorKind, GlobalAddr, NodeId, Op, Result};

/// Work requests that a connection may have on their way, and verbs of a chain at most.
const DEPTH: usize = 512;
/// The least bytes of a buffer: a page and the verbs around it.
const BUFFER_BYTES: usize = 4096;
/// Between two looks at the completions of a thread that has nothing else to do.
const PAUSE: Duration = Duration::from_micros(50);

/// Registered memory for one chain's bytes at a time.
#[derive(Debug)]
struct Buffer {
    /// Before the memory that it is of.
    registered: Registered,
    map: MmapMut,
}

impl Buffer {
    fn new(device: &Arc<Device>, bytes: usize) -> std::result::Result<Self, DeviceError> {
        let mut map = MmapMut::map_anon(bytes).map_err(|error| DeviceError::Call {
            what: "no memory for a buffer",
            error,
        })?;
        // SAFETY: a mapping of its own, which stays where it is and lives longer than the registration (field order).
        let registered = unsafe { Registered::new(device, map.as_mut_ptr(), map.len(), false)? };
        Ok(Self { registered, map })
    }
}

/// A chain on its way.
#[derive(Debug)]
struct Posted {
    request: RequestId,
    works: Vec<Work>,
    buffer: Buffer,
}

/// A connection to one node.
#[derive(Debug)]
struct Pair {
    node: NodeId,
    connection: Connection,
    memories: [Served; 2],
    sizes: Sizes,
    /// Work requests that still fit.
    room: usize,
    /// Posted, in order.
    posted: VecDeque<Posted>,
    /// Those that did not fit yet.
    backlog: VecDeque<Posted>,
    /// Since when the oldest has not been answered, or the last answer came.
    quiet_since: Instant,
    lost: Option<Error>,
    /// Requests that could not even be posted.
    orphans: Vec<RequestId>,
    /// Whether all that will not be answered has been told.
    is_told: bool,
}

/// A thread's RDMA connections, one to each node.
pub struct VerbsQueuePairs {
    /// Before the queue, and the buffers, that they use.
    pairs: Vec<Option<Pair>>,
    queue: Rc<CompletionQueue>,
    device: Arc<Device>,
    spare: Vec<Buffer>,
    done: Vec<Completion>,
    has_sent: bool,
}

impl std::fmt::Debug for VerbsQueuePairs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "VerbsQueuePairs({}, {} nodes)",
            self.device.name(),
            self.pairs.len()
        )
    }
}

fn gone(node: NodeId, why: impl std::fmt::Display) -> Error {
    let why = why.to_string();
    ErrorKind::PeerGone { node, why }.into()
}

impl ClientThread<VerbsQueuePairs> {
    /// Connects a thread of the node whose memory is `own` to the nodes that `tcp` is connected to, by its verbs: there an
    /// [`super::Acceptor`] answers. `number` tells the thread from the others of its node.
    ///
    /// # Errors
    /// [`ErrorKind::PeerGone`] naming the node that cannot be reached, or this one where its device does not do.
    pub fn connect(
        device: &Arc<Device>,
        tcp: &mut tcp::ClientThread,
        exchange: &Exchange,
        number: u16,
        own: Arc<Regions>,
        options: ThreadOptions,
    ) -> Result<Self> {
        let here = |error: DeviceError| gone(own.node(), error);
        let peers = tcp.with_queue_pairs(tcp::TcpQueuePairs::peers);
        let nodes = peers.iter().filter(|is_there| **is_there).count();
        let queue = CompletionQueue::new(device, (nodes * DEPTH) as u32).map_err(here)?;
        let queue = Rc::new(queue);
        let mut pairs = Vec::new();
        for (node, is_there) in peers.into_iter().enumerate() {
            let node = NodeId(node as u16);
            if !is_there {
                pairs.push(None);
                continue;
            }
            let first = sequence(u32::from(number) << 16 | u32::from(node.0));
            let connection = Connection::new(&queue, DEPTH as u32, first).map_err(here)?;
            let contact = connection.contact(Default::default());
            // No client of the workload has this number.
            let ep = tcp.endpoint(ClientId(u32::MAX - 2));
            let answer = Rc::new(RefCell::new(None));
            let (found, exchange) = (Rc::clone(&answer), exchange.clone());
            let program = ep.clone();
            tcp.spawn(&ep, async move {
                let other = exchange.ask(&program, number, node, &contact).await;
                *found.borrow_mut() = Some(other);
            });
            tcp.run()?;
            let other = answer
                .take()
                .unwrap_or_else(|| Err(gone(node, "it was not asked")))?;
            connection
                .connect(&other)
                .map_err(|error| gone(node, error))?;
            pairs.push(Some(Pair {
                node,
                connection,
                memories: other.memories,
                sizes: Sizes {
                    host: other.memories[0].bytes,
                    device: other.memories[1].bytes,
                },
                room: DEPTH,
                posted: VecDeque::new(),
                backlog: VecDeque::new(),
                quiet_since: Instant::now(),
                lost: None,
                orphans: Vec::new(),
                is_told: false,
            }));
        }
        let queue_pairs = VerbsQueuePairs {
            pairs,
            queue,
            device: Arc::clone(device),
            spare: Vec::new(),
            done: Vec::new(),
            has_sent: false,
        };
        Ok(Self::over(queue_pairs, own, options))
    }
}

impl Pair {
    /// Posts what there is room for.
    fn push(&mut self) {
        while let Some(next) = self.backlog.front() {
            if next.works.len() > self.room || self.lost.is_some() {
                return;
            }
            let Some(next) = self.backlog.pop_front() else {
                return;
            };
            // SAFETY: the buffer is kept in `posted` until the completion has been taken, or longer: until the connection
            // is gone, for those of a lost one. Nobody accesses it meanwhile.
            let posted = unsafe { self.connection.post(&next.works, &next.buffer.registered) };
            if let Err(error) = posted {
                self.lost = Some(gone(self.node, error));
            } else {
                self.room -= next.works.len();
            }
            self.posted.push_back(next);
        }
    }

    /// In words what the work request with this id was.
    fn name(&self, id: u64) -> String {
        let (request, verb) = ((id >> 16) as usize, (id & 0xffff) as usize);
        let posted = self.posted.iter().find(|posted| posted.request == request);
        let work = posted.and_then(|posted| posted.works.get(verb));
        work.map_or_else(
            || "a verb".to_owned(),
            |work| {
                let what = match work.op {
                    WorkOp::Read => "READ",
                    WorkOp::Write => "WRITE",
                    WorkOp::Cas { .. } => "CAS",
                    WorkOp::Faa { .. } => "FAA",
                };
                let [host, device] = self.memories;
                let at = if work.remote_key == device.remote_key && device.start > 0 {
                    GlobalAddr::device(self.node, work.remote - device.start)
                } else {
                    GlobalAddr::new(self.node, work.remote - host.start)
                };
                format!("{what} of {} bytes at {at}", work.bytes)
            },
        )
    }

    /// Fails everything, once it is lost; whether there was anything to tell. Buffers stay with it: the device may still
    /// write to them.
    fn fail(&mut self, answers: &mut Answers<'_>) -> bool {
        let (Some(error), false) = (&self.lost, self.is_told) else {
            return false;
        };
        self.is_told = true;
        for posted in self.posted.iter().chain(&self.backlog) {
            answers.fail(posted.request, error);
        }
        for request in self.orphans.drain(..) {
            answers.fail(request, error);
        }
        answers.lose(error.clone());
        true
    }
}

impl VerbsQueuePairs {
    fn pair(&mut self, node: NodeId) -> Option<&mut Pair> {
        self.pairs.get_mut(usize::from(node.0))?.as_mut()
    }

    fn buffer(&mut self, bytes: usize) -> std::result::Result<Buffer, DeviceError> {
        let wanted = bytes.max(BUFFER_BYTES).next_power_of_two();
        match self
            .spare
            .iter()
            .rposition(|buffer| buffer.map.len() >= wanted)
        {
            Some(at) => Ok(self.spare.swap_remove(at)),
            None => Buffer::new(&self.device, wanted),
        }
    }

    /// Takes one completion.
    fn complete(&mut self, done: Completion, answers: &mut Answers<'_>) {
        let mut pairs = self.pairs.iter_mut().flatten();
        let Some(pair) = pairs.find(|pair| pair.connection.number() == done.connection) else {
            return;
        };
        if let Some(status) = done.failure {
            if pair.lost.is_none() {
                let why = format!("{}: {status}", pair.name(done.id));
                tracing::warn!(node = %pair.node, why, "an RDMA connection is lost");
                pair.lost = Some(gone(pair.node, why));
            }
            pair.fail(answers);
            return;
        }
        if pair.lost.is_some() {
            return;
        }
        pair.quiet_since = Instant::now();
        let Some(posted) = pair.posted.pop_front() else {
            return;
        };
        pair.room += posted.works.len();
        let Posted {
            request,
            works,
            buffer,
        } = posted;
        let filled: std::result::Result<(), std::convert::Infallible> =
            answers.answer(request, |chain| {
                let (verbs, data) = chain.parts_mut();
                let into: &mut [u8] = bytemuck::cast_slice_mut(data);
                for (verb, work) in verbs.iter().zip(&works) {
                    if !matches!(verb.op, Op::Write { .. }) {
                        let place = work.offset..work.offset + work.bytes as usize;
                        into[place.clone()].copy_from_slice(&buffer.map[place]);
                    }
                }
                Ok(())
            });
        let Ok(()) = filled;
        self.spare.push(buffer);
    }
}

impl QueuePairs for VerbsQueuePairs {
    fn check(&mut self, node: NodeId, chain: &Chain) -> Result<()> {
        let Some(pair) = self.pair(node) else {
            return Err(gone(node, "there is no such memory server in this cluster"));
        };
        if let Some(lost) = &pair.lost {
            return Err(lost.clone());
        }
        for verb in chain.verbs() {
            pair.sizes.check_verb(verb.op, verb.addr)?;
            let refused = |why| {
                let (what, addr) = (verb.op.name(), verb.addr);
                Err(ErrorKind::NotPermitted { what, addr, why }.into())
            };
            if matches!(verb.op, Op::Swap { .. }) {
                return refused("this device has no swap; use a loop of CAS");
            }
        }
        Ok(())
    }

    fn post(&mut self, node: NodeId, chain: &Chain, request: RequestId) {
        let bytes: &[u8] = bytemuck::cast_slice(chain.data());
        let buffer = self.buffer(bytes.len());
        let Some(pair) = self
            .pairs
            .get_mut(usize::from(node.0))
            .and_then(Option::as_mut)
        else {
            return;
        };
        let mut buffer = match buffer {
            Ok(buffer) => buffer,
            Err(error) => {
                pair.lost = Some(gone(node, error));
                pair.orphans.push(request);
                return;
            }
        };
        let mut works = Vec::with_capacity(chain.verbs().len());
        for (number, verb) in chain.verbs().iter().enumerate() {
            let offset = verb.data_word() * 8;
            let (op, length) = match verb.op {
                Op::Read { len } => (WorkOp::Read, len),
                Op::Write { len } => {
                    let place = offset..offset + len as usize;
                    buffer.map[place.clone()].copy_from_slice(&bytes[place]);
                    (WorkOp::Write, len)
                }
                Op::Cas { expected, new } => (WorkOp::Cas { expected, new }, 8),
                // A swap was refused.
                Op::Faa { add } | Op::Swap { new: add } => (WorkOp::Faa { add }, 8),
            };
            let memory = pair.memories[usize::from(verb.addr.is_device())];
            works.push(Work {
                op,
                offset,
                bytes: length,
                remote: memory.start + verb.addr.offset(),
                remote_key: memory.remote_key,
                is_fenced: verb.fenced,
                id: (request as u64) << 16 | number as u64,
            });
        }
        if pair.posted.is_empty() && pair.backlog.is_empty() {
            pair.quiet_since = Instant::now();
        }
        pair.backlog.push_back(Posted {
            request,
            works,
            buffer,
        });
        pair.push();
        self.has_sent = true;
    }

    fn send(&mut self) -> bool {
        std::mem::take(&mut self.has_sent)
    }

    fn receive(&mut self, _: bool, answers: &mut Answers<'_>) -> bool {
        let mut done = std::mem::take(&mut self.done);
        self.queue.poll(&mut done);
        let mut came = !done.is_empty();
        for completion in done.drain(..) {
            self.complete(completion, answers);
        }
        self.done = done;
        for pair in self.pairs.iter_mut().flatten() {
            if came {
                pair.push();
            }
            came |= pair.fail(answers);
        }
        came
    }

    fn expire(&mut self, limit: Duration, answers: &mut Answers<'_>) {
        for pair in self.pairs.iter_mut().flatten() {
            let is_waiting = !pair.posted.is_empty() && pair.lost.is_none();
            if is_waiting && pair.quiet_since.elapsed() > limit {
                pair.lost = Some(gone(
                    pair.node,
                    format!("it has not answered for {limit:?}"),
                ));
                pair.fail(answers);
            }
        }
    }

    fn abandon(&mut self, why: &Error, answers: &mut Answers<'_>) {
        for pair in self.pairs.iter_mut().flatten() {
            if pair.lost.is_none() {
                pair.lost = Some(why.clone());
                pair.fail(answers);
            }
        }
    }

    fn is_waiting(&self) -> bool {
        let mut pairs = self.pairs.iter().flatten();
        pairs
            .any(|pair| pair.lost.is_none() && !(pair.posted.is_empty() && pair.backlog.is_empty()))
    }

    fn has_unsent(&self) -> bool {
        false
    }

    fn wait(&mut self, timeout: Duration, answers: &mut Answers<'_>) -> Result<()> {
        if !self.receive(true, answers) && !timeout.is_zero() {
            std::thread::sleep(timeout.min(PAUSE));
            self.receive(true, answers);
        }
        Ok(())
    }
}
