//! What the figure varies.

use crate::command::{Coordinates, PartOptions};
use crate::figures::round_trip::scaled;
use crate::lock_bench::section::Section;
use crate::settings::Options;
use crate::settings::choice::Switch;
use crate::settings::default_options;
use crate::settings::locks::LockCounts;
use crate::settings::quantity::{PositiveTime, Time};
use crate::settings::value::Bounded;

/// Axes of the parts, see [`PartOptions::at`].
pub(super) const SECTION: &str = "section_us";
/// The round trip, as a factor of the profile's own.
pub(super) const ROUND_TRIP: &str = "round_trip";
/// Nodes, one of which has the local clients.
pub(super) const NODES: &str = "nodes";
/// Locks.
pub(super) const LOCKS: &str = "locks";
/// The share of a section's mean by which it varies to both sides.
pub(super) const SPREAD: &str = "spread";

/// Remote critical sections in ns: from nothing but a memory access to three times the paper's 5,769, closest around it.
const SECTIONS: [u64; 13] = [
    100, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 5_769, 7_000, 8_500, 10_000, 14_000, 20_000,
];
const QUICK_SECTIONS: [u64; 6] = [500, 2_000, 4_000, 5_769, 8_500, 14_000];
/// All the same, or uniform up to a fifth to both sides.
const SPREADS: [f64; 2] = [0.0, 0.2];
const ROUND_TRIPS: [f64; 5] = [0.5, 0.75, 1.0, 1.5, 2.0];
const QUICK_ROUND_TRIPS: [f64; 3] = [0.5, 1.0, 2.0];
/// With as many threads on each: 1, 4 and 9 remote clients for each local one.
const NODE_COUNTS: [u64; 3] = [2, 5, 10];
const QUICK_NODE_COUNTS: [u64; 2] = [2, 10];
const LOCK_COUNTS: [u32; 3] = [1, 10, 30];
const QUICK_LOCK_COUNTS: [u32; 2] = [1, 10];

/// Local operations that P99.9 takes, with some to spare.
const LOCAL_OPERATIONS: u64 = 12_000;
/// What a remote client's turn takes beside its section, in ns: hand-over by round trips, longer where these are. Where nothing is
/// protected all clients share a lock's turns alike, which decides how long it takes to see enough local operations.
const TURN: u64 = 6_000;
/// Shorter would be all start-up.
const LEAST_WINDOW: u64 = 30_000_000;

/// Every combination; what was given is not varied.
pub(super) fn grid(given: &Options) -> Vec<PartOptions> {
    let is_quick = given.quick.is_some_and(Switch::is_on);
    fn either<T: Clone>(is_quick: bool, quick: &[T], all: &[T]) -> Vec<T> {
        if is_quick { quick } else { all }.to_vec()
    }
    let profile = given.profile.clone().or(default_options().profile);
    let round_trips: Vec<(f64, Vec<_>)> = either(is_quick, &QUICK_ROUND_TRIPS, &ROUND_TRIPS)
        .into_iter()
        .filter_map(|factor| {
            if factor == 1.0 {
                return Some((factor, Vec::new()));
            }
            let set = scaled(&profile.as_ref()?.0, factor)?;
            let set = set.iter().map(|item| item.parse().ok());
            Some((factor, set.collect::<Option<_>>()?))
        })
        .collect();
    let sections: Vec<(Length, f64)> = match &given.critical_section_remote {
        Some(section) => vec![(Length::Given(mean_ns(section)), 0.0)],
        None => either(is_quick, &QUICK_SECTIONS, &SECTIONS)
            .into_iter()
            .flat_map(|ns| SPREADS.map(|spread| (Length::Varied(ns), spread)))
            .collect(),
    };
    let nodes = match given.nodes {
        Some(nodes) => vec![nodes.get()],
        None => either(is_quick, &QUICK_NODE_COUNTS, &NODE_COUNTS),
    };
    let locks = match &given.lock_count {
        Some(counts) => counts.0.clone(),
        None => either(is_quick, &QUICK_LOCK_COUNTS, &LOCK_COUNTS),
    };
    let mut parts = Vec::new();
    for locks in &locks {
        for nodes in &nodes {
            for (section, spread) in &sections {
                for (factor, set) in &round_trips {
                    parts.push(
                        Point {
                            section: *section,
                            spread: *spread,
                            factor: *factor,
                            nodes: *nodes,
                            locks: *locks,
                        }
                        .part(given, set.clone()),
                    );
                }
            }
        }
    }
    parts
}

