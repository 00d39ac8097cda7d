//! The results of a command as a versioned JSON document.

use std::collections::BTreeMap;
use std::fmt;

use dmtree_lock::DataPath;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::claims::Claim;
use crate::command::Coordinates;
use crate::inserts::InsertVerbs;
use crate::latency::Summary;
use crate::lock_bench::{FairnessRow, Order};
use crate::run::locks_text;
use crate::seeds::{OverSeeds, SeedFigures};
use crate::settings::choice::path_name;
use crate::verify::Verified;

/// Version of the JSON document; another one means that a reader has to look.
pub const SCHEMA: u32 = 1;

/// Whose operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Of clients on the node that hosts the page.
    Local,
    /// Of clients on other nodes.
    Remote,
    /// Of all clients.
    All,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Local => "local",
            Class::Remote => "remote",
            Class::All => "all",
        })
    }
}

/// One class of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// Which part of the command it is of, in words; where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The options that make the part, by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub varied: Map<String, Value>,
    /// Where the part lies in the command's figure, by axis.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub at: Coordinates,
    /// The lock as typed.
    pub lock: String,
    /// Its parameters.
    pub lock_params: BTreeMap<&'static str, Value>,
    /// The request distribution; of a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// The operations; of a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<String>,
    /// Keys loaded; of a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// Nodes of the cluster.
    pub nodes: u16,
    /// Threads a node.
    pub threads: u16,
    /// Slots of the lock table, a memory server.
    pub lock_count: u32,
    /// The first seed.
    pub seed: u64,
    /// With how many seeds it was run, this one and those after it.
    pub seeds: u32,
    /// The page format; of a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_format: Option<String>,
    /// How local clients reach page data; of a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_path: Option<DataPath>,
    /// Critical sections of local clients; of locks alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_section_local: Option<String>,
    /// Critical sections of remote clients; of locks alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_section_remote: Option<String>,
    /// Time before the measured window, in seconds.
    pub warmup_s: f64,
    /// The measured window, in seconds; of given arrivals the time until all were served, the mean of the seeds.
    pub seconds: f64,
    /// Whose operations.
    pub class: Class,
    /// Operations that began in the window, of all seeds.
    pub ops: u64,
    /// The same a second, the mean of the seeds.
    pub throughput_ops_s: f64,
    /// Their latencies, in nanoseconds, of all seeds.
    pub latency_ns: Summary,
    /// How far the seeds lie apart; of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_seeds: Option<OverSeeds>,
    /// What each seed shows by itself, in their order.
    #[serde(skip)]
    pub each_seed: Vec<SeedFigures>,
    /// What an insert cost; of a run with inserts, and of all its clients together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbs_per_insert: Option<InsertVerbs>,
    /// What was verified in the end, and found right; of a run that was to be, and of all its clients together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// Why it ended before its time, and is not whole; of such a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// How fair the locks were; of locks alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<FairnessRow>,
    /// Who was served when, seed by seed; of given arrivals, and of all clients together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<Order>,
}

impl RunRow {
    /// What it is a run of beside its lock, in words: `uniform, local page data by cpu`, `4 nodes, 30 locks`.
    pub fn setting(&self) -> String {
        let part = self.part.as_ref();
        let setting = match self.data_path {
            Some(path) => format!("{}, local page data by {}", self.panel(), path_name(path)),
            None => self.panel(),
        };
        part.map_or(String::new(), |part| format!("{part}, ")) + &setting
    }

    /// The same without part and data path, of which figures have one.
    pub fn panel(&self) -> String {
        match &self.distribution {
            Some(distribution) => distribution.clone(),
            None => locks_text(self.lock_count),
        }
    }
}

#[cfg(test)]
impl RunRow {
    /// A row for tests that look at a few fields only.
    pub(crate) fn for_test() -> Self {
        Self {
            part: None,
            varied: Map::new(),
            at: Coordinates::new(),
            lock: "farlock".to_owned(),
            lock_params: BTreeMap::new(),
            distribution: Some("uniform".to_owned()),
            mix: Some("update".to_owned()),
            keys: Some(1_000),
            nodes: 2,
            threads: 3,
            lock_count: 32_768,
            seed: 1,
            seeds: 1,
            page_format: Some("test".to_owned()),
            data_path: Some(DataPath::Cpu),
            critical_section_local: None,
            critical_section_remote: None,
            warmup_s: 0.1,
            seconds: 0.5,
            class: Class::All,
            ops: 10,
            throughput_ops_s: 20.0,
            latency_ns: Summary::default(),
            over_seeds: None,
            each_seed: Vec::new(),
            verbs_per_insert: None,
            verified: None,
            partial: None,
            fairness: None,
            order: Vec::new(),
        }
    }
}

/// What the simulator did for all runs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Simulator {
    /// Timers and wake-ups taken from the event queues.
    pub events: u64,
    /// Delays that took no event of their own, see [`dmtree_cluster::sim::SimStats::folded`].
    pub folded: u64,
    /// Verbs.
    pub verbs: u64,
    /// Wall-clock time in the event loops, summed over the runs: with runs on several cores, more
    /// than has passed.
    pub wall_s: f64,
}

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The command, as `figure 12`.
    pub command: String,
    /// The version of dmtree.
    pub version: &'static str,
    /// What carried the verbs.
    pub fabric: String,
    /// Whether times are virtual or of the wall clock.
    pub time: &'static str,
    /// The simulated hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Every setting that can change a result, as the config file names it.
    pub config: Value,
    /// The runs, class by class.
    pub runs: Vec<RunRow>,
    /// What the simulator did; of the simulated fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulator: Option<Simulator>,
    /// The claims of a figure; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

impl Report {
    /// The document as indented JSON, ending in a newline.
    ///
    /// # Errors
    /// None in practice: everything in it has a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Unit;

    #[test]
    fn absent_and_null_are_told_apart() {
        let mut report = Report {
            schema: SCHEMA,
            command: "bench".to_owned(),
            version: "0",
            fabric: "sim".to_owned(),
            time: "virtual",
            profile: Some("cx3-fdr".to_owned()),
            config: Value::Null,
            runs: vec![RunRow::for_test()],
            simulator: Some(Simulator::default()),
            claims: Vec::new(),
        };
        let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(json["schema"], 1);
        assert!(json.get("claims").is_none(), "no claims: absent");
        let run = json["runs"][0].as_object().unwrap();
        assert_eq!(run["class"], "all");
        assert_eq!(run["data_path"], "cpu");
        let latency = run["latency_ns"].as_object().unwrap();
        assert_eq!(
            latency.keys().map(String::as_str).collect::<Vec<_>>(),
            [
                "max", "mean", "p50", "p95", "p99", "p99_9", "p99_99", "p99_999"
            ]
        );
        assert!(
            latency.values().all(Value::is_null),
            "too few samples: null"
        );
        report.claims = vec![Claim {
            id: "f12-throughput",
            data_path: Some(DataPath::Cpu),
            part: None,
            unit: Unit::Ratio,
            published: "the same",
            measured: None,
            over_seeds: None,
            verdict: None,
        }];
        let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(json["claims"][0]["id"], "f12-throughput");
        assert!(json["claims"][0]["verdict"].is_null());
    }
}
