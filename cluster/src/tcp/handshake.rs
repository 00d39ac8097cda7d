//! How two ends of a connection find out that both are of the cluster, and of the same run.
//!
//! Noise (`NNpsk0` over Curve25519, ChaCha20-Poly1305 and BLAKE2s, by the crate snow) with the cluster's key as the
//! pre-shared one:
//!
//! | message | from | what |
//! |---|---|---|
//! | 1 | client | the protocol's name and version in plain, then its ephemeral key |
//! | 2 | server | its ephemeral key, and who it is ([`Hello`]) |
//! | 3 | client | who it is |
//! | 4 | server | welcome, or why not |
//!
//! Who can read 2 has the key; who can make 3, which is encrypted under both ephemeral keys, has it as well, and is there
//! now: a recording of another connection's messages is of other ephemeral keys. Only then the server trusts anything.
//!
//! Frames of verbs that follow travel in plain, as RDMA's do, unless TLS is asked for: whoever can change packets on the
//! network between the nodes can change memory then. The handshake is what keeps strangers out of a network that is trusted
//! not to be rewritten. Below TLS it is bound to the TLS connection (`transport.rs`), and what follows is TLS's.

use serde::{Deserialize, Serialize};
use snow::{Builder, HandshakeState, TransportState};

use super::key::Key;
use super::transport::Binding;
use crate::NodeId;
use crate::region::Sizes;

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// What a connection begins with: a stranger's is cut off at once.
pub(super) const GREETING: [u8; 8] = *b"dmtree\0\x01";
/// A message of the handshake is no longer than this: a configuration is a few thousand bytes.
const MESSAGE_LIMIT: usize = 32 << 10;

/// What both ends of a connection have to have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The version of dmtree.
    pub version: String,
    /// The configuration, a setting a line.
    pub config: String,
    /// What tells the run: of an earlier one nothing may be left. [`Cluster::ANY_EPOCH`] of clients that ask the server.
    pub epoch: u64,
}

impl Cluster {
    /// The epoch of clients that take part in whichever run the server is in.
    pub const ANY_EPOCH: u64 = 0;

    /// Of this version.
    pub fn new(config: impl Into<String>, epoch: u64) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: config.into(),
            epoch,
        }
    }

    /// What differs, with both values, if anything does.
    fn differs(&self, own: NodeId, other: &Self, of: NodeId) -> Option<String> {
        if self.version != other.version {
            let (ours, theirs) = (&self.version, &other.version);
            return Some(format!("{own} has dmtree {ours}, {of} has {theirs}"));
        }
        if self.config != other.config {
            let ours = lines_without(&self.config, &other.config);
            let theirs = lines_without(&other.config, &self.config);
            return Some(format!(
                "{own} is configured with {ours}, {of} with {theirs}"
            ));
        }
        let is_any = self.epoch == Self::ANY_EPOCH || other.epoch == Self::ANY_EPOCH;
        (self.epoch != other.epoch && !is_any).then(|| {
            let (ours, theirs) = (self.epoch, other.epoch);
            format!("{own} is of run {ours}, {of} of run {theirs}")
        })
    }
}

/// The lines of `text` that `other` does not have.
fn lines_without(text: &str, other: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !other.lines().any(|of| of == *line))
        .collect();
    match lines.as_slice() {
        [] => "nothing else".to_owned(),
        lines => lines.join(", "),
    }
}

/// Who one end is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) node: u16,
    /// For whom the client takes the server; of a server itself.
    pub(super) peer: u16,
    pub(super) cluster: Cluster,
    pub(super) host_bytes: u64,
    pub(super) device_bytes: u64,
}

impl Hello {
    pub(super) fn of(node: NodeId, peer: NodeId, cluster: &Cluster, sizes: Sizes) -> Self {
        Self {
            node: node.0,
            peer: peer.0,
            cluster: cluster.clone(),
            host_bytes: sizes.host,
            device_bytes: sizes.device,
        }
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes {
            host: self.host_bytes,
            device: self.device_bytes,
        }
    }

