//! Locks inside one machine, over an endpoint's CPU operations: the tier on which the clients of one compute
//! server queue before they go to the network.

mod ticket;

pub use ticket::TicketLock;
