//! [`Cohort`]: local or remote.

use std::fmt;

use dmtree_cluster::{GlobalAddr, NodeId};

/// Who queues with whom: clients on the lock's node, or those of all other nodes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cohort {
    /// On the node that hosts the lock.
    Local,
    /// On another node.
    Remote,
}

impl Cohort {
    /// Both.
    pub const ALL: [Cohort; 2] = [Cohort::Local, Cohort::Remote];

    /// Of a client on `node` that asks for the lock at `lock`.
    #[inline]
    pub fn of(node: NodeId, lock: GlobalAddr) -> Self {
        if node == lock.node() {
            Cohort::Local
        } else {
            Cohort::Remote
        }
    }

    /// The other one.
    pub const fn other(self) -> Cohort {
        match self {
            Cohort::Local => Cohort::Remote,
            Cohort::Remote => Cohort::Local,
        }
    }
}

impl fmt::Display for Cohort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cohort::Local => "local",
            Cohort::Remote => "remote",
        })
    }
}