    /// Why this end cannot work with `other`, if it cannot; `wanted` is who the other has to be.
    fn refuses(&self, other: &Self, wanted: Option<NodeId>) -> Option<String> {
        let (own, of) = (NodeId(self.node), NodeId(other.node));
        if let Some(wanted) = wanted.filter(|wanted| *wanted != of) {
            return Some(format!(
                "{wanted} is expected at this address, and {of} is there"
            ));
        }
        if wanted.is_none() && NodeId(other.peer) != own {
            let taken = NodeId(other.peer);
            return Some(format!(
                "{of} takes this address for that of {taken}, and it is that of {own}"
            ));
        }
        self.cluster.differs(own, &other.cluster, of)
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// The other end is no dmtree of this protocol.
    #[error("it does not speak this protocol: {0}")]
    Stranger(&'static str),
    /// It has not the key.
    #[error("it has another cluster key, or none")]
    Key,
    /// Both have the key, and do not fit each other.
    #[error("{0}")]
    Differs(String),
    /// The connection does not last until both know.
    #[error("{0}")]
    Connection(String),
    /// Random numbers or cryptography failed on this side.
    #[error("cannot shake hands: {0}")]
    Own(String),
}

fn own(error: impl std::fmt::Display) -> Refused {
    Refused::Own(error.to_string())
}

/// What both ends say of the connection before they say anything.
fn prologue(binding: &Binding) -> Vec<u8> {
    [&GREETING[..], binding].concat()
}

fn builder<'a>(key: &'a Key, prologue: &'a [u8]) -> Result<Builder<'a>, Refused> {
    let params = NOISE.parse().map_err(own)?;
    Builder::new(params)
        .psk(0, key.bytes())
        .and_then(|builder| builder.prologue(prologue))
        .map_err(own)
}

/// A message with its length before it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = message.len() as u16;
    [&length.to_le_bytes(), message].concat()
}

/// The message at the beginning of `bytes`, without its length; none as long as it is not whole.
pub(super) fn message(bytes: &[u8]) -> Result<Option<&[u8]>, Refused> {
    let Some(length) = bytes.first_chunk::<2>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_le_bytes(*length));
    if length > MESSAGE_LIMIT {
        return Err(Refused::Stranger("a message that is too long"));
    }
    Ok(bytes.get(2..2 + length))
}

/// Bytes that [`message`] was made of.
pub(super) fn framed_length(message: &[u8]) -> usize {
    message.len() + 2
}

fn write_json(state: &mut TransportState, value: &impl Serialize) -> Result<Vec<u8>, Refused> {
    let json = serde_json::to_vec(value).map_err(own)?;
    let mut sealed = vec![0; json.len() + 16];
    let length = state.write_message(&json, &mut sealed).map_err(own)?;
    Ok(framed(&sealed[..length]))
}

fn read_json<T: for<'de> Deserialize<'de>>(
    state: &mut TransportState,
    message: &[u8],
) -> Result<T, Refused> {
    let mut json = vec![0; message.len()];
    let length = state
        .read_message(message, &mut json)
        .map_err(|_| Refused::Key)?;
    serde_json::from_slice(&json[..length])
        .map_err(|_| Refused::Stranger("a message without sense"))
}

/// The client's side.
pub(super) struct Caller {
    noise: HandshakeState,
    hello: Hello,
    wanted: NodeId,
}

impl Caller {
    /// And the first bytes to send.
    pub(super) fn new(
        key: &Key,
        hello: Hello,
        binding: &Binding,
    ) -> Result<(Self, Vec<u8>), Refused> {
        let prologue = prologue(binding);
        let mut noise = builder(key, &prologue)?.build_initiator().map_err(own)?;
        let mut first = [0; 128];
        let length = noise.write_message(&[], &mut first).map_err(own)?;
        let bytes = [&GREETING[..], &framed(&first[..length])].concat();
        let wanted = NodeId(hello.peer);
        let caller = Self {
            noise,
            hello,
            wanted,
        };
        Ok((caller, bytes))
    }

