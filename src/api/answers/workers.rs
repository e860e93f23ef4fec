//! Answers about workers.

use super::types::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A worker, with the members that it reported itself, unchanged.
#[derive(Serialize, JsonSchema)]
pub struct Worker<'a> {
    pub id: &'a str,
    /// `stale` without a recent heartbeat, else the directive for the worker, else the state that it reported.
    pub state: &'a str,
    pub active_jobs: usize,
    /// The ids of at most 100 of those jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_job_ids: Option<Vec<String>>,
    /// The time of the first heartbeat, unless the worker reported another value.
    #[schemars(with = "Value")]
    pub started_at: Option<Timestamp>,
    pub last_heartbeat_at: Timestamp,
    // The last member, so that it replaces `started_at`.
    #[serde(flatten)]
    pub reported: BTreeMap<&'a str, Value>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkersSummary {
    pub summary: WorkerNumbers,
}

/// The number of workers by state.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkerNumbers {
    pub quiet: usize,
    pub running: usize,
    pub stale: usize,
    pub total: usize,
}

/// The health of a worker.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkerHealth<'a> {
    pub worker_id: &'a str,
    pub state: &'a str,
    pub last_heartbeat_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkerDirected<'a> {
    pub worker_id: &'a str,
    pub state: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkerRemoved<'a> {
    pub worker_id: &'a str,
    pub removed: bool,
    pub jobs_requeued: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkerDeregistered<'a> {
    pub ok: bool,
    pub worker_id: &'a str,
    pub jobs_requeued: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct WorkerRegistered<'a> {
    pub ok: bool,
    pub worker_id: &'a str,
    pub state: &'a str,
    pub server_time: Timestamp,
    /// Seconds between two heartbeats.
    pub heartbeat_interval: f64,
    /// Seconds without a heartbeat after which a worker counts as dead.
    pub heartbeat_timeout: f64,
    /// Seconds for which a job is leased, unless the fetch or the job sets another time.
    pub visibility_timeout_default: f64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Heartbeat<'a> {
    /// The directive for the worker: running, quiet or terminate.
    pub state: &'a str,
    /// The jobs whose leases were extended.
    pub jobs_extended: &'a [String],
    /// The jobs of the heartbeat that were cancelled meanwhile.
    pub cancelled_jobs: &'a [String],
    pub server_time: Timestamp,
    pub acknowledged: bool,
}
