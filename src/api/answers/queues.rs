//! Answers about queues.

use super::rate_limits::{Quota, RateLimit};
use super::types::{Source, Timestamp, described};
use crate::api::openapi::queues::{counts, status};
use crate::domain::job::State;
use crate::domain::limit::{Bound, Overflow};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

described! {
    /// `active` or `paused`.
    Status(&'static str) => status();
    /// Numbers of jobs by state.
    JobCounts(BTreeMap<State, i64>) => counts();
}

impl Status {
    pub fn of(is_paused: bool) -> Status {
        Status(if is_paused { "paused" } else { "active" })
    }
}

/// A queue as an item of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueItem {
    pub name: String,
    pub status: Status,
    pub created_at: Timestamp,
}

/// A queue with its number of jobs by state.
#[derive(Clone, Serialize, JsonSchema)]
pub struct QueueState {
    pub name: String,
    pub status: Status,
    pub paused: bool,
    /// Jobs that are available.
    #[schemars(range(min = 0))]
    pub depth: i64,
    /// The time for which the oldest of them has been available.
    #[schemars(range(min = 0))]
    pub latency_ms: i64,
    pub oldest_available_at: Option<Timestamp>,
    /// The bound of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// The name once more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(flatten)]
    pub counts: JobCounts,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueAnswer<'a> {
    pub queue: &'a QueueState,
    pub name: &'a str,
    pub state: &'a Status,
    pub config: QueueConfig,
    pub stats: &'a QueueState,
    pub created_at: Timestamp,
}

/// The counts, at top level and inside `queue` and `stats`.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueStatsAnswer<'a> {
    #[serde(flatten)]
    pub members: &'a QueueState,
    pub queue: &'a QueueState,
    pub stats: &'a QueueState,
    pub computed_at: Timestamp,
}

/// A queue that was paused or resumed.
#[derive(Serialize, JsonSchema)]
pub struct QueuePaused {
    #[serde(flatten)]
    pub queue: PausedState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
    /// Some of the members once more, except in the admin API.
    #[serde(rename = "queue", skip_serializing_if = "Option::is_none")]
    pub wrapped: Option<PausedState>,
}

#[derive(Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct PausedState {
    pub name: String,
    pub paused: bool,
    pub status: Status,
}

/// The settings of a queue, without those that are not set.
#[derive(Default, Serialize, JsonSchema)]
pub struct QueueConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backpressure: Option<Backpressure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Quota>,
}

/// The bound of a queue.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Backpressure {
    /// The largest number of jobs that are available, scheduled or retryable.
    pub max_depth: u64,
    /// The reaction to a job that exceeds the bound.
    #[schemars(extend("enum" = Overflow::NAMES))]
    pub strategy: &'static str,
    /// The part of the bound from which producers get a warning.
    #[schemars(range(min = 0, max = 1))]
    pub warning_threshold: f64,
}

impl From<Bound> for Backpressure {
    fn from(bound: Bound) -> Self {
        Backpressure { max_depth: bound.most, strategy: bound.overflow.name(), warning_threshold: bound.warning }
    }
}

/// The settings of a queue, at top level and inside `configuration`.
#[derive(Serialize, JsonSchema)]
pub struct QueueConfigAnswer<'a> {
    #[serde(flatten)]
    pub members: &'a QueueConfig,
    pub name: &'a str,
    pub configuration: &'a QueueConfig,
}

/// The rate limit of a queue, in the shape of a request, and its usage.
#[derive(Serialize, JsonSchema)]
pub struct QueueLimit<'a> {
    #[serde(flatten)]
    pub quota: Quota,
    pub queue: &'a str,
    pub source: Source,
    pub state: RateLimit,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueLimitRemoved<'a> {
    pub queue: &'a str,
    pub removed: bool,
    /// The source of the limit that applies now.
    pub holds: Option<&'static str>,
}

/// A queue in the shape of the admin API.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AdminQueue {
    pub name: String,
    pub state: Status,
    pub paused: bool,
    /// Number of jobs by state.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub counts: BTreeMap<State, i64>,
    pub created_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AdminQueueItem {
    #[serde(flatten)]
    pub queue: AdminQueue,
    pub throughput: Throughput,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AdminQueueAnswer {
    #[serde(flatten)]
    pub queue: AdminQueue,
    pub configuration: QueueConfig,
    pub oldest_available_at: Option<Timestamp>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Throughput {
    /// Jobs within the last minute; `null` if activity is not counted.
    pub processed_per_minute: Option<u64>,
    /// Jobs within the last minute; `null` if activity is not counted.
    pub failed_per_minute: Option<u64>,
    pub started_per_minute: u64,
    pub avg_wait_ms: f64,
}
