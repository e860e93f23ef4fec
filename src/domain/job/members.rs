//! Names of job members that have a meaning for the server.

/// Members that only the server sets. Values from clients are ignored and not stored.
const MANAGED: [&str; 26] = [
    "state",
    "attempt",
    "max_attempts",
    "created_at",
    "enqueued_at",
    "started_at",
    "completed_at",
    "discarded_at",
    "cancelled_at",
    "activated_at",
    "next_retry_at",
    "retry_delay_ms",
    "worker_id",
    "error",
    "errors",
    "result",
    "parent_results",
    "checkpoint",
    "previous_state",
    "options",
    "specversion",
    "retry_policy",
    "pending",
    "x_staged",
    "x_promoted_to",
    "waiting_for",
];

/// Members that the server interprets, at top level or in `options`.
const KNOWN: [&str; 21] = [
    "id",
    "type",
    "args",
    "meta",
    "queue",
    "priority",
    "timeout_ms",
    "timeout",
    "tags",
    "retry",
    "scheduled_at",
    "delay_until",
    "expires_at",
    "visibility_timeout_ms",
    "visibility_timeout",
    "heartbeat_timeout",
    "total_timeout",
    "enqueue_ttl",
    "grace_period",
    "rate_limit",
    "unique",
];

/// Returns true if the server interprets or sets a member. All others are stored and returned
/// unchanged.
pub fn is_known(name: &str) -> bool {
    [&KNOWN[..], &MANAGED[..]].iter().any(|names| names.contains(&name))
}
