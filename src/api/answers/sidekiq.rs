//! Answers about jobs that wait in staging for a Sidekiq.

use super::types::{JobId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// A job of a Sidekiq that waits in staging.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct StagedJob {
    pub jid: String,
    /// The id of the job in fairgate, for `GET` and `DELETE /ojs/v1/jobs/{id}`.
    pub id: JobId,
    /// The Ruby class; for ActiveJob the wrapped class.
    pub class: String,
    pub tenant_id: String,
    /// The plan rule that will promote the job.
    pub rule: String,
    /// The main queue of the rule.
    pub main_queue: Option<String>,
    /// The Sidekiq queue into which the job will be promoted.
    pub queue: String,
    pub created_at: Timestamp,
    /// The time for which the job has been waiting.
    pub waits_ms: u64,
}
