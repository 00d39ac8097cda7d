//! The clients of a run, and what those of a tree share.

use std::rc::Rc;
use std::sync::Arc;

use dmtree_cluster::sim::Sim;
use dmtree_cluster::{Endpoint, NodeId};
use dmtree_index::{IndexCache, LoadedTree, Tree, TreeOptions};

use super::tree::{Tampering, TreeWork};
use super::{SERVER, Shared, nanos};
use crate::distribution::KeyChooser;
use crate::driver::{ClientTask, drive};
use crate::settings::{MAX_KEYS, Settings};

/// Among how many keys, loaded or not, the distribution chooses. In an empty tree inserts are spread over all keys
/// that could have been loaded, so that uniform ones are so over all 64 bits.
pub(super) fn places_of_keys(settings: &Settings) -> u64 {
    match settings.keys {
        0 => MAX_KEYS,
        keys => keys,
    }
}

/// The index cache of a node.
pub(super) fn cache_of_node(settings: &Settings, loaded: &LoadedTree) -> Arc<IndexCache> {
    let budget = usize::try_from(settings.cache_budget).unwrap_or(usize::MAX);
    Arc::new(if settings.prefill_cache {
        IndexCache::prefilled_with_budget(Arc::clone(&loaded.index), budget)
    } else {
        IndexCache::with_budget(budget)
    })
}

impl<T: Tampering> TreeWork<'_, T> {
    /// An index cache for each node.
    pub(super) fn caches(&self, loaded: &LoadedTree) -> Vec<Arc<IndexCache>> {
        let settings = self.run.settings;
        (0..settings.nodes)
            .map(|_| cache_of_node(settings, loaded))
            .collect()
    }

    /// Begins them.
    pub(super) fn spawn_clients(
        &self,
        sim: &mut Sim,
        caches: &[Arc<IndexCache>],
        shared: Shared<'_>,
    ) {
        let (settings, spec, locks) = (self.run.settings, self.run.spec, &self.run.locks);
        let task = ClientTask {
            seed: spec.seed,
            server: SERVER,
            keys: KeyChooser::new(self.distribution, places_of_keys(settings)),
            mix: settings.mix.clone(),
            schedule: shared.schedule,
        };
        for (node, thread) in client_places(settings) {
            let endpoint = sim.endpoint(node, thread);
            let lock = locks.client(endpoint.client(), Some(Rc::clone(shared.monitor)));
            self.tampering.lock(&lock);
            let mut tree = Tree::new(
                endpoint.clone(),
                lock,
                Arc::clone(self.tree.meta()),
                locks.table().clone(),
                Arc::clone(&caches[usize::from(node.0)]),
                TreeOptions {
                    search_ns: nanos(settings.search_time),
                    ..TreeOptions::new(self.data_path)
                },
            );
            self.tampering.tree(&mut tree);
            sim.spawn(
                &endpoint,
                drive(task.clone(), tree, Rc::clone(shared.outcome)),
            );
        }
    }
}

/// Node and thread of every client, in the order of their numbers.
pub(super) fn client_places(settings: &Settings) -> impl Iterator<Item = (NodeId, u16)> {
    let (threads, coroutines) = (settings.threads, settings.coroutines);
    (0..settings.nodes).flat_map(move |node| {
        (0..threads).flat_map(move |thread| (0..coroutines).map(move |_| (NodeId(node), thread)))
    })
}
