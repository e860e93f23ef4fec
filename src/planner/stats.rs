//! The statistics of a rule, for API answers and metrics.

use super::{RoundReason, RunnerRegistry, scheduler};
use crate::config::redact;
use crate::domain::fairness::{jain_index, lag, wait_bound};
use crate::domain::plan::{Closed, Gate, Rule};
use crate::domain::time::{parse_rfc3339, rfc3339};
use crate::rules::RuleSource;
use crate::store::{Error, Observation, PriorityLevel, RuleStatus, ShadowRecord, StagedTenant, StagedTenants};
use crate::telemetry::RuleLevels;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Number of tenants from which fairness figures are computed: those that are next. The age of
/// staged jobs also takes this many held or blocked tenants into account.
const SAMPLE: usize = 200;
/// Number of recorded rounds in an answer; Jain's index is computed from them.
const LAST_ROUNDS: usize = 10;

/// The statistics of a rule.
pub struct RuleStats {
    pub(super) rule: Arc<Rule>,
    /// The kind of its main queue.
    kind: &'static str,
    /// Number of promoted jobs that have not arrived in the main queue.
    pub(super) undelivered: u64,
    /// Versions of the main queue's workers, as far as they report them.
    versions: Vec<String>,
    /// The health of the main queue, if it is tracked.
    health: Option<Value>,
    source: &'static str,
    draining: bool,
    pub(super) status: RuleStatus,
    /// The staged tenants of each main queue, by priority.
    surveys: Vec<StagedTenants>,
    /// The last recorded rounds, the newest first.
    pub(super) rounds: Vec<Value>,
    /// The shadow report without tenants, if the rule is in shadow.
    shadow: Option<Value>,
}

impl RuleStats {
    /// Reads the statistics of a rule. Returns `None` if there is no such rule.
    pub async fn read(registry: &RunnerRegistry, name: &str) -> Result<Option<RuleStats>, Error> {
        let known = registry.rules().known().await?;
        let Some(rule) = known.find(name) else { return Ok(None) };
        let draining = known.is_draining(name);
        let source = known.source(name).map_or("removed", RuleSource::name);
        let store = registry.store();
        let status = registry.status(&rule).await?;
        let mut surveys = Vec::new();
        for queue in status.queues.iter().filter(|queue| queue.staged > 0) {
            surveys.push(store.staged_tenants(name, &queue.queue, SAMPLE).await?);
        }
        let recorded = store.recorded_rounds(name, None, LAST_ROUNDS).await?;
        let rounds = recorded.iter().filter_map(|round| serde_json::from_str(&round.document).ok()).collect();
        let (kind, undelivered, versions, health) = match registry.main_queues().get(&rule.main_queue) {
            Some(queue) => (queue.kind(), queue.undelivered(name).await?, queue.versions().await, queue.health()),
            None => ("unknown", 0, Vec::new(), None),
        };
        let shadow = if rule.shadow { Some(shadow_summary(registry, name).await?) } else { None };
        Ok(Some(RuleStats {
            rule,
            kind,
            undelivered,
            versions,
            health,
            source,
            draining,
            status,
            surveys,
            rounds,
            shadow,
        }))
    }

    pub(super) fn is_stalled(&self) -> bool {
        is_stalled(&self.rule, &self.status)
    }

