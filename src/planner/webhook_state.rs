//! The weights webhook of a rule at the end of a round, as the round's record keeps it.

use crate::job::time::rfc3339;
use crate::weights::{Fallback, Status};
use serde_json::{Value, json};

/// A rule's weights webhook.
#[derive(Clone, Debug)]
pub struct WebhookState {
    pub status: Status,
    /// How old its last usable answer is.
    pub age_ms: Option<u64>,
    /// The weights that are used instead, while it fails.
    pub fallback: Option<Fallback>,
}

impl WebhookState {
    /// As records and stats show it.
    pub fn to_json(&self) -> Value {
        let status = &self.status;
        json!({
            "failing_since": status.failing_since.map(rfc3339),
            "last_error": status.last_error,
            "fallback": self.fallback.map(Fallback::name),
            "breaker": status.breaker.as_str(),
            "next_attempt_at": status.next_attempt_at.map(rfc3339),
        })
    }
}
