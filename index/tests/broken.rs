//! Inserts broken on purpose are caught by the tests that whole ones pass.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;
#[path = "common/contended.rs"]
mod contended;
#[path = "common/history.rs"]
mod history;

use std::sync::atomic::Ordering;

use common::{Cluster, Setup};
use contended::{at_once, cold_caches, histories, phantoms, race_for_roots};
use dmtree_cluster::{Endpoint, GlobalAddr, NodeId};
use dmtree_index::{Fault, TreeOptions};
use dmtree_lock::DataPath;

/// In how many of 300 hostile runs a broken insert is found out: by a history that has no order, keys that are not
/// there, a tree that is not sound, or a client that meets the impossible.
fn caught(lock: &'static str, path: DataPath, fault: Option<Fault>) -> u32 {
    let run = |seed| {
        let setup = Setup::growing(lock, 1 << 14).seeded(seed * 2);
        let run = || {
            let options = TreeOptions::new(path);
            let (ops, _) = histories(&setup, options, fault);
            let mut large = setup.clone();
            (large.load.page_bytes, large.load.chunk_bytes) = (1024, 4096);
            history::check(&ops).is_ok() && phantoms(&large, options, fault) == 0
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        u32::from(!outcome.unwrap_or(false))
    };
    (0..300u64).map(run).sum()
}

/// The tests above can tell: each order that inserts rely on is needed.
#[test]
fn inserts_that_leave_out_an_order_are_caught() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut counts = Vec::new();
    for (fault, lock, path) in [
        (None, "sherman", DataPath::Cpu),
        (
            Some(Fault::PublishedBeforeWritten),
            "farlock",
            DataPath::Cpu,
        ),
        (Some(Fault::BitBeforeEntry), "farlock", DataPath::Loopback),
        (Some(Fault::SameSequence), "farlock", DataPath::Loopback),
    ] {
        counts.push((fault, caught(lock, path, fault)));
    }
    for fault in [None, Some(Fault::NewPageUnflushed)] {
        counts.push((fault, unseen_by_cpu(fault)));
    }
    for fault in [None, Some(Fault::RootOverwritten)] {
        let options = TreeOptions::new(DataPath::Cpu);
        let run = |seed| race_for_roots("farlock", options, seed, fault);
        let run = |seed| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        let caught = (0..200).map(|seed| u32::from(run(seed).is_err())).sum();
        counts.push((fault, caught));
    }
    std::panic::set_hook(hook);
    for (fault, count) in &counts {
        let is_as_expected = if fault.is_some() {
            *count > 10
        } else {
            *count == 0
        };
        assert!(is_as_expected, "{counts:?}");
    }
}

/// In how many of 4,000 hostile runs a client whose node gets the new root does not see it there by CPU, when it
/// has just read from the root word that it is there.
fn unseen_by_cpu(fault: Option<Fault>) -> u32 {
    let run = |seed: u64| {
        let mut setup = Setup::growing("farlock", 4096).seeded(seed * 2);
        // A page a chunk: the root and its new sibling are on node 0, the new root is on node 2.
        (setup.load.chunk_bytes, setup.load.fill) = (128, 1.0);
        let clients = [NodeId(0)].into_iter().chain([NodeId(2); 8]);
        setup.clients = clients.zip(0..).collect();
        // How late the CPU may be grows with the jitter: late enough to outlast three messages now and then.
        setup.config.jitter_ns = 20_000;
        let mut cluster = Cluster::new(&setup);
        cluster.load((0..5).map(|key| (key, 0)));
        let root_word = cluster.plan.meta().root_word();
        let trees = cluster.trees(&cold_caches(&setup), TreeOptions::new(DataPath::Cpu));
        at_once(&mut cluster, trees, |client, mut tree| {
            fault.into_iter().for_each(|fault| tree.sabotage(fault));
            async move {
                if client == 0 {
                    assert!(!tree.insert(5, 0).await.unwrap());
                    return tree;
                }
                loop {
                    let ep = tree.endpoint();
                    let root = GlobalAddr::from_bits(ep.read_u64(root_word).await.unwrap());
                    if root.node() == ep.node() {
                        let tag = ep.load(root.word(1), Ordering::Acquire).await.unwrap();
                        assert!(tag != 0, "no page there");
                        return tree;
                    }
                }
            }
        });
    };
    let run = |seed| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
    (0..4000).map(|seed| u32::from(run(seed).is_err())).sum()
}