    /// Takes message 2: who the server is, what is then to be sent, and who takes message 4.
    pub(super) fn answer(mut self, message: &[u8]) -> Result<(Hello, Vec<u8>, Called), Refused> {
        let mut json = vec![0; message.len()];
        let length = self
            .noise
            .read_message(message, &mut json)
            .map_err(|_| Refused::Key)?;
        let server: Hello = serde_json::from_slice(&json[..length])
            .map_err(|_| Refused::Stranger("a message without sense"))?;
        let mut transport = self.noise.into_transport_mode().map_err(own)?;
        let reply = write_json(&mut transport, &self.hello)?;
        let refusal = self.hello.refuses(&server, Some(self.wanted));
        let called = Called { transport, refusal };
        Ok((server, reply, called))
    }
}

/// The client's side, waiting for message 4.
pub(super) struct Called {
    transport: TransportState,
    /// Why this side does not want: told after message 3, so that the server can tell its people, too.
    refusal: Option<String>,
}

impl Called {
    /// Takes message 4.
    pub(super) fn finish(mut self, message: &[u8]) -> Result<(), Refused> {
        let verdict: Option<String> = read_json(&mut self.transport, message)?;
        match self.refusal.or(verdict) {
            None => Ok(()),
            Some(why) => Err(Refused::Differs(why)),
        }
    }
}

/// The server's side.
pub(super) struct Answerer {
    noise: HandshakeState,
    hello: Hello,
}

impl Answerer {
    pub(super) fn new(key: &Key, hello: Hello, binding: &Binding) -> Result<Self, Refused> {
        let prologue = prologue(binding);
        let noise = builder(key, &prologue)?.build_responder().map_err(own)?;
        Ok(Self { noise, hello })
    }

    /// Takes message 1: what is to be sent, and who takes message 3.
    pub(super) fn answer(mut self, message: &[u8]) -> Result<(Vec<u8>, Answered), Refused> {
        let mut nothing = [0; MESSAGE_LIMIT];
        self.noise
            .read_message(message, &mut nothing)
            .map_err(|_| Refused::Key)?;
        let json = serde_json::to_vec(&self.hello).map_err(own)?;
        let mut second = vec![0; json.len() + 128];
        let length = self.noise.write_message(&json, &mut second).map_err(own)?;
        let transport = self.noise.into_transport_mode().map_err(own)?;
        let answered = Answered {
            transport,
            hello: self.hello,
        };
        Ok((framed(&second[..length]), answered))
    }
}

/// The server's side, waiting for message 3.
pub(super) struct Answered {
    transport: TransportState,
    hello: Hello,
}

