//! Simulation of a plan rule in virtual time: tenants enqueue jobs, the planner promotes them, and
//! workers run them. The fair queue, the gate and the batch size are those of the planner; only the
//! queues and the workers are simulated.
//!
//! A [`Scenario`] describes tenants and workers, [`simulate`] runs it, and a [`Report`] is the
//! result. [`replay`] promotes the jobs of recorded rounds under other weights. The same scenario and
//! seed have the same result on every machine.

mod arrivals;
mod contenders;
mod engine;
mod fluid;
mod jain;
mod main_queue;
mod outcomes;
mod planner;
mod random;
mod replay;
mod report;
mod run_time;
mod scenario;
mod staging;
mod stretches;
mod timeline;
mod waits;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use arrivals::{Arrivals, Burst, Phases};
pub use engine::{Progress, simulate};
pub use replay::{RecordedRound, RecordedTenant, Replay, ReplayChange, ReplayTenant, ReplayedWaits, replay};
pub use report::{Deviation, Report, Series, TenantReport, Totals, WaitQuantiles};
pub use run_time::RunTime;
pub use scenario::{MOST_GROUPS, MOST_JOBS, MOST_TENANTS, MOST_WORKERS, Mode, Retry, Scenario, TenantGroup};
