//! How much memory a run takes, and how much of it is for a tree that grows.

use std::time::Duration;

use dmtree_index::tree::DEFAULT_LOOKUP_NS;
use dmtree_index::{ErrorKind, LoadOptions, SURVEY_BYTES_A_PAGE, TreePlan};

use super::{RunPlan, RunSpec, WorkPlan, nanos};
use crate::error::Result;
use crate::lock_bench::arrivals::Script;
use crate::lock_bench::{Fairness, Served};
use crate::mix::Operation;
use crate::settings::Settings;
use crate::verify::history::HISTORY_BYTES_A_KEY;

/// Memory of a client beside its descriptors: its future, its queue-pair state, its page buffer.
/// Generous.
const CLIENT_BYTES: u128 = 16 << 10;
/// Memory of a run whatever its size: histograms, event queue.
const RUN_BYTES: u128 = 16 << 20;
/// The monitor's memory for each lock. Generous.
const MONITOR_BYTES: u128 = 256;

/// More inserts a second than a cluster of today's sizes makes: memory that is not used costs none.
const INSERTS_A_SECOND: f64 = 20e6;
/// Memory of an insert: leaves that were loaded 80 % full are split after a dozen.
const BYTES_AN_INSERT: f64 = 90.0;
/// Chunks where clients insert: with the default of 8 MiB a hundred clients would hold nearly a gigabyte.
const INSERT_CHUNK_BYTES: u64 = 256 << 10;
/// The shortest cool-down, see [`crate::driver::Schedule::new`].
const COOL_DOWN: Duration = Duration::from_millis(1);

/// Bytes of memory that a run will take, also one that is too large to be laid out: then those of its tree.
///
/// # Errors
/// [`crate::Failure::Usage`] as for [`RunPlan::new`].
pub(crate) fn bytes_needed(settings: &Settings, spec: &RunSpec) -> Result<u128> {
    if let Err(error) = RunPlan::lay_out(settings, spec)
        && let ErrorKind::TooLarge { bytes, .. } = error.kind()
    {
        return Ok(*bytes);
    }
    RunPlan::new(settings, spec).map(|plan| plan.bytes())
}

impl RunPlan<'_> {
    /// Bytes of memory that the run will take.
    pub fn bytes(&self) -> u128 {
        let clients = u128::from(self.settings.clients());
        let locks = self.locks.table().index_end() as u64;
        let work = match &self.work {
            WorkPlan::Tree(tree, ..) => self.tree_bytes(tree),
            WorkPlan::Locks(bench) => {
                let requests = bench.script.as_ref().map_or(0, Script::requests);
                Fairness::bytes(locks, clients as u64) + (requests * size_of::<Served>()) as u128
            }
        };
        u128::from(self.map.total_bytes())
            + work
            + u128::from(locks) * MONITOR_BYTES
            + clients * CLIENT_BYTES
            + RUN_BYTES
    }

    /// Bytes of memory that the tree takes outside of regions: index caches, and what verification keeps.
    fn tree_bytes(&self, tree: &TreePlan) -> u128 {
        // Index caches share one copy of the inner pages where they begin with it, and until they
        // change: by a split, or because the copy is beyond the budget. Then each has pages of its
        // own, as many as the budget allows, of the tree as it has grown. Inner pages are half full
        // at least.
        let pages = tree.bytes() + load_options(self.settings).spare_bytes;
        let children = tree.meta().layout().inner_slots() as u64 / 2;
        let inner = u128::from(pages / children.saturating_sub(1).max(1));
        let budget = u128::from(self.settings.cache_budget);
        let grows = self.settings.mix.share(Operation::Insert) > 0.0;
        let changes = grows || budget < inner || !self.settings.prefill_cache;
        let own = u128::from(changes) * u128::from(self.settings.nodes) * inner.min(budget);
        inner + own + self.verification_bytes()
    }

    /// Bytes of memory that verification adds to the run: the history of the keys that can be written, and the
    /// pages that can be in the tree.
    fn verification_bytes(&self) -> u128 {
        let settings = self.settings;
        if !settings.verify {
            return 0;
        }
        // No operation is faster than its look-up in the index cache and its search in a leaf.
        let shortest = DEFAULT_LOOKUP_NS + nanos(settings.search_time);
        let a_client = nanos(whole_time(settings)) / shortest + 1;
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

/// The tree's layout, with memory for what the mix inserts.
pub(super) fn load_options(settings: &Settings) -> LoadOptions {
    let load = LoadOptions {
        fill: settings.fill,
        page_bytes: settings.page_bytes,
        page_format: settings.page_format.into(),
        ..LoadOptions::default()
    };
    let share = settings.mix.share(Operation::Insert);
    if share == 0.0 {
        return load;
    }
    let grown = inserts_at_most(settings) * BYTES_AN_INSERT;
    // Each client has a chunk that it has not used up, and pages for its next split.
    let chunk_bytes = INSERT_CHUNK_BYTES.max(u64::from(settings.page_bytes));
    LoadOptions {
        chunk_bytes,
        spare_bytes: grown as u64 + u64::from(settings.clients()) * 2 * chunk_bytes,
        ..load
    }
}

/// The time within which operations begin.
fn whole_time(settings: &Settings) -> Duration {
    settings.stagger + settings.warmup + settings.window.mul_f64(1.1) + COOL_DOWN
}

/// More inserts than the run makes.
fn inserts_at_most(settings: &Settings) -> f64 {
    let share = settings.mix.share(Operation::Insert);
    whole_time(settings).as_secs_f64() * share * INSERTS_A_SECOND
}
