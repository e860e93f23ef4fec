//! The state of a rule's weights webhook at the end of a round, as stored in the round's report.

use crate::domain::time::rfc3339;
use crate::weights::{Fallback, WebhookStatus};
use serde_json::{Value, json};

/// The state of a rule's weights webhook.
#[derive(Clone, Debug)]
pub struct WebhookState {
    pub status: WebhookStatus,
    /// Age of its last usable answer, in milliseconds.
    pub age_ms: Option<u64>,
    /// The weights that are used instead while it fails.
    pub fallback: Option<Fallback>,
}

impl WebhookState {
    /// Returns the state for reports and statistics.
    pub fn to_json(&self) -> Value {
        let status = &self.status;
        json!({
            "failing_since": status.failing_since.map(rfc3339),
            "last_error": status.last_error,
            "fallback": self.fallback.map(Fallback::name),
            "breaker": status.breaker.name(),
            "next_attempt_at": status.next_attempt_at.map(rfc3339),
        })
    }
}
