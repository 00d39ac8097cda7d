//! What a trace is told. Out of the way of runs without one, which only look whether there is one.

use super::SimEndpoint;
use super::world::World;
use crate::{ClientId, Mark};

impl World {
    /// Operation `id` has completed.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_chain(&mut self, id: u32) {
        let op = &self.ops[id as usize];
        if let Some(sink) = &mut self.trace {
            sink.chain(ClientId(op.client), op.posted_at, self.now, &op.chain);
        }
    }
}

impl SimEndpoint {
    #[cold]
    #[inline(never)]
    pub(super) fn trace_mark(&self, mark: Mark) {
        let mut world = self.world.borrow_mut();
        let now = world.now;
        if let Some(sink) = &mut world.trace {
            sink.mark(ClientId(self.client), now, mark);
        }
    }
}
