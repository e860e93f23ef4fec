//! The history of the last day.

use super::types::Timestamp;
use crate::store::{self, HistorySample, INTERVAL_MS};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Samples of rules, queues and tenants, oldest first.
#[derive(Serialize, JsonSchema)]
pub struct History {
    pub interval_seconds: i64,
    /// One for each interval; intervals in which no server ran are missing.
    pub samples: Vec<Sample>,
}

/// Activity within an interval, and the state at its end.
#[derive(Serialize, JsonSchema)]
pub struct Sample {
    /// Start of the interval.
    pub at: Timestamp,
    pub rules: BTreeMap<String, RuleSample>,
    /// The queues with most jobs.
    pub queues: BTreeMap<String, QueueSample>,
    /// The busiest tenants, busiest first. Empty if the activity of tenants is not recorded.
    pub tenants: Vec<TenantSample>,
}

/// A plan rule.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RuleSample {
    pub staged: u64,
    pub depth: u64,
    pub latency_ms: u64,
    pub gate_open: bool,
    /// Promoted jobs per second; `null` without a sample of the interval before.
    pub promoted_per_s: Option<f64>,
}

/// A queue.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct QueueSample {
    pub available: u64,
    pub active: u64,
    pub latency_ms: u64,
    pub completed_per_s: f64,
    pub discarded_per_s: f64,
}

/// A tenant.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct TenantSample {
    pub tenant_id: String,
    pub enqueued: u64,
    pub completed: u64,
    pub failed: u64,
    pub worker_ms: u64,
    /// Its part of the jobs that ended, 0 to 1.
    pub share: f64,
    /// Its part of the worker time, 0 to 1.
    pub worker_share: f64,
}

impl History {
    /// Builds the answer. Rates of the first sample are unknown where they need the one before.
    pub fn of(samples: &[HistorySample]) -> History {
        let before = |place: usize| place.checked_sub(1).map(|before| &samples[before]);
        let samples = samples.iter().enumerate().map(|(place, sample)| Sample::of(sample, before(place))).collect();
        History { interval_seconds: INTERVAL_MS / 1000, samples }
    }
}

fn per_second(jobs: u64) -> f64 {
    (jobs as f64 / (INTERVAL_MS as f64 / 1e3) * 1e3).round() / 1e3
}

fn part(of: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (of as f64 / all as f64 * 1e4).round() / 1e4 }
}

impl Sample {
    fn of(sample: &HistorySample, before: Option<&HistorySample>) -> Sample {
        let before = before.filter(|before| before.at + INTERVAL_MS == sample.at);
        let rule = |(name, rule): (&String, &store::RuleSample)| {
            // The total starts at zero if the rule was removed and added again.
            let earlier = before.and_then(|before| before.rules.get(name)).map(|before| before.promoted_total);
            let promoted = earlier.and_then(|earlier| rule.promoted_total.checked_sub(earlier));
            let store::RuleSample { staged, depth, latency_ms, gate_open, .. } = *rule;
            (
                name.clone(),
                RuleSample { staged, depth, latency_ms, gate_open, promoted_per_s: promoted.map(per_second) },
            )
        };
        let queue = |(name, queue): (&String, &store::QueueSample)| {
            let store::QueueSample { available, active, latency_ms, completed, discarded } = *queue;
            let (completed_per_s, discarded_per_s) = (per_second(completed), per_second(discarded));
            (name.clone(), QueueSample { available, active, latency_ms, completed_per_s, discarded_per_s })
        };
        let all = sample.all.clone().unwrap_or_default();
        let tenant = |tenant: &store::TenantSample| TenantSample {
            tenant_id: tenant.tenant_id.clone(),
            enqueued: tenant.enqueued,
            completed: tenant.completed,
            failed: tenant.failed,
            worker_ms: tenant.worker_ms,
            share: part(tenant.completed + tenant.failed, all.completed + all.failed),
            worker_share: part(tenant.worker_ms, all.worker_ms),
        };
        Sample {
            at: Timestamp(sample.at),
            rules: sample.rules.iter().map(rule).collect(),
            queues: sample.queues.iter().map(queue).collect(),
            tenants: sample.tenants.iter().map(tenant).collect(),
        }
    }
}
