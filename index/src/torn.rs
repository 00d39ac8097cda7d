//! The claim of [`crate::page`], and the holes of other ways, in a model of the contract.
//!
//! Time is the number of words written so far; a word has one value between two writes. An adversary decides when
//! each word of a READ is read, between when the READ begins and ends.

use proptest::prelude::*;

use crate::leaf::{self, value_word};
use crate::page::{self, ENTRY_WORDS, OCCUPANCY, PageLayout, PageView, SEQ, settled};

/// A page, and each word that was written to it, in order.
struct History {
    layout: PageLayout,
    first: Vec<u64>,
    writes: Vec<(usize, u64)>,
    now: Vec<u64>,
}

impl History {
    fn new(page_bytes: u32) -> Self {
        let layout = PageLayout::new(page_bytes).unwrap();
        let mut first = vec![0; layout.words()];
        page::begin(&mut first, 0, 0);
        Self {
            layout,
            now: first.clone(),
            first,
            writes: Vec::new(),
        }
    }

    fn write(&mut self, word: usize, value: u64) {
        self.writes.push((word, value));
        self.now[word] = value;
    }

    fn slot(&self, key: u64) -> Option<usize> {
        PageView::parse(self.layout, &self.now)
            .unwrap()
            .leaf()
            .unwrap()
            .find(key)
    }

    fn free_slot(&self) -> Option<usize> {
        (0..self.layout.leaf_slots()).find(|slot| self.now[OCCUPANCY] >> slot & 1 == 0)
    }

    /// A structural change: the words that differ, or all of them, in increasing order between the two steps of
    /// the sequence word.
    fn change(&mut self, whole: bool, change: impl FnOnce(&PageLayout, &mut [u64])) {
        let mut to = self.now.clone();
        change(&self.layout, &mut to);
        let seq = self.now[SEQ];
        self.write(SEQ, seq + 1);
        for (word, value) in to.into_iter().enumerate().skip(SEQ + 1) {
            if whole || self.now[word] != value {
                self.write(word, value);
            }
        }
        self.write(SEQ, seq + 2);
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Put(key, value) => match (self.slot(key), self.free_slot()) {
                (Some(slot), _) => self.write(value_word(&self.layout, slot), value),
                (None, Some(slot)) => self.insert(slot, key, value),
                (None, None) => self.split(key),
            },
            Step::Remove(key) => {
                if let Some(slot) = self.slot(key) {
                    self.change(false, |_, words| words[OCCUPANCY] &= !(1 << slot));
                }
            }
            Step::Split(key) => self.split(key),
        }
    }

    /// The entry, the next sequence word, the bit: as a client does.
    fn insert(&mut self, slot: usize, key: u64, value: u64) {
        let word = value_word(&self.layout, slot);
        self.write(word - 1, key);
        self.write(word, value);
        self.write(SEQ, self.now[SEQ] + 2);
        self.write(OCCUPANCY, self.now[OCCUPANCY] | 1 << slot);
    }

    /// The keys below `at` stay, in new slots; what is written is the whole page.
    fn split(&mut self, at: u64) {
        let page = PageView::parse(self.layout, &self.now).unwrap();
        let mut stay: Vec<_> = page
            .leaf()
            .unwrap()
            .entries()
            .filter(|(key, _)| *key < at)
            .collect();
        stay.sort_unstable();
        self.change(true, |layout, words| {
            page::begin(words, 0, 0);
            page::set_right(
                words,
                at,
                dmtree_cluster::GlobalAddr::new(dmtree_cluster::NodeId(1), 64 * (at + 1)),
            );
            for (slot, (key, value)) in stay.into_iter().enumerate() {
                leaf::put(layout, words, slot, key, value);
            }
        });
    }

    /// The page at each instant.
    fn pages(&self) -> Vec<Vec<u64>> {
        let mut pages = vec![self.first.clone()];
        for (word, value) in &self.writes {
            let mut page = pages[pages.len() - 1].clone();
            page[*word] = *value;
            pages.push(page);
        }
        pages
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u64, u64),
    Remove(u64),
    Split(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..8u64, any::<u64>()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (0..8u64).prop_map(Step::Remove),
        1 => (1..8u64).prop_map(Step::Split),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every pair of instants at which the sequence word is sampled, and so every READ in between however it mixes
    /// words: no word that means anything changes, but the values of keys that are there all the time, and the bit
    /// of one key whose entry stays as it is until then.
    #[test]
    fn what_the_samples_vouch_for_cannot_be_torn(steps in prop::collection::vec(step(), 1..40)) {
        let mut history = History::new(128);
        steps.into_iter().for_each(|step| history.apply(step));
        let pages = history.pages();
        let mut inserts = 0;
        for (begin, first) in pages.iter().enumerate() {
            let vouched = pages[begin..].iter().take_while(|page| settled(first[SEQ], page[SEQ]));
            let window: Vec<_> = vouched.collect();
            let Some(last) = window.last() else { continue };
            let added = first[OCCUPANCY] ^ last[OCCUPANCY];
            prop_assert!(added.count_ones() <= 1 && added & first[OCCUPANCY] == 0);
            inserts += added.count_ones();
            for page in &window {
                for word in 0..page.len() {
                    let slot = (word >= history.layout.leaf_header())
                        .then(|| (word - history.layout.leaf_header()) / ENTRY_WORDS);
                    let bit = slot.map_or(0, |slot| 1 << slot);
                    let is_value = slot.is_some_and(|slot| word == value_word(&history.layout, slot));
                    let allowed = if word == OCCUPANCY {
                        page[word] == first[word] || page[word] == last[word]
                    } else if slot.is_some() && last[OCCUPANCY] & bit == 0 {
                        // Free all the time.
                        true
                    } else {
                        is_value && page[OCCUPANCY] & bit != 0
                    };
                    prop_assert!(page[word] == first[word] || allowed, "word {}", word);
                }
            }
        }
        // The inserts really are within what samples vouch for.
        prop_assert!(inserts > 0 || history.now[OCCUPANCY] == 0);
    }
}

