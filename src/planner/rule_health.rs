//! The figures of a rule from which its health is judged, and those that history keeps.

use super::stats::RuleStats;
use crate::domain::health::{MainQueueHealth, RuleHealth, WebhookHealth};
use crate::domain::time::parse_rfc3339;
use crate::store::RuleSample;
use serde_json::Value;
use std::time::Duration;

/// Age up to which the drain rate of the last round counts.
const FRESH: Duration = Duration::from_secs(120);

impl RuleStats {
    /// Returns the figures of the rule itself.
    pub fn rule_health(&self) -> RuleHealth {
        let closed = self.closed();
        RuleHealth {
            name: self.rule.name.clone(),
            now: self.status.now,
            is_stalled: self.is_stalled(),
            planner_group: self.rule.planner_group.clone(),
            staged: self.status.staged,
            tenants: self.sum(|queue| queue.staged_tenants),
            oldest_age: self.oldest_age_ms(),
            closed,
            closed_since: closed.and_then(|closed| self.rounds_skipped_since(closed.name())),
            is_all_held: self.rounds.first().is_some_and(|round| round["reason"] == "hold"),
            latency: self.latency_ms(),
            latency_threshold: self.rule.latency_threshold,
            depth: self.sum(|queue| queue.depth),
            max_depth: self.rule.max_depth,
            drain_per_second: self.recent_drain_per_s(FRESH).unwrap_or(0.0),
        }
    }

    /// Returns the state of the weights webhook at the end of the last round.
    pub fn webhook_health(&self) -> WebhookHealth {
        let webhook = self.rounds.first().map_or(&Value::Null, |round| &round["weights_webhook"]);
        let text = |name: &str| webhook[name].as_str().map(str::to_owned);
        WebhookHealth {
            rule: self.rule.name.clone(),
            now: self.status.now,
            failing_since: webhook["failing_since"].as_str().and_then(parse_rfc3339),
            last_error: text("last_error"),
            fallback: text("fallback"),
        }
    }

    /// Returns the figures that history keeps.
    pub fn sample(&self) -> RuleSample {
        RuleSample {
            staged: self.status.staged,
            depth: self.sum(|queue| queue.depth),
            latency_ms: self.latency_ms(),
            gate_open: self.closed().is_none(),
            promoted_total: self.status.promoted,
        }
    }

    /// Returns the state of the main queue.
    pub fn main_queue_health(&self) -> MainQueueHealth {
        MainQueueHealth {
            name: self.rule.main_queue.clone(),
            rule: self.rule.name.clone(),
            trouble: self.trouble(),
            undelivered: self.undelivered,
            staged: self.status.staged,
        }
    }

    /// Returns the time of the first of the last rounds in a row that were skipped for a reason.
    /// Only the last rounds are known, so it may have begun earlier.
    fn rounds_skipped_since(&self, reason: &str) -> Option<i64> {
        let skipped = self.rounds.iter().take_while(|round| round["reason"] == reason).last()?;
        skipped["at"].as_str().and_then(parse_rfc3339)
    }
}
