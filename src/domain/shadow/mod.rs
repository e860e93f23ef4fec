//! Shadow rules: a simulation of a queue under a rule, compared with the actual order.

mod simulation;
mod wait_stats;
mod waits;

pub use simulation::{MOST_JOBS, Shadow, ShadowRound, WatchedJob};
pub use wait_stats::{OTHERS, WaitStats};
pub use waits::Waits;
