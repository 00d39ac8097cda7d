//! [`Server`]: a thread that serves a node's memory to the clients of all nodes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use super::handshake::{
    Answered, Answerer, Cluster, GREETING, Hello, Refused, framed_length, message,
};
use super::key::Key;
use super::transport::{Transport, accepted, server_config};
use super::wire::{DEFAULT_FRAME_LIMIT, Malformed, check, execute, frame_length};
use crate::region::Regions;

const LISTENER: Token = Token(usize::MAX);
const STOP: Token = Token(usize::MAX - 1);
/// Responses that a client does not take are no more than this: then nothing more of it is executed.
const UNSENT_LIMIT: usize = 16 << 20;
/// How often it looks for more, and gives the core away, before it sleeps until there is some.
const YIELDS: u32 = 300;
/// How often handshakes that take too long are looked for, however much else there is to do.
const LOOK: Duration = Duration::from_millis(20);
/// Read at once.
const READ_BYTES: usize = 64 << 10;

/// What a server is told.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where it listens. Loopback unless other nodes are to reach it; port 0 for any.
    pub listen: SocketAddr,
    /// The cluster's key.
    pub key: Key,
    /// What its clients have to have in common with it.
    pub cluster: Cluster,
    /// Whether connections are below TLS; clients have to say the same.
    pub tls: bool,
    /// At most so many connections at a time.
    pub connections: usize,
    /// A handshake that takes longer is ended.
    pub handshake_limit: Duration,
    /// The longest frame that is taken or sent, in bytes.
    pub frame_limit: usize,
}

impl ServerConfig {
    /// On loopback, at any port.
    pub fn new(key: Key, cluster: Cluster) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            key,
            cluster,
            tls: false,
            connections: 4096,
            handshake_limit: Duration::from_secs(5),
            frame_limit: DEFAULT_FRAME_LIMIT,
        }
    }
}

