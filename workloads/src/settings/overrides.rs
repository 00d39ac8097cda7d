//! Parameters of the profile that are set one by one.

use std::fmt;
use std::str::FromStr;

use dmtree_cluster::sim::{ParameterError, Profile};

/// One parameter of the profile and its value: `wire_ns=500`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Override {
    name: String,
    value: String,
}

/// Why a text sets no parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// It has no `=`.
    #[error("{text:?} is no NAME=VALUE, such as wire_ns=500; names are {}", Profile::PARAMETERS.join(", "))]
    Malformed {
        /// What was given.
        text: String,
    },
    /// There is no such parameter or no such value.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

impl Override {
    /// Sets it in `profile`.
    ///
    /// # Errors
    /// None in practice: name and value were looked at when it was read, and all profiles have the same parameters.
    pub fn apply(&self, profile: &mut Profile) -> Result<(), ParameterError> {
        profile.set(&self.name, &self.value)
    }

    /// `first`, then `later`; of two for one parameter the one behind stays.
    pub(super) fn merge(first: Vec<Self>, later: Vec<Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for item in first.into_iter().chain(later) {
            merged.retain(|other| other.name != item.name);
            merged.push(item);
        }
        merged
    }
}

impl FromStr for Override {
    type Err = OverrideError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| OverrideError::Malformed {
                text: text.to_owned(),
            })?;
        let (name, value) = (name.trim(), value.trim());
        Profile::cx3_fdr().set(name, value)?;
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl TryFrom<String> for Override {
    type Error = OverrideError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Override> for String {
    fn from(item: Override) -> Self {
        item.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Vec<Override> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn wrong_ones_are_told_what_would_be_right() {
        for (text, words) in [
            ("wire_ns", &["wire_ns=500", "loopback_ns"][..]),
            ("wire=5", &["\"wire\"", "wire_ns", "qp_miss_charge"]),
            ("wire_ns=-1", &["wire_ns", "from 0 to 1000000"]),
            ("wire_ns=fast", &["wire_ns", "number"]),
            ("wire_ns=inf", &["wire_ns", "number"]),
            ("wire_ns=", &["wire_ns", "number"]),
            ("link_bytes_per_ns=0", &["link_bytes_per_ns", "0.01"]),
            (
                "atomics_per_qp=0",
                &["atomics_per_qp", "whole number from 1"],
            ),
            ("atomics_block=maybe", &["on or off"]),
            ("qp_miss_charge=qp", &["chain or verb"]),
            ("qp_cache=48:10,40:5", &["48:10.45,88:6.9"]),
        ] {
            let error = text.parse::<Override>().unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{text}: {word:?} is not in {error:?}");
            }
        }
    }

    #[test]
    fn the_last_of_a_name_stays() {
        let merged = Override::merge(
            list(&["wire_ns=1", "post_ns=2", "wire_ns=3"]),
            list(&["post_ns=4"]),
        );
        assert_eq!(merged, list(&["wire_ns=3", "post_ns=4"]));
        let mut profile = Profile::cx5_100g();
        for item in &merged {
            item.apply(&mut profile).unwrap();
        }
        assert_eq!((profile.wire_ns.value, profile.post_ns.value), (3.0, 4.0));
    }
}
