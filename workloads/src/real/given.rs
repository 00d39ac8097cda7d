//! [`Given`]: what a node that `dmtree cluster` begins is given by its standard input, so that nothing of it has to lie in
//! a file there: the config file and the cluster's key.
//!
//! It is one line of JSON. What comes behind it does not matter; that nothing can come any more, as whoever began the node
//! has gone, does. The node answers with what was measured, as one line of its standard output.

use std::io::BufRead as _;

use dmtree_cluster::tcp::Key;
use serde::{Deserialize, Serialize};

use super::nodes::Nodes;
use crate::error::{Failure, Result};
use crate::settings::{Options, parse_options};

/// What it is called in messages.
const NAME: &str = "standard input";
/// A config file is a few thousand bytes.
const LIMIT: u64 = 1 << 20;

/// What a node is given.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    /// The text of the config file.
    config: String,
    /// The cluster's key, as its file has it.
    key: String,
}

impl Given {
    pub(crate) fn new(config: String, key: &Key) -> Self {
        let key = key.to_hex();
        Self { config, key }
    }

    /// As the node reads it.
    pub(crate) fn line(&self) -> Result<String> {
        serde_json::to_string(self)
            .map(|json| json + "\n")
            .map_err(|error| Failure::Work(format!("a node cannot be given its config: {error}")))
    }

    /// Reads it from standard input.
    ///
    /// # Errors
    /// [`Failure::Usage`] when something else comes.
    pub(crate) fn read() -> Result<Self> {
        let mut line = String::new();
        let mut stdin = std::io::Read::take(std::io::stdin().lock(), LIMIT);
        stdin
            .read_line(&mut line)
            .map_err(|error| Failure::Usage(format!("{NAME}: {error}")))?;
        serde_json::from_str(&line).map_err(|error| {
            Failure::Usage(format!(
                "{NAME}: {error}; what dmtree cluster gives a node is expected: use --config FILE"
            ))
        })
    }

    pub(crate) fn nodes(&self) -> Result<Nodes> {
        Nodes::parse(&self.config, NAME)
    }

    pub(crate) fn options(&self) -> Result<Options> {
        parse_options(&self.config, NAME)
    }

    pub(crate) fn key(&self) -> Result<Key> {
        Key::from_hex(&self.key).ok_or_else(|| Failure::Usage(format!("{NAME}: the key is no key")))
    }
}
