//! [`LockProtocol`]: what every lock offers, and what it asks for.

use dmtree_cluster::{Chain, Endpoint, GlobalAddr, MemoryKind};

use crate::Result;

/// What a lock needs before anything connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLayout {
    /// Bytes of one lock in the table.
    pub lock_bytes: u64,
    /// Where the lock table lies.
    pub memory: MemoryKind,
    /// Bytes of one descriptor; 0 for locks without descriptors.
    pub descriptor_bytes: u64,
    /// Bytes a slot on every compute server, for a tier on which its own clients queue; 0 without one.
    pub tier_bytes: u64,
}

/// How a client on the lock's own node reaches page data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataPath {
    /// By CPU loads and stores.
    Cpu,
    /// By verbs through its own RNIC, as remote clients do.
    Loopback,
}

/// What the holder wants written before the next holder gets in, all of it on the lock's own node.
#[derive(Clone, Copy, Debug)]
pub struct WriteBack<'a> {
    /// How a client on the lock's node writes; remote clients use verbs always.
    pub path: DataPath,
    /// Addresses (8-byte aligned) and whole words to store there.
    pub writes: &'a [(GlobalAddr, &'a [u64])],
}

impl WriteBack<'_> {
    /// Nothing to write.
    pub const NONE: WriteBack<'static> = WriteBack {
        path: DataPath::Cpu,
        writes: &[],
    };

    /// Whether a client on `ep`'s node, holding a lock at `lock`, has something to write by CPU.
    #[inline]
    pub(crate) fn by_cpu<E: Endpoint>(&self, ep: &E, lock: GlobalAddr) -> bool {
        self.path == DataPath::Cpu && ep.node() == lock.node()
    }

    /// Makes the CPU's part of the write-back: all of it, or none when verbs are to make it.
    ///
    /// CPU stores before a post precede that verb, and a later release store orders them before itself, so
    /// this goes before whatever frees the lock.
    pub async fn store<E: Endpoint>(&self, ep: &E, lock: GlobalAddr) -> Result<()> {
        if self.by_cpu(ep, lock) {
            for (addr, words) in self.writes {
                ep.store_words(*addr, words).await?;
            }
        }
        Ok(())
    }

    /// Appends the verbs' part of the write-back to `chain`: all of it, or none when the CPU makes it.
    /// WRITE→anything is ordered on one queue pair, so verbs that free the lock may follow in the same chain.
    pub fn append<E: Endpoint>(&self, ep: &E, lock: GlobalAddr, chain: &mut Chain) {
        if !self.by_cpu(ep, lock) {
            for (addr, words) in self.writes {
                chain.write_words(*addr, words);
            }
        }
    }
}

/// A lock protocol, as one client uses it.
///
/// Neither call is cancel-safe: an acquire that is dropped or fails after its descriptor is linked, and a guard
/// that is dropped without release, poison the client: its next acquire fails with
/// [`crate::ErrorKind::Poisoned`]. A failed release counts as held.
#[allow(async_fn_in_trait)] // Futures are not `Send` by design, see `Endpoint`.
pub trait LockProtocol<E: Endpoint> {
    /// Proof of holding a lock.
    type Guard;

    /// Waits until the client holds the lock at `lock` (an address from a [`crate::LockTable`]).
    async fn acquire(&mut self, ep: &E, lock: GlobalAddr) -> Result<Self::Guard>;

    /// Hints that this client is about to acquire the lock at `lock` (as for [`LockProtocol::acquire`]), so that
    /// what it accesses by CPU then can be brought near. It changes nothing.
    fn hint(&self, ep: &E, lock: GlobalAddr) {
        let _ = (ep, lock);
    }

    /// Makes the write-back take effect, then lets the next holder in. Whatever the holder wrote to other
    /// nodes has completed before this is called.
    async fn release(
        &mut self,
        ep: &E,
        guard: Self::Guard,
        write_back: WriteBack<'_>,
    ) -> Result<()>;
}
