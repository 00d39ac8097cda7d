//! `--verify on`: what a run left behind, in the same process and on the same memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use dmtree_cluster::sim::Sim;
use dmtree_index::IndexCache;

use super::SERVER;
use super::tree::{Tampering, TreeWork};
use crate::error::Result;
use crate::verify::{History, Subject, Verified, verify_run};

impl<T: Tampering> TreeWork<'_, T> {
    /// Verifies what the run has left; it takes no virtual time, which has ended.
    ///
    /// # Errors
    /// [`crate::Failure::Work`] with the run, its seed and the first violation.
    pub(super) fn verify(
        &self,
        sim: &mut Sim,
        history: &History,
        caches: &[Arc<IndexCache>],
    ) -> Result<Verified> {
        let began = Instant::now();
        let subject = Subject {
            meta: self.tree.meta(),
            history,
            caches,
        };
        let words = sim.host_words(SERVER);
        let mut memory = BTreeMap::from([(SERVER, &*words)]);
        let verified =
            verify_run(subject, &mut memory, self.loaded_pairs()).map_err(|violation| {
                let hint = self.run.hint_at_format_of_loss();
                self.run.failure(format!("verification: {violation}{hint}"))
            })?;
        let took = began.elapsed();
        tracing::info!(
            run = self.run.spec.title(),
            ?verified,
            ?took,
            "run verified"
        );
        Ok(verified)
    }
}
