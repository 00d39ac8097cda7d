//! Peers that die or hang.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{ClientThread, Key, Server, ServerConfig, TcpEndpoint, ThreadConfig};
use dmtree_cluster::{
    ClientId, Endpoint, ErrorKind, GlobalAddr, MemoryKind, MemoryMap, NodeId, PollBackoff, Result,
    WaitFor,
};

use crate::bed::{Process, cluster};

/// Two nodes: node 0 here, node 1 in a process of its own.
struct Pair {
    own: Arc<Regions>,
    here: GlobalAddr,
    there: GlobalAddr,
    config: ThreadConfig,
    other: Process,
    _server: Server,
    _directory: tempfile::TempDir,
}

fn pair() -> Pair {
    let mut map = MemoryMap::new(2);
    let [here, there] = [0, 1].map(|node| map.reserve(NodeId(node), MemoryKind::Host, 64, 64));
    let directory = tempfile::tempdir().unwrap();
    let key_file = directory.path().join("key");
    let key = Key::generate().unwrap();
    key.write_new(&key_file).unwrap();
    let own = Arc::new(Regions::zeroed(NodeId(0), &map).unwrap());
    let server =
        Server::start(ServerConfig::new(key.clone(), cluster()), Arc::clone(&own)).unwrap();
    let path = directory.path().join("memory");
    let file = File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let sizes = Regions::shared(NodeId(1), &map, &file).unwrap().sizes();
    let other = Process::start(NodeId(1), sizes, &path, &key_file);
    let peers = vec![Some(server.addr()), Some(other.addr)];
    let mut config = ThreadConfig::new(peers, key, cluster());
    config.answer_limit = Duration::from_millis(400);
    Pair {
        own,
        here,
        there,
        config,
        other,
        _server: server,
        _directory: directory,
    }
}

/// What a client finds.
type Found = Rc<RefCell<Option<Result<()>>>>;

fn spawn<F: Future<Output = Result<()>> + 'static>(
    thread: &mut ClientThread,
    client: u32,
    program: impl FnOnce(TcpEndpoint) -> F,
) -> Found {
    let found = Found::default();
    let result = Rc::clone(&found);
    let endpoint = thread.endpoint(ClientId(client));
    let program = program(endpoint.clone());
    thread.spawn(&endpoint, async move {
        let outcome = program.await;
        *result.borrow_mut() = Some(outcome);
    });
    found
}

#[track_caller]
fn is_gone(found: &Found, words: &str) {
    let found = found.borrow_mut().take().expect("the client has ended");
    let error = found.expect_err("a peer is gone");
    match error.kind() {
        ErrorKind::PeerGone { node, why } => {
            assert_eq!(*node, NodeId(1));
            assert!(why.contains(words), "{words} is not in {why}");
        }
        other => panic!("{other}"),
    }
}

/// Four clients of a thread, each at something else, when `harm` happens to the other node.
fn all_are_told(harm: &str, words: &str) {
    let Pair {
        own,
        here,
        there,
        config,
        other,
        _server,
        _directory,
    } = pair();
    let mut thread = ClientThread::connect(config, own).unwrap();
    let polls = spawn(&mut thread, 0, move |ep| async move {
        let wait = WaitFor::new("a word there", there);
        ep.poll_until(there, 1, PollBackoff::NONE, wait, |words| words[0] == 9)
            .await?;
        Ok(())
    });
    let verbs = spawn(&mut thread, 1, move |ep| async move {
        loop {
            ep.rdma_faa(there.word(1), 1).await?;
            ep.sleep(100_000).await;
        }
    });
    let waits = spawn(&mut thread, 2, move |ep| async move {
        let wait = WaitFor::new("a word here", here);
        ep.wait_until(here, 1, wait, |words| words[0] == 9).await?;
        Ok(())
    });
    let later = spawn(&mut thread, 3, move |ep| async move {
        while ep.read_u64(there).await.is_ok() {
            ep.sleep(1_000_000).await;
        }
        let begun = Instant::now();
        let again = ep.write_words(there, &[1]).await;
        assert!(
            begun.elapsed() < Duration::from_millis(100),
            "later verbs fail at once"
        );
        // The own node is still there.
        ep.write_words(here.word(1), &[7]).await?;
        assert_eq!(ep.load(here.word(1), Ordering::Acquire).await?, 7);
        again
    });
    let harmed = std::thread::spawn({
        let harm = harm.to_owned();
        move || {
            std::thread::sleep(Duration::from_millis(100));
            other.signal(&harm);
            (other, Instant::now())
        }
    });
    thread.run().unwrap();
    let (other, when) = harmed.join().unwrap();
    // The bound is 400 ms: the machine may be busy.
    assert!(when.elapsed() < Duration::from_secs(10));
    for found in [polls, verbs, waits, later] {
        is_gone(&found, words);
    }
    drop(other);
}

#[test]
fn a_killed_server_is_reported_by_every_client() {
    all_are_told("-KILL", "");
}

#[test]
fn a_server_that_hangs_is_reported_within_the_bound() {
    all_are_told("-STOP", "has not answered for 400ms");
}

#[test]
fn a_server_survives_its_clients_and_serves_the_next() {
    let Pair {
        own,
        there,
        config,
        other: _other,
        _server,
        _directory,
        ..
    } = pair();
    for round in 0..20 {
        let mut thread = ClientThread::connect(config.clone(), Arc::clone(&own)).unwrap();
        // Dropped in the middle: what was posted may be on its way.
        let endless = thread.endpoint(ClientId(0));
        let ep = endless.clone();
        let rounds = Rc::new(RefCell::new(0u32));
        let seen = Rc::clone(&rounds);
        thread.spawn(&endless, async move {
            while ep.rdma_faa(there, 1).await.is_ok() {
                *seen.borrow_mut() += 1;
                if *seen.borrow() > round {
                    return;
                }
            }
        });
        thread.run().unwrap();
        drop(thread);
        assert!(*rounds.borrow() > round);
    }
    let mut thread = ClientThread::connect(config, own).unwrap();
    let found = spawn(&mut thread, 0, move |ep| async move {
        assert_eq!(ep.read_u64(there).await?, (1..=20).sum::<u64>());
        Ok(())
    });
    thread.run().unwrap();
    assert_eq!(found.borrow_mut().take(), Some(Ok(())));
}

#[test]
fn a_server_that_is_not_there_is_waited_for_and_then_named() {
    let Pair {
        own,
        mut config,
        other,
        _server,
        _directory,
        ..
    } = pair();
    let addr = other.addr;
    drop(other);
    config.connect_limit = Duration::from_millis(300);
    let begun = Instant::now();
    let error = ClientThread::connect(config, own).unwrap_err();
    assert!(
        begun.elapsed() >= Duration::from_millis(200),
        "it may come up"
    );
    let text = error.to_string();
    assert!(
        text.contains("node 1") && text.contains(&addr.to_string()),
        "{text}"
    );
}
