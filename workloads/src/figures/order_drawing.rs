pub(super) use crate::command::draw_tails as draw_orders;
pub(super) use crate::command::draw_tails as draw_order_and_spread;
