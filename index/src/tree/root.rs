//! How the tree gets a new root.
//!
//! Whoever has split a page of the root's level finds no level above to tell. It writes a page of the next
//! level whose children are the old root and its own new page, and CASes the root word from the old root to it:
//! through the RNIC also on the word's own node, since CPU atomics are not atomic against it. Who loses tells the
//! winner's tree of its split like that of any other.
//!
//! *Why [old root, (separator, new page)] is right even when others have split pages of that level meanwhile, and
//! whichever page it was that this client has split:* the root is the leftmost page of its level (its low fence is
//! 0, and a split leaves the address to the lower half), so that it leads to every key of the level by its right
//! siblings; the new page leads to every key from the separator on, its low fence. So each key's child is at or
//! left of the page that is responsible for it, which is all that a B-link tree asks of a child; and the pages
//! between, of which the new root does not know, are told to it by the clients that have split them off, each of
//! which finds the root's level above its own by now.

use dmtree_cluster::{Endpoint, GlobalAddr};
use dmtree_lock::{DataPath, LockProtocol};

use super::climb::Split;
use super::{Tree, sabotaged};
use crate::page::SEQ;
use crate::spares::Spare;
use crate::{ErrorKind, Result, inner, page};

impl<E: Endpoint, L: LockProtocol<E>> Tree<E, L> {
    /// Puts a new root above that of `split`'s level. Says whether it did; if not, the root is higher than that.
    pub(super) async fn grow(&mut self, split: Split) -> Result<bool> {
        self.stats.root_reads += 1;
        let root_word = self.meta.root_word();
        let root = GlobalAddr::from_bits(self.ep.read_u64(root_word).await?);
        self.meta.check(root)?;
        let read = self
            .reader
            .read_settled(&self.ep, root, DataPath::Loopback)
            .await?;
        let (level, low) = match read {
            Ok(page) => (page.level(), page.low()),
            Err(why) => return Err(ErrorKind::BadPage { page: root, why }.into()),
        };
        if level > split.level {
            self.cache.set_root(root, level);
            return Ok(false);
        }
        if level < split.level || low != 0 {
            let why = "the root word leads to it, and it is not the top of the tree";
            return Err(ErrorKind::BadPage { page: root, why }.into());
        }
        let (took, reserved) = self.growth.spares.reserve(&self.ep, 1).await;
        self.stats.growth.split.atomics += took;
        let spare = reserved?;
        let image = &mut self.growth.images.right;
        page::begin(image, level + 1, 0);
        inner::push(image, 0, root);
        inner::push(image, split.separator, split.child);
        self.write_new(spare).await?;
        let new = spare.addr.to_bits();
        let found = if sabotaged!(self, RootOverwritten) {
            self.ep.write_words(root_word, &[new]).await?;
            root.to_bits()
        } else {
            self.ep.rdma_cas(root_word, root.to_bits(), new).await?
        };
        self.stats.growth.split.atomics += 1;
        if found != root.to_bits() {
            let seq = self.growth.images.right[SEQ];
            self.growth.spares.give_back(Spare { seq, ..spare });
            self.stats.growth.roots_lost += 1;
            return Ok(false);
        }
        self.stats.growth.roots += 1;
        self.cache.set_root(spare.addr, level + 1);
        self.remember(spare.addr, &self.growth.images.right);
        Ok(true)
    }
}
