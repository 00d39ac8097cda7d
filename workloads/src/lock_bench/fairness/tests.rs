//! Fairness on histories that are known, and against a naive recomputation on random ones.

use super::*;
use Cohort::{Local, Remote};

/// One step of a history: of a lock, who.
#[derive(Clone, Copy, Debug)]
enum Step {
    Asks(usize, u32),
    Granted(usize, u32),
}
use Step::{Asks, Granted};

/// Clients below this are local.
const LOCALS: u32 = 4;
const CLIENTS: usize = 8;

fn cohort(client: u32) -> Cohort {
    if client < LOCALS { Local } else { Remote }
}

fn watched(locks: usize, steps: &[Step]) -> FairnessTally {
    let mut fairness = Fairness::new(locks, CLIENTS);
    for step in steps {
        match *step {
            Asks(lock, client) => fairness.asks(lock, client),
            Granted(lock, client) => fairness.granted(lock, client, cohort(client), true),
        }
    }
    fairness.tally().clone()
}

#[test]
fn first_come_first_served_overtakes_nobody() {
    let tally = watched(
        1,
        &[
            Asks(0, 0),
            Asks(0, 5),
            Granted(0, 0),
            Asks(0, 1),
            Granted(0, 5),
            Asks(0, 0),
            Granted(0, 1),
            Granted(0, 0),
        ],
    );
    let all = tally.row(Class::All);
    assert_eq!((all.grants, all.overtaken.mean), (4, Some(0.0)));
    assert_eq!(
        (all.overtaken.max, all.displacement_sd),
        (Some(0), Some(0.0))
    );
    let hand_overs = all.hand_overs.unwrap().each();
    assert_eq!(hand_overs.map(|of| of.count), [1, 1, 1, 0]);
    assert_eq!(hand_overs[0].share, Some(1.0 / 3.0));
    assert_eq!(tally.row(Class::Local).longest_run, Some(2));
    assert_eq!(tally.row(Class::Remote).longest_run, Some(1));
    assert_eq!(tally.row(Class::Local).hand_overs, None);
}

/// Requests 0, 1, 2 served in the order 2, 0, 1: the first grant overtakes two, the others nobody.
#[test]
fn the_last_served_first_overtakes_all() {
    let tally = watched(
        1,
        &[
            Asks(0, 0),
            Asks(0, 1),
            Asks(0, 4),
            Granted(0, 4),
            Granted(0, 0),
            Granted(0, 1),
        ],
    );
    let (local, remote) = (tally.row(Class::Local), tally.row(Class::Remote));
    assert_eq!(
        (local.overtaken.mean, local.overtaken.max),
        (Some(0.0), Some(0))
    );
    assert_eq!(
        (remote.overtaken.mean, remote.overtaken.max),
        (Some(2.0), Some(2))
    );
    // Displacements -2, 1, 1: mean 0, mean of squares 2.
    assert_eq!(tally.row(Class::All).displacement_sd, Some(2f64.sqrt()));
    // Both locals came one later than they asked: no deviation among themselves.
    assert_eq!(local.displacement_sd, Some(0.0));
    assert_eq!(tally.row(Class::All).overtaken.mean, Some(2.0 / 3.0));
    assert_eq!(
        tally.row(Class::All).overtaken.p99,
        None,
        "three grants have none"
    );
}

#[test]
fn locks_are_apart_and_what_does_not_count_is_seen_all_the_same() {
    let tally = watched(2, &[Asks(0, 0), Asks(1, 1), Granted(1, 1), Granted(0, 0)]);
    assert_eq!(tally.row(Class::All).overtaken.max, Some(0));
    assert_eq!(
        tally
            .row(Class::All)
            .hand_overs
            .unwrap()
            .each()
            .map(|of| of.count),
        [0; 4]
    );
    let mut fairness = Fairness::new(1, CLIENTS);
    fairness.asks(0, 0);
    fairness.granted(0, 0, Local, false);
    fairness.asks(0, 1);
    fairness.asks(0, 2);
    fairness.granted(0, 2, Local, true);
    let row = fairness.tally().row(Class::All);
    assert_eq!((row.grants, row.overtaken.max), (1, Some(1)));
    assert_eq!(row.longest_run, Some(2), "the run began before");
    assert_eq!(row.hand_overs.unwrap().local_local.count, 1);
    assert_eq!(
        Fairness::new(1, 1).tally().row(Class::All).overtaken.mean,
        None
    );
}

#[test]
fn a_p99_needs_ten_grants_beyond_it() {
    let mut tally = Tally::default();
    (0..989).for_each(|_| tally.count(1, 0, 1));
    (0..10).for_each(|_| tally.count(7, 0, 1));
    assert_eq!(tally.row(None).overtaken.p99, None);
    tally.count(1, 0, 1);
    // 990 of 1000 are 1.
    assert_eq!(tally.row(None).overtaken.p99, Some(1));
    tally.count(7, 0, 1);
    assert_eq!(tally.row(None).overtaken.p99, Some(7));
}