    fn state(&self) -> &'static str {
        if self.is_stalled() {
            "stalled"
        } else if self.draining {
            "draining"
        } else if self.status.paused {
            "paused"
        } else if self.rule.shadow {
            "shadow"
        } else {
            "running"
        }
    }

    pub(super) fn sum(&self, figure: impl Fn(&Observation) -> u64) -> u64 {
        self.status.queues.iter().map(figure).sum()
    }

    fn gate(&self, queue: &Observation) -> Gate {
        queue.gate(&self.rule, self.status.now)
    }

    /// Returns the age of the oldest runnable job in the main queues, in milliseconds.
    pub(super) fn latency_ms(&self) -> u64 {
        self.status.queues.iter().map(|queue| self.gate(queue).latency_ms).max().unwrap_or(0)
    }

    /// Returns the reason of the first closed gate.
    pub(super) fn closed(&self) -> Option<Closed> {
        let closed = self.status.queues.iter().find_map(|queue| self.gate(queue).closed);
        if self.status.paused { Some(Closed::Paused) } else { closed }
    }

    /// Returns the current problem with the main queue, or that of the last round.
    pub(super) fn trouble(&self) -> Option<String> {
        let in_round = || {
            let last = self.rounds.first().filter(|round| round["reason"] == RoundReason::MainQueue.name())?;
            last["error"].as_str().map(str::to_owned)
        };
        let on_the_way =
            || (self.undelivered > 0).then(|| format!("{} promoted jobs have not arrived", self.undelivered));
        self.status.trouble.clone().or_else(in_round).or_else(on_the_way)
    }

    /// Returns the fair queues of all main queues and priorities.
    fn levels_staged(&self) -> impl Iterator<Item = &PriorityLevel> {
        self.surveys.iter().flat_map(|survey| &survey.levels)
    }

    /// Returns the age of the oldest staged job, in milliseconds.
    pub(super) fn oldest_age_ms(&self) -> u64 {
        let tenants = self.levels_staged().flat_map(|level| &level.tenants);
        let oldest = tenants.filter_map(|tenant| tenant.oldest).min();
        oldest.map_or(0, |since| u64::try_from(self.status.now - since).unwrap_or(0))
    }

    pub(super) fn drain_per_s(&self) -> f64 {
        self.rounds.first().and_then(|round| round["drain_per_s"].as_f64()).unwrap_or(0.0)
    }

    /// Returns the drain rate that the last round measured, unless it is older than `within`.
    pub(super) fn recent_drain_per_s(&self, within: Duration) -> Option<f64> {
        let at = parse_rfc3339(self.rounds.first()?["at"].as_str()?)?;
        (self.status.now - at <= within.as_millis() as i64).then(|| self.drain_per_s())
    }

    /// Returns Jain's index over the tenants that had staged jobs during all of the last rounds; 1
    /// if it cannot be computed.
    fn jain(&self) -> f64 {
        let named =
            |round: &&Value| round["tenants"].as_u64() == round["served"].as_array().map(|all| all.len() as u64);
        let Some(first) = self.rounds.iter().rev().find(named) else { return 1.0 };
        let Some(from) = first["at"].as_str().and_then(parse_rfc3339) else { return 1.0 };
        let mut got: HashMap<&str, f64> = HashMap::new();
        for served in
            self.rounds.iter().filter(named).flat_map(|round| round["served"].as_array().into_iter().flatten())
        {
            let share = served["jobs"].as_f64().unwrap_or(0.0) / served["weight"].as_f64().unwrap_or(1.0).max(0.05);
            *got.entry(served["tenant_id"].as_str().unwrap_or_default()).or_default() += share;
        }
        // Exclude tenants that are held or blocked, which receive nothing on purpose.
        let is_busy = |tenant: &&StagedTenant| tenant.start.is_some() && tenant.since <= from;
        // Exclude tenants that wait behind a higher priority.
        let highest = |survey: &StagedTenants| survey.levels.iter().position(|level| level.waiting_tenants > 0);
        let served = self.surveys.iter().filter_map(|survey| survey.levels.get(highest(survey)?));
        let busy = served.flat_map(|level| &level.tenants).filter(is_busy);
        let shares: Vec<f64> = busy.map(|tenant| got.get(tenant.name.as_str()).copied().unwrap_or(0.0)).collect();
        jain_index(&shares)
    }

    /// Returns the largest deviation of a tenant from its share, and the longest bound on a wait,
    /// both in jobs.
    fn deviation(&self) -> (f64, u64) {
        let (mut furthest, mut longest) = (0.0_f64, 0);
        for level in self.levels_staged() {
            for tenant in &level.tenants {
                let bound = wait_bound(level.total_weight, tenant.weight);
                let Some((start, bound)) = tenant.start.zip(bound) else { continue };
                furthest = furthest.max(lag(tenant.weight, start, level.clock).abs());
                longest = longest.max(bound);
            }
        }
        (furthest, longest)
    }

    /// Returns the figures for metrics.
    pub fn levels(&self) -> RuleLevels {
        RuleLevels {
            staged: self.status.staged,
            tenants: self.sum(|queue| queue.staged_tenants),
            oldest_seconds: self.oldest_age_ms() as f64 / 1e3,
            latency_seconds: self.latency_ms() as f64 / 1e3,
            latency_threshold_seconds: self.rule.latency_threshold as f64 / 1e3,
            depth: self.sum(|queue| queue.depth),
            drain_per_second: self.drain_per_s(),
            closed: self.closed(),
            stalled: self.is_stalled(),
            wasted_seconds: self.status.wasted_ms as f64 / 1e3,
            jain_index: self.jain(),
        }
    }

    /// Returns the statistics for API answers.
    pub fn to_json(&self) -> Value {
        let (status, rule) = (&self.status, &self.rule);
        let queues: Vec<Value> = status.queues.iter().map(|queue| self.queue_json(queue)).collect();
        let lock = status.lock.as_ref().map(|lock| {
            let expires_at = rfc3339(status.now + lock.left_ms as i64);
            json!({"holder": lock.holder, "token": lock.token, "expires_at": expires_at})
        });
        let (furthest, longest) = self.deviation();
        let last = self.rounds.first();
        json!({
            "rule": rule.name,
            "types": rule.types,
            "queue": rule.queue,
            "state": self.state(),
            "source": self.source,
            "options": options(rule),
            "staged": {
                "jobs": status.staged,
                "tenants": self.sum(|queue| queue.staged_tenants),
                "oldest_age_ms": self.oldest_age_ms(),
            },
            "main_queue": {
                "kind": self.kind,
                "main_queue": rule.main_queue,
                "name": rule.queue,
                "latency_ms": self.latency_ms(),
                "depth": self.sum(|queue| queue.depth),
                "active": self.sum(|queue| queue.active),
                "drain_per_s": self.drain_per_s(),
                "undelivered": self.undelivered,
                "trouble": self.trouble(),
                "versions": self.versions,
                "health": self.health,
                "queues": queues,
            },
            "gate": {
                "open": self.closed().is_none(),
                "reason": self.closed().map(Closed::name),
                "latency_threshold_ms": rule.latency_threshold,
                "max_depth": rule.max_depth,
            },
            "lock": lock,
            "rounds": {
                "total": status.rounds,
                "promoted_total": status.promoted,
                "skipped_total": status.skipped,
                "last_at": last.map(|round| round["at"].clone()),
                "next_at": (status.due > 0).then(|| rfc3339(status.due)),
            },
            "weights": weights(rule, last),
            "fairness": {
                "jain_index": round_to(self.jain(), 4),
                "max_deviation_jobs": round_to(furthest, 3),
                "worst_wait_bound_jobs": longest,
            },
            "waste": {"idle_worker_seconds_total": status.wasted_ms as f64 / 1e3},
            "last_rounds": self.rounds,
            "shadow": self.shadow,
        })
    }

    fn queue_json(&self, queue: &Observation) -> Value {
        let gate = self.gate(queue);
        json!({
            "name": queue.queue,
            "staged": queue.staged,
            "waiting_tenants": queue.waiting_tenants,
            "unknown_weights": queue.unknown_tenants,
            "latency_ms": gate.latency_ms,
            "depth": queue.depth,
            "active": queue.active,
            "processes": queue.processes,
            "open": gate.closed.is_none(),
            "reason": gate.closed.map(Closed::name),
        })
    }
}

