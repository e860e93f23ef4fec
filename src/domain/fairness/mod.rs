//! The arithmetic of fairness: a [`FairQueue`] picks the tenant whose job is next, and functions
//! such as [`lag`] measure the result.

mod metrics;
mod queue;
mod start_index;
mod tenant;
mod tenant_fairness;

pub use metrics::{jain_index, lag, wait_bound};
pub use queue::FairQueue;
pub use tenant::TenantTime;
pub use tenant_fairness::{Interleaved, TenantFairness, TenantStrategy};