/// A grant: requests overtaken, displacement, cohort.
type Grant = (u32, i64, Cohort);

/// Grants, hand-overs and longest runs, as they are defined, taken at their word.
fn naive(locks: usize, steps: &[Step]) -> (Vec<Grant>, [[u64; 2]; 2], [u64; 2]) {
    let (mut grants, mut hand_overs, mut longest) = (Vec::new(), [[0; 2]; 2], [0; 2]);
    for lock in 0..locks {
        let mine: Vec<(usize, Step)> = steps
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, step)| matches!(step, Asks(at, _) | Granted(at, _) if *at == lock))
            .collect();
        let asks: Vec<(usize, u32)> = mine
            .iter()
            .filter_map(|(at, step)| match step {
                Asks(_, client) => Some((*at, *client)),
                Granted(..) => None,
            })
            .collect();
        let served: Vec<(usize, u32)> = mine
            .iter()
            .filter_map(|(at, step)| match step {
                Granted(_, client) => Some((*at, *client)),
                Asks(..) => None,
            })
            .collect();
        // The grant of a request is its client's first one behind it.
        let granted_at = |asked: (usize, u32)| {
            let mut grants = served
                .iter()
                .filter(|(at, who)| *at > asked.0 && *who == asked.1);
            grants.next().map_or(usize::MAX, |(at, _)| *at)
        };
        for (number, (at, client)) in served.iter().enumerate() {
            let request = asks
                .iter()
                .position(|asked| granted_at(*asked) == *at)
                .unwrap();
            let overtaken = asks[..request]
                .iter()
                .filter(|asked| granted_at(**asked) > *at);
            let overtaken = overtaken.count() as u32;
            let cohort = cohort(*client);
            grants.push((overtaken, number as i64 - request as i64, cohort));
            if let Some(before) = number.checked_sub(1).map(|before| served[before].1) {
                hand_overs[self::cohort(before) as usize][cohort as usize] += 1;
            }
            let run = served[..=number].iter().rev();
            let run = run
                .take_while(|(_, who)| self::cohort(*who) == cohort)
                .count() as u64;
            longest[cohort as usize] = run.max(longest[cohort as usize]);
        }
    }
    (grants, hand_overs, longest)
}

proptest::proptest! {
    #[test]
    fn random_histories_agree_with_a_naive_recomputation(
        draws in proptest::collection::vec((0u32..CLIENTS as u32, 0usize..3, 0usize..100), 0..400),
        cut in 0usize..400,
    ) {
        // A client that waits is granted, or another one that waits for the same lock; one that does not, asks.
        let mut waits: Vec<Option<usize>> = vec![None; CLIENTS];
        let mut steps = Vec::new();
        for (client, lock, other) in draws {
            match waits[client as usize] {
                None => {
                    waits[client as usize] = Some(lock);
                    steps.push(Asks(lock, client));
                }
                Some(lock) => {
                    let waiting: Vec<u32> =
                        (0..CLIENTS as u32).filter(|who| waits[*who as usize] == Some(lock)).collect();
                    let who = waiting[other % waiting.len()];
                    waits[who as usize] = None;
                    steps.push(Granted(lock, who));
                }
            }
        }
        let found = watched(3, &steps);
        let (grants, hand_overs, longest) = naive(3, &steps);
        let mut expected = FairnessTally { hand_overs, ..FairnessTally::default() };
        for (overtaken, displacement, cohort) in &grants {
            expected.grants[*cohort as usize].count(*overtaken, *displacement, longest[*cohort as usize]);
        }
        proptest::prop_assert_eq!(&found, &expected);
        let mean = grants.iter().map(|(overtaken, ..)| f64::from(*overtaken)).sum::<f64>() / grants.len() as f64;
        if !grants.is_empty() {
            proptest::prop_assert!((found.row(Class::All).overtaken.mean.unwrap() - mean).abs() < 1e-9);
        }
        // Parts of a history, each with what went on before it, add up to the whole.
        let cut = cut.min(steps.len());
        let counted = |counts: &dyn Fn(usize) -> bool| {
            let mut fairness = Fairness::new(3, CLIENTS);
            for (at, step) in steps.iter().enumerate() {
                match *step {
                    Asks(lock, client) => fairness.asks(lock, client),
                    Granted(lock, client) => fairness.granted(lock, client, cohort(client), counts(at)),
                }
            }
            fairness.tally().clone()
        };
        let mut sum = counted(&|at| at < cut);
        sum.merge(&counted(&|at| at >= cut));
        proptest::prop_assert_eq!(sum, found);
    }
}
