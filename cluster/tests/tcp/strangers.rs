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
