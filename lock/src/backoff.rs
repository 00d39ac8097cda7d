//! [`Backoff`]: what a client does between two attempts of a CAS that others won.

use dmtree_cluster::Endpoint;

/// The pause after a CAS that failed: between the attempts of a swap that is made as a loop of CAS, and between those
/// of a lock whose word is taken by CAS.
///
/// A loop of CAS is metastable: each success invalidates the guesses of all others, so that many at once keep the
/// RNIC's atomic unit busy with attempts that must fail, which keeps them many. Pauses take load off that unit; what
/// they gain and cost is measured in docs/locks.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// Again at once: the round trip is the pause. What the published locks do.
    #[default]
    None,
    /// A random time up to a bound that doubles with every failure (bounded exponential, all of it jitter: who fails
    /// at one time shall not come back at one time). Failures are counted anew with every acquire.
    Exponential {
        /// The bound after the first failure, in nanoseconds; 0 is no pause ever.
        min_ns: u64,
        /// The greatest bound, in nanoseconds; below `min_ns` it is `min_ns`.
        max_ns: u64,
    },
}

/// The pauses of one request.
#[derive(Debug)]
pub(crate) struct Pauses {
    bound_ns: u64,
    max_ns: u64,
}

impl Pauses {
    pub(crate) fn new(backoff: Backoff) -> Self {
        let (bound_ns, max_ns) = match backoff {
            Backoff::None => (0, 0),
            Backoff::Exponential { min_ns, max_ns } => (min_ns, max_ns.max(min_ns)),
        };
        Self { bound_ns, max_ns }
    }

    /// Lets the next pause pass; returns whether there was one.
    pub(crate) async fn pass<E: Endpoint>(&mut self, ep: &E) -> bool {
        if self.bound_ns == 0 {
            return false;
        }
        // The remainder prefers small numbers by less than a bound in 2^64.
        ep.sleep(1 + ep.random() % self.bound_ns).await;
        self.bound_ns = self.bound_ns.saturating_mul(2).min(self.max_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use dmtree_cluster::sim::{Profile, Sim, SimConfig};
    use dmtree_cluster::{MemoryMap, NodeId};

    use super::*;

    /// How long each of `count` pauses is, for each of `clients` clients.
    fn pauses(backoff: Backoff, clients: usize, count: usize) -> Vec<Vec<u64>> {
        let config = SimConfig::new(Profile::by_name("cx3-fdr").expect("a profile"));
        let mut sim = Sim::new(&config, &MemoryMap::new(1)).expect("memory");
        let all: Rc<RefCell<Vec<Vec<u64>>>> = Rc::default();
        for thread in 0..clients {
            let ep = sim.endpoint(NodeId(0), thread as u16);
            let all = Rc::clone(&all);
            sim.spawn(&ep.clone(), async move {
                let (mut pauses, mut lengths) = (Pauses::new(backoff), Vec::new());
                for _ in 0..count {
                    let before = ep.now();
                    let paused = pauses.pass(&ep).await;
                    lengths.push(ep.now() - before);
                    assert_eq!(paused, ep.now() > before);
                }
                all.borrow_mut().push(lengths);
            });
        }
        sim.run().expect("all pauses end");
        all.take()
    }

    #[test]
    fn the_bound_doubles_up_to_the_greatest() {
        let backoff = Backoff::Exponential {
            min_ns: 1000,
            max_ns: 6000,
        };
        let all = pauses(backoff, 300, 6);
        for (nth, bound) in [1000, 2000, 4000, 6000, 6000, 6000].into_iter().enumerate() {
            let lengths: Vec<u64> = all.iter().map(|lengths| lengths[nth]).collect();
            let longest = lengths.iter().max().copied().unwrap_or(0);
            assert!(longest <= bound, "{nth}: {longest} ns");
            // Uniform: 300 clients fill the whole range.
            assert!(longest > bound * 9 / 10, "{nth}: {longest} ns");
            let mean = lengths.iter().sum::<u64>() / 300;
            assert!(mean.abs_diff(bound / 2) < bound / 10, "{nth}: {mean} ns");
        }
    }

    #[test]
    fn no_backoff_is_no_pause() {
        let never = Backoff::Exponential {
            min_ns: 0,
            max_ns: 1000,
        };
        for backoff in [Backoff::None, never] {
            assert_eq!(pauses(backoff, 2, 3), [[0; 3]; 2]);
        }
        let fixed = Backoff::Exponential {
            min_ns: 700,
            max_ns: 0,
        };
        assert!(
            pauses(fixed, 50, 4)
                .iter()
                .flatten()
                .all(|ns| (1..=700).contains(ns))
        );
    }
}
