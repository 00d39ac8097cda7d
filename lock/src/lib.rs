//! RDMA locks behind one trait.
//!
//! A lock protects pages on its own node. Clients on that node (the *local* cohort) and on all others (the
//! *remote* cohort) compete for it; an RNIC's atomics and a CPU's are not atomic against each other, and how a
//! lock copes with that is what tells the protocols apart:
//!
//! | lock | local clients | remote clients | order |
//! |---|---|---|---|
//! | [`sherman`] | CAS through their own RNIC (loopback) | CAS | FIFO within a compute server, none between |
//! | [`tas`] | CAS through their own RNIC | CAS | none |
//! | [`ticket`] | FAA and READ through their own RNIC | FAA, READ | FIFO over both cohorts |
//! | [`mcs`] | RDMA through their own RNIC | RDMA | FIFO over both cohorts |
//! | [`alock`] | CPU | RDMA | FIFO within a cohort, cohorts alternate after a budget |
//! | [`farlock`] | CPU | RDMA | FIFO by ticket over both cohorts |
//! | [`farlock_g`] | CPU | RDMA | the same, with a ticket for a group of neighbours in a cohort's queue |
//!
//! A program names a lock by its [`LockSpec`], lets [`LockPlan`] reserve what it needs in a
//! [`MemoryMap`](dmtree_cluster::MemoryMap), and gives each client an [`AnyLock`]:
//!
//! ```
//! use std::cell::Cell;
//! use std::rc::Rc;
//!
//! use dmtree_cluster::sim::{Profile, Sim, SimConfig};
//! use dmtree_cluster::{ClientId, Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};
//! use dmtree_lock::{DataPath, LockOptions, LockPlan, LockProtocol, LockSpec, Monitor, WriteBack};
//!
//! // Node 0 hosts the locks and runs client 0; client 1 runs on node 1.
//! let nodes = [NodeId(0), NodeId(1)];
//! let mut map = MemoryMap::new(2);
//! let page = map.reserve(NodeId(0), MemoryKind::Host, 64, 64);
//! let spec: LockSpec = "farlock".parse()?;
//! let plan = LockPlan::reserve(spec, LockOptions::default(), &mut map, &[NodeId(0)], &nodes);
//! let monitor = Rc::new(Monitor::new(plan.table()));
//!
//! let mut sim = Sim::new(&SimConfig::new(Profile::by_name("cx3-fdr")?), &map)?;
//! for (id, node) in nodes.into_iter().enumerate() {
//!     let ep = sim.endpoint(node, 0);
//!     let mut lock = plan.client(ClientId(id as u32), Some(Rc::clone(&monitor)));
//!     let at = plan.table().lock_of(page);
//!     sim.spawn(&ep.clone(), async move {
//!         let guard = lock.acquire(&ep, at).await.expect("granted");
//!         let count = ep.read_u64(page).await.expect("read");
//!         let add = [count + 1];
//!         let write_back = WriteBack { path: DataPath::Loopback, writes: &[(page, &add)] };
//!         lock.release(&ep, guard, write_back).await.expect("released");
//!     });
//! }
//! sim.run()?;
//! assert_eq!(sim.host_words(NodeId(0))[page.offset() as usize / 8], 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod alock;
mod any;
mod backoff;
mod classic;
mod cohort;
pub mod cpu;
mod descriptor;
mod error;
pub mod farlock;
pub mod farlock_g;
#[cfg(any(test, feature = "faults"))]
mod fault;
mod held;
pub mod mcs;
mod member;
mod monitor;
mod peterson;
mod plan;
mod protocol;
mod queue;
mod release;
pub mod sherman;
mod side;
mod spec;
mod step;
mod table;
pub mod tas;
pub mod ticket;

pub use any::{AnyGuard, AnyLock};
pub use backoff::Backoff;
pub use classic::{Classic, ClassicGuard};
pub use cohort::Cohort;
pub use error::{Error, ErrorKind, Result};
#[cfg(any(test, feature = "faults"))]
#[doc(hidden)]
pub use fault::Fault;
pub use monitor::{LockCounters, Monitor, Violation};
pub use plan::{DEFAULT_DESCRIPTORS, LockOptions, LockPlan};
pub use protocol::{DataPath, LockLayout, LockProtocol, WriteBack};
pub use release::Release;
pub use spec::{Budgets, LockSpec, Param, ParseLockError};
pub use table::{DEFAULT_SLOTS, LockTable};
