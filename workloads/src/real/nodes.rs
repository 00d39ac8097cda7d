//! [`Nodes`]: the `[cluster]` part of a config file.
//!
//! ```toml
//! [cluster]
//! key = "cluster.key"
//! patience = "60s"    # for all nodes to come
//! peer-limit = "5s"   # for a sign of life of one that has come
//! tls = true          # where others may change packets on the network
//!
//! [[cluster.nodes]]
//! address = "10.0.0.1:7100"
//! roles = ["memory", "compute"]
//!
//! [[cluster.nodes]]
//! address = "10.0.0.2:7100"
//! roles = ["compute"]
//! ssh = "user@two"    # what ssh calls its machine, if not as its address
//! ```

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use dmtree_cluster::NodeId;
use serde::{Deserialize, Serialize};

use super::rdma::DeviceFlags;
use crate::error::{Failure, Result};
use crate::run::SERVER;
use crate::settings::quantity::PositiveTime;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It serves the tree's pages and locks.
    Memory,
    /// It runs clients.
    Compute,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Where it listens, and the others reach it: `host:port`.
    pub address: String,
    /// What `ssh` calls its machine; the host of its address where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// What it does.
    pub roles: Vec<Role>,
    /// Its RDMA device; of clusters over verbs, and where it is not the obvious one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: DeviceFlags,
}

fn is_default(device: &DeviceFlags) -> bool {
    *device == DeviceFlags::default()
}

/// The nodes of a cluster, and the file with their key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nodes {
    /// The file with the cluster's key; from the directory of the config file, unless it is absolute.
    pub key: PathBuf,
    /// How long nodes wait for each other to come; a minute unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<PositiveTime>,
    /// How long nothing is heard of a node before it counts as gone; five seconds unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_limit: Option<PositiveTime>,
    /// Whether connections are below TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Arguments of `ssh` before the machine's name, such as `["-p", "2222"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_options: Vec<String>,
    /// Where dmtree is on machines that are reached by `ssh`; `dmtree`, to be found there, where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// In the order of their numbers.
    pub nodes: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Option<Nodes>,
}

/// Whether the line begins a table, and whether that is the cluster's.
fn header(line: &str) -> Option<bool> {
    let line = line.trim_start();
    let name = line.strip_prefix('[')?;
    let name = name.strip_prefix('[').unwrap_or(name).trim_start();
    Some(name.starts_with("cluster"))
}

