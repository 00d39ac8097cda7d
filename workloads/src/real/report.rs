//! [`NodeReport`]: what one node has measured, as bytes.

use dmtree_index::GrowthStats;
use serde::{Deserialize, Serialize};

use crate::latency::Latencies;
use crate::store::Samples;
use crate::verify::{History, Verified};

/// What the clients of one node have measured.
#[derive(Debug, Default)]
pub struct NodeReport {
    /// Of clients on the memory server.
    pub local: Latencies,
    /// Of all others.
    pub remote: Latencies,
    /// What inserts have done.
    pub growth: GrowthStats,
    /// Verbs posted.
    pub verbs: u64,
    /// For how long was measured, in nanoseconds: less than was asked for where the run ended before its time.
    pub measured_ns: u64,
    /// What was written; of a run that is to be verified.
    pub history: Option<History>,
    /// What was verified, and found right.
    pub verified: Option<Verified>,
    /// Why it is not whole, if it is not.
    pub failure: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    local: Samples,
    remote: Samples,
    growth: GrowthStats,
    verbs: u64,
    measured_ns: u64,
    history: Option<History>,
    verified: Option<Verified>,
    failure: Option<String>,
}

impl NodeReport {
    /// Adds what `other` has.
    pub fn merge(&mut self, other: Self) {
        self.local.merge(&other.local);
        self.remote.merge(&other.remote);
        self.growth += other.growth;
        self.verbs += other.verbs;
        self.measured_ns = self.measured_ns.max(other.measured_ns);
        if let Some(history) = other.history {
            // Their times are those of one counter.
            self.history.get_or_insert_default().merge(history, 0);
        }
        self.verified = self.verified.or(other.verified);
        self.failure = self.failure.take().or(other.failure);
    }

    /// As bytes.
    ///
    /// # Errors
    /// In words; none in practice.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let encoded = Encoded {
            local: Samples::of(&self.local)?,
            remote: Samples::of(&self.remote)?,
            growth: self.growth,
            verbs: self.verbs,
            measured_ns: self.measured_ns,
            history: self.history.clone(),
            verified: self.verified,
            failure: self.failure.clone(),
        };
        serde_json::to_vec(&encoded).map_err(|error| error.to_string())
    }

    /// Of bytes that another node has sent.
    ///
    /// # Errors
    /// In words, when they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let encoded: Encoded = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Ok(Self {
            local: encoded.local.latencies()?,
            remote: encoded.remote.latencies()?,
            growth: encoded.growth,
            verbs: encoded.verbs,
            measured_ns: encoded.measured_ns,
            history: encoded.history,
            verified: encoded.verified,
            failure: encoded.failure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_its_bytes_and_merges_exactly() {
        let mut one = NodeReport {
            verbs: 7,
            ..NodeReport::default()
        };
        (1..1000).for_each(|ns| one.local.record(ns * 37));
        let mut other = NodeReport {
            verbs: 5,
            failure: Some("node 1 is gone".to_owned()),
            ..NodeReport::default()
        };
        (1..500).for_each(|ns| other.remote.record(ns * 1001));
        let copy = NodeReport::from_bytes(&other.to_bytes().unwrap()).unwrap();
        assert_eq!(copy.remote.histogram(), other.remote.histogram());
        assert_eq!(copy.remote.summary(), other.remote.summary());
        one.merge(copy);
        assert_eq!((one.verbs, one.remote.count()), (12, 499));
        assert_eq!(one.failure.as_deref(), Some("node 1 is gone"));
        assert!(NodeReport::from_bytes(b"{}").is_err());
    }
}
