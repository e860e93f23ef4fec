//! Detection of noisy neighbours at intervals: throttles tenants that harm others, and releases
//! them.
//!
//! `domain::noisy` decides. This module carries its decisions out, in one process at a time, and
//! reports them.

use crate::domain::noisy::{Action, Detection, Figures, NoisyNeighbors, NoisyState, Throttle, ThrottleStep, decide};
use crate::domain::time::rfc3339;
use crate::store::{DetectorLock, Error, NoisySnapshot, NoisySnapshotReply, Store, ThrottleTerms, ThrottleUpdate};
use crate::telemetry::NoiseMetrics;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Time between two checks.
const LOOK: Duration = Duration::from_secs(5);
/// Time for which a process keeps its role after a check; then another process may take over.
const LEASE_MS: u64 = 15_000;
const MINUTE_MS: u64 = 60_000;

/// Detects and throttles noisy neighbours.
#[derive(Clone)]
pub struct NoisyNeighborWatcher {
    store: Store,
    config: NoisyNeighbors,
    metrics: NoiseMetrics,
}

/// The state of a tenant as a neighbour.
#[derive(Clone, Debug, Default)]
pub struct NoiseReport {
    /// Its current jobs, and its activity within the window.
    pub figures: Figures,
    pub window_ms: u64,
    /// The detection at this moment, if it is noisy.
    pub verdict: Option<Detection>,
    /// The stored state.
    pub standing: NoisyState,
}

impl NoisyNeighborWatcher {
    /// Creates a watcher of the tenants of a store.
    pub fn new(store: Store, config: NoisyNeighbors, metrics: NoiseMetrics) -> Self {
        NoisyNeighborWatcher { store, config, metrics }
    }

    /// Returns the thresholds and actions.
    pub fn config(&self) -> &NoisyNeighbors {
        &self.config
    }

    /// Checks every few seconds until `stop`; `holder` is the name of this process.
    pub async fn watch(self, holder: String, stop: CancellationToken) {
        let mut interval = tokio::time::interval(LOOK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => {}
            }
            if let Err(error) = self.look(&holder).await {
                tracing::debug!(%error, "cannot check for noisy neighbours");
            }
        }
    }

    /// Runs one check and applies the decisions, unless another process is in charge. Returns the
    /// number of tenants whose state changed.
    pub async fn look(&self, holder: &str) -> Result<usize, Error> {
        let lock = DetectorLock { holder, lease_ms: LEASE_MS, records_activity: self.config.needs_counts() };
        let look = self.store.noisy_snapshot(Some(&lock), self.minutes(), &[]).await?;
        let NoisySnapshotReply::Read(noise) = look else {
            self.metrics.shares(0, &[]);
            return Ok(0);
        };
        let before = standings(&noise);
        let steps = decide(&self.config, &noise.snapshot, &before);
        let mut changed = 0;
        for step in &steps {
            let told = noise.documents.get(&step.tenant_id).cloned().unwrap_or_default();
            let update = update(step, told, noise.snapshot.now);
            if self.store.apply_throttles(Some(holder), &[update]).await? > 0 {
                changed += 1;
                self.tell(step);
            }
        }
        let was = before.values().filter(|standing| standing.is_throttled()).count();
        let (more, fewer) = steps.iter().fold((0, 0), |(more, fewer), step| {
            (more + usize::from(step.throttled), fewer + usize::from(step.released.is_some()))
        });
        self.tell_shares(&noise, (was + more).saturating_sub(fewer));
        Ok(changed)
    }

    /// Reads the current state of a tenant.
    pub async fn report(&self, id: &str) -> Result<NoiseReport, Error> {
        let NoisySnapshotReply::Read(noise) = self.store.noisy_snapshot(None, self.minutes(), &[id]).await? else {
            return Ok(NoiseReport { window_ms: self.config.window, ..NoiseReport::default() });
        };
        let seen = noise.snapshot.find(id);
        Ok(NoiseReport {
            figures: seen.map(|seen| seen.figures).unwrap_or_default(),
            window_ms: noise.snapshot.span,
            verdict: seen.and_then(|seen| noise.snapshot.detect_one(&self.config, seen, 1.0)),
            standing: standings(&noise).remove(id).unwrap_or_default(),
        })
    }

    /// Returns the share of the workers that a tenant would have by weight; `None` if activity is
    /// not counted.
    pub async fn expected_share(&self, id: &str) -> Result<Option<f64>, Error> {
        let look = self.store.noisy_snapshot(None, self.minutes(), &[id]).await?;
        let NoisySnapshotReply::Read(noise) = look else { return Ok(None) };
        Ok(noise.snapshot.expected_share(id))
    }

    /// Releases a tenant and exempts it for as long as a throttle would last. Returns the throttle
    /// that ended, if there was one.
    pub async fn reset(&self, id: &str) -> Result<Option<Throttle>, Error> {
        // Overrides concurrent automatic decisions: an operator asked for this.
        for _ in 0..8 {
            let look = self.store.noisy_snapshot(None, self.minutes(), &[id]).await?;
            let noise = if let NoisySnapshotReply::Read(noise) = look { *noise } else { NoisySnapshot::default() };
            let now = if noise.snapshot.now > 0 { noise.snapshot.now } else { self.store.clock().now_ms() };
            let throttle = standings(&noise).remove(id).and_then(|standing| standing.throttle);
            let spared = NoisyState::spared(&self.config, now);
            let update = ThrottleUpdate {
                id: id.to_owned(),
                before: noise.documents.get(id).cloned().unwrap_or_default(),
                after: document(&spared),
                throttle: None,
                event: throttle.as_ref().map(|ended| released_event(id, ended, "manual_reset", now)),
            };
            if update.before == update.after || self.store.apply_throttles(None, &[update]).await? > 0 {
                if throttle.is_some() {
                    self.metrics.released("manual_reset");
                }
                return Ok(throttle);
            }
        }
        Err(Error::Busy)
    }

    fn minutes(&self) -> u64 {
        self.config.window / MINUTE_MS
    }

    /// Logs and counts a change.
    fn tell(&self, step: &ThrottleStep) {
        let tenant = step.tenant_id.as_str();
        if let Some(verdict) = step.standing.as_ref().and_then(|standing| standing.verdict.as_ref()) {
            let (reason, severity) = (verdict.reason().name(), verdict.severity());
            if step.detected {
                self.metrics.detected(reason);
                tracing::warn!(tenant, reason, severity, waiting = verdict.waiting_tenants, "noisy neighbour detected");
            }
            if step.throttled {
                self.metrics.throttled(tenant);
                tracing::warn!(tenant, reason, "noisy neighbour throttled");
            }
        }
        if let Some((_, why)) = &step.released {
            self.metrics.released(why.reason());
            tracing::info!(tenant, why = why.reason(), "throttle released");
        }
    }

    fn tell_shares(&self, noise: &NoisySnapshot, throttled: usize) {
        let all = noise.snapshot.total.worker_ms.max(1) as f64;
        let seen = noise.snapshot.seen.iter().filter(|seen| seen.figures.worker_ms > 0);
        let mut shares: Vec<(&str, f64)> =
            seen.map(|seen| (seen.id.as_str(), seen.figures.worker_ms as f64 / all)).collect();
        shares.sort_by(|left, right| right.1.total_cmp(&left.1));
        self.metrics.shares(throttled, &shares);
    }
}

