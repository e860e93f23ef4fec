//! Plans: a [`Rule`] assigns job types to staging, with a tenant and a weight; [`Rules`] finds the
//! rule of a type. A [`Gate`] decides if a round may promote, and [`DrainRate`] how many jobs.

mod batch_size;
mod coverage;
mod gate;
mod rule;
mod rules;
mod tenant_key;

pub use batch_size::{DepthTarget, DrainRate, LatencyGoal, QueueReading};
pub use coverage::Covered;
pub use gate::{Closed, Gate};
pub use rule::{
    BUILTIN, Batch, OnMissingTenant, OnUnknownWeight, OnWebhookError, Pace, PriorityScope, Rule, Webhook, Weights,
};
pub use rules::Rules;
pub use tenant_key::TenantKey;
