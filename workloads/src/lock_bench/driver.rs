//! What the clients of a lock benchmark do: a job is acquire, critical section, release, and its latency is all three.

use std::cell::RefCell;
use std::rc::Rc;

use dmtree_cluster::Endpoint;
use dmtree_lock::{Cohort, LockProtocol, LockTable, WriteBack};
use rand::RngExt;

use super::arrivals::Arrival;
use super::section::{Lengths, Sections};
use super::{Fairness, Served};
use crate::distribution::client_rng;
use crate::driver::{Outcome, Schedule};
use crate::report::Class;

/// What the clients of a run share.
#[derive(Debug)]
pub struct Jobs {
    /// Latencies and failures.
    pub outcome: Rc<Outcome>,
    /// Who was overtaken.
    pub fairness: RefCell<Fairness>,
    /// Who was served when, in the order of the grants; of given arrivals.
    pub order: RefCell<Vec<Served>>,
}

/// What one client is to do.
#[derive(Clone, Debug)]
pub struct JobTask {
    /// The seed of the run.
    pub seed: u64,
    /// The locks, all of them on one node: clients on it are local.
    pub locks: Rc<LockTable>,
    /// Which node that is.
    pub host: dmtree_cluster::NodeId,
    /// Critical sections, by cohort.
    pub lengths: [Lengths; 2],
    /// When.
    pub schedule: Schedule,
}

/// A client that is about to work.
#[derive(Debug)]
pub struct Worker<E, L> {
    endpoint: E,
    lock: L,
    task: JobTask,
    cohort: Cohort,
    jobs: Rc<Jobs>,
}

/// When a job was done, in nanoseconds of the fabric's clock.
#[derive(Clone, Copy, Debug)]
struct Done {
    asked_ns: u64,
    ended_ns: u64,
}

impl<E: Endpoint, L: LockProtocol<E>> Worker<E, L> {
    /// Of the client of `endpoint`.
    pub fn new(endpoint: E, lock: L, task: JobTask, jobs: Rc<Jobs>) -> Self {
        let cohort = if endpoint.node() == task.host {
            Cohort::Local
        } else {
            Cohort::Remote
        };
        Self {
            endpoint,
            lock,
            task,
            cohort,
            jobs,
        }
    }

    fn class(&self) -> Class {
        match self.cohort {
            Cohort::Local => Class::Local,
            Cohort::Remote => Class::Remote,
        }
    }

    /// The closed loop: locks drawn uniformly, job after job, until the schedule or another client's failure ends it.
    pub async fn drive(mut self) {
        let client = self.endpoint.client();
        let mut rng = client_rng(self.task.seed, client.0);
        let offset = rng.random_range(0..=self.task.schedule.stagger_ns);
        let lengths = self.task.lengths[self.cohort as usize].clone();
        let mut sections = Sections::new(lengths, &mut rng);
        self.endpoint.sleep(offset).await;
        let slots = self.task.locks.slots();
        let mut draw = || (rng.random_range(0..slots), sections.draw(&mut rng));
        let mut upcoming = draw();
        loop {
            let begin = self.endpoint.now();
            if self.jobs.outcome.is_over(&self.task.schedule, begin) {
                return;
            }
            let counts = self.task.schedule.counts(begin);
            let (slot, section_ns) = upcoming;
            upcoming = draw();
            // Drawn ahead for the speed of this process only; the jobs are the same.
            let next = self.task.locks.lock(self.task.host, upcoming.0);
            self.lock.hint(&self.endpoint, next);
            if counts {
                self.jobs.outcome.begin_counted();
            }
            let done = self.job(slot, section_ns, counts, None).await;
            if counts {
                self.jobs.outcome.end_counted();
            }
            match done {
                Ok(done) if counts => {
                    let ns = done.ended_ns - done.asked_ns;
                    self.jobs.outcome.record(self.class(), ns);
                }
                Ok(_) => {}
                Err(error) => return self.jobs.outcome.fail(client, error.into()),
            }
        }
    }

    /// Makes `requests`, each at its time from `start_ns` on or as soon as the one before has ended; all count.
    pub async fn follow(mut self, requests: Vec<Arrival>, start_ns: u64) {
        let client = self.endpoint.client();
        let mut rng = client_rng(self.task.seed, client.0);
        let lengths = self.task.lengths[self.cohort as usize].clone();
        let mut sections = Sections::new(lengths, &mut rng);
        for request in requests {
            let at_ns = start_ns + request.at_ns;
            let now_ns = self.endpoint.now();
            if now_ns < at_ns {
                self.endpoint.sleep(at_ns - now_ns).await;
            }
            if self.jobs.outcome.has_failed() {
                return;
            }
            let section_ns = sections.draw(&mut rng);
            match self
                .job(request.lock, section_ns, true, Some(start_ns))
                .await
            {
                Ok(done) => {
                    let ns = done.ended_ns - done.asked_ns;
                    self.jobs.outcome.record(self.class(), ns);
                }
                Err(error) => return self.jobs.outcome.fail(client, error.into()),
            }
        }
    }

    /// One job; `ordered_from` is the beginning of a run whose order of service is kept.
    async fn job(
        &mut self,
        slot: u32,
        section_ns: u64,
        counts: bool,
        ordered_from: Option<u64>,
    ) -> dmtree_lock::Result<Done> {
        let client = self.endpoint.client();
        let lock = self.task.locks.lock(self.task.host, slot);
        let asked_ns = self.endpoint.now();
        let number = slot as usize;
        self.jobs.fairness.borrow_mut().asks(number, client.0);
        let guard = self.lock.acquire(&self.endpoint, lock).await?;
        // Nobody else is granted this lock before it is released below: the order of these calls is that of grants.
        self.jobs
            .fairness
            .borrow_mut()
            .granted(number, client.0, self.cohort, counts);
        let served = ordered_from.map(|start_ns| {
            let grant_ns = self.endpoint.now();
            let mut order = self.jobs.order.borrow_mut();
            order.push(Served {
                client: client.0,
                node: self.endpoint.node().0,
                class: self.cohort,
                lock: slot,
                arrival_ns: asked_ns - start_ns,
                grant_ns: grant_ns - start_ns,
                wait_ns: grant_ns - asked_ns,
                end_ns: 0,
            });
            (order.len() - 1, start_ns)
        });
        self.endpoint.work(section_ns).await;
        self.lock
            .release(&self.endpoint, guard, WriteBack::NONE)
            .await?;
        let ended_ns = self.endpoint.now();
        if let Some((served, start_ns)) = served {
            self.jobs.order.borrow_mut()[served].end_ns = ended_ns - start_ns;
        }
        Ok(Done { asked_ns, ended_ns })
    }
}
