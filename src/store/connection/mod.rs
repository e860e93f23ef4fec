//! The connection to Redis: addresses and topologies, the private server, signals, and checks of a
//! server's settings.

mod address;
mod client;
mod confirmer;
pub mod embedded;
pub(super) mod health;
mod migration;
mod replication;
mod sentinel;
mod sentinel_watch;
pub(super) mod signals;
mod slot_hold;

pub use address::Address;
pub(in crate::store) use address::{PrimaryClient, RawConnection};
pub(in crate::store) use client::Connection;
pub(in crate::store) use confirmer::Confirmation;
pub use health::{CheckFinding, ServerChecks, Severity};
pub use signals::Signal;
