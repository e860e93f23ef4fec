//! Fairness as arithmetic. Pure: no I/O, no clock, no tokio; time is an argument.
//!
//! A plan [`Rule`] says which job types wait in staging, under which tenant and weight; [`Rules`] finds the one that
//! holds for a type.
//! [`FairQueue`] says whose job goes next, [`Drain`] how many a round should promote.
//! A [`Shadow`] says how a queue would be under a rule, beside how it is.
//! [`noisy`] tells tenants at whose cost others go short.
//! A [`Policy`] says what dispatch goes by: pools, limits, fairness between tenants.

mod auto;
mod coverage;
mod experience;
mod gate;
mod line;
mod measure;
pub mod noisy;
mod policy;
mod pool;
mod queue;
pub mod rebalance;
mod roster;
mod rule;
mod rules;
mod shadow;
mod starvation;
mod tenancy;
mod tenant;
mod tenant_fairness;
mod tenant_key;
mod terms;
mod waits;
mod weight;

pub use auto::{Aim, Drain, Goal, Look};
pub use coverage::Covered;
pub use experience::{Experience, OTHERS};
pub use gate::{Closed, Gate};
pub use measure::{jain_index, lag, wait_bound};
pub use policy::{LimitRule, Policy, Target};
pub use pool::{Pool, PoolQueue, Strategy};
pub use queue::FairQueue;
pub use roster::{Clash, Roster};
pub use rule::{
    BUILTIN, Batch, OnMissingTenant, OnUnknownWeight, OnWebhookError, Pace, PriorityScope, Rule, Webhook, Weights,
};
pub use rules::Rules;
pub use shadow::{MOST_JOBS, Seen, Shadow, ShadowRound};
pub use starvation::{Aging, Starvation};
pub use tenancy::{Isolation, Tenancy, TenantSource};
pub use tenant::Tenant;
pub use tenant_fairness::{Interleaved, TenantFairness, TenantStrategy};
pub use tenant_key::TenantKey;
pub use terms::{TenantLimits, TenantRule, Terms};
pub use waits::Waits;
pub use weight::Weight;
