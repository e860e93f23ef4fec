//! The arithmetic of fairness. Pure: no I/O, no clock, no tokio; time is an argument.
//!
//! - A plan [`Rule`] assigns job types to staging, with a tenant and a weight; [`Rules`] finds the
//!   rule of a type.
//! - [`FairQueue`] picks the tenant whose job is next; [`DrainRate`] determines how many jobs a
//!   round promotes.
//! - A [`Shadow`] simulates a queue under a rule and compares it with the actual order.
//! - [`noisy`] detects tenants whose load harms others.
//! - A [`Policy`] holds the settings of dispatch: pools, limits, fairness between tenants.

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
