//! Jobs as data: what a client may send, what a policy means, how a job is shown. Pure: no I/O, no clock, no tokio.

pub mod cron;
pub mod duration;
pub mod escape;
pub mod failure;
pub mod id;
pub mod invalid;
pub mod json;
pub mod limit_change;
pub mod limits;
mod members;
pub mod meta;
pub mod names;
pub mod planned;
pub mod quota;
pub mod rate_limit;
pub mod record;
pub mod request;
pub mod retry;
pub mod state;
pub mod tenant;
pub mod time;
pub mod trace;
pub mod workflow;
pub mod workflow_record;

pub use failure::Failure;
pub use invalid::Invalid;
pub use limit_change::LimitChange;
pub use limits::Limits;
pub use planned::Planned;
pub use quota::{Quota, Window};
pub use rate_limit::{OnLimit, RateLimit};
pub use record::Record;
pub use request::NewJob;
pub use state::State;
pub use workflow::NewWorkflow;
pub use workflow_record::WorkflowRecord;
