//! A finished run as the text of a file.
//!
//! The first line says what it is and has the SHA-256 of all that follows, a JSON document: the program, the run's
//! settings under their names, and what was found. Histograms are in HdrHistogram's own V2 encoding.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use dmtree_cluster::MemoryKind;
use dmtree_index::GrowthStats;
use dmtree_lock::{DataPath, LockSpec};
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Failure, Result};
use crate::latency::Latencies;
use crate::lock_bench::{FairnessTally, Order};
use crate::run::{RunOutcome, RunSpec, WorkSpec};
use crate::settings::choice::{DataPaths, LockMemory};
use crate::settings::locks::{DistributionList, LockCounts, LockList};
use crate::settings::value::Bounded;
use crate::settings::{Options, Settings};
use crate::verify::Verified;

/// What a file begins with; the number is that of its format.
const BEGINNING: &str = "dmtree run 1, SHA-256 of the rest: ";

/// Why a file is not what was looked for.
type Why = &'static str;

/// What is in a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    program: String,
    settings: Value,
    found: Finished,
}

/// What a run has found.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Finished {
    local: Samples,
    remote: Samples,
    growth: GrowthStats,
    events: u64,
    folded: u64,
    verbs: u64,
    event_loop: Duration,
    load: Duration,
    verified: Option<Verified>,
    fairness: Option<FairnessTally>,
    order: Vec<Order>,
}

/// [`Latencies`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Samples {
    sum_ns: u128,
    /// V2, in base64.
    histogram: String,
}

impl Samples {
    pub(crate) fn of(latencies: &Latencies) -> std::result::Result<Self, Why> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(latencies.histogram(), &mut bytes)
            .map_err(|_| "a histogram cannot be encoded")?;
        Ok(Self {
            sum_ns: latencies.sum_ns(),
            histogram: BASE64.encode(bytes),
        })
    }

    pub(crate) fn latencies(&self) -> std::result::Result<Latencies, Why> {
        const WHY: Why = "it has a histogram that cannot be read";
        let bytes = BASE64.decode(&self.histogram).map_err(|_| WHY)?;
        let histogram = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|_| WHY)?;
        Latencies::from_parts(histogram, self.sum_ns).ok_or(WHY)
    }
}

impl Record {
    /// Of a run with these `settings`, by `program`.
    pub(super) fn new(
        program: &str,
        settings: Value,
        outcome: &RunOutcome,
    ) -> std::result::Result<Self, Why> {
        Ok(Self {
            program: program.to_owned(),
            settings,
            found: Finished {
                local: Samples::of(&outcome.local)?,
                remote: Samples::of(&outcome.remote)?,
                growth: outcome.growth,
                events: outcome.events,
                folded: outcome.folded,
                verbs: outcome.verbs,
                event_loop: outcome.event_loop,
                load: outcome.load,
                verified: outcome.verified,
                fairness: outcome.fairness.clone(),
                order: outcome.order.clone(),
            },
        })
    }

    /// As a file has it.
    pub(super) fn text(&self) -> std::result::Result<String, Why> {
        let json = serde_json::to_string(self).map_err(|_| "it has no JSON form")?;
        let body = format!("{json}\n");
        let checksum = hex(&Sha256::digest(&body));
        Ok(format!("{BEGINNING}{checksum}\n{body}"))
    }

    /// Of what a file has, if that is whole.
    pub(super) fn of_bytes(bytes: &[u8]) -> std::result::Result<Self, Why> {
        let rest = bytes
            .strip_prefix(BEGINNING.as_bytes())
            .ok_or("it is not a run that this dmtree has written")?;
        let damaged = "it is damaged: it was cut short or changed";
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(damaged)?;
        let (checksum, body) = (&rest[..end], &rest[end + 1..]);
        if checksum != hex(&Sha256::digest(body)).as_bytes() {
            return Err(damaged);
        }
        serde_json::from_slice(body).map_err(|_| "it has not what a run has")
    }

    /// The run's outcome, if it is that of `spec` with the `wanted` settings by `program`.
    pub(super) fn outcome(
        &self,
        program: &str,
        wanted: &Value,
        spec: &RunSpec,
    ) -> std::result::Result<RunOutcome, Why> {
        if self.settings != *wanted {
            return Err("it is of a run with other settings");
        }
        if self.program != program {
            return Err("it was written by another build of dmtree");
        }
        let found = &self.found;
        Ok(RunOutcome {
            spec: spec.clone(),
            local: found.local.latencies()?,
            remote: found.remote.latencies()?,
            growth: found.growth,
            events: found.events,
            folded: found.folded,
            verbs: found.verbs,
            event_loop: found.event_loop,
            load: found.load,
            trace: None,
            timeline: None,
            verified: found.verified,
            fairness: found.fairness.clone(),
            order: found.order.clone(),
            partial: None,
        })
    }
}

/// Every setting that makes a difference to the run `spec` of `settings`, by name: not what other runs of the command
/// there are, nor where its results go.
pub(crate) fn settings_of(settings: &Settings, spec: &RunSpec) -> Result<Value> {
    // What it came to, not what was asked for: it depends on the other locks of the command.
    let lock_memory = (spec.lock == LockSpec::Sherman).then_some(match settings.lock_memory {
        MemoryKind::Host => LockMemory::Host,
        MemoryKind::Device => LockMemory::Device,
    });
    let options = Options {
        lock: Some(LockList(vec![spec.lock])),
        lock_memory,
        seed: Some(Bounded::new(spec.seed)),
        seeds: None,
        ..settings.options.clone()
    };
    let options = match spec.work {
        WorkSpec::Tree {
            distribution,
            data_path,
        } => Options {
            distribution: Some(DistributionList(vec![distribution])),
            data_path: Some(match data_path {
                DataPath::Cpu => DataPaths::Cpu,
                DataPath::Loopback => DataPaths::Loopback,
            }),
            verify: Some(settings.verify.into()),
            ..options
        },
        WorkSpec::Locks { lock_count } => Options {
            lock_count: Some(LockCounts(vec![lock_count])),
            ..options
        },
    };
    let mut value = serde_json::to_value(options)
        .map_err(|error| Failure::Work(format!("cannot write the settings as JSON: {error}")))?;
    // A file may have changed under its name.
    for (flag, sha256) in settings.lock_bench.iter().flat_map(|bench| &bench.inputs) {
        value[format!("{flag} SHA-256")] = Value::from(sha256.as_str());
    }
    Ok(value)
}

/// A few digits that tell settings apart in the names of files; the file itself has all of them.
pub(super) fn short_hash(settings: &Value) -> String {
    hex(&Sha256::digest(settings.to_string()))[..12].to_owned()
}

/// Hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
