//! [`Check`]: what `--verify` looks at when no client of any node does anything any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dmtree_cluster::region::Regions;
use dmtree_cluster::{Endpoint, GlobalAddr, LINE_BYTES};
use dmtree_index::{IndexCache, TreeMeta};

use super::conductor::Afterwards;
use super::report::NodeReport;
use crate::driver::loaded_key;
use crate::run::SERVER;
use crate::verify::{Memory, Subject, verify_cache, verify_run};

/// Fetched at once: a mebibyte.
const PART_WORDS: usize = 1 << 17;

/// What a node knows of the tree.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) meta: Arc<TreeMeta>,
    pub(crate) cache: Arc<IndexCache>,
    pub(crate) regions: Arc<Regions>,
    pub(crate) keys: u64,
    /// Of the memory server's host memory.
    pub(crate) server_bytes: u64,
    pub(crate) is_wanted: bool,
}

impl Afterwards for Check {
    /// The index cache of a node that has the tree not in its own memory.
    async fn own<E: Endpoint>(&self, ep: &E) -> Result<u64, String> {
        let mut words = vec![0; (self.server_bytes / 8) as usize];
        // Nothing lies at the very beginning, which is the null address.
        let mut from = GlobalAddr::new(SERVER, LINE_BYTES as u64);
        for part in words[LINE_BYTES / 8..].chunks_mut(PART_WORDS) {
            ep.read_words(from, part)
                .await
                .map_err(|error| error.to_string())?;
            from = from.word(part.len() as u64);
        }
        let mut memory = std::collections::BTreeMap::from([(SERVER, words.as_slice())]);
        let node = usize::from(ep.node().0);
        verify_cache(&self.meta, &self.cache, node, &mut memory)
            .map_err(|violation| format!("verification: {violation}"))
    }

    fn all(&self, report: &mut NodeReport) -> Result<(), String> {
        let history = report.history.take().unwrap_or_default();
        let subject = Subject {
            meta: &self.meta,
            history: &history,
            caches: std::slice::from_ref(&self.cache),
        };
        let loaded = (0..self.keys).map(|index| (loaded_key(index), index));
        let verified = verify_run(subject, &mut Own(&self.regions), loaded)
            .map_err(|violation| format!("verification: {violation}"))?;
        report.verified = Some(verified);
        Ok(())
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted
    }
}

/// The memory server's memory, in its own process.
struct Own<'a>(&'a Regions);

impl Memory for Own<'_> {
    fn read(&mut self, addr: GlobalAddr, words: &mut [u64]) -> dmtree_index::Result<()> {
        let from = (addr.offset() / 8) as usize;
        let Some(place) = self.0.host_words().get(from..from + words.len()) else {
            return crate::verify::beyond(addr, words, self.0.host_words().len());
        };
        for (word, place) in words.iter_mut().zip(place) {
            // Its last writer's node has told since that it does nothing any more.
            *word = place.load(Ordering::Acquire);
        }
        Ok(())
    }
}
