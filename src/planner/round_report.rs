//! The report of a round, as it is stored and returned.

use super::WebhookState;
use super::tenant_counts::{ServedTenant, TenantCounts};
use crate::domain::plan::{Closed, Rule};
use crate::domain::time::rfc3339;
use crate::store::PromotedTenant;
use serde_json::{Value, json};

/// Maximum number of tenants that a report lists; the rest are only counted.
const MOST_NAMED: usize = 100;

/// The outcome of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundOutcome {
    Promoted,
    Skipped,
    LostLock,
    Failed,
    /// A simulated round: the rule is in shadow.
    Shadow,
}

impl RoundOutcome {
    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        match self {
            RoundOutcome::Promoted => "promoted",
            RoundOutcome::Skipped => "skipped",
            RoundOutcome::LostLock => "lost_lock",
            RoundOutcome::Failed => "failed",
            RoundOutcome::Shadow => "shadow",
        }
    }
}

/// The reason for which a round promoted nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundReason {
    /// The gate of a main queue is closed.
    Gate(Closed),
    /// All waiting tenants are held.
    Hold,
    /// The batch of the interval is promoted already.
    BatchSpent,
    /// The main queues have enough jobs.
    EnoughQueued,
    /// The store failed.
    Store,
    /// The main queue of another system failed.
    MainQueue,
}

impl RoundReason {
    /// Returns the name used in API answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            RoundReason::Gate(closed) => closed.name(),
            RoundReason::Hold => "hold",
            RoundReason::BatchSpent => "batch_spent",
            RoundReason::EnoughQueued => "enough_queued",
            RoundReason::Store => "store",
            RoundReason::MainQueue => "main_queue",
        }
    }
}

/// The report of a round.
#[derive(Clone, Debug)]
pub struct RoundReport {
    pub rule: String,
    pub round: u64,
    pub at: i64,
    pub outcome: RoundOutcome,
    /// The reason for which it promoted nothing.
    pub reason: Option<RoundReason>,
    /// The error message, if it failed.
    pub error: Option<String>,
    pub scheduled: bool,
    /// Age of the oldest runnable job in milliseconds, over all main queues of the rule.
    pub latency_ms: u64,
    /// Number of runnable jobs, over all main queues of the rule.
    pub depth: u64,
    /// Number of jobs that it wanted to promote.
    pub batch: u64,
    pub promoted: u64,
    pub served: TenantCounts,
    pub duration_ms: f64,
    pub weights_source: &'static str,
    /// The state of the weights webhook, if the rule has one.
    pub webhook: Option<WebhookState>,
    /// Number of jobs per second that workers take from the main queues.
    pub drain_per_s: f64,
}

impl RoundReport {
    /// Creates the report of a round that has not done anything yet.
    pub fn new(rule: &Rule, round: u64, at: i64, scheduled: bool) -> RoundReport {
        RoundReport {
            rule: rule.name.clone(),
            round,
            at,
            outcome: RoundOutcome::Skipped,
            reason: None,
            error: None,
            scheduled,
            latency_ms: 0,
            depth: 0,
            batch: 0,
            promoted: 0,
            served: TenantCounts::default(),
            duration_ms: 0.0,
            weights_source: rule.weights.source(),
            webhook: None,
            drain_per_s: 0.0,
        }
    }

    /// Returns the report as it is stored and as API answers contain it.
    pub fn to_json(&self) -> Value {
        let mut served: Vec<&PromotedTenant> = self.served.served().iter().collect();
        served.sort_by(|left, right| right.jobs.cmp(&left.jobs).then_with(|| left.tenant.cmp(&right.tenant)));
        let served: Vec<ServedTenant> = served.into_iter().take(MOST_NAMED).map(ServedTenant::from).collect();
        json!({
            "rule": self.rule,
            "round": self.round,
            "at": rfc3339(self.at),
            "outcome": self.outcome.name(),
            "reason": self.reason.map(RoundReason::name),
            "error": self.error,
            "scheduled": self.scheduled,
            "latency_ms": self.latency_ms,
            "depth": self.depth,
            "batch": self.batch,
            "promoted": self.promoted,
            "tenants": self.served.served().len(),
            "served": served,
            "duration_ms": (self.duration_ms * 1000.0).round() / 1000.0,
            "weights_source": self.weights_source,
            "weights_age_ms": self.webhook.as_ref().and_then(|webhook| webhook.age_ms),
            "weights_errors_total": self.webhook.as_ref().map_or(0, |webhook| webhook.status.errors_total),
            "weights_webhook": self.webhook.as_ref().map(WebhookState::to_json),
            "drain_per_s": (self.drain_per_s * 100.0).round() / 100.0,
        })
    }
}
