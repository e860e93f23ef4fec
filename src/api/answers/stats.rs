//! Totals over all queues, jobs and workers.

use crate::domain::job::State;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Totals over all queues, jobs and workers.
#[derive(Serialize, JsonSchema)]
pub struct Stats {
    pub queues: u64,
    pub workers: u64,
    /// Number of jobs by state.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub jobs: BTreeMap<State, i64>,
    pub throughput: Throughput,
    pub uptime_seconds: u64,
}

/// Jobs that ended within the last minute.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Throughput {
    pub processed_per_minute: u64,
    pub failed_per_minute: u64,
}
