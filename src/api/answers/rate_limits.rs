//! Answers about rate limits.

use super::types::{Timestamp, described};
use crate::api::openapi::schema;
use crate::domain::limit::{LimitScope, Partition};
use crate::domain::{duration, limit};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

described! {
    /// A number of starts within a period, in the shape of a request.
    Window(Value) => schema::reference("Window");
}

/// Limits that apply together, in the shape of a request.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Quota {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Window>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Window>,
}

impl From<&limit::Quota> for Quota {
    fn from(quota: &limit::Quota) -> Self {
        let window = |window: limit::Window| Window(window.to_json());
        Quota { concurrency: quota.concurrency, rate: quota.rate.map(window), throttle: quota.throttle.map(window) }
    }
}

/// A limit and its usage.
#[derive(Serialize, JsonSchema)]
pub struct RateLimit {
    pub key: String,
    /// The jobs that the limit counts: those with the key, or those of a queue, type or tenant.
    #[schemars(extend("enum" = LimitScope::NAMES))]
    pub scope: &'static str,
    /// Available jobs that the limit holds back.
    pub waiting_count: u64,
    /// The key of which this limit is a partition, and the tenant, queue or type of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionOf>,
    /// The partitions of the key, most recently used first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<RateLimit>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions_total: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<ConcurrencyUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleUsage>,
    /// The time until which nothing starts, because a worker asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_until: Option<Timestamp>,
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Override>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct PartitionOf {
    pub key: String,
    #[schemars(extend("enum" = Partition::NAMES[1..]))]
    pub scope: &'static str,
    pub name: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ConcurrencyUsage {
    pub limit: u32,
    pub active: u64,
    /// The number of jobs that may start now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RateUsage {
    #[serde(flatten)]
    pub window: UsageWindow,
    /// Starts in the window that ends now.
    pub current_count: u64,
    /// The time at which all of those starts have left the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_resets_at: Option<Timestamp>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ThrottleUsage {
    #[serde(flatten)]
    pub window: UsageWindow,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_allowed_at: Option<Timestamp>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct UsageWindow {
    #[schemars(range(min = 1))]
    pub limit: u32,
    pub period: String,
}

impl From<limit::Window> for UsageWindow {
    fn from(window: limit::Window) -> Self {
        UsageWindow { limit: window.limit, period: duration::to_iso(window.period) }
    }
}

/// An override that is in effect.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Override {
    /// `null` if it has no end.
    pub expires_at: Option<Timestamp>,
}
