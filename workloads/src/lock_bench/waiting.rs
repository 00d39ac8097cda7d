//! [`Waiting`]: the requests that wait for one lock, in the order of their arrival.

/// Places before the first compaction: as many as a busy lock of the paper's cluster has waiting, at twice the room.
const FIRST_PLACES: usize = 64;

/// A Fenwick tree (Fenwick, 1994) over places in the order of arrival: who came before somebody and still waits is
/// counted in O(log n).
///
/// Every request gets the place behind the last. When all are used, those that still wait move together, in their
/// order, into twice as many as they need: O(1) amortised, and n stays the number that wait, however long one waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// `sums[i]` is how many wait at the places from `i & (i + 1)` to `i`.
    sums: Vec<u32>,
    /// Who has which place, those that have left included.
    clients: Vec<u32>,
    count: u32,
}

impl Waiting {
    /// `client` arrives, behind all others. `places` has the place of each client that waits, and is kept so.
    pub(super) fn arrive(&mut self, client: u32, places: &mut [u32]) {
        if self.count == 0 {
            // Nobody waits, so that all sums are 0: the places begin anew.
            self.clients.clear();
        } else if self.clients.len() == self.sums.len() {
            self.compact(places);
        }
        if self.sums.is_empty() {
            self.sums.resize(FIRST_PLACES, 0);
        }
        self.enter(client, places);
    }

    /// The one at `place` leaves; returns how many came before it and still wait.
    pub(super) fn leave(&mut self, place: u32) -> u32 {
        let mut index = place as usize;
        while index < self.sums.len() {
            self.sums[index] -= 1;
            index |= index + 1;
        }
        self.count -= 1;
        if self.count == 0 {
            0
        } else {
            self.before(place)
        }
    }

    fn enter(&mut self, client: u32, places: &mut [u32]) {
        let mut index = self.clients.len();
        places[client as usize] = index as u32;
        self.clients.push(client);
        while index < self.sums.len() {
            self.sums[index] += 1;
            index |= index + 1;
        }
        self.count += 1;
    }

    fn before(&self, place: u32) -> u32 {
        let (mut end, mut sum) = (place as usize, 0);
        while end > 0 {
            sum += self.sums[end - 1];
            end &= end - 1;
        }
        sum
    }

    #[cold]
    fn compact(&mut self, places: &mut [u32]) {
        // Who has left is still among `clients`, and adds nothing to the sums.
        let mut here: Vec<u32> = Vec::with_capacity(self.count as usize);
        let mut sum = 0;
        for (place, client) in self.clients.iter().enumerate() {
            let until = self.before(place as u32 + 1);
            if until > sum {
                here.push(*client);
            }
            sum = until;
        }
        self.clients.clear();
        self.sums.clear();
        self.sums.resize(FIRST_PLACES.max(2 * here.len()), 0);
        self.count = 0;
        for client in here {
            self.enter(client, places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Against a list of those that wait, over arrivals and departures that go through many compactions.
        #[test]
        fn counts_are_those_of_a_list(steps in proptest::collection::vec((0u32..300, 0usize..1000), 0..2000)) {
            let mut waiting = Waiting::default();
            let mut places = vec![0u32; 300];
            let mut list: Vec<u32> = Vec::new();
            for (client, at) in steps {
                match list.iter().position(|other| *other == client) {
                    None => {
                        waiting.arrive(client, &mut places);
                        list.push(client);
                    }
                    Some(_) => {
                        let index = at % list.len();
                        let leaves = list.remove(index);
                        proptest::prop_assert_eq!(waiting.leave(places[leaves as usize]) as usize, index);
                    }
                }
            }
        }
    }

    #[test]
    fn one_that_waits_for_ever_takes_no_room() {
        let mut waiting = Waiting::default();
        let mut places = vec![0; 2];
        waiting.arrive(0, &mut places);
        for _ in 0..100_000 {
            waiting.arrive(1, &mut places);
            assert_eq!(waiting.leave(places[1]), 1);
        }
        assert_eq!(waiting.sums.len(), FIRST_PLACES);
        assert_eq!(waiting.leave(places[0]), 0);
    }
}
