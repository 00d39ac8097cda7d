//! [`Link`]: a client thread's connection to one node, which is a queue pair.

use std::collections::VecDeque;
use std::io::{self, ErrorKind as IoKind, Read, Write};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use super::handshake::{Caller, Hello, Refused, framed_length, message};
use super::key::Key;
use super::queue_pairs::ThreadConfig;
use super::transport::{Dialled, Transport};
use super::wire::{self, Malformed, frame_length};
use crate::region::Sizes;
use crate::wall::RequestId;
use crate::{Chain, Error, ErrorKind, NodeId};

/// Read at once.
const READ_BYTES: usize = 64 << 10;
/// One attempt to reach a server: one whose network drops what is sent is tried again, so that an end is noticed.
const ATTEMPT: Duration = Duration::from_secs(1);
/// Between two attempts to reach a server that is not there yet.
const RETRY: Duration = Duration::from_millis(20);

/// A connection to one node.
pub(super) struct Link {
    node: NodeId,
    peer: SocketAddr,
    stream: Transport,
    sizes: Sizes,
    epoch: u64,
    frame_limit: usize,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// What has been looked at of it.
    begin: usize,
    /// Posted and not answered, in this order.
    posted: VecDeque<RequestId>,
    /// Since when the oldest of them has not been answered, or the last answer came.
    quiet_since: Instant,
    /// Why it is of no use any more.
    lost: Option<Error>,
}

/// A whole response, and whose it is.
pub(super) struct Response<'a> {
    pub(super) request: RequestId,
    pub(super) frame: &'a [u8],
}

impl Link {
    /// Connects to `node` at `peer`, and makes sure of it. Tries again until `limit` has passed, as the server may come
    /// up later.
    pub(super) fn connect(
        node: NodeId,
        peer: SocketAddr,
        hello: Hello,
        config: &ThreadConfig,
    ) -> crate::Result<Self> {
        let limit = config.connect_limit;
        let until = Instant::now() + limit;
        let gone = |why: String| {
            Error::from(ErrorKind::PeerGone {
                node,
                why: format!("{peer}: {why}"),
            })
        };
        let stream = loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(gone(format!("not reached within {limit:?}")));
            }
            if let Some(why) = config.abort.asked() {
                return Err(why.clone());
            }
            match Blocking::connect_timeout(&peer, left.min(ATTEMPT)) {
                Ok(stream) => break stream,
                Err(error) if left > RETRY && is_worth_waiting(&error) => {
                    std::thread::sleep(RETRY);
                }
                Err(error) if is_worth_waiting(&error) => {
                    return Err(gone(format!("not reached within {limit:?}: {error}")));
                }
                Err(error) => return Err(gone(format!("cannot be reached: {error}"))),
            }
        };
        // As long as it waits, it waits no longer than for the rest of the time.
        let limit = until.saturating_duration_since(Instant::now()).max(RETRY);
        let mut stream = stream
            .set_read_timeout(Some(limit))
            .and_then(|()| stream.set_write_timeout(Some(limit)))
            .and_then(|()| Dialled::new(stream, config.tls))
            .map_err(|error| gone(format!("TLS: {error}; is [cluster] tls the same there?")))?;
        let server =
            shake(&mut stream, &config.key, hello, until).map_err(|refused| match refused {
                Refused::Differs(why) => ErrorKind::PeerDiffers { node, why }.into(),
                other => gone(other.to_string()),
            })?;
        let socket = stream.socket();
        socket
            .set_read_timeout(None)
            .and_then(|()| socket.set_write_timeout(None))
            .and_then(|()| socket.set_nodelay(true))
            .and_then(|()| socket.set_nonblocking(true))
            .map_err(|error| gone(error.to_string()))?;
        Ok(Self {
            node,
            peer,
            stream: stream.into_transport(),
            sizes: server.sizes(),
            epoch: server.cluster.epoch,
            frame_limit: config.frame_limit,
            output: Vec::new(),
            sent: 0,
            input: Vec::new(),
            begin: 0,
            posted: VecDeque::new(),
            quiet_since: Instant::now(),
            lost: None,
        })
    }

    /// Which run the node is in.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        self.stream.socket()
    }

    /// Whether the verbs of `chain` are ones that the node serves.
    pub(super) fn check(&self, chain: &Chain) -> crate::Result<()> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        for verb in chain.verbs() {
            self.sizes.check_verb(verb.op, verb.addr)?;
        }
        let longest = wire::request_length(chain).max(wire::response_length(chain));
        if longest > self.frame_limit {
            let verb = &chain.verbs()[0];
            return Err(ErrorKind::NotPermitted {
                what: verb.op.name(),
                addr: verb.addr,
                why: "the chain is longer than a frame may be",
            }
            .into());
        }
        Ok(())
    }

    /// Posts a chain that was checked; it is sent with the next [`Link::send`].
    pub(super) fn post(&mut self, chain: &Chain, request: RequestId) {
        if self.posted.is_empty() {
            self.quiet_since = Instant::now();
        }
        wire::encode(chain, &mut self.output);
        self.posted.push_back(request);
    }

    /// Whether there is something to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        let has_unsent = self.sent < self.output.len() || self.stream.has_unsent();
        has_unsent && self.lost.is_none()
    }

    /// Whether answers are due.
    pub(super) fn is_waiting(&self) -> bool {
        !self.posted.is_empty() && self.lost.is_none()
    }

    /// Sends what the connection takes.
    pub(super) fn send(&mut self) {
        while self.sent < self.output.len() && self.lost.is_none() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => self.lose("it takes nothing more"),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == IoKind::WouldBlock => return,
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) => self.lose(&error.to_string()),
            }
        }
        self.output.clear();
        self.sent = 0;
        if self.stream.has_unsent()
            && let Err(error) = self.stream.flush()
            && !matches!(error.kind(), IoKind::WouldBlock | IoKind::Interrupted)
        {
            self.lose(&error.to_string());
        }
    }

    /// Reads what there is, and hands each whole response to `take`, which says what is wrong with it if something is.
    /// Whether anything came.
    pub(super) fn receive(
        &mut self,
        mut take: impl FnMut(Response<'_>) -> Result<(), Malformed>,
    ) -> bool {
        let mut came = false;
        while self.lost.is_none() {
            let old = self.input.len();
            self.input.resize(old + READ_BYTES, 0);
            let read = self.stream.read(&mut self.input[old..]);
            self.input
                .truncate(old + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => self.lose("it has closed the connection"),
                Ok(bytes) => {
                    came = true;
                    self.quiet_since = Instant::now();
                    if let Err(malformed) = self.responses(&mut take) {
                        self.lose(&format!("it answers with {malformed}"));
                    }
                    // Less than fits: nothing was left.
                    if bytes < READ_BYTES && self.stream.is_drained_by_short_reads() {
                        break;
                    }
                }
                Err(error) if error.kind() == IoKind::WouldBlock => break,
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) => self.lose(&error.to_string()),
            }
        }
        came || self.lost.is_some()
    }

    fn responses(
        &mut self,
        take: &mut impl FnMut(Response<'_>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        while let Some(length) = frame_length(&self.input[self.begin..], self.frame_limit)? {
            let Some(frame) = self.input[self.begin..].get(..length) else {
                break;
            };
            let Some(request) = self.posted.pop_front() else {
                let found = frame.len();
                return Err(Malformed::Response { found, expected: 0 });
            };
            self.begin += length;
            take(Response { request, frame })?;
        }
        if self.begin == self.input.len() {
            self.input.clear();
            self.begin = 0;
        } else if self.begin > READ_BYTES {
            self.input.drain(..self.begin);
            self.begin = 0;
        }
        Ok(())
    }

    /// Gives it up when it has not answered for `limit`.
    pub(super) fn expire(&mut self, limit: Duration) {
        if self.is_waiting() && self.quiet_since.elapsed() > limit {
            self.lose(&format!("it has not answered for {limit:?}"));
        }
    }

    fn lose(&mut self, why: &str) {
        if self.lost.is_none() {
            let why = format!("{}: {why}", self.peer);
            let node = self.node;
            // A server that nobody asks anything any more ends as it may.
            if self.posted.is_empty() {
                tracing::info!(%node, why, "an idle connection has ended");
            } else {
                tracing::warn!(%node, why, "a connection is lost");
            }
            self.lost = Some(ErrorKind::PeerGone { node, why }.into());
        }
    }

    /// Gives it up, as it is of no use any more.
    pub(super) fn abandon(&mut self, why: &Error) {
        if self.lost.is_none() {
            self.lost = Some(why.clone());
        }
    }

    /// Why it is lost, if it is, and the requests that will not be answered any more.
    pub(super) fn failed(&mut self) -> Option<(Error, VecDeque<RequestId>)> {
        let lost = self.lost.clone()?;
        Some((lost, std::mem::take(&mut self.posted)))
    }
}

