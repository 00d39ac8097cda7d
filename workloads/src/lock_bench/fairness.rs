//! [`Fairness`]: how far the order of grants is from the order of requests.
//!
//! A request begins when its client calls acquire. What each grant is held against, of the same lock:
//! * **overtaken**: the requests that began earlier and still wait at the grant. 0 everywhere is first come, first
//!   served;
//! * **displacement** (FARLock, Figure 3b): the grant's number minus the request's. Its standard deviation is 0 for first
//!   come, first served; its mean says nothing, as whoever is early makes others late;
//! * **hand-over**: from the cohort that was granted the lock last to this one's, whether or not anybody waited;
//! * **run**: how often in a row its cohort was granted the lock, this grant included.
//!
//! Requests of the same virtual instant are in the order in which the simulation runs them. Grants count that are of
//! requests which count, those that began in the measured window; all others are seen, too.

use dmtree_lock::Cohort;
use serde::{Deserialize, Serialize};

use super::waiting::Waiting;
use crate::latency::Percentile;
use crate::report::Class;

/// What grants of one cohort, or of both, came to. Of several runs it is merged exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tally {
    /// How many grants overtook so many requests, by that number.
    overtaken: Vec<u64>,
    displacement_sum: i128,
    displacement_squares: u128,
    longest_run: u64,
}

impl Tally {
    fn count(&mut self, overtaken: u32, displacement: i64, run: u64) {
        let index = overtaken as usize;
        if self.overtaken.len() <= index {
            self.overtaken.resize(index + 1, 0);
        }
        self.overtaken[index] += 1;
        self.displacement_sum += i128::from(displacement);
        self.displacement_squares += u128::from(displacement.unsigned_abs()).pow(2);
        self.longest_run = self.longest_run.max(run);
    }

    fn merge(&mut self, other: &Self) {
        if self.overtaken.len() < other.overtaken.len() {
            self.overtaken.resize(other.overtaken.len(), 0);
        }
        for (count, more) in self.overtaken.iter_mut().zip(&other.overtaken) {
            *count += more;
        }
        self.displacement_sum += other.displacement_sum;
        self.displacement_squares += other.displacement_squares;
        self.longest_run = self.longest_run.max(other.longest_run);
    }

    fn row(&self, hand_overs: Option<HandOvers>) -> FairnessRow {
        let grants: u64 = self.overtaken.iter().sum();
        let counted = |(number, count): (usize, &u64)| u128::from(*count) * number as u128;
        let overtaken: u128 = self.overtaken.iter().enumerate().map(counted).sum();
        let of_grants = |sum: f64| (grants > 0).then(|| sum / grants as f64);
        let variance = |mean: f64| {
            let squares = self.displacement_squares as f64 / grants as f64;
            // Rounding must not make the root of a negative number.
            (squares - mean * mean).max(0.0)
        };
        FairnessRow {
            grants,
            overtaken: OvertakenRow {
                mean: of_grants(overtaken as f64),
                p99: self.p99(grants),
                // The last count is never 0.
                max: self.overtaken.len().checked_sub(1).map(|most| most as u64),
            },
            displacement_sd: of_grants(self.displacement_sum as f64)
                .map(|mean| variance(mean).sqrt()),
            longest_run: (grants > 0).then_some(self.longest_run),
            hand_overs,
        }
    }

    fn p99(&self, grants: u64) -> Option<u64> {
        const P99: Percentile = Percentile::ALL[2];
        let beyond = P99.of_100_000 as u128 * u128::from(grants);
        let mut sum = 0u128;
        let found = self.overtaken.iter().position(|count| {
            sum += u128::from(*count);
            sum * 100_000 >= beyond
        });
        found
            .filter(|_| P99.is_meaningful(grants))
            .map(|number| number as u64)
    }
}

/// What the counted grants of a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FairnessTally {
    /// By cohort.
    grants: [Tally; 2],
    /// By the cohort before and the one after.
    hand_overs: [[u64; 2]; 2],
}

impl FairnessTally {
    /// Adds what `other` has, the same as if it had been counted here.
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in self.grants.iter_mut().zip(&other.grants) {
            mine.merge(others);
        }
        for (mine, others) in self.hand_overs.iter_mut().zip(&other.hand_overs) {
            for (count, more) in mine.iter_mut().zip(others) {
                *count += more;
            }
        }
    }

    /// What is reported of `class`.
    pub fn row(&self, class: Class) -> FairnessRow {
        let [local, remote] = &self.grants;
        match class {
            Class::Local => local.row(None),
            Class::Remote => remote.row(None),
            Class::All => {
                let mut all = local.clone();
                all.merge(remote);
                all.row(Some(HandOvers::of(&self.hand_overs)))
            }
        }
    }
}

