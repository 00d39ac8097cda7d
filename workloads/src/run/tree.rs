//! [`TreeWork`]: a tree is loaded, and clients work on it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use dmtree_cluster::sim::{Sim, SimEndpoint};
use dmtree_index::{IndexCache, LoadedTree, Tree, TreeMeta, TreePlan};
use dmtree_lock::{AnyLock, DataPath};

use super::{RunOutcome, RunPlan, SERVER, Shared, Work};
use crate::distribution::Distribution;
use crate::driver::{Outcome, loaded_key};
use crate::error::Result;

/// The tree of a simulated client.
pub(super) type SimTree = Tree<SimEndpoint, AnyLock>;

/// What a test does to a run.
pub(super) trait Tampering {
    fn lock(&self, _: &AnyLock) {}
    fn tree(&self, _: &mut SimTree) {}
    /// To memory, when all clients have ended.
    fn memory(&self, _: &mut Sim, _: &TreeMeta) {}
}

/// Nothing.
pub(super) struct Untouched;

impl Tampering for Untouched {}

/// Operations on a tree.
pub(super) struct TreeWork<'a, T> {
    pub(super) run: &'a RunPlan<'a>,
    pub(super) tree: &'a TreePlan,
    pub(super) distribution: Distribution,
    pub(super) data_path: DataPath,
    pub(super) tampering: &'a T,
}

impl<T: Tampering> TreeWork<'_, T> {
    /// Keys with their numbers as values.
    pub(super) fn loaded_pairs(&self) -> impl Iterator<Item = (u64, u64)> + use<T> {
        (0..self.run.settings.keys).map(|index| (loaded_key(index), index))
    }

    /// Loads them.
    fn load(&self, sim: &mut Sim) -> Result<LoadedTree> {
        let mut words = sim.host_words(SERVER);
        let mut sink = BTreeMap::from([(SERVER, &mut *words)]);
        self.tree
            .load(self.loaded_pairs(), &mut sink)
            .map_err(|error| self.run.failure(error))
    }
}

impl<T: Tampering> Work for TreeWork<'_, T> {
    /// An index cache for each node.
    type Ready = Vec<Arc<IndexCache>>;

    fn prepare(&self, sim: &mut Sim) -> Result<Self::Ready> {
        let began = Instant::now();
        let loaded = self.load(sim)?;
        let load = began.elapsed();
        let bytes_a_key = loaded.bytes_per_key().unwrap_or(0.0);
        tracing::info!(
            keys = loaded.keys,
            height = loaded.height,
            ?load,
            bytes_a_key,
            "tree loaded"
        );
        Ok(self.caches(&loaded))
    }

    fn outcome(&self) -> Rc<Outcome> {
        Rc::new(if self.run.settings.verify {
            Outcome::with_history()
        } else {
            Outcome::default()
        })
    }

    fn begin(&self, sim: &mut Sim, caches: &Self::Ready, shared: Shared<'_>) {
        self.spawn_clients(sim, caches, shared);
    }

    fn finish(
        &self,
        sim: &mut Sim,
        caches: Self::Ready,
        outcome: &Outcome,
        found: RunOutcome,
    ) -> Result<RunOutcome> {
        self.tampering.memory(sim, self.tree.meta());
        let verified = if self.run.settings.verify {
            Some(self.verify(sim, &outcome.take_history(), &caches)?)
        } else {
            None
        };
        Ok(RunOutcome { verified, ..found })
    }
}
