//! Pools of workers, and the [`Policy`] of dispatch: pools, limits, fairness between tenants.

mod policy;
pub mod rebalance;
mod starvation;
mod validation;
mod worker_pool;
mod worker_state;

pub use policy::{LimitRule, LimitTarget, Policy};
pub use starvation::{Aging, Starvation};
pub use validation::{PoolConflict, PoolValidator};
pub use worker_pool::{Pool, PoolQueue, Strategy};
pub use worker_state::{Directive, WorkerState};