/// How long remote sections are on average, in ns.
#[derive(Clone, Copy)]
enum Length {
    Varied(u64),
    /// As the options say anyhow.
    Given(u64),
}

impl Length {
    fn ns(self) -> u64 {
        match self {
            Self::Varied(ns) | Self::Given(ns) => ns,
        }
    }
}

/// Of a file 0, as the figure does not read it.
fn mean_ns(section: &Section) -> u64 {
    match section {
        Section::Fixed(time) | Section::Exponential(time) => time.ns,
        Section::Uniform(least, most) => least.ns.midpoint(most.ns),
        Section::File(_) => 0,
    }
}

/// One combination.
struct Point {
    section: Length,
    spread: f64,
    factor: f64,
    nodes: u64,
    locks: u32,
}

impl Point {
    fn part(&self, given: &Options, set: Vec<crate::settings::Override>) -> PartOptions {
        let Self {
            section,
            spread,
            factor,
            nodes,
            locks,
        } = *self;
        let time = |share: f64| Time::from_ns((section.ns() as f64 * share).round() as u64);
        let typed = match section {
            Length::Given(_) => None,
            Length::Varied(_) if spread > 0.0 => {
                Some(Section::Uniform(time(1.0 - spread), time(1.0 + spread)))
            }
            Length::Varied(_) => Some(Section::Fixed(time(1.0))),
        };
        let name = match &typed {
            Some(section) => format!("sections {section}, "),
            None => String::new(),
        };
        let seconds = match given.seconds {
            Some(_) => None,
            None => Some(PositiveTime::from_ns(self.window())),
        };
        let at = Coordinates::from([
            (SECTION, section.ns() as f64 / 1000.0),
            (ROUND_TRIP, factor),
            (NODES, nodes as f64),
            (LOCKS, f64::from(locks)),
            (SPREAD, spread),
        ]);
        PartOptions {
            name: format!("{name}round trip × {factor}, {nodes} nodes"),
            options: Options {
                critical_section_remote: typed,
                nodes: Some(Bounded::new(nodes)),
                lock_count: Some(LockCounts(vec![locks])),
                seconds,
                set,
                ..Options::default()
            },
            at,
        }
    }

    /// How long to measure, in ns.
    fn window(&self) -> u64 {
        let turn = self.section.ns() + (TURN as f64 * self.factor.max(1.0)) as u64;
        let needed = LOCAL_OPERATIONS * self.nodes * turn / u64::from(self.locks.max(1));
        needed.max(LEAST_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_not_varied() {
        let given = |text: &str| -> Options { toml::from_str(text).unwrap() };
        let all = grid(&given(""));
        assert_eq!(all.len(), 13 * 2 * 5 * 3 * 3);
        let quick = grid(&given("quick = true"));
        assert_eq!(quick.len(), 6 * 2 * 3 * 2 * 2);
        let few = grid(&given(
            "quick = true\nnodes = 4\nlock-count = \"3,7\"\ncritical-section-remote = \"1us\"\nseconds = 0.5\n",
        ));
        assert_eq!(few.len(), 3 * 2);
        for part in &few {
            assert_eq!(part.at[NODES], 4.0);
            assert_eq!(part.options.seconds, None);
            assert_eq!(part.at[SECTION], 1.0);
            assert_eq!(part.options.critical_section_remote, None);
        }
        // No two of them are the same, in name or place.
        for parts in [all, quick, few] {
            for (index, part) in parts.iter().enumerate() {
                let is_same = |other: &PartOptions| part.at == other.at;
                assert!(!parts[..index].iter().any(is_same), "{}", part.name);
            }
        }
    }
}
