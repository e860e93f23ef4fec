//! Limits: quotas, rate limits of jobs, keys that jobs count under, and bounds on the size of
//! queues.

mod bound;
pub mod change;
mod key;
pub mod quota;
mod rate_limit;

pub use bound::Bound;
pub(crate) use bound::STRATEGIES;
pub use change::LimitChange;
pub use key::{LimitKey, LimitScope};
pub use quota::{Quota, Window};
pub use rate_limit::{OnLimit, Partition, RateLimit};
