//! Those who have no business here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{ClientThread, Cluster, Key, Server, ServerConfig, ThreadConfig};
use dmtree_cluster::{GlobalAddr, MemoryKind, MemoryMap, NodeId};

use crate::bed::cluster;

struct One {
    regions: Arc<Regions>,
    key: Key,
    server: Server,
}

fn one(change: impl FnOnce(&mut ServerConfig)) -> (One, GlobalAddr) {
    let mut map = MemoryMap::new(1);
    let at = map.reserve(NodeId(0), MemoryKind::Host, 64, 64);
    let regions = Arc::new(Regions::zeroed(NodeId(0), &map).unwrap());
    let key = Key::generate().unwrap();
    let mut config = ServerConfig::new(key.clone(), cluster());
    change(&mut config);
    let server = Server::start(config, Arc::clone(&regions)).unwrap();
    (
        One {
            regions,
            key,
            server,
        },
        at,
    )
}

impl One {
    fn config(&self, key: &Key, cluster: Cluster) -> ThreadConfig {
        let mut config = ThreadConfig::new(vec![Some(self.server.addr())], key.clone(), cluster);
        config.connect_limit = Duration::from_secs(5);
        config
    }

    fn connect(&self, key: &Key, cluster: Cluster) -> Result<ClientThread, String> {
        let config = self.config(key, cluster);
        ClientThread::connect(config, Arc::clone(&self.regions)).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn is_untouched(&self) {
        let words = self.regions.host_words().iter();
        assert!(
            words
                .map(|word| word.load(Ordering::SeqCst))
                .all(|word| word == 0)
        );
        self.connect(&self.key, cluster())
            .expect("it serves those who belong here");
    }
}

/// Whether the other end closes the connection within some seconds.
#[track_caller]
fn is_cut_off(stream: &mut TcpStream) {
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("not cut off: {error}"),
        }
    }
}

#[test]
fn strangers_are_cut_off_and_touch_nothing() {
    let (one, at) = one(|_| ());
    let greeting = b"dmtree\0\x01";
    // A request as it would be after the handshake: FAA of 1 at the first word.
    let mut request = vec![24, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0];
    request.extend_from_slice(&at.to_bits().to_le_bytes());
    request.extend_from_slice(&1u64.to_le_bytes());
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &request,
        &[&greeting[..], &request].concat(),
        &[&greeting[..], &[48, 0], &[0; 48]].concat(),
        &[&greeting[..], &[0xff, 0xff], &[0; 64]].concat(),
        b"dmtree\0\x02 a later version",
        &[0; 100_000],
    ] {
        let mut stream = TcpStream::connect(one.server.addr()).unwrap();
        // It may be cut off before all of it is written.
        let _ = stream.write_all(bytes);
        is_cut_off(&mut stream);
    }
    one.is_untouched();
}

#[test]
fn who_has_another_key_is_refused() {
    let (one, _) = one(|_| ());
    let stranger = Key::generate().unwrap();
    let error = one.connect(&stranger, cluster()).unwrap_err();
    assert!(
        error.contains("node 0") && error.contains("cluster key"),
        "{error}"
    );
    one.is_untouched();
}

#[test]
fn who_is_of_another_run_or_configuration_is_told_both_values() {
    let (one, _) = one(|_| ());
    for (other, words) in [
        (Cluster::new("test", 2), ["run 1", "run 2"]),
        (Cluster::new("other", 1), ["test", "other"]),
    ] {
        let error = one.connect(&one.key, other).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    one.is_untouched();
}

#[test]
fn who_says_nothing_is_cut_off_in_time() {
    let (one, _) = one(|config| config.handshake_limit = Duration::from_millis(100));
    let mut silent = TcpStream::connect(one.server.addr()).unwrap();
    let mut slow = TcpStream::connect(one.server.addr()).unwrap();
    slow.write_all(b"dmtr").unwrap();
    let begun = Instant::now();
    is_cut_off(&mut silent);
    is_cut_off(&mut slow);
    assert!(begun.elapsed() >= Duration::from_millis(50));
    one.is_untouched();
}

#[test]
fn connections_are_limited() {
    let (one, _) = one(|config| config.connections = 2);
    let first = one.connect(&one.key, cluster()).unwrap();
    let second = one.connect(&one.key, cluster()).unwrap();
    let error = one.connect(&one.key, cluster()).unwrap_err();
    assert!(error.contains("too many connections"), "{error}");
    drop((first, second));
    // Their ends are seen in a moment.
    let until = Instant::now() + Duration::from_secs(5);
    while one.connect(&one.key, cluster()).is_err() {
        assert!(Instant::now() < until, "their places are free again");
    }
}

#[test]
fn tls_is_for_both_ends_or_none() {
    let (plain, _) = one(|_| ());
    let (tls, _) = one(|config| config.tls = true);
    for (server, wants) in [(&plain, true), (&tls, false)] {
        let mut config = server.config(&server.key, cluster());
        config.tls = wants;
        let error = ClientThread::connect(config, Arc::clone(&server.regions)).unwrap_err();
        assert!(error.to_string().contains("[cluster] tls"), "{error}");
    }
    plain.is_untouched();
    let mut config = tls.config(&tls.key, cluster());
    config.tls = true;
    ClientThread::connect(config.clone(), Arc::clone(&tls.regions)).expect("both want it");
    config.key = Key::generate().unwrap();
    let error = ClientThread::connect(config, Arc::clone(&tls.regions)).unwrap_err();
    assert!(error.to_string().contains("cluster key"), "{error}");
}

/// Somebody between a client and a server, who takes the client's TLS for his own and makes one of his own to the server:
/// he has no key, and passes on all that both say.
#[test]
fn who_sits_between_two_tls_connections_is_refused() {
    use rustls::{ClientConnection, ServerConnection, StreamOwned};
    let (one, at) = one(|config| config.tls = true);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let between = listener.local_addr().unwrap();
    let server = one.server.addr();
    let middle = std::thread::spawn(move || {
        let provider = || Arc::new(rustls::crypto::ring::default_provider());
        let made = rcgen::generate_simple_self_signed(Vec::new()).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let (socket, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        let mut client = StreamOwned::new(connection, socket);
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Any))
            .with_no_client_auth();
        let connection =
            ClientConnection::new(Arc::new(config), "dmtree".try_into().unwrap()).unwrap();
        let mut server = StreamOwned::new(connection, TcpStream::connect(server).unwrap());
        // The client's first message, to the server; its answer, if there is one, back.
        let mut bytes = [0; 4096];
        let read = client.read(&mut bytes).unwrap();
        assert!(read > 0, "the client takes him for the server so far");
        server.write_all(&bytes[..read]).unwrap();
        server.flush().unwrap();
        // An error is an end as well.
        server.read(&mut bytes).unwrap_or_default()
    });
    let mut config = one.config(&one.key, cluster());
    config.tls = true;
    config.peers = vec![Some(between)];
    let error = ClientThread::connect(config.clone(), Arc::clone(&one.regions)).unwrap_err();
    assert!(error.to_string().contains("cluster key"), "{error}");
    assert_eq!(middle.join().unwrap(), 0, "the server does not answer him");
    assert_eq!(
        one.regions.host_words()[at.offset() as usize / 8].load(Ordering::SeqCst),
        0
    );
    config.peers = vec![Some(one.server.addr())];
    ClientThread::connect(config, Arc::clone(&one.regions))
        .expect("it serves those who belong here");
}

/// Takes any certificate and signature.
#[derive(Debug)]
struct Any;

impl rustls::client::danger::ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        vec![rustls::SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
