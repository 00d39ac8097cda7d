//! `Rdma`: what a node has beside TCP where its clients' verbs go by RDMA (`--fabric verbs`).
//!
//! Built with the feature `verbs` only: without it there is nothing, and who asks for it is told.

use serde::{Deserialize, Serialize};

/// Which device, port and GID; what is not said is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DeviceFlags {
    /// The RDMA device, as ibv_devices names it [default: the first whose port is up]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Its port [default: 1]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
    /// Which of its GIDs [default: on Ethernet the first of RoCE v2 over IPv4]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u8>,
}

impl DeviceFlags {
    /// These, and what they do not say as `other` does.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            device: self.device.clone().or_else(|| other.device.clone()),
            port: self.port.or(other.port),
            gid_index: self.gid_index.or(other.gid_index),
        }
    }
}

/// What is told where RDMA is asked for and not there.
pub(crate) const WITHOUT: &str = "--fabric verbs: this dmtree was built without RDMA; cargo build --release --features verbs \
    builds one with it (docs/rdma.md says what that needs)";

#[cfg(feature = "verbs")]
mod with {
    use std::sync::Arc;

    use dmtree_cluster::MemoryMap;
    use dmtree_cluster::region::Regions;
    use dmtree_cluster::tcp;
    use dmtree_cluster::verbs::{self, Acceptor, Device, DeviceChoice, Exchange};
    use dmtree_cluster::wall::ThreadOptions;

    use super::DeviceFlags;
    use crate::error::{Failure, Result};

    /// An open device, and where threads ask to be connected.
    #[derive(Clone, Debug)]
    pub(crate) struct Rdma {
        device: Arc<Device>,
        exchange: Exchange,
    }

    impl Rdma {
        /// Opens the device, and reserves what set-up needs for so many threads a node.
        pub(crate) fn reserve(
            flags: &DeviceFlags,
            map: &mut MemoryMap,
            threads: u16,
        ) -> Result<Self> {
            let choice = DeviceChoice {
                device: flags.device.clone(),
                port: flags.port,
                gid_index: flags.gid_index,
            };
            let device = Device::open(&choice)
                .map_err(|error| Failure::Usage(format!("--fabric verbs: {error}")))?;
            Ok(Self {
                device: Arc::new(device),
                exchange: Exchange::reserve(map, threads),
            })
        }

        /// Lets others reach the node's memory.
        pub(crate) fn serve(&self, regions: &Arc<Regions>) -> Result<Acceptor> {
            let exchange = self.exchange.clone();
            Acceptor::start(&self.device, regions, Arc::clone(regions), exchange)
                .map_err(|error| Failure::Usage(format!("--fabric verbs: {error}")))
        }

        /// Connects a thread, by its connections over TCP.
        pub(crate) fn connect(
            &self,
            tcp: &mut tcp::ClientThread,
            number: u16,
            own: Arc<Regions>,
            options: ThreadOptions,
        ) -> dmtree_cluster::Result<verbs::ClientThread> {
            verbs::ClientThread::connect(&self.device, tcp, &self.exchange, number, own, options)
        }
    }
}

#[cfg(not(feature = "verbs"))]
mod without {
    use std::sync::Arc;

    use dmtree_cluster::MemoryMap;
    use dmtree_cluster::region::Regions;
    use dmtree_cluster::tcp;
    use dmtree_cluster::wall::ThreadOptions;

    use super::DeviceFlags;
    use crate::error::{Failure, Result};

    /// There is none.
    #[derive(Clone, Debug)]
    pub(crate) enum Rdma {}

    /// Nor what it would serve with.
    #[derive(Debug)]
    pub(crate) enum Acceptor {}

    impl Rdma {
        pub(crate) fn reserve(_: &DeviceFlags, _: &mut MemoryMap, _: u16) -> Result<Self> {
            Err(Failure::Usage(super::WITHOUT.to_owned()))
        }

        pub(crate) fn serve(&self, _: &Arc<Regions>) -> Result<Acceptor> {
            match *self {}
        }

        pub(crate) fn connect(
            &self,
            _: &mut tcp::ClientThread,
            _: u16,
            _: Arc<Regions>,
            _: ThreadOptions,
        ) -> dmtree_cluster::Result<tcp::ClientThread> {
            match *self {}
        }
    }
}

#[cfg(feature = "verbs")]
pub(crate) use with::Rdma;
#[cfg(not(feature = "verbs"))]
pub(crate) use without::Rdma;
