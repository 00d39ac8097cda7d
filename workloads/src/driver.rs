//! The closed-loop driver: every client has one operation in flight, and begins the next when it is
//! done.
//!
//! Clients start at random within a stagger. Operations that BEGIN in the measured window count,
//! however long they take, so that a long one is not cut off; those of the warm-up before it do
//! not. After the window the clients go on, uncounted, until the last counted operation has ended:
//! its contention stays what it was. That cool-down is bounded, as an unfair lock could starve an
//! operation for as long as others go on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, NodeId};
use dmtree_index::{GrowthStats, Tree};
use dmtree_lock::LockProtocol;
use rand::RngExt;

use crate::distribution::{KeyChooser, client_rng};
use crate::latency::Latencies;
use crate::mix::{Mix, Operation};
use crate::report::Class;
use crate::verify::History;

/// Bits of a value that count a client's updates; the client is above them.
const COUNTER_BITS: u32 = 40;

/// The largest client whose values differ from every other's and from the loaded ones.
pub const MAX_CLIENTS: u64 = (1 << (64 - COUNTER_BITS)) - 2;

/// Bits of a key that tell it from the loaded one before it.
const GAP_BITS: u32 = 24;

const _: () = assert!(crate::settings::MAX_KEYS <= 1 << (64 - GAP_BITS));

/// Key number `index` of those that are loaded.
pub fn loaded_key(index: u64) -> u64 {
    index << GAP_BITS
}

/// A key between loaded key number `index` (that is or could be) and the next one, by 24 bits of `random`: nearly
/// always one that nobody has added yet.
fn key_behind(index: u64, random: u64) -> u64 {
    loaded_key(index) + 1 + random % ((1 << GAP_BITS) - 1)
}

/// The value that `client` writes in its update number `counter`: nobody else's, and none of those
/// loaded, which are below 2^40.
pub fn unique_value(client: ClientId, counter: u64) -> u64 {
    (u64::from(client.0) + 1) << COUNTER_BITS | counter & ((1 << COUNTER_BITS) - 1)
}

/// When clients start, what is measured, and when they stop; in nanoseconds of the fabric's clock.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Clients start within this of the beginning.
    pub stagger_ns: u64,
    /// The measured window begins here.
    pub window_start_ns: u64,
    /// The measured window ends here.
    pub window_end_ns: u64,
    /// The latest end of the cool-down.
    pub stop_ns: u64,
}

impl Schedule {
    /// A stagger within a warm-up, a window, and a cool-down of a tenth of it at most (a
    /// millisecond where that is less), from `start_ns` on.
    pub fn new(start_ns: u64, stagger_ns: u64, warmup_ns: u64, window_ns: u64) -> Self {
        let window_start_ns = start_ns + warmup_ns;
        let window_end_ns = window_start_ns + window_ns;
        Self {
            stagger_ns,
            window_start_ns,
            window_end_ns,
            stop_ns: window_end_ns + (window_ns / 10).max(1_000_000),
        }
    }

    /// Whether an operation counts that begins at `at_ns`.
    pub(crate) fn counts(&self, at_ns: u64) -> bool {
        (self.window_start_ns..self.window_end_ns).contains(&at_ns)
    }
}

