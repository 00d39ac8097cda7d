//! [`LockWork`]: clients take locks and give them back.

use std::cell::RefCell;
use std::rc::Rc;

use dmtree_cluster::Endpoint;
use dmtree_cluster::sim::Sim;

use super::tree::Tampering;
use super::{RunOutcome, RunPlan, SERVER, Shared, Work, client_places};
use crate::driver::Outcome;
use crate::error::Result;
use crate::lock_bench::driver::{JobTask, Jobs, Worker};
use crate::lock_bench::{Fairness, LockBench, Order};

/// A lock benchmark.
pub(super) struct LockWork<'a, T> {
    run: &'a RunPlan<'a>,
    bench: &'a LockBench,
    jobs: Rc<Jobs>,
    tampering: &'a T,
}

impl<'a, T: Tampering> LockWork<'a, T> {
    pub(super) fn new(run: &'a RunPlan<'a>, bench: &'a LockBench, tampering: &'a T) -> Self {
        let (locks, clients) = (run.locks.table().index_end(), run.settings.clients());
        let fairness = Fairness::new(locks, clients as usize);
        let jobs = Rc::new(Jobs {
            outcome: Rc::default(),
            fairness: RefCell::new(fairness),
            order: RefCell::default(),
        });
        Self {
            run,
            bench,
            jobs,
            tampering,
        }
    }
}

impl<T: Tampering> Work for LockWork<'_, T> {
    type Ready = ();

    /// Memory of zeros is what every lock begins with.
    fn prepare(&self, _: &mut Sim) -> Result<()> {
        Ok(())
    }

    fn outcome(&self) -> Rc<Outcome> {
        Rc::clone(&self.jobs.outcome)
    }

    fn begin(&self, sim: &mut Sim, (): &(), shared: Shared<'_>) {
        let (settings, locks) = (self.run.settings, &self.run.locks);
        let task = JobTask {
            seed: self.run.spec.seed,
            locks: Rc::new(locks.table().clone()),
            host: SERVER,
            lengths: self.bench.lengths.clone(),
            schedule: shared.schedule,
        };
        let start_ns = sim.now_ns();
        for (number, (node, thread)) in client_places(settings).enumerate() {
            let endpoint = sim.endpoint(node, thread);
            let lock = locks.client(endpoint.client(), Some(Rc::clone(shared.monitor)));
            self.tampering.lock(&lock);
            let jobs = Rc::clone(&self.jobs);
            let worker = Worker::new(endpoint.clone(), lock, task.clone(), jobs);
            match &self.bench.script {
                None => sim.spawn(&endpoint, worker.drive()),
                Some(script) => {
                    let requests = script.of_client(number).to_vec();
                    sim.spawn(&endpoint, worker.follow(requests, start_ns));
                }
            }
        }
    }

    fn finish(&self, _: &mut Sim, (): (), _: &Outcome, found: RunOutcome) -> Result<RunOutcome> {
        let requests = self.jobs.order.take();
        let order = self.bench.script.as_ref().map(|_| Order {
            seed: self.run.spec.seed,
            requests,
        });
        Ok(RunOutcome {
            fairness: Some(self.jobs.fairness.borrow().tally().clone()),
            order: order.into_iter().collect(),
            ..found
        })
    }
}
