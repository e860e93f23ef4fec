//! Answers about noisy neighbours.

use super::types::Timestamp;
use crate::domain::noisy::{Action, Detection};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The noisy-neighbour state of a tenant.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Noise {
    pub tenant_id: String,
    /// True if noisy neighbours are detected.
    pub enabled: bool,
    /// True if the tenant is noisy at this moment.
    pub noisy: bool,
    pub throttled: bool,
    pub noisy_since: Option<Timestamp>,
    /// The time until which the tenant is not throttled.
    pub spared_until: Option<Timestamp>,
    /// The evidence: that of this moment, or else the stored one that led to the throttle.
    #[schemars(with = "Value")]
    pub verdict: Option<Detection>,
    pub throttle: Option<Throttle>,
    pub figures: Figures,
    pub thresholds: Thresholds,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct NoiseReset {
    #[serde(flatten)]
    pub noise: Noise,
    /// True if the tenant was throttled.
    pub released: bool,
}

/// A throttle in effect.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Throttle {
    #[schemars(with = "String", extend("enum" = ["none", "weight_reduced", "concurrency_reduced"]))]
    pub action: Action,
    pub reason: String,
    pub original_weight: f64,
    pub effective_weight: f64,
    pub since: Timestamp,
    pub until: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_concurrency: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_concurrency: Option<u64>,
}

/// The current jobs of the tenant, and its activity within the window.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Figures {
    pub window_ms: u64,
    /// Waiting jobs.
    pub depth: u64,
    pub active: u64,
    pub enqueued: u64,
    /// Attempts that succeeded.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Time that workers spent on jobs of the tenant.
    pub worker_ms: u64,
}

/// The thresholds from which a tenant counts as noisy.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Thresholds {
    pub queue_depth_ratio: f64,
    pub enqueue_rate_ratio: f64,
    pub active_ratio: f64,
    pub error_rate_ratio: f64,
    pub worker_time_ratio: f64,
}