/// A thread that serves a node's memory. It ends when this is dropped, and survives whatever becomes of its clients.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Begins to serve `regions`.
    ///
    /// # Errors
    /// When it cannot listen there, in words that name the address.
    pub fn start(config: ServerConfig, regions: Arc<Regions>) -> io::Result<Self> {
        let told = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("cannot listen at {}: {error}", config.listen),
            )
        };
        let mut listener = TcpListener::bind(config.listen).map_err(told)?;
        let addr = listener.local_addr()?;
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), STOP)?);
        let node = regions.node();
        let tls = config.tls.then(server_config).transpose()?;
        let service = Service {
            tls,
            hello: Hello::of(node, node, &config.cluster, regions.sizes()),
            config,
            regions,
            listener,
            poll,
            connections: Slab::new(),
            scratch: vec![0; READ_BYTES],
        };
        let thread = std::thread::Builder::new()
            .name(format!("dmtree-server-{}", node.0))
            .spawn(move || service.run())?;
        Ok(Self {
            addr,
            waker,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without a wake-up it would be waited for for ever.
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// What a connection is at.
enum Stage {
    Greeting,
    Answered(Box<Answered>),
    Serving,
    /// What is to be sent is sent, and that was it.
    Leaving,
}

/// What connections are to.
#[derive(Clone, Copy)]
struct Host<'a> {
    regions: &'a Regions,
    key: &'a Key,
    hello: &'a Hello,
    limit: usize,
}

struct Connection {
    stream: Transport,
    peer: SocketAddr,
    since: Instant,
    stage: Stage,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
}

struct Service {
    tls: Option<Arc<rustls::ServerConfig>>,
    config: ServerConfig,
    hello: Hello,
    regions: Arc<Regions>,
    listener: TcpListener,
    poll: Poll,
    connections: Slab<Connection>,
    scratch: Vec<u8>,
}

/// Why a connection ends.
enum End {
    /// The client has gone.
    Closed,
    Io(io::Error),
    Refused(Refused),
    Malformed(Malformed),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Refused> for End {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Malformed> for End {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Service {
    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let (mut idle, mut looked) = (0u32, Instant::now());
        loop {
            let timeout = if idle < YIELDS {
                Some(Duration::ZERO)
            } else {
                self.next_deadline()
            };
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!(%error, node = self.hello.node, "a memory server cannot wait for its clients any more");
                return;
            }
            idle = if events.is_empty() {
                idle.saturating_add(1)
            } else {
                0
            };
            for event in &events {
                match event.token() {
                    STOP => return,
                    LISTENER => self.accept(),
                    Token(number) => self.serve(number),
                }
            }
            if (1..YIELDS).contains(&idle) {
                std::thread::yield_now();
            }
            if looked.elapsed() > LOOK || idle >= YIELDS {
                looked = Instant::now();
                self.end_slow_handshakes();
            }
        }
    }

    fn next_deadline(&self) -> Option<Duration> {
        let limit = self.config.handshake_limit;
        self.connections
            .iter()
            .filter(|(_, connection)| !matches!(connection.stage, Stage::Serving))
            .map(|(_, connection)| limit.saturating_sub(connection.since.elapsed()))
            .min()
            // Timeouts are rounded down to milliseconds: never twice for one deadline.
            .map(|left| left + Duration::from_millis(1))
    }

    fn end_slow_handshakes(&mut self) {
        let limit = self.config.handshake_limit;
        let slow: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                !matches!(connection.stage, Stage::Serving) && connection.since.elapsed() > limit
            })
            .map(|(number, _)| number)
            .collect();
        for number in slow {
            let refused = Refused::Stranger("its handshake takes too long");
            self.end(number, End::Refused(refused));
        }
    }

    fn accept(&mut self) {
        loop {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    // Out of file descriptors, for example: those that there are go on.
                    tracing::warn!(%error, node = self.hello.node, "a connection cannot be accepted");
                    return;
                }
            };
            if self.connections.len() >= self.config.connections {
                tracing::warn!(%peer, node = self.hello.node, limit = self.config.connections, "too many connections");
                continue;
            }
            let begun = self.begin(stream);
            match begun {
                Ok((entry, stream)) => {
                    let connection = Connection {
                        stream,
                        peer,
                        since: Instant::now(),
                        stage: Stage::Greeting,
                        input: Vec::new(),
                        output: Vec::new(),
                        sent: 0,
                    };
                    let number = self.connections.insert(connection);
                    debug_assert_eq!(number, entry);
                    // What has arrived before it was registered makes no event.
                    self.serve(number);
                }
                Err(error) => {
                    tracing::warn!(%peer, %error, node = self.hello.node, "a connection cannot be begun");
                }
            }
        }
    }

    fn begin(&mut self, mut stream: TcpStream) -> io::Result<(usize, Transport)> {
        stream.set_nodelay(true)?;
        let number = self.connections.vacant_key();
        self.poll.registry().register(
            &mut stream,
            Token(number),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        Ok((number, accepted(stream, self.tls.as_ref())?))
    }

    fn serve(&mut self, number: usize) {
        // Its event may be of a connection that has ended meanwhile.
        let Some(connection) = self.connections.get_mut(number) else {
            return;
        };
        let host = Host {
            regions: &self.regions,
            key: &self.config.key,
            hello: &self.hello,
            limit: self.config.frame_limit,
        };
        if let Err(end) = connection.serve(host, &mut self.scratch) {
            self.end(number, end);
        }
    }

    fn end(&mut self, number: usize, end: End) {
        let Some(mut connection) = self.connections.try_remove(number) else {
            return;
        };
        // It is closed in a moment anyhow.
        let _ = self.poll.registry().deregister(connection.stream.socket());
        let (peer, node) = (connection.peer, self.hello.node);
        match end {
            End::Closed => tracing::debug!(%peer, node, "a client has left"),
            End::Io(error) => tracing::info!(%peer, node, %error, "a client is gone"),
            End::Refused(why) => tracing::warn!(%peer, node, %why, "a peer is refused"),
            End::Malformed(why) => tracing::warn!(%peer, node, %why, "a peer is cut off"),
        }
    }
}

