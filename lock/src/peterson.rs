//! Peterson's algorithm between two cohorts, by plain stores and loads: at most one contender of each.
//!
//! Three neighbouring words of a line in the lock node's host memory:
//!
//! | word | name | changed by | read by |
//! |---|---|---|---|
//! | 0 | remote flag | remote clients, through the RNIC | the local contender, CPU |
//! | 1 | `victim`: 1 local, 2 remote | both contenders: CPU store, WRITE | both contenders |
//! | 2 | local flag | local clients, by CPU | the remote contender, READ |
//!
//! A flag is up when its word is not 0; a lock may keep something else in it (ALock: the cohort's tail). `victim`
//! stands in the middle so that each contender reads two neighbouring words, and the remote one sets flag and
//! victim by one WRITE, which lands in increasing address order.
//!
//! **Why one of two contenders waits.** Each raises its flag, then makes its cohort the victim, then looks. Of
//! two, let B's store to `victim` be the later one. B's look comes after it, and A's flag was up before A's
//! store to `victim`, so B sees A's flag up and itself as the victim for as long as neither changes. A reader
//! that sees one of the two differ may go on: that alone is the proof, so the two need not be of one instant.
//!
//! **What it needs.** Store then load of another word, in this order, for everybody: `SeqCst` on the CPU; on a
//! queue pair WRITE→READ.

use std::sync::atomic::Ordering;

use dmtree_cluster::{Endpoint, GlobalAddr, WaitFor};

use crate::member::{Member, sabotaged};
use crate::side::{Steps, wait};
use crate::{Cohort, Result};

const REMOTE_FLAG: u64 = 0;
const VICTIM: u64 = 1;
const LOCAL_FLAG: u64 = 2;

/// How `victim` names a cohort.
fn code(cohort: Cohort) -> u64 {
    match cohort {
        Cohort::Local => 1,
        Cohort::Remote => 2,
    }
}

/// The three words from an address on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peterson {
    at: GlobalAddr,
}

impl Peterson {
    pub(crate) const fn new(at: GlobalAddr) -> Self {
        Self { at }
    }

    /// A cohort's flag.
    pub(crate) fn flag(self, cohort: Cohort) -> GlobalAddr {
        self.at.word(match cohort {
            Cohort::Local => LOCAL_FLAG,
            Cohort::Remote => REMOTE_FLAG,
        })
    }

    /// The two words that a contender looks at.
    fn watched(self, cohort: Cohort) -> GlobalAddr {
        self.at.word(match cohort {
            Cohort::Local => REMOTE_FLAG,
            Cohort::Remote => VICTIM,
        })
    }

    /// Waits until the client's cohort has won. The cohort's flag is raised here, or is up already.
    pub(crate) async fn enter<E: Endpoint>(
        self,
        ep: &E,
        member: &Member,
        cohort: Cohort,
        raise: bool,
        what: WaitFor,
    ) -> Result<()> {
        let (watched, victim) = (self.watched(cohort), self.at.word(VICTIM));
        let mut steps = Steps::new(ep, self.at);
        let early = if sabotaged!(member, AlockNoVictimRecheck) {
            Some(steps.read_two(watched, Ordering::SeqCst).await?)
        } else {
            None
        };
        if raise && cohort == Cohort::Remote {
            let words = [1, code(cohort)];
            steps
                .write_two(self.flag(cohort), words, Ordering::SeqCst)
                .await?;
        } else {
            if raise {
                steps.write(self.flag(cohort), 1, Ordering::SeqCst).await?;
            }
            steps.write(victim, code(cohort), Ordering::SeqCst).await?;
        }
        let look = match early {
            Some(early) => early,
            None => steps.read_two(watched, Ordering::SeqCst).await?,
        };
        steps.run().await?;
        if open(cohort, steps.words(look)) {
            return Ok(());
        }
        drop(steps);
        // The wait's loads come after the look's, which came after the stores: acquire suffices from here.
        wait(ep, watched, 2, what, |words| {
            open(cohort, [words[0], words[1]])
        })
        .await?;
        Ok(())
    }
}

/// Whether the watched words let the contender in.
#[inline]
fn open(cohort: Cohort, watched: [u64; 2]) -> bool {
    let (other_flag, victim) = match cohort {
        Cohort::Local => (watched[0], watched[1]),
        Cohort::Remote => (watched[1], watched[0]),
    };
    other_flag == 0 || victim != code(cohort)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmtree_cluster::NodeId;

    #[test]
    fn contenders_look_at_the_words_of_the_table() {
        let peterson = Peterson::new(GlobalAddr::new(NodeId(0), 64));
        let word = |addr: GlobalAddr| ((addr.offset() - 64) / 8) as usize;
        assert_eq!(
            word(peterson.flag(Cohort::Remote)) + 1,
            VICTIM as usize,
            "one WRITE sets both"
        );
        for cohort in Cohort::ALL {
            let first = word(peterson.watched(cohort));
            let mut words = [0u64; 3];
            assert!(
                open(cohort, [words[first], words[first + 1]]),
                "nobody is there"
            );
            words[word(peterson.flag(cohort.other()))] = 640;
            words[VICTIM as usize] = code(cohort);
            assert!(
                !open(cohort, [words[first], words[first + 1]]),
                "the other is there, {cohort} is the victim"
            );
            words[VICTIM as usize] = code(cohort.other());
            assert!(
                open(cohort, [words[first], words[first + 1]]),
                "the other is the victim"
            );
        }
    }
}