/// A reader's words in the order in which it reads them, each with the instant at which it does.
type Schedule = Vec<(usize, usize)>;

/// All schedules that read `words` in this order, one after the other, over `instants` instants.
fn schedules(words: &[usize], instants: usize) -> Vec<Schedule> {
    let mut all: Vec<Schedule> = vec![Vec::new()];
    for word in words {
        let longer = all.iter().flat_map(|schedule| {
            let from = schedule.last().map_or(0, |(_, at)| *at);
            (from..instants).map(|at| schedule.iter().copied().chain([(*word, at)]).collect())
        });
        all = longer.collect();
    }
    all
}

/// Whether some schedule brings the body words 1 and 2 from different states and yet `accept`s what it read.
fn is_torn_by(words: &[usize], states: &[[u64; 4]], accept: impl Fn(&[u64]) -> bool) -> bool {
    schedules(words, states.len()).iter().any(|schedule| {
        let read: Vec<u64> = schedule
            .iter()
            .map(|(word, at)| states[*at][*word])
            .collect();
        let body = |word| read[words.iter().position(|other| *other == word).unwrap()];
        body(1) != body(2) && accept(&read)
    })
}

/// Words: 0 the sequence or front version, 1 and 2 the body, 3 the rear version.
#[test]
fn versions_within_the_read_accept_torn_pages_and_samples_around_it_do_not() {
    // Front version, body, rear version, written in increasing order: from version 0 to 2.
    let rear = [
        [0, 0, 0, 0],
        [2, 0, 0, 0],
        [2, 1, 0, 0],
        [2, 1, 1, 0],
        [2, 1, 1, 2],
    ];
    // Even when the reader, too, reads in increasing order.
    assert!(
        is_torn_by(&[0, 1, 2, 3], &rear, |read| read[0] == read[3]),
        "front and rear versions"
    );

    // The sequence word made odd, the body, the sequence word made even.
    let bracket = [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [2, 1, 1, 0],
    ];
    for body in [[1, 2], [2, 1]] {
        let after = [body[0], 0, body[1], 0];
        assert!(
            is_torn_by(&after, &bracket, |read| settled(read[1], read[3])),
            "one sample after the page, whose own sequence word is read in the middle of it"
        );
        let around = [0, body[0], body[1], 0];
        assert!(
            !is_torn_by(&around, &bracket, |read| settled(read[0], read[3])),
            "samples around it"
        );
        // The test can tell: without the samples such reads are torn.
        assert!(is_torn_by(&around, &bracket, |_| true));
    }
    // A change that is not bracketed is not seen by the samples.
    let bare = [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]];
    assert!(is_torn_by(&[0, 1, 2, 0], &bare, |read| settled(
        read[0], read[3]
    )));
}

/// Words: 0 the sequence, 1 the entry of a free slot, 2 the bit that tells it occupied. An entry that is not the
/// new one must not be read together with the bit.
#[test]
fn a_slot_is_filled_soundly_in_one_order_only() {
    const NEW: [u64; 3] = [2, 7, 1];
    let torn = |order: &[usize]| {
        let mut states = vec![[0; 4]];
        for word in order {
            let mut next = states[states.len() - 1];
            next[*word] = NEW[*word];
            states.push(next);
        }
        [[1, 2], [2, 1]].iter().any(|body| {
            let words = [0, body[0], body[1], 0];
            schedules(&words, states.len()).iter().any(|schedule| {
                let read: Vec<u64> = schedule
                    .iter()
                    .map(|(word, at)| states[*at][*word])
                    .collect();
                let body = |word| read[1 + usize::from(body[0] != word)];
                settled(read[0], read[3]) && body(2) == 1 && body(1) != 7
            })
        })
    };
    assert!(!torn(&[1, 0, 2]), "entry, sequence, bit");
    for wrong in [
        &[0, 1, 2][..],
        &[1, 2, 0],
        &[0, 2, 1],
        &[2, 0, 1],
        &[2, 1, 0],
        &[1, 2],
    ] {
        assert!(torn(wrong), "{wrong:?}");
    }
}
