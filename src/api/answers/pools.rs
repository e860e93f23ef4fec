//! Answers about worker pools and the scheduling policy.

use super::types::{Ratio, Source, described};
use crate::api::openapi::pools::{pool_settings, scheduling_settings};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

described! {
    /// The settings of a pool, which are stored as well.
    PoolSettings(Value) => pool_settings();
    /// The settings of the scheduling policy, which are stored as well.
    SchedulingSettings(Value) => scheduling_settings();
}

/// A worker pool.
#[derive(Serialize, JsonSchema)]
pub struct Pool {
    #[serde(flatten)]
    pub settings: PoolSettings,
    /// Workers that sent a heartbeat recently and name the pool.
    pub active_workers: u64,
    /// Jobs that workers of the pool run.
    pub active_jobs: u64,
    pub source: Source,
}

/// A pool, at top level and inside `pool`.
#[derive(Serialize, JsonSchema)]
pub struct PoolAnswer<'a> {
    #[serde(flatten)]
    pub members: &'a Pool,
    pub pool: &'a Pool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct PoolRemoved<'a> {
    pub pool: &'a str,
    pub removed: bool,
    /// The source of the pool of that name that applies now.
    pub holds: Option<&'static str>,
}

/// The scheduling policy of all queues.
#[derive(Serialize, JsonSchema)]
pub struct Scheduling {
    #[serde(flatten)]
    pub settings: SchedulingSettings,
    pub source: Source,
}

/// The dispatches of one queue within the last minute.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueDispatches {
    pub name: String,
    pub dispatch_count_1m: u64,
    /// Share of the dispatches of all queues.
    pub dispatch_ratio_1m: Ratio,
    /// Average time that those jobs were available before their dispatch.
    #[schemars(with = "f64")]
    pub avg_wait_ms: u64,
    /// Jobs that are active now, regardless of their start.
    pub active_jobs: u64,
}

/// The dispatches of all queues.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Dispatches {
    pub queues: Vec<QueueDispatches>,
    /// The period that is counted.
    pub window: &'static str,
}

/// The dispatches of all queues, at top level and inside `stats`.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct DispatchesAnswer<'a> {
    #[serde(flatten)]
    pub members: &'a Dispatches,
    pub stats: &'a Dispatches,
}
