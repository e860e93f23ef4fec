//! Cron jobs, and the expressions that say when they run.

mod expression;
mod job;
mod schedule;
mod skip;

pub use expression::EXPECTED;
pub use job::{CronJob, Overlap, Timing};
pub use schedule::{Cron, TIMEZONE_EXPECTED, Wake, check_timezone};
pub use skip::CronSkip;