/// Returns true if jobs are staged and no process plans the rule although it should: no process
/// holds its lock, and its last round was not ended, its next one is overdue, or workers are idle.
/// A process that takes over does so at its next check after the previous lock has expired.
pub(super) fn is_stalled(rule: &Rule, status: &RuleStatus) -> bool {
    if status.lock.is_some() || status.staged == 0 || status.paused {
        return false;
    }
    let patience = (rule.planner_lock_ttl + scheduler::LONGEST.as_millis() as u64) as i64;
    let is_overdue = |since: i64| status.now - since > patience;
    let keeps_idle =
        |queue: &Observation| queue.is_wanted() && queue.idle_ms.is_some_and(|idle| idle as i64 > patience);
    status.is_unfinished
        || is_overdue(status.due.max(status.staged_at))
        || (!rule.strict_interval && status.queues.iter().any(keeps_idle))
}

/// Returns the report of a rule in shadow, including tenants. Returns `None` if there is no such
/// rule or it is not in shadow.
pub async fn shadow(registry: &RunnerRegistry, name: &str) -> Result<Option<Value>, Error> {
    let known = registry.rules().known().await?;
    if known.rules.get(name).is_none_or(|rule| !rule.shadow) {
        return Ok(None);
    }
    let seen = registry.store().shadow(name).await?;
    let show = |record: ShadowRecord| {
        let mut document: Value = serde_json::from_str(&record.document).ok()?;
        document["watcher"] = json!(record.holder);
        Some(document)
    };
    Ok(Some(seen.and_then(show).unwrap_or_else(|| json!({"rule": name, "watcher": null}))))
}

/// Returns the report without tenants.
async fn shadow_summary(registry: &RunnerRegistry, name: &str) -> Result<Value, Error> {
    let mut seen = shadow(registry, name).await?.unwrap_or_default();
    if let Some(fields) = seen.as_object_mut() {
        ["rule", "main_queue", "tenants"].iter().for_each(|name| _ = fields.remove(*name));
    }
    Ok(seen)
}

/// Returns a rule's options for API answers. The webhook's URL is redacted, because it may contain
/// a key.
fn options(rule: &Rule) -> Value {
    let mut options = rule.to_json();
    if let Some(Value::String(url)) = options.pointer_mut("/weights/webhook/url") {
        *url = redact(url).text;
    }
    options
}

/// Returns the source of a rule's weights, and the state of its webhook at the end of the last
/// round.
fn weights(rule: &Rule, last: Option<&Value>) -> Value {
    let webhook = |name: &str| last.map_or(Value::Null, |round| round["weights_webhook"][name].clone());
    json!({
        "source": rule.weights.source(),
        "age_ms": last.map(|round| round["weights_age_ms"].clone()),
        "errors_total": last.map_or(json!(0), |round| round["weights_errors_total"].clone()),
        "failing_since": webhook("failing_since"),
        "last_error": webhook("last_error"),
        "fallback": webhook("fallback"),
        "breaker": webhook("breaker"),
        "next_attempt_at": webhook("next_attempt_at"),
    })
}

fn round_to(number: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    (number * factor).round() / factor
}
