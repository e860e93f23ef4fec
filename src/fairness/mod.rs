//! Fairness as arithmetic. Pure: no I/O, no clock, no tokio; time is an argument.
//!
//! A plan [`Rule`] says which job types wait in staging, under which tenant and weight; [`Rules`] finds the one that
//! holds for a type.
//! [`FairQueue`] says whose job goes next, [`DrainRate`] how many a round should promote.
//! A [`Shadow`] says how a queue would be under a rule, beside how it is.
//! [`noisy`] tells tenants at whose cost others go short.
//! A [`Policy`] says what dispatch goes by: pools, limits, fairness between tenants.

mod batch_size;
mod coverage;
mod gate;
mod metrics;
pub mod noisy;
mod policy;
mod pool;
mod pool_validation;
mod queue;
pub mod rebalance;
mod rule;
mod rules;
mod shadow;
mod start_index;
mod starvation;
mod tenancy;
mod tenant;
mod tenant_fairness;
mod tenant_key;
mod tenant_settings;
mod wait_stats;
mod waits;
mod weight;

pub use batch_size::{DepthTarget, DrainRate, LatencyGoal, QueueReading};
pub use coverage::Covered;
pub use gate::{Closed, Gate};
pub use metrics::{jain_index, lag, wait_bound};
pub use policy::{LimitRule, Policy, Target};
pub use pool::{Pool, PoolQueue, Strategy};
pub use pool_validation::{PoolConflict, PoolValidator};
pub use queue::FairQueue;
pub use rule::{
    BUILTIN, Batch, OnMissingTenant, OnUnknownWeight, OnWebhookError, Pace, PriorityScope, Rule, Webhook, Weights,
};
pub use rules::Rules;
pub use shadow::{MOST_JOBS, Shadow, ShadowRound, WatchedJob};
pub use starvation::{Aging, Starvation};
pub use tenancy::{Isolation, Tenancy, TenantSource};
pub use tenant::Tenant;
pub use tenant_fairness::{Interleaved, TenantFairness, TenantStrategy};
pub use tenant_key::TenantKey;
pub use tenant_settings::{TenantLimits, TenantRule, TenantSettings};
pub use wait_stats::{OTHERS, WaitStats};
pub use waits::Waits;
pub use weight::Weight;
