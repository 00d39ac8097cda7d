//! [`Transport`]: the socket of a connection, in plain or below TLS.
//!
//! TLS 1.3 by rustls, whose certificates say nothing: the server makes one for itself as it begins, and clients take any.
//! Who both ends are, the handshake with the cluster's key tells, which is bound to the TLS connection by what only its two
//! ends know (RFC 5705's exporter, RFC 9266's channel binding): somebody in between would have two connections, and the
//! handshake would fail as with another key.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream as Blocking;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned,
};

/// What both ends of a TLS connection know, and nobody else; nothing of one in plain.
pub(super) type Binding = [u8; 32];
const LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// A connection's socket.
pub(super) enum Transport {
    Plain(TcpStream),
    Client(Box<StreamOwned<ClientConnection, TcpStream>>),
    Server(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Transport {
    pub(super) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Client(stream) => &mut stream.sock,
            Self::Server(stream) => &mut stream.sock,
        }
    }

    /// Whether a read of fewer bytes than fit shows that nothing was left. TLS is read record by record.
    pub(super) fn is_drained_by_short_reads(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether what was written is still here.
    pub(super) fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Client(stream) => stream.conn.wants_write(),
            Self::Server(stream) => stream.conn.wants_write(),
        }
    }

    /// Of a server: what the handshake is bound to, once TLS has got that far.
    pub(super) fn binding(&self) -> io::Result<Binding> {
        match self {
            Self::Server(stream) => stream
                .conn
                .export_keying_material(Binding::default(), LABEL, None)
                .map_err(io::Error::other),
            Self::Plain(_) | Self::Client(_) => Ok(Binding::default()),
        }
    }
}

/// The end of a connection below TLS without its goodbye is an end as any other: frames tell whether they are whole.
fn or_end(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

impl Read for Transport {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Client(stream) => or_end(stream.read(into)),
            Self::Server(stream) => or_end(stream.read(into)),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Client(stream) => stream.write(bytes),
            Self::Server(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Client(stream) => stream.flush(),
            Self::Server(stream) => stream.flush(),
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// What a server needs for TLS.
pub(super) fn server_config() -> io::Result<Arc<ServerConfig>> {
    let made = rcgen::generate_simple_self_signed(Vec::new()).map_err(io::Error::other)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key))
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

/// A connection that was taken.
pub(super) fn accepted(
    socket: TcpStream,
    config: Option<&Arc<ServerConfig>>,
) -> io::Result<Transport> {
    let Some(config) = config else {
        return Ok(Transport::Plain(socket));
    };
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    Ok(Transport::Server(Box::new(StreamOwned::new(
        connection, socket,
    ))))
}

/// A client's socket as long as it waits for each answer.
pub(super) enum Dialled {
    Plain(Blocking),
    Tls(Box<StreamOwned<ClientConnection, Blocking>>, Binding),
}

impl Dialled {
    /// Begins TLS, if it is wanted, and goes through its handshake.
    pub(super) fn new(mut socket: Blocking, tls: bool) -> io::Result<Self> {
        if !tls {
            return Ok(Self::Plain(socket));
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())))
            .with_no_client_auth();
        // The name says nothing either.
        let name = ServerName::try_from("dmtree").map_err(io::Error::other)?;
        let mut connection =
            ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let binding = connection
            .export_keying_material(Binding::default(), LABEL, None)
            .map_err(io::Error::other)?;
        Ok(Self::Tls(
            Box::new(StreamOwned::new(connection, socket)),
            binding,
        ))
    }

    pub(super) fn socket(&self) -> &Blocking {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream, _) => &stream.sock,
        }
    }

    pub(super) fn binding(&self) -> Binding {
        match self {
            Self::Plain(_) => Binding::default(),
            Self::Tls(_, binding) => *binding,
        }
    }

    /// The same for an event loop; its socket does not block any more.
    pub(super) fn into_transport(self) -> Transport {
        match self {
            Self::Plain(socket) => Transport::Plain(TcpStream::from_std(socket)),
            Self::Tls(stream, _) => {
                let StreamOwned { conn, sock } = *stream;
                let sock = TcpStream::from_std(sock);
                Transport::Client(Box::new(StreamOwned { conn, sock }))
            }
        }
    }
}

impl Read for Dialled {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream, _) => or_end(stream.read(into)),
        }
    }
}

impl Write for Dialled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream, _) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream, _) => stream.flush(),
        }
    }
}

/// Takes any certificate whose owner is at the other end. Who that is, the handshake above tells.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
