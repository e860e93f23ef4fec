//! Limits: quotas, rate limits of jobs, keys that jobs count under, and bounds on the size of
//! queues.

mod bound;
pub mod change;
mod key;
pub mod quota;
mod rate_limit;
mod strategy;

pub use bound::{Bound, Overflow};
pub use change::LimitChange;
pub use key::{KeyPart, LimitKey, LimitScope};
pub use quota::{Quota, Window};
pub use rate_limit::{OnLimit, Partition, RateLimit};
pub use strategy::LimitStrategy;
