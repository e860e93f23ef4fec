//! The planner: decides when staged jobs are promoted, how many, and under which weights. Who goes first is decided by the
//! store's scripts on live state.

mod desk;
mod drainer;
mod intake;
mod pilot;
mod policy;
mod preview;
mod report;
mod rulebook;
mod runner;
mod stats;
mod tally;
mod tenants;
mod watch;
mod weighing;

pub use desk::Desk;
pub use drainer::{Drainer, Source as DrainSource};
pub use intake::{Intake, Refusal};
pub use pilot::{Flight, PORTION};
pub use policy::{Held, PolicyRefused};
pub use preview::preview;
pub use report::{Outcome, Report};
pub use rulebook::{Known, Removed, Rulebook, Source};
pub use runner::Planner;
pub use stats::RuleStats;
pub use tally::Tally;
pub use tenants::{Order, TenantList};
