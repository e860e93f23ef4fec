//! Answers about changes of many jobs.

use super::types::JobState;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of a change of many jobs.
#[derive(Serialize, JsonSchema)]
pub struct BulkAnswer {
    pub action: &'static str,
    /// Jobs that match the filter.
    pub matched: usize,
    pub succeeded: usize,
    pub failed: usize,
    /// Jobs that match, but exceed the limit of the request.
    pub remaining: usize,
    pub dry_run: bool,
    /// The errors of some of the jobs that failed.
    pub errors: Vec<BulkError>,
    /// If jobs are deleted from a queue or from the dead letter, the same as `succeeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged_count: Option<usize>,
    /// For a purge, the states of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<JobState>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct BulkError {
    pub job_id: String,
    pub error: String,
}
