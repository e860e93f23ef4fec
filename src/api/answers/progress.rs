//! Answers about progress and checkpoints.

use super::types::{JobState, Json, Ratio, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// The progress of a job, as its worker reported it last.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct JobProgress<'a> {
    pub job_id: &'a str,
    pub state: JobState,
    pub progress: Option<Ratio>,
    pub data: Json,
    #[schemars(with = "Option<String>")]
    pub message: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

/// A checkpoint that was stored.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct StoredCheckpoint<'a> {
    pub job_id: &'a str,
    /// The number of the checkpoint; the first one of a job has 1.
    pub sequence: u64,
    pub created_at: Timestamp,
}

/// A checkpoint with the state that the worker stored.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Checkpoint<'a> {
    #[serde(flatten)]
    pub stored: StoredCheckpoint<'a>,
    pub state: Json,
}

/// A checkpoint, at top level and inside `checkpoint`: each is the shape of one specification.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CheckpointAnswer<'a, T> {
    #[serde(flatten)]
    pub members: &'a T,
    pub checkpoint: &'a T,
}
