pub(super) use crate::command::draw_tails as draw;