/// Parses the stored states of tenants. An unreadable one counts as empty and is replaced by the
/// next decision.
fn standings(noise: &NoisySnapshot) -> BTreeMap<String, NoisyState> {
    let read = |(id, text): (&String, &String)| {
        let standing = serde_json::from_str(text);
        (
            id.clone(),
            standing.unwrap_or_else(|error| {
                tracing::error!(tenant = %id, %error, "cannot parse the stored noisy-neighbour state of a tenant; it is replaced");
                NoisyState::default()
            }),
        )
    };
    noise.documents.iter().map(read).collect()
}

fn document(standing: &NoisyState) -> String {
    // Cannot fail: all numbers are finite and all keys are strings.
    serde_json::to_string(standing).unwrap_or_default()
}

fn update(step: &ThrottleStep, before: String, now: i64) -> ThrottleUpdate {
    let throttle = step.standing.as_ref().and_then(|standing| standing.throttle.as_ref());
    let event = match (&step.released, throttle) {
        (Some((ended, why)), _) => Some(released_event(&step.tenant_id, ended, why.reason(), now)),
        (None, Some(throttle)) if step.throttled => {
            let verdict = step.standing.as_ref().and_then(|standing| standing.verdict.as_ref());
            Some(throttled_event(&step.tenant_id, throttle, verdict))
        }
        _ => None,
    };
    ThrottleUpdate {
        id: step.tenant_id.clone(),
        before,
        after: step.standing.as_ref().map(document).unwrap_or_default(),
        throttle: throttle.map(|throttle| {
            let part = if throttle.action == Action::WeightReduced { throttle.factor } else { 1.0 };
            let max_active = throttle.concurrency.map(|(_, left)| left);
            ThrottleTerms { weight_part: (part * 1000.0).round() as u32, until: throttle.until, max_active }
        }),
        event,
    }
}

/// Returns the members of an event, without the braces.
fn members(value: &Value) -> String {
    let text = value.to_string();
    text[1..text.len() - 1].to_owned()
}

fn throttled_event(id: &str, throttle: &Throttle, verdict: Option<&Detection>) -> (&'static str, String) {
    let mut data = json!({
        "tenant_id": id,
        "reason": throttle.reason,
        "action": throttle.action,
        "original_weight": throttle.original_weight,
        "effective_weight": throttle.effective_weight,
        "until": rfc3339(throttle.until),
    });
    if let Some((original, left)) = throttle.concurrency {
        data["original_concurrency"] = original.into();
        data["effective_concurrency"] = left.into();
    }
    if let Some(verdict) = verdict {
        data["evidence"] = json!(verdict.evidence);
        data["hurt"] = json!(verdict.hurt);
    }
    ("tenant.throttled", members(&data))
}

fn released_event(id: &str, ended: &Throttle, why: &str, now: i64) -> (&'static str, String) {
    let data = json!({
        "tenant_id": id,
        "reason": why,
        "action": ended.action,
        "original_weight": ended.original_weight,
        "throttled_at": rfc3339(ended.since),
        "released_at": rfc3339(now),
    });
    ("tenant.throttle_released", members(&data))
}
