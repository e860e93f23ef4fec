//! Plans: a [`Rule`] assigns job types to staging, with a tenant and a weight; [`Rules`] finds the
//! rule of a type. A [`Gate`] decides if a round may promote, and [`DrainRate`] and [`RoundSize`] how
//! many jobs.

mod batch_size;
mod coverage;
mod gate;
mod round_size;
mod rule;
mod rules;
mod tenant_key;

pub use batch_size::{DepthTarget, DrainRate, LatencyGoal, QueueReading};
pub use coverage::Covered;
pub use gate::{Closed, Gate};
pub use round_size::{AIM_HOLDS_MS, RoundSize};
pub use rule::{
    BUILTIN, Batch, OnMissingTenant, OnUnknownWeight, OnWebhookError, Pace, PriorityScope, Rule, Webhook, Weights,
};
pub use rules::Rules;
pub use tenant_key::TenantKey;
