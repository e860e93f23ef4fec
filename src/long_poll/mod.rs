//! Fetches that wait for a job (long polls).

mod long_polls;
mod wait_queues;
mod waiters;

pub use long_polls::{LONGEST_WAIT, LongPolls};
pub use waiters::Waiters;
