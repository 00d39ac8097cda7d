//! The simulated cluster as a bed for the conformance suite.

use dmtree_cluster::conformance::{Memory, Scenario, TestBed};
use dmtree_cluster::sim::{Profile, Sim, SimConfig, SimEndpoint, SwapKind};
use dmtree_cluster::{GlobalAddr, MemoryKind, MemoryMap, NodeId, WaitBounds};

/// A way to simulate, and a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimBed {
    pub(crate) profile: &'static str,
    pub(crate) seed: u64,
    pub(crate) jitter_ns: u64,
    pub(crate) hostile: bool,
    pub(crate) swap: SwapKind,
    /// Whether the RNIC is quicker than any and executes many atomics at once: order must not rest on its delays.
    pub(crate) quick: bool,
}

impl SimBed {
    pub(crate) fn config(&self) -> SimConfig {
        let mut profile = Profile::by_name(self.profile).expect("the profile exists");
        // So that the contract is held against device memory with every profile: cx3-fdr has none.
        profile.device_bytes.value = 1 << 20;
        if self.quick {
            profile.post_ns.value = 20.0;
            profile.completion_ns.value = 20.0;
            profile.atomics_per_qp.value = 16;
            profile.atomic_unit_ns.value = 20.0;
            profile.device_unit_ns.value = 20.0;
        }
        let mut config = SimConfig::new(profile);
        config.seed = self.seed;
        config.jitter_ns = self.jitter_ns;
        config.hostile = self.hostile;
        config.swap = self.swap;
        // In virtual time: no test takes a hundredth of it unless something is lost.
        config.waits = WaitBounds {
            report_ns: 50_000_000,
            limit_ns: 50_000_000,
        };
        config
    }

    /// Builds and runs the scenario, on endpoints that `wrap` has made of the simulator's.
    pub(crate) fn run_wrapped<E: 'static>(
        &self,
        scenario: Scenario<E>,
        wrap: impl Fn(SimEndpoint) -> E,
    ) -> Result<Memory, String> {
        let mut config = self.config();
        config.waits = scenario.waits.unwrap_or(config.waits);
        let mut sim = Sim::new(&config, &scenario.map).map_err(|error| error.to_string())?;
        for (addr, value) in &scenario.initial {
            sim.host_words(addr.node())[addr.offset() as usize / 8] = *value;
        }
        for client in scenario.clients {
            let endpoint = sim.endpoint(client.node, client.thread);
            sim.spawn(&endpoint.clone(), (client.program)(wrap(endpoint)));
        }
        sim.run().map_err(|error| error.to_string())?;
        let nodes = 0..scenario.map.nodes();
        Ok(Memory::new(
            nodes
                .map(|node| sim.host_words(NodeId(node)).to_vec())
                .collect(),
        ))
    }
}

impl TestBed for SimBed {
    type Endpoint = SimEndpoint;

    fn run(&self, scenario: Scenario<SimEndpoint>) -> Result<Memory, String> {
        self.run_wrapped(scenario, |endpoint| endpoint)
    }
}

/// Kind.
#[allow(dead_code)] // Each test binary uses a part of this module.
pub(crate) const PLAIN: SimBed = SimBed {
    profile: "cx3-fdr",
    seed: 1,
    jitter_ns: 0,
    hostile: false,
    swap: SwapKind::Cas,
    quick: false,
};

/// As unkind as can be.
#[allow(dead_code)] // As above.
pub(crate) const HOSTILE: SimBed = SimBed {
    profile: "cx3-fdr",
    seed: 1,
    jitter_ns: 5_000,
    hostile: true,
    swap: SwapKind::Cas,
    quick: false,
};

/// A cluster of `nodes` nodes with `words` words each, and where those are.
#[allow(dead_code)] // As above.
pub(crate) fn cluster(bed: SimBed, nodes: u16, words: u64) -> (Sim, Vec<GlobalAddr>) {
    let mut map = MemoryMap::new(nodes);
    let mut reserve = |node| map.reserve(NodeId(node), MemoryKind::Host, words * 8, 64);
    let areas = (0..nodes).map(&mut reserve).collect();
    (Sim::new(&bed.config(), &map).expect("little memory"), areas)
}