/// Why a client gave up.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientFailure {
    /// The tree, the lock or the fabric failed.
    #[error(transparent)]
    Tree(#[from] dmtree_index::Error),
    /// The lock or the fabric failed, where clients work on locks alone.
    #[error(transparent)]
    Lock(#[from] dmtree_lock::Error),
    /// A key that was loaded and never removed is not there.
    #[error("key {key} was loaded and is not found by {}", .operation.name())]
    NotFound {
        /// The key.
        key: u64,
        /// What was asked of it.
        operation: Operation,
    },
}

/// What the clients of a run share: one executor thread, so cells do.
#[derive(Debug, Default)]
pub struct Outcome {
    local: RefCell<Latencies>,
    remote: RefCell<Latencies>,
    /// Counted operations that have begun and not ended.
    in_flight: Cell<u64>,
    failures: RefCell<Vec<(ClientId, ClientFailure)>>,
    growth: RefCell<GrowthStats>,
    /// None where nobody asks for it.
    history: Option<RefCell<History>>,
    /// A word that counts up, by which the history's times are told; the fabric's clock where there is none.
    ticks: Option<GlobalAddr>,
    /// Set when all are to end what they are at.
    stop: Option<Arc<AtomicBool>>,
}

impl Outcome {
    /// As by default, and keeps the history of all writes.
    pub fn with_history() -> Self {
        Self {
            history: Some(RefCell::default()),
            ..Self::default()
        }
    }

    /// As by default, and keeps the history of all writes, by the times that the counter at `ticks` shows: each operation
    /// counts it up before it begins and when it has ended. So the histories of processes whose clocks differ are told in
    /// one time: who begins after another one has ended sees a higher number.
    pub fn with_history_by(ticks: GlobalAddr) -> Self {
        Self {
            history: Some(RefCell::new(History::of_ticks())),
            ticks: Some(ticks),
            ..Self::default()
        }
    }

    /// Ends as well when `stop` is set: then no client begins anything more.
    #[must_use]
    pub fn stopping_by(self, stop: Arc<AtomicBool>) -> Self {
        Self {
            stop: Some(stop),
            ..self
        }
    }

    /// The history of all writes so far, taken out; empty where none was asked for.
    pub fn take_history(&self) -> History {
        self.history
            .as_ref()
            .map_or_else(History::new, RefCell::take)
    }

    /// The first client that gave up, and how many did.
    pub fn failure(&self) -> Option<(ClientId, ClientFailure, usize)> {
        let failures = self.failures.borrow();
        failures
            .first()
            .map(|(client, failure)| (*client, failure.clone(), failures.len()))
    }

    /// Whether a client gave up.
    pub fn has_failed(&self) -> bool {
        !self.failures.borrow().is_empty()
    }

    /// The latencies of local and of remote clients so far.
    pub fn latencies(&self) -> (Latencies, Latencies) {
        (self.local.borrow().clone(), self.remote.borrow().clone())
    }

    /// What the inserts of clients that have ended have done, those that do not count included.
    pub fn growth(&self) -> GrowthStats {
        *self.growth.borrow()
    }

    /// What the history's clock shows.
    async fn time<E: Endpoint>(&self, endpoint: &E) -> Result<u64, dmtree_index::Error> {
        match self.ticks {
            Some(ticks) => Ok(endpoint.rdma_faa(ticks, 1).await?),
            None => Ok(endpoint.now()),
        }
    }

    async fn begin_write<E: Endpoint>(
        &self,
        endpoint: &E,
        key: u64,
        value: u64,
    ) -> Result<(), dmtree_index::Error> {
        if let Some(history) = &self.history {
            let time = self.time(endpoint).await?;
            history
                .borrow_mut()
                .begin(endpoint.client(), key, value, time);
        }
        Ok(())
    }

    async fn acknowledge_write<E: Endpoint>(
        &self,
        endpoint: &E,
    ) -> Result<(), dmtree_index::Error> {
        if let Some(history) = &self.history {
            let time = self.time(endpoint).await?;
            history.borrow_mut().acknowledge(endpoint.client(), time);
        }
        Ok(())
    }

    /// A counted operation begins.
    pub(crate) fn begin_counted(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// A counted operation has ended.
    pub(crate) fn end_counted(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
    }

    /// `client` gives up.
    pub(crate) fn fail(&self, client: ClientId, failure: ClientFailure) {
        self.failures.borrow_mut().push((client, failure));
    }

    /// Whether nobody begins anything any more.
    pub(crate) fn is_over(&self, schedule: &Schedule, now_ns: u64) -> bool {
        let window_over = now_ns >= schedule.window_end_ns;
        let over = window_over && (self.in_flight.get() == 0 || now_ns >= schedule.stop_ns);
        // Nothing depends on what its setter did before.
        let is_set = |stop: &Arc<AtomicBool>| stop.load(Ordering::Relaxed);
        over || self.has_failed() || self.stop.as_ref().is_some_and(is_set)
    }

    /// Counts an operation that took `ns`.
    pub(crate) fn record(&self, class: Class, ns: u64) {
        let latencies = if class == Class::Local {
            &self.local
        } else {
            &self.remote
        };
        latencies.borrow_mut().record(ns);
    }
}

/// What one client is to do.
#[derive(Clone, Debug)]
pub struct ClientTask {
    /// The seed of the run.
    pub seed: u64,
    /// The node that hosts the pages: clients on it are local.
    pub server: NodeId,
    /// Which keys.
    pub keys: KeyChooser,
    /// Which operations.
    pub mix: Mix,
    /// When.
    pub schedule: Schedule,
}

/// Runs one client until the schedule, or another client's failure, ends it.
pub async fn drive<E: Endpoint, L: LockProtocol<E>>(
    task: ClientTask,
    mut tree: Tree<E, L>,
    outcome: Rc<Outcome>,
) {
    let client = tree.endpoint().client();
    let class = if tree.endpoint().node() == task.server {
        Class::Local
    } else {
        Class::Remote
    };
    let mut rng = client_rng(task.seed, client.0);
    let offset = rng.random_range(0..=task.schedule.stagger_ns);
    tree.endpoint().sleep(offset).await;
    let mut updates = 0;
    let mut draw = || {
        let (index, operation) = (task.keys.draw(&mut rng), task.mix.draw(&mut rng));
        let key = match operation {
            Operation::Insert => key_behind(index, rng.random()),
            Operation::Update | Operation::Get => loaded_key(index),
        };
        (key, operation)
    };
    let mut upcoming = [draw(), draw()];
    loop {
        let mut begin = tree.endpoint().now();
        if outcome.is_over(&task.schedule, begin) {
            *outcome.growth.borrow_mut() += tree.stats().growth;
            return;
        }
        let counts = task.schedule.counts(begin);
        if counts {
            outcome.begin_counted();
        }
        let (key, operation) = upcoming[0];
        upcoming = [upcoming[1], draw()];
        // Drawn ahead for the speed of this process only; the operations are the same.
        tree.hint(upcoming[0].0, upcoming[1].0);
        let is_write = operation != Operation::Get;
        updates += u64::from(is_write);
        let value = unique_value(client, updates);
        let begun = if is_write && outcome.history.is_some() {
            let begun = outcome.begin_write(tree.endpoint(), key, value).await;
            begin = tree.endpoint().now();
            begun
        } else {
            Ok(())
        };
        let found = match (begun, operation) {
            (Err(error), _) => Err(error),
            (_, Operation::Update) => tree.update(key, value).await,
            // Also that it replaced a value is as it may be.
            (_, Operation::Insert) => tree.insert(key, value).await.map(|_| true),
            (_, Operation::Get) => tree.get(key).await.map(|value| value.is_some()),
        };
        let took = tree.endpoint().now() - begin;
        let acknowledged = if is_write && outcome.history.is_some() && matches!(found, Ok(true)) {
            outcome.acknowledge_write(tree.endpoint()).await
        } else {
            Ok(())
        };
        let failure = match acknowledged.and(found) {
            Ok(true) => None,
            Ok(false) => Some(ClientFailure::NotFound { key, operation }),
            Err(error) => Some(ClientFailure::Tree(error)),
        };
        if counts {
            outcome.end_counted();
        }
        if let Some(failure) = failure {
            outcome.fail(client, failure);
            return;
        }
        if counts {
            outcome.record(class, took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_one_client_and_none_of_the_loaded() {
        let mut seen = std::collections::BTreeSet::new();
        for client in [0, 1, 119, MAX_CLIENTS as u32 - 1] {
            for counter in [1, 2, (1 << COUNTER_BITS) - 1] {
                let value = unique_value(ClientId(client), counter);
                assert!(
                    value >= crate::settings::MAX_KEYS,
                    "{value} may have been loaded"
                );
                assert!(seen.insert(value));
            }
        }
    }

    #[test]
    fn added_keys_are_between_loaded_ones() {
        for index in [0, 1, crate::settings::MAX_KEYS - 1] {
            for random in [
                0,
                1,
                1 << 23,
                (1 << GAP_BITS) - 2,
                (1 << GAP_BITS) - 1,
                u64::MAX,
            ] {
                let key = key_behind(index, random);
                assert!(key > loaded_key(index) && key - loaded_key(index) < 1 << GAP_BITS);
            }
        }
        assert!(
            loaded_key(crate::settings::MAX_KEYS - 1) > loaded_key(crate::settings::MAX_KEYS - 2)
        );
    }

    #[test]
    fn an_operation_counts_where_it_begins() {
        let schedule = Schedule::new(100, 5, 20, 1_000);
        let counted: Vec<bool> = [100, 119, 120, 1_119, 1_120]
            .iter()
            .map(|at| schedule.counts(*at))
            .collect();
        assert_eq!(counted, [false, false, true, true, false]);
        let outcome = Outcome::default();
        assert!(!outcome.is_over(&schedule, 1_119));
        assert!(outcome.is_over(&schedule, 1_120));
        outcome.in_flight.set(1);
        assert!(
            !outcome.is_over(&schedule, 1_120),
            "a counted operation has not ended"
        );
        assert!(outcome.is_over(&schedule, schedule.stop_ns), "not for ever");
    }
}