impl Answered {
    /// Takes message 3: who the client is, what is to be sent, and why it is refused, if it is.
    pub(super) fn finish(
        mut self,
        message: &[u8],
    ) -> Result<(Hello, Vec<u8>, Option<Refused>), Refused> {
        let client: Hello = read_json(&mut self.transport, message)?;
        let refusal = self.hello.refuses(&client, None);
        let verdict = write_json(&mut self.transport, &refusal)?;
        Ok((client, verdict, refusal.map(Refused::Differs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Binding = [0; 32];

    fn hello(node: u16, peer: u16, cluster: &Cluster) -> Hello {
        let sizes = Sizes {
            host: 64,
            device: 0,
        };
        Hello::of(NodeId(node), NodeId(peer), cluster, sizes)
    }

    fn body(bytes: &[u8]) -> &[u8] {
        message(bytes).unwrap().unwrap()
    }

    /// Both ends' verdicts.
    fn shake(
        keys: [&Key; 2],
        client: Hello,
        server: Hello,
    ) -> (Result<(), Refused>, Result<(), Refused>) {
        let (caller, first) = Caller::new(keys[0], client, &PLAIN).unwrap();
        let answerer = Answerer::new(keys[1], server, &PLAIN).unwrap();
        let (second, answered) = match answerer.answer(body(&first[GREETING.len()..])) {
            Ok(answered) => answered,
            Err(refused) => return (Ok(()), Err(refused)),
        };
        let (_, third, called) = caller.answer(body(&second)).unwrap();
        let (_, fourth, refusal) = answered.finish(body(&third)).unwrap();
        (called.finish(body(&fourth)), refusal.map_or(Ok(()), Err))
    }

    #[test]
    fn both_ends_have_to_fit() {
        let key = Key::generate().unwrap();
        let cluster = Cluster::new("c1", 7);
        let both = shake([&key, &key], hello(1, 0, &cluster), hello(0, 0, &cluster));
        assert_eq!(both, (Ok(()), Ok(())));
        let stranger = Key::generate().unwrap();
        let (_, server) = shake(
            [&stranger, &key],
            hello(1, 0, &cluster),
            hello(0, 0, &cluster),
        );
        assert_eq!(server, Err(Refused::Key));
        for (other, words) in [
            (Cluster::new("c2", 7), ["node 1", "c1", "c2"]),
            (
                Cluster::new("keys = 5\nc1", 7),
                ["keys = 5", "nothing else", "node 0"],
            ),
            (Cluster::new("c1", 8), ["node 0", "run 7", "run 8"]),
            (
                Cluster {
                    version: "9.9".to_owned(),
                    ..cluster.clone()
                },
                ["dmtree", "9.9", env!("CARGO_PKG_VERSION")],
            ),
        ] {
            let (client, server) = shake([&key, &key], hello(1, 0, &cluster), hello(0, 0, &other));
            for end in [client, server] {
                let text = end.unwrap_err().to_string();
                assert!(words.iter().all(|word| text.contains(word)), "{text}");
            }
        }
        let (client, server) = shake([&key, &key], hello(1, 2, &cluster), hello(0, 0, &cluster));
        for end in [client, server] {
            let text = end.unwrap_err().to_string();
            assert!(text.contains("node 2") && text.contains("node 0"), "{text}");
        }
    }

    #[test]
    fn somebody_between_two_tls_connections_is_refused() {
        let key = Key::generate().unwrap();
        let cluster = Cluster::new("c", 1);
        let (_, first) = Caller::new(&key, hello(1, 0, &cluster), &[1; 32]).unwrap();
        let answerer = Answerer::new(&key, hello(0, 0, &cluster), &[2; 32]).unwrap();
        let answered = answerer.answer(body(&first[GREETING.len()..]));
        assert_eq!(answered.err(), Some(Refused::Key));
    }

    #[test]
    fn a_recording_is_worth_nothing() {
        let key = Key::generate().unwrap();
        let cluster = Cluster::new("c", 1);
        let server = || Answerer::new(&key, hello(0, 0, &cluster), &PLAIN).unwrap();
        let (caller, first) = Caller::new(&key, hello(1, 0, &cluster), &PLAIN).unwrap();
        let (second, answered) = server().answer(body(&first[GREETING.len()..])).unwrap();
        let (_, third, _) = caller.answer(body(&second)).unwrap();
        answered.finish(body(&third)).unwrap();
        // The same client's messages once more: the server has another key of the moment.
        let (_, again) = server().answer(body(&first[GREETING.len()..])).unwrap();
        assert_eq!(again.finish(body(&third)).err(), Some(Refused::Key));
    }

    #[test]
    fn nonsense_is_refused() {
        let key = Key::generate().unwrap();
        let cluster = Cluster::new("c", 1);
        for bytes in [&[][..], &[0; 48], &[7; 200]] {
            let answerer = Answerer::new(&key, hello(0, 0, &cluster), &PLAIN).unwrap();
            assert!(answerer.answer(bytes).is_err());
        }
        assert_eq!(message(&[5]), Ok(None));
        assert_eq!(message(&[2, 0, 1]), Ok(None));
        assert_eq!(message(&[2, 0, 1, 2, 3]), Ok(Some(&[1, 2][..])));
        assert!(message(&[0xff, 0xff]).is_err());
    }
}