impl Connection {
    /// Reads what there is, does what it asks for, and sends what comes of it.
    fn serve(&mut self, host: Host<'_>, scratch: &mut [u8]) -> Result<(), End> {
        self.flush()?;
        loop {
            if self.output.len() - self.sent > UNSENT_LIMIT {
                // Goes on when the client has taken some: that it can be written to again is an event.
                return Ok(());
            }
            let read = match self.stream.read(scratch) {
                Ok(0) => return Err(End::Closed),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error)
                    if error.kind() == ErrorKind::InvalidData
                        && matches!(self.stage, Stage::Greeting) =>
                {
                    return Err(Refused::Stranger("it does not begin with TLS").into());
                }
                Err(error) => return Err(error.into()),
            };
            self.take(&scratch[..read], host)?;
            self.flush()?;
            if matches!(self.stage, Stage::Leaving) {
                return Err(End::Closed);
            }
            // Less than fits: nothing was left, and what comes is an event.
            if read < scratch.len() && self.stream.is_drained_by_short_reads() {
                return Ok(());
            }
        }
    }

    fn flush(&mut self) -> Result<(), End> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(End::Closed),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        if self.stream.has_unsent()
            && let Err(error) = self.stream.flush()
            && !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        {
            return Err(error.into());
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], host: Host<'_>) -> Result<(), End> {
        let (regions, limit) = (host.regions, host.limit);
        if matches!(self.stage, Stage::Serving) && self.input.is_empty() {
            // What is usual: whole frames, which need not be copied.
            let used = serve_frames(bytes, regions, limit, &mut self.output)?;
            self.input.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        self.input.extend_from_slice(bytes);
        while !matches!(self.stage, Stage::Serving | Stage::Leaving) {
            if !self.shake(host)? {
                return Ok(());
            }
        }
        if matches!(self.stage, Stage::Serving) {
            let used = serve_frames(&self.input, regions, limit, &mut self.output)?;
            self.input.drain(..used);
        }
        Ok(())
    }

    /// One step of the handshake; whether there was enough for it.
    fn shake(&mut self, host: Host<'_>) -> Result<bool, End> {
        let greeting = match self.stage {
            Stage::Greeting => GREETING.len(),
            _ => 0,
        };
        let known = self.input.len().min(greeting);
        if self.input[..known] != GREETING[..known] {
            return Err(Refused::Stranger("its first bytes are those of something else").into());
        }
        let Some(rest) = self.input.get(greeting..) else {
            return Ok(false);
        };
        let Some(body) = message(rest)? else {
            return Ok(false);
        };
        let used = greeting + framed_length(body);
        match std::mem::replace(&mut self.stage, Stage::Leaving) {
            Stage::Greeting => {
                let binding = self.stream.binding()?;
                let answerer = Answerer::new(host.key, host.hello.clone(), &binding)?;
                let (reply, answered) = answerer.answer(body)?;
                self.output.extend_from_slice(&reply);
                self.stage = Stage::Answered(Box::new(answered));
            }
            Stage::Answered(answered) => {
                let (client, reply, refusal) = answered.finish(body)?;
                self.output.extend_from_slice(&reply);
                if let Some(refused) = refusal {
                    // It is to hear why.
                    self.flush()?;
                    return Err(refused.into());
                }
                tracing::debug!(peer = %self.peer, node = client.node, "a client has come");
                self.stage = Stage::Serving;
            }
            other => self.stage = other,
        }
        self.input.drain(..used);
        Ok(true)
    }
}

/// Executes the whole frames at the beginning of `bytes`; how many bytes those were.
pub(super) fn serve_frames(
    bytes: &[u8],
    regions: &Regions,
    limit: usize,
    output: &mut Vec<u8>,
) -> Result<usize, Malformed> {
    let mut used = 0;
    while let Some(length) = frame_length(&bytes[used..], limit)? {
        let Some(frame) = bytes[used..].get(..length) else {
            break;
        };
        let count = check(frame, regions.node(), regions.sizes(), limit)?;
        execute(frame, count, regions, output);
        used += length;
    }
    Ok(used)
}
