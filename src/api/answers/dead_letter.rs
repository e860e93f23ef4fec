//! Answers about the dead letter.

use super::types::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The numbers of jobs in the dead letter.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct DeadLetterStats<'a> {
    pub total: usize,
    pub by_queue: BTreeMap<&'a str, usize>,
    /// Number of jobs by the type of their last error.
    pub by_error_type: BTreeMap<String, usize>,
    pub oldest_at: Option<Timestamp>,
    pub newest_at: Option<Timestamp>,
    pub retention: Retention,
}

/// The bounds of the dead letter; jobs that exceed them are deleted.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Retention {
    pub max_age_seconds: u64,
    pub max_count: usize,
}