/// The fairness of one class of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FairnessRow {
    /// Grants that count.
    pub grants: u64,
    /// Requests that a grant overtook.
    pub overtaken: OvertakenRow,
    /// Standard deviation of the grant's number minus the request's; null without grants.
    pub displacement_sd: Option<f64>,
    /// Most grants in a row of one lock to the class' cohort (to either, of all); null without grants.
    pub longest_run: Option<u64>,
    /// From whom to whom locks went; of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hand_overs: Option<HandOvers>,
}

/// Requests of the same lock that had begun earlier and still waited at a grant; null without grants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OvertakenRow {
    /// On average.
    pub mean: Option<f64>,
    /// Percentile 99; null also with fewer than ten grants beyond it.
    pub p99: Option<u64>,
    /// At most.
    pub max: Option<u64>,
}

/// From which cohort to which locks were handed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HandOvers {
    /// Local to local.
    pub local_local: HandOver,
    /// Local to remote.
    pub local_remote: HandOver,
    /// Remote to local.
    pub remote_local: HandOver,
    /// Remote to remote.
    pub remote_remote: HandOver,
}

/// Hand-overs of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HandOver {
    /// How many.
    pub count: u64,
    /// Of all hand-overs; null without any.
    pub share: Option<f64>,
}

impl HandOvers {
    fn of(counts: &[[u64; 2]; 2]) -> Self {
        let all: u64 = counts.iter().flatten().sum();
        let of = |count: u64| HandOver {
            count,
            share: (all > 0).then(|| count as f64 / all as f64),
        };
        let [[local_local, local_remote], [remote_local, remote_remote]] =
            counts.map(|row| row.map(of));
        Self {
            local_local,
            local_remote,
            remote_local,
            remote_remote,
        }
    }

    /// In the order local to local, local to remote, remote to local, remote to remote.
    pub fn each(&self) -> [HandOver; 4] {
        [
            self.local_local,
            self.local_remote,
            self.remote_local,
            self.remote_remote,
        ]
    }
}

#[derive(Clone, Debug, Default)]
struct LockQueue {
    waiting: Waiting,
    requests: u64,
    grants: u64,
    /// The cohort granted last, and how often in a row.
    run: Option<(Cohort, u64)>,
}

/// Watches requests and grants of a run's locks while it goes on. A client waits for one lock at a time.
#[derive(Clone, Debug)]
pub struct Fairness {
    locks: Vec<LockQueue>,
    /// By client: its place in the queue of the lock that it waits for.
    places: Vec<u32>,
    /// By client: the number of its request.
    numbers: Vec<u64>,
    tally: FairnessTally,
}

impl Fairness {
    /// Of `locks` locks and `clients` clients, none of which has asked for one.
    pub fn new(locks: usize, clients: usize) -> Self {
        Self {
            locks: vec![LockQueue::default(); locks],
            places: vec![0; clients],
            numbers: vec![0; clients],
            tally: FairnessTally::default(),
        }
    }

    /// Bytes of memory that one of `locks` locks and `clients` clients takes at most.
    pub(crate) fn bytes(locks: u64, clients: u64) -> u128 {
        // Each client waits for one lock, and a lock has room for twice those that wait.
        let of_a_lock = size_of::<LockQueue>() as u128 + 64 * 8;
        let of_a_client = 8 + 4 + 4 * 2 * 2 * 8;
        u128::from(locks) * of_a_lock + u128::from(clients) * of_a_client
    }

    /// `client` is about to ask for `lock`.
    ///
    /// # Panics
    /// When one of them does not exist.
    pub fn asks(&mut self, lock: usize, client: u32) {
        let queue = &mut self.locks[lock];
        queue.waiting.arrive(client, &mut self.places);
        self.numbers[client as usize] = queue.requests;
        queue.requests += 1;
    }

    /// `client`, of `cohort`, holds `lock` now, which it has asked for. `counts` says whether its request does.
    ///
    /// # Panics
    /// When one of them does not exist.
    pub fn granted(&mut self, lock: usize, client: u32, cohort: Cohort, counts: bool) {
        let queue = &mut self.locks[lock];
        let overtaken = queue.waiting.leave(self.places[client as usize]);
        let displacement = queue
            .grants
            .wrapping_sub(self.numbers[client as usize])
            .cast_signed();
        queue.grants += 1;
        let before = queue.run.map(|(before, _)| before);
        let run = match queue.run {
            Some((before, run)) if before == cohort => run + 1,
            _ => 1,
        };
        queue.run = Some((cohort, run));
        if counts {
            self.tally.grants[cohort as usize].count(overtaken, displacement, run);
            if let Some(before) = before {
                self.tally.hand_overs[before as usize][cohort as usize] += 1;
            }
        }
    }

    /// What the grants so far came to.
    pub fn tally(&self) -> &FairnessTally {
        &self.tally
    }
}

#[cfg(test)]
mod tests;
