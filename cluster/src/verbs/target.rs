//! [`Target`]: a node's memory, registered, and the connections by which others reach it.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::sys::{CompletionQueue, Connection, Contact, Device, DeviceError, Registered};
use crate::region::Regions;

/// A node's memory, registered, and the passive ends of all connections to it. The RNIC serves them; nobody else does.
#[derive(Debug)]
pub(super) struct Target {
    /// Before the memory that they reach.
    connections: Vec<Connection>,
    device: Arc<Device>,
    /// Host memory, and what stands for device memory; none where there is none.
    memories: [Option<Registered>; 2],
    _regions: Arc<Regions>,
}

impl Target {
    pub(super) fn new(device: &Arc<Device>, regions: &Arc<Regions>) -> Result<Self, DeviceError> {
        let register = |words: &[AtomicU64]| {
            let bytes = size_of_val(words);
            let start = words.as_ptr().cast_mut().cast::<u8>();
            // SAFETY: the words are atomics, which the device may change as any other thread may; the mapping stays where it
            // is for as long as the regions live, which this keeps alive.
            let register = || unsafe { Registered::new(device, start, bytes, true) };
            (bytes > 0).then(register).transpose()
        };
        let [host, on_chip] = regions.all_words();
        let memories = [register(host)?, register(on_chip)?];
        Ok(Self {
            connections: Vec::new(),
            device: Arc::clone(device),
            memories,
            _regions: Arc::clone(regions),
        })
    }

    /// Makes the end for one who asked.
    pub(super) fn accept(&mut self, other: &Contact) -> Result<Contact, DeviceError> {
        // Nothing is posted here: a queue for each connection costs little, and shares nothing.
        let queue = Rc::new(CompletionQueue::new(&self.device, 1)?);
        let connection = Connection::new(&queue, 1, sequence(other.number))?;
        connection.connect(other)?;
        let served = |memory: &Option<Registered>| {
            memory.as_ref().map(Registered::served).unwrap_or_default()
        };
        let contact = connection.contact([served(&self.memories[0]), served(&self.memories[1])]);
        self.connections.push(connection);
        Ok(contact)
    }
}

/// A first packet number: any will do, and one that differs from connection to connection shows packets of others.
pub(super) fn sequence(of: u32) -> u32 {
    (of.wrapping_mul(0x9e37_79b9) >> 8) & 0x00ff_ffff
}
