//! Throttle decisions: when a throttle starts and when it is released.

use super::{Action, Detection, NoisyNeighbors, Snapshot};
use crate::domain::tenant::Weight;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// The state of a tenant between two checks. A tenant that is neither noisy nor throttled nor
/// spared has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoisyState {
    /// The time since which it is noisy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noisy_since: Option<i64>,
    /// The time since which a throttle is justified, because it is noisy and harms others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harmful_since: Option<i64>,
    /// True if it was reported as noisy, which happens once `sustain` has passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
    /// The time since which every figure is well below its threshold; set only while it is
    /// throttled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calm_since: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,
    /// The end of the time in which it is not throttled, because an operator released it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spared_until: Option<i64>,
    /// The last detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Detection>,
}

/// A throttle in effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throttle {
    pub action: Action,
    pub reason: String,
    pub since: i64,
    pub until: i64,
    /// The factor applied to the tenant's weight or concurrency.
    pub factor: f64,
    pub original_weight: f64,
    pub effective_weight: f64,
    /// Number of jobs that were active, and the maximum that is left of them. Set only if the
    /// concurrency is reduced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<(u64, u64)>,
}

/// The reason for which a throttle ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Its duration has passed.
    Expired,
    /// The tenant is calm.
    Calm,
    /// An operator released the tenant.
    Manual,
    /// The configuration no longer asks for this throttle.
    Disabled,
}

impl ReleaseReason {
    /// Returns the name used in events.
    pub fn reason(self) -> &'static str {
        match self {
            ReleaseReason::Expired => "expired",
            ReleaseReason::Calm => "calm",
            ReleaseReason::Manual => "manual_reset",
            ReleaseReason::Disabled => "disabled",
        }
    }
}

/// The changes of one check to one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottleStep {
    pub tenant_id: String,
    /// The new state; `None` if there is nothing to remember.
    pub standing: Option<NoisyState>,
    /// True if it has just been noisy for long enough to be reported.
    pub detected: bool,
    /// True if a throttle begins.
    pub throttled: bool,
    /// The throttle that ends, and the reason.
    pub released: Option<(Throttle, ReleaseReason)>,
}

/// Compares a snapshot with the previous states and returns the tenants whose state changes.
pub fn decide(
    config: &NoisyNeighbors,
    snapshot: &Snapshot,
    before: &BTreeMap<String, NoisyState>,
) -> Vec<ThrottleStep> {
    let verdicts = if config.enabled { snapshot.detect(config) } else { Vec::new() };
    let now = snapshot.now;
    let noisy: HashSet<&str> = verdicts.iter().map(|verdict| verdict.tenant_id.as_str()).collect();
    let mut steps: Vec<ThrottleStep> = before
        .iter()
        .filter(|(id, _)| !noisy.contains(id.as_str()))
        .map(|(id, standing)| look(config, snapshot, id, standing, None))
        .collect();
    steps.extend(verdicts.iter().map(|verdict| {
        let unknown = NoisyState::default();
        let standing = before.get(&verdict.tenant_id).unwrap_or(&unknown);
        look(config, snapshot, &verdict.tenant_id, standing, Some(verdict))
    }));
    let holds = |step: &ThrottleStep| step.standing.as_ref().is_some_and(|standing| standing.throttle.is_some());
    let mut room = config.max_throttled.saturating_sub(steps.iter().filter(|step| holds(step)).count());
    // Detections are sorted with the worst first.
    for step in &mut steps {
        let Some(standing) = &mut step.standing else { continue };
        if room > 0 && is_due(config, standing, now) {
            standing.throttle = throttle(config, snapshot, &step.tenant_id, standing, now);
            step.throttled = standing.throttle.is_some();
            room -= usize::from(step.throttled);
        }
    }
    steps.retain(|step| step.standing.as_ref() != before.get(&step.tenant_id));
    steps
}

