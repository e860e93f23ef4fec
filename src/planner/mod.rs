//! The planner: decides when staged jobs are promoted, how many, and under which weights. Who goes first is decided by the
//! store's scripts on live state.

mod desk;
mod drainer;
mod intake;
mod lookout;
mod pilot;
mod policy;
mod preview;
mod prospect;
mod recent;
mod report;
mod rulebook;
mod runner;
mod scales;
mod stats;
mod tally;
mod tenancy;
mod tenant_roll;
mod tenants;
mod trouble;
mod watch;
mod webhook_trouble;
mod weighing;
mod workflows;

pub use desk::Desk;
pub use drainer::{Drainer, Source as DrainSource};
pub use intake::{Intake, Refusal};
pub use pilot::{Flight, PORTION};
pub use policy::{Held, PolicyRefused};
pub use preview::preview;
pub use report::{Outcome, Report};
pub use rulebook::{Known, Removed, Rulebook, Source};
pub use runner::Planner;
pub use stats::{RuleStats, shadow};
pub use tally::Tally;
pub use tenancy::{Author, Served, TermsRefused};
pub use tenant_roll::{Enrolled, Roll, RollFilter, RollOrder};
pub use tenants::{Order, TenantList};
