//! CPU copies of more than a line that are going on.

use super::endpoint::SimEndpoint;
use crate::GlobalAddr;

/// A CPU copy out of memory that is going on.
pub(super) struct Copy<'a> {
    pub(super) endpoint: &'a SimEndpoint,
    pub(super) addr: GlobalAddr,
    pub(super) access: u32,
    pub(super) done: bool,
}

impl Copy<'_> {
    pub(super) fn finish(mut self, words: &mut [u64]) {
        self.done = true;
        self.endpoint
            .world
            .borrow_mut()
            .cpu_copy_end(self.addr, self.access, words);
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.endpoint
                .world
                .borrow_mut()
                .cpu_copy_cancel(self.addr, self.access);
        }
    }
}

/// A CPU copy into memory that is going on; it ends when dropped (a store once begun cannot be taken back).
pub(super) struct Fill<'a> {
    pub(super) endpoint: &'a SimEndpoint,
    pub(super) addr: GlobalAddr,
    pub(super) access: u32,
    pub(super) words: usize,
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        self.endpoint
            .world
            .borrow_mut()
            .cpu_fill_end(self.addr, self.access, self.words);
    }
}
