//! The texts that scripts and this program exchange and store. Only these modules and
//! `lua/lib/wire.lua`, `lua/lib/record.lua` and `lua/lib/event.lua` use separators.

pub(super) mod event;
pub(super) mod job;
mod limits;
mod name;
pub(super) mod record;
pub(super) mod tenant;
pub(super) mod wire;
pub(super) mod workflow;