/// Whether a server may come up at an address where nobody is yet.
fn is_worth_waiting(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        IoKind::ConnectionRefused
            | IoKind::ConnectionReset
            | IoKind::ConnectionAborted
            | IoKind::TimedOut
            | IoKind::HostUnreachable
            | IoKind::NetworkUnreachable
    )
}

/// The handshake, and who the server is.
fn shake(stream: &mut Dialled, key: &Key, hello: Hello, until: Instant) -> Result<Hello, Refused> {
    let say = |error: &dyn std::fmt::Display| Refused::Connection(error.to_string());
    let (caller, first) = Caller::new(key, hello, &stream.binding())?;
    let mut input = Vec::new();
    let send = |stream: &mut Dialled, bytes: &[u8]| {
        let sent = stream.write_all(bytes).and_then(|()| stream.flush());
        sent.map_err(|error| say(&error))
    };
    let mut next = |stream: &mut Dialled, used: usize| -> Result<Vec<u8>, Refused> {
        input.drain(..used);
        loop {
            if let Some(found) = message(&input)? {
                return Ok(found.to_vec());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(say(&"its handshake takes too long"));
            }
            stream
                .socket()
                .set_read_timeout(Some(left))
                .map_err(|error| say(&error))?;
            let mut bytes = [0; 4096];
            // Who is refused at once is not told why: it might be anybody.
            let ended = || {
                let why = Refused::Key;
                say(&format!(
                    "it ends the handshake: {why}, or it has too many connections, or [cluster] tls is not the same there"
                ))
            };
            match stream.read(&mut bytes) {
                Ok(0) => return Err(ended()),
                Err(error) if error.kind() == IoKind::ConnectionReset => return Err(ended()),
                Ok(read) => input.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) => return Err(say(&error)),
            }
        }
    };
    send(stream, &first)?;
    let second = next(stream, 0)?;
    let (server, third, called) = caller.answer(&second)?;
    send(stream, &third)?;
    let fourth = next(stream, framed_length(&second))?;
    called.finish(&fourth)?;
    Ok(server)
}