/// Computes the new state of a tenant, without starting a throttle.
fn look(
    config: &NoisyNeighbors,
    snapshot: &Snapshot,
    id: &str,
    before: &NoisyState,
    verdict: Option<&Detection>,
) -> ThrottleStep {
    let now = snapshot.now;
    let mut after = before.clone();
    // A time in the future dates from before the clock was set back.
    let since = |time: Option<i64>| time.unwrap_or(now).min(now);
    after.noisy_since = verdict.map(|_| since(before.noisy_since));
    let is_harmful = verdict.is_some_and(|verdict| verdict.throttle_reason().is_some());
    after.harmful_since = is_harmful.then(|| since(before.harmful_since));
    after.reported = after.noisy_since.is_some_and(|since| before.reported || lasted(config, since, now));
    after.spared_until =
        before.spared_until.filter(|until| *until > now).map(|until| until.min(now + config.duration as i64));
    if let Some(verdict) = verdict {
        after.verdict = Some(verdict.clone());
    }
    let mut released = None;
    if let Some(throttle) = before.throttle.clone() {
        after.calm_since = match is_calm(config, snapshot, id) {
            true => Some(since(before.calm_since)),
            false => None,
        };
        let is_over = after.calm_since.is_some_and(|since| now - since >= config.release_after as i64);
        let why = if !config.enabled || config.action != throttle.action {
            Some(ReleaseReason::Disabled)
        } else if now >= throttle.until || now < throttle.since {
            Some(ReleaseReason::Expired)
        } else {
            is_over.then_some(ReleaseReason::Calm)
        };
        if let Some(why) = why {
            // The tenant has to be noisy for `sustain` again before it is throttled again.
            after.harmful_since = is_harmful.then_some(now);
            (after.throttle, after.calm_since) = (None, None);
            released = Some((throttle, why));
        }
    }
    let remembers = after.noisy_since.is_some() || after.throttle.is_some() || after.spared_until.is_some();
    let detected = after.reported && !before.reported;
    ThrottleStep {
        tenant_id: id.to_owned(),
        standing: remembers.then_some(after),
        detected,
        throttled: false,
        released,
    }
}

fn is_calm(config: &NoisyNeighbors, snapshot: &Snapshot, id: &str) -> bool {
    let verdict = snapshot.find(id).and_then(|seen| snapshot.detect_one(config, seen, config.release_ratio));
    verdict.is_none_or(|verdict| verdict.throttle_reason().is_none())
}

fn lasted(config: &NoisyNeighbors, since: i64, now: i64) -> bool {
    now - since >= config.sustain as i64
}

/// Returns true if a tenant has been noisy and harmful for long enough to be throttled.
fn is_due(config: &NoisyNeighbors, standing: &NoisyState, now: i64) -> bool {
    config.action != Action::None
        && standing.throttle.is_none()
        && standing.spared_until.is_none()
        && standing.harmful_since.is_some_and(|since| lasted(config, since, now))
}

fn throttle(
    config: &NoisyNeighbors,
    snapshot: &Snapshot,
    id: &str,
    standing: &NoisyState,
    now: i64,
) -> Option<Throttle> {
    let (seen, verdict) = (snapshot.find(id)?, standing.verdict.as_ref()?);
    let (weight, active) = (seen.weight, seen.figures.active);
    let (factor, effective, concurrency) = match config.action {
        Action::None => return None,
        Action::WeightReduced => (config.weight_factor, weight.times(config.weight_factor), None),
        Action::ConcurrencyReduced => {
            let left = (active as f64 * config.concurrency_factor).floor().max(1.0) as u64;
            (config.concurrency_factor, weight, Some((active, left)))
        }
    };
    Some(Throttle {
        action: config.action,
        reason: verdict.throttle_reason()?.reason(),
        since: now,
        until: now + config.duration as i64,
        factor,
        original_weight: weight.as_f64(),
        effective_weight: effective.as_f64(),
        concurrency,
    })
}

impl NoisyState {
    /// Returns the state of a tenant that an operator released: it is not throttled for as long as
    /// a throttle would last.
    pub fn spared(config: &NoisyNeighbors, now: i64) -> NoisyState {
        NoisyState { spared_until: Some(now + config.duration as i64), ..NoisyState::default() }
    }

    /// Returns true if a throttle is in effect.
    pub fn is_throttled(&self) -> bool {
        self.throttle.is_some()
    }
}

impl Weight {
    /// Returns the weight multiplied by `factor`, but never so small that the tenant is not served.
    pub fn times(self, factor: f64) -> Weight {
        if self.is_held() { self } else { Weight::of(self.as_f64() * factor).unwrap_or(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this rule, a throttle from before the clock was set back would last until the clock
    /// reaches its end again.
    #[test]
    fn a_throttle_that_begins_in_the_future_is_over() {
        let config = NoisyNeighbors { action: Action::WeightReduced, ..NoisyNeighbors::default() };
        let now = 1_800_000_000_000;
        let throttle = |since: i64| Throttle {
            action: Action::WeightReduced,
            reason: "queue_depth_ratio".to_owned(),
            since,
            until: since + config.duration as i64,
            factor: 0.5,
            original_weight: 1.0,
            effective_weight: 0.5,
            concurrency: None,
        };
        let snapshot = Snapshot { now, ..Snapshot::default() };
        for (since, released) in [(now - 1000, None), (now + 3_600_000, Some(ReleaseReason::Expired))] {
            let standing = NoisyState { throttle: Some(throttle(since)), ..NoisyState::default() };
            let step = look(&config, &snapshot, "acme", &standing, None);
            assert_eq!(step.released.map(|(_, why)| why), released, "since {since}");
        }
    }
}
