//! `--verify on`: what a run left behind, in the same process and on the same memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use dmtree_cluster::sim::Sim;
use dmtree_index::tree::{DEFAULT_LOOKUP_NS, DEFAULT_SEARCH_NS};
use dmtree_index::{IndexCache, SURVEY_BYTES_A_PAGE};

use super::{RunPlan, SERVER, inserts_at_most, nanos, whole_time};
use crate::error::Result;
use crate::mix::Operation;
use crate::verify::history::HISTORY_BYTES_A_KEY;
use crate::verify::{History, Subject, Verified, verify_run};

impl RunPlan<'_> {
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
        let verified = verify_run(subject, &mut memory, self.loaded_pairs())
            .map_err(|violation| self.failure(format!("verification: {violation}")))?;
        let took = began.elapsed();
        tracing::info!(run = self.spec.title(), ?verified, ?took, "run verified");
        Ok(verified)
    }

    /// Bytes of memory that verification adds to the run: the history of the keys that can be written, and the
    /// pages that can be in the tree.
    pub(super) fn verification_bytes(&self) -> u128 {
        let settings = self.settings;
        if !settings.verify {
            return 0;
        }
        // No operation is faster than its look-up in the index cache and its search in a leaf.
        let a_client = nanos(whole_time(settings)) / (DEFAULT_LOOKUP_NS + DEFAULT_SEARCH_NS) + 1;
        let operations = u128::from(a_client) * u128::from(settings.clients());
        let updated = match settings.mix.share(Operation::Update) {
            0.0 => 0,
            _ => u128::from(settings.keys).min(operations),
        };
        let added = (inserts_at_most(settings) as u128).min(operations);
        let pages = self.map.total_bytes() / u64::from(settings.page_bytes);
        (updated + added) * HISTORY_BYTES_A_KEY as u128
            + u128::from(pages) * SURVEY_BYTES_A_PAGE as u128
    }
}
