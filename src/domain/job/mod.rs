//! Jobs as data: validation of requests, records of stored jobs, and their form in answers.

mod ancestor;
mod failure;
mod foreign;
pub mod id;
mod members;
mod meta;
mod new_job;
mod planned;
mod record;
pub mod request;
mod request_limits;
pub mod retry;
pub mod sidekiq;
mod state;
pub mod trace;
mod unique;

pub use ancestor::{Ancestor, Origin};
pub use failure::{Failure, FailureVerdict};
pub use foreign::{Keeps, Outward};
pub use new_job::{NewJob, Timeouts, WorkflowPosition};
pub use planned::{Planned, queue_of};
pub use record::{Checkpoint, FailedAttempt, Record, push_time};
pub use request::EnqueueKind;
pub use request_limits::RequestLimits;
pub use state::State;
pub use unique::{OnConflict, Unique};
