//! Inserts broken on purpose are caught by the tests that whole ones pass.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

mod common;
#[path = "common/contended.rs"]
mod contended;
#[path = "common/history.rs"]
mod history;

use std::sync::Arc;

use common::{Cluster, Setup};
use contended::{at_once, cold_caches, histories, phantoms};
use dmtree_cluster::NodeId;
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
    std::panic::set_hook(hook);
    assert_eq!(counts[0].1, 0);
    assert!(
        counts[1..].iter().all(|(_, count)| *count > 0),
        "{counts:?}"
    );
}

/// In how many of 200 hostile runs a client whose node gets the new root does not see it there by CPU, when it has
/// just read from the root word that it is there.
fn unseen_by_cpu(fault: Option<Fault>) -> u32 {
    let run = |seed: u64| {
        let mut setup = Setup::growing("farlock", 4096).seeded(seed * 2);
        // A page a chunk: the root and its new sibling are on node 0, the new root is on node 2.
        setup.load.chunk_bytes = 128;
        setup.clients = vec![(NodeId(1), 0), (NodeId(2), 0)];
        let mut cluster = Cluster::new(&setup);
        let old = cluster.load((0..5).map(|key| (key, 0))).root;
        let caches = cold_caches(&setup);
        let trees = cluster.trees(&caches, TreeOptions::new(DataPath::Cpu));
        at_once(&mut cluster, trees, |client, mut tree| {
            fault.into_iter().for_each(|fault| tree.sabotage(fault));
            let cache = Arc::clone(&caches[2]);
            async move {
                if client == 0 {
                    assert!(!tree.insert(5, 0).await.unwrap());
                }
                while client == 1 && cache.is_empty() {
                    cache.forget_root(old);
                    assert_eq!(tree.get(1).await.unwrap(), Some(0));
                }
                tree
            }
        });
        assert!(cluster.word(cluster.plan.meta().root_word()) >> 48 == 2);
    };
    let run = |seed| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
    (0..200).map(|seed| u32::from(run(seed).is_err())).sum()
}
