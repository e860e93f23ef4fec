//! The reason why a job is not active.

use super::types::Timestamp;
use crate::domain::limit::{LimitScope, LimitStrategy};
use schemars::JsonSchema;
use serde::Serialize;

/// All reasons, in the order of the documentation.
const REASONS: [&str; 7] = ["staged", "rate_limit", "tenant_limit", "queue_paused", "scheduled", "retry", "activation"];

/// The reason why a job is not active, unless it waits only for a worker.
#[derive(Default, Serialize, JsonSchema)]
pub struct WaitingFor {
    #[schemars(extend("enum" = REASONS))]
    pub reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<StagedGate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["waiting", "held", "awaits_weight", "blocked"]))]
    pub tenant_state: Option<&'static str>,
    /// The key of the limit, if the caller may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = LimitScope::NAMES))]
    pub scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = LimitStrategy::NAMES))]
    pub strategy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The gate of the main queue.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct StagedGate {
    pub open: bool,
    pub reason: Option<&'static str>,
}
