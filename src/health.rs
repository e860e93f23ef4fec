//! Gathers the figures of the health report from the planner and the store.

use crate::domain::health::{Checked, Finding, HealthReport, LimitHealth, QueueHealth};
use crate::domain::job::State;
use crate::planner::{RuleStats, RunnerRegistry};
use crate::store::{Error, Store};

/// Most rules, queues and limits that a report examines: each costs a few calls to Redis.
const MOST_RULES: usize = 100;
const MOST_QUEUES: usize = 500;
const MOST_LIMITS: usize = 1000;

/// Examines rules, main queues, webhooks, queues and limits at `now`.
pub async fn report(registry: &RunnerRegistry, now: i64) -> Result<HealthReport, Error> {
    let mut checked = Checked::default();
    let mut findings = rules(registry, &mut checked).await?;
    findings.extend(queues(registry.store(), now, &mut checked).await?);
    findings.extend(limits(registry.store(), &mut checked).await?);
    Ok(HealthReport::new(now, checked, findings))
}

async fn rules(registry: &RunnerRegistry, checked: &mut Checked) -> Result<Vec<Finding>, Error> {
    let known = registry.rules().known().await?;
    let names: Vec<&str> = known.names().collect();
    checked.is_truncated |= names.len() > MOST_RULES;
    let mut findings = Vec::new();
    for name in names.into_iter().take(MOST_RULES) {
        let Some(stats) = RuleStats::read(registry, name).await? else { continue };
        checked.rules += 1;
        findings.extend(stats.rule_health().findings());
        findings.extend(stats.webhook_health().findings());
        findings.extend(stats.main_queue_health().findings());
    }
    Ok(findings)
}

async fn queues(store: &Store, now: i64, checked: &mut Checked) -> Result<Vec<Finding>, Error> {
    let (queues, paused) = (store.queues().await?, store.paused_queues().await?);
    checked.is_truncated |= queues.len() > MOST_QUEUES;
    let names: Vec<&str> = queues.iter().take(MOST_QUEUES).map(|queue| queue.name.as_str()).collect();
    let (scheduling, ended) = (store.scheduling(&[]).await?, store.recently_ended(&names).await?);
    let mut findings = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let stats = store.queue_stats(name).await?;
        let ended = ended.as_ref().and_then(|ended| ended.get(place));
        let age = |since: i64| u64::try_from(now - since).unwrap_or(0);
        let facts = QueueHealth {
            name: (*name).to_owned(),
            now,
            paused_since: paused.get(*name).copied(),
            available: stats.count(State::Available).unsigned_abs(),
            active: stats.count(State::Active).unsigned_abs(),
            oldest_age: stats.oldest_available.map(age),
            started_per_minute: scheduling.queues.get(*name).map_or(0, |queue| queue.jobs),
            completed_per_minute: ended.map(|ended| ended.completed),
            discarded_per_minute: ended.map(|ended| ended.discarded),
        };
        findings.extend(facts.findings());
    }
    checked.queues = names.len();
    Ok(findings)
}

async fn limits(store: &Store, checked: &mut Checked) -> Result<Vec<Finding>, Error> {
    let (total, limits) = store.limits(0, MOST_LIMITS).await?;
    checked.is_truncated |= total > limits.len() as u64;
    checked.limits = limits.len();
    let facts = limits.iter().map(|limit| LimitHealth {
        key: limit.key.to_string(),
        now: limit.now,
        concurrency: limit.quota.concurrency.map(u64::from),
        running: limit.running,
        waiting: limit.waiting(),
        stopped_until: limit.hold_until,
        free_at: limit.free_at(),
    });
    Ok(facts.flat_map(|facts| facts.findings()).collect())
}