/// The lines of `text` of the cluster's tables, or all others; the rest are empty, so that lines keep their numbers.
pub(crate) fn part(text: &str, of_cluster: bool) -> String {
    let mut inside = false;
    let lines = text.lines().map(|line| {
        inside = header(line).unwrap_or(inside);
        if inside == of_cluster { line } else { "" }
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl Nodes {
    /// Reads them from the config file at `path`.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the file, the line where there is one, what is wrong and what would be right.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("{name}: cannot be read: {error}")))?;
        let mut nodes = Self::parse(&text, &name)?;
        if let Some(directory) = path.parent() {
            nodes.key = directory.join(&nodes.key);
        }
        Ok(nodes)
    }

    /// Those of `text`, which messages call `name`.
    ///
    /// # Errors
    /// As [`Nodes::read`].
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let refused = |why: String| Failure::Usage(format!("{name}{why}"));
        // Its lines are where they are in the whole, its bytes are not.
        let text = part(text, true);
        let file: File = toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start).min(text.len());
            let line = 1 + text.as_bytes()[..start]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            refused(format!(":{line}: {}", error.message()))
        })?;
        let Some(nodes) = file.cluster else {
            return Err(refused(
                ": it has no [cluster]: key = \"FILE\" and a [[cluster.nodes]] with address and roles for each node"
                    .to_owned(),
            ));
        };
        nodes
            .check()
            .map_err(|why| refused(format!(": [cluster]: {why}")))?;
        Ok(nodes)
    }

    /// `count` nodes of this machine, whose addresses are still to be found.
    pub(crate) fn on_loopback(count: u16) -> Self {
        let node = |number| Node {
            address: String::new(),
            ssh: None,
            device: DeviceFlags::default(),
            roles: match number {
                0 => vec![Role::Memory, Role::Compute],
                _ => vec![Role::Compute],
            },
        };
        Self {
            // Each one is given it.
            key: PathBuf::new(),
            patience: None,
            peer_limit: None,
            tls: false,
            ssh_options: Vec::new(),
            program: None,
            nodes: (0..count).map(node).collect(),
        }
    }

    fn check(&self) -> std::result::Result<(), String> {
        let memory: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].roles.contains(&Role::Memory))
            .collect();
        if memory != [usize::from(SERVER.0)] {
            return Err(match memory.as_slice() {
                [] => "no node has the role \"memory\": give it to the first".to_owned(),
                several => format!(
                    "the memory server is the first node, number 0, and the only one; here \"memory\" is a role of {several:?}"
                ),
            });
        }
        if !self
            .nodes
            .iter()
            .any(|node| node.roles.contains(&Role::Compute))
        {
            return Err(
                "no node has the role \"compute\", and there would be no clients".to_owned(),
            );
        }
        for (number, node) in self.nodes.iter().enumerate() {
            if node.roles.is_empty() {
                return Err(format!(
                    "node {number} has no roles: \"memory\", \"compute\" or both"
                ));
            }
            if let Some(other) = self.nodes[..number]
                .iter()
                .position(|other| other.address == node.address)
            {
                return Err(format!(
                    "nodes {other} and {number} have one address, {}: each needs its own",
                    node.address
                ));
            }
        }
        u16::try_from(self.nodes.len()).map(drop).map_err(|_| {
            format!(
                "{} nodes; at most {} can be told apart",
                self.nodes.len(),
                u16::MAX
            )
        })
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.nodes.len() as u16
    }

    /// Whether `node` runs clients.
    pub fn computes(&self, node: NodeId) -> bool {
        let node = self.nodes.get(usize::from(node.0));
        node.is_some_and(|node| node.roles.contains(&Role::Compute))
    }

    /// Where all of them listen.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the one whose address is none.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let resolve = |(number, node): (usize, &Node)| {
            let refused = |why: String| {
                Failure::Usage(format!(
                    "the address of node {number}, {}: {why}",
                    node.address
                ))
            };
            let mut found = node.address.to_socket_addrs().map_err(|error| {
                refused(format!("{error}; write host:port, as in 10.0.0.1:7100"))
            })?;
            found
                .next()
                .ok_or_else(|| refused("it leads nowhere".to_owned()))
        };
        self.nodes.iter().enumerate().map(resolve).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "lock = \"farlock\"\n\n[cluster]\nkey = \"k\"\n\n[[cluster.nodes]]\naddress = \"127.0.0.1:1\"\n\
        roles = [\"memory\", \"compute\"]\n[[cluster.nodes]]\naddress = \"127.0.0.1:2\"\nroles = [\"compute\"]\n";

    fn read(text: &str) -> Result<Nodes> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.toml");
        std::fs::write(&path, text).unwrap();
        let nodes = Nodes::read(&path);
        assert_eq!(nodes.as_ref().map_or(2, Nodes::count), 2);
        nodes
    }

    #[test]
    fn both_parts_keep_their_lines() {
        let nodes = read(GOOD).unwrap();
        assert!(nodes.key.ends_with("k") && nodes.key.is_absolute());
        assert!(nodes.computes(NodeId(1)) && !nodes.computes(NodeId(2)));
        let rest = part(GOOD, false);
        assert!(rest.starts_with("lock = \"farlock\"\n"));
        assert!(!rest.contains("cluster") && !rest.contains("address"));
        assert_eq!(part(GOOD, true).lines().nth(3), Some("key = \"k\""));
    }

    #[test]
    fn mistakes_are_told_with_what_would_be_right() {
        for (change, to, words) in [
            ("key = \"k\"", "keys = \"k\"", &[":4:", "keys"][..]),
            ("\"memory\", ", "", &["no node has the role", "first"]),
            ("[\"compute\"]\n", "[\"memory\"]\n", &["only one", "[0, 1]"]),
            (
                "127.0.0.1:2",
                "127.0.0.1:1",
                &["nodes 0 and 1", "127.0.0.1:1"],
            ),
            ("[\"compute\"]\n", "[]\n", &["node 1", "no roles"]),
            (
                "[\"compute\"]\n",
                "[\"storage\"]\n",
                &[":11:", "storage", "compute"],
            ),
            ("[cluster]", "[cluster", &[":3:"]),
        ] {
            let error = read(&GOOD.replacen(change, to, 1)).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{to}: {word} is not in {error}");
            }
        }
        let error = read("lock = \"mcs\"\n").unwrap_err().to_string();
        assert!(error.contains("no [cluster]"), "{error}");
        let nodes = read(&GOOD.replace("127.0.0.1:2", "nowhere")).unwrap();
        let error = nodes.addresses().unwrap_err().to_string();
        assert!(
            error.contains("node 1") && error.contains("host:port"),
            "{error}"
        );
    }
}
