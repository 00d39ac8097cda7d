//! A profile's round trip, longer or shorter.

use dmtree_cluster::sim::{Param, Profile};

/// The parts of an idle READ's round trip that are latency and nothing else, with how often each is passed.
///
/// The engines' passes are a part of it too and stay as they are: they are rates, which decide what the RNIC does
/// under load and not only how long a lone verb takes, and a change of both at once would tell nothing of either.
/// An atomic's service stays for the same reason, and has a parameter of its own in the study.
fn latencies(profile: &Profile) -> [(&'static str, f64, f64); 5] {
    let of = |name, times, param: Param<f64>| (name, times, param.value);
    [
        of("post_ns", 1.0, profile.post_ns),
        of("completion_ns", 1.0, profile.completion_ns),
        of("wire_ns", 2.0, profile.wire_ns),
        of("switch_ns", 2.0, profile.switch_ns),
        of("pcie_read_ns", 1.0, profile.pcie_read_ns),
    ]
}

/// Nanoseconds of a READ of 8 bytes on an idle cluster.
pub(crate) fn idle_read_ns(profile: &Profile) -> f64 {
    latencies(profile)
        .iter()
        .map(|(_, times, ns)| times * ns)
        .sum::<f64>()
        + 4.0 * profile.message_ns.value
}

/// Parameters of `profile`, as `--set` takes them, with which an idle READ takes `factor` of its time. All latencies
/// change by one factor, as nothing says which part of a measured round trip another network would change; loopback
/// has its share of them, so that both change alike.
///
/// None when the latencies would have to be negative: the engines alone take longer.
pub(crate) fn scaled(profile: &Profile, factor: f64) -> Option<Vec<String>> {
    change(profile, factor, |_| true)
}

/// As [`scaled`], by wire and switch alone: loopback does not change. None when these are too short for it.
pub(crate) fn scaled_by_wire(profile: &Profile, factor: f64) -> Option<Vec<String>> {
    change(profile, factor, |name| {
        ["wire_ns", "switch_ns"].contains(&name)
    })
}

fn change(profile: &Profile, factor: f64, takes: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let parts: Vec<_> = latencies(profile)
        .into_iter()
        .filter(|(name, ..)| takes(name))
        .collect();
    let sum: f64 = parts.iter().map(|(_, times, ns)| times * ns).sum();
    let scale = 1.0 + (factor - 1.0) * idle_read_ns(profile) / sum;
    if !scale.is_finite() || scale < 0.0 {
        return None;
    }
    Some(
        parts
            .into_iter()
            .map(|(name, _, ns)| format!("{name}={}", plain(ns * scale)))
            .collect(),
    )
}

/// A number of nanoseconds to a tenth, which is less than any of them is known to, without useless digits.
pub(crate) fn plain(ns: f64) -> String {
    let text = format!("{ns:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    use dmtree_cluster::sim::{Sim, SimConfig};
    use dmtree_cluster::{Chain, Endpoint, MemoryKind, MemoryMap, NodeId};

    /// What a client of node `from` measures: READs of 8 bytes of node 0, one after the other.
    fn measured_ns(profile: &Profile, from: u16) -> f64 {
        const READS: u64 = 200;
        let mut map = MemoryMap::new(2);
        let address = map.reserve(NodeId(0), MemoryKind::Host, 64, 64);
        let mut sim = Sim::new(&SimConfig::new(profile.clone()), &map).unwrap();
        let endpoint = sim.endpoint(NodeId(from), 0);
        let took = Rc::new(Cell::new(0));
        let result = Rc::clone(&took);
        sim.spawn(&endpoint.clone(), async move {
            let begin = endpoint.now();
            for _ in 0..READS {
                let mut chain = Chain::new();
                chain.read(address, 8);
                endpoint.execute(&mut chain).await.unwrap();
            }
            result.set(endpoint.now() - begin);
        });
        assert!(sim.run_until(10_000_000).unwrap(), "the client ends");
        took.get() as f64 / READS as f64
    }

    fn with(profile: &Profile, changes: &[String]) -> Profile {
        let mut profile = profile.clone();
        for change in changes {
            let (name, value) = change.split_once('=').unwrap();
            profile.set(name, value).unwrap();
        }
        profile
    }

    #[test]
    fn an_idle_read_moves_by_as_much_as_was_asked_for() {
        for name in Profile::NAMES {
            let profile = Profile::by_name(name).unwrap();
            let before = measured_ns(&profile, 1);
            assert!((before / idle_read_ns(&profile) - 1.0).abs() < 0.005);
            let loopback = measured_ns(&profile, 0);
            for factor in [0.8, 1.2] {
                let all = with(&profile, &scaled(&profile, factor).unwrap());
                let wire = with(&profile, &scaled_by_wire(&profile, factor).unwrap());
                for changed in [&all, &wire] {
                    let found = measured_ns(changed, 1) / before;
                    assert!(
                        (found - factor).abs() < 0.005,
                        "{name}: {found}, not {factor}"
                    );
                }
                let found = measured_ns(&all, 0) / loopback;
                assert!(
                    (found - factor).abs() < 0.03,
                    "{name}: loopback changes by {found}"
                );
                assert_eq!(measured_ns(&wire, 0), loopback, "{name}");
            }
        }
    }

    #[test]
    fn no_latency_becomes_negative() {
        let mut profile = Profile::cx3_fdr();
        profile.set("wire_ns", "0").unwrap();
        profile.set("switch_ns", "10").unwrap();
        assert_eq!(scaled_by_wire(&profile, 0.8), None);
        assert!(scaled(&profile, 0.8).is_some());
        profile.set("switch_ns", "0").unwrap();
        assert_eq!(scaled_by_wire(&profile, 1.2), None, "nothing to scale");
    }

    #[test]
    fn numbers_are_plain() {
        assert_eq!(plain(104.0), "104");
        assert_eq!(plain(555.555), "555.6");
        assert_eq!(plain(0.04), "0");
    }
}
