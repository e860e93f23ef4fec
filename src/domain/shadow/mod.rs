//! Shadow rules: a simulation of a queue under a rule, compared with the actual order.

mod round;
mod simulation;
mod wait_stats;
mod waits;

pub use round::{ServedTenant, ShadowRound, SimulatedTenant};
pub use simulation::{MOST_JOBS, Shadow, WatchedJob};
pub use wait_stats::{OTHERS, WaitStats};
pub use waits::Waits;
