pub(super) use crate::command::draw_tails as draw_tails_over_locks;
pub(super) use crate::command::draw_tails as draw_throughputs_over_locks;
pub(super) use crate::command::draw_tails as draw_throughputs_over_nodes;
