//! What follows from verdicts, as time goes on: who is throttled, until when, and who is let go.

use super::super::Weight;
use super::{Action, Detection, NoisyNeighbors, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// What is remembered of a tenant between two looks. Who is neither noisy nor throttled nor spared has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoisyState {
    /// Since when it is noisy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noisy_since: Option<i64>,
    /// Since when a throttle is justified: it is noisy at somebody's cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harmful_since: Option<i64>,
    /// Whether it was reported as noisy, once that had lasted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
    /// Since when every figure is well below its threshold, while it is throttled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calm_since: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,
    /// Somebody let it go: until then it is not throttled again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spared_until: Option<i64>,
    /// The last verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Detection>,
}

/// A throttle that holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throttle {
    pub action: Action,
    pub reason: String,
    pub since: i64,
    pub until: i64,
    /// What is left of the tenant's weight or concurrency.
    pub factor: f64,
    pub original_weight: f64,
    pub effective_weight: f64,
    /// Jobs that it had active, and how many of them it may have, where that is what is reduced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<(u64, u64)>,
}

/// Why a throttle ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Its time is over.
    Expired,
    /// The tenant is calm.
    Calm,
    /// Somebody said so.
    Manual,
    /// The configuration throttles nobody any more.
    Disabled,
}

impl ReleaseReason {
    /// As events give it.
    pub fn reason(self) -> &'static str {
        match self {
            ReleaseReason::Expired => "expired",
            ReleaseReason::Calm => "calm",
            ReleaseReason::Manual => "manual_reset",
            ReleaseReason::Disabled => "disabled",
        }
    }
}

/// What a look changes about one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottleStep {
    pub tenant_id: String,
    /// How it stands from now on; none if there is nothing to remember.
    pub standing: Option<NoisyState>,
    /// Whether it has been noisy for long enough to be reported, and was not before.
    pub detected: bool,
    /// Whether a throttle begins.
    pub throttled: bool,
    /// The throttle that ends, and why.
    pub released: Option<(Throttle, ReleaseReason)>,
}

/// What a look at a snapshot changes, given how tenants stood before. Nobody is in it of whom nothing changes.
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
    // The verdicts come with the worst first.
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

/// How a tenant stands after a look, before anybody is throttled.
fn look(
    config: &NoisyNeighbors,
    snapshot: &Snapshot,
    id: &str,
    before: &NoisyState,
    verdict: Option<&Detection>,
) -> ThrottleStep {
    let now = snapshot.now;
    let mut after = before.clone();
    // A time to come is from before the clock was set back.
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
            // It has to be noisy for some time again before it is throttled again.
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

/// Whether a tenant has been noisy at somebody's cost for long enough to be throttled.
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
    /// How a tenant stands that somebody lets go: it is not throttled again for as long as a throttle would last.
    pub fn spared(config: &NoisyNeighbors, now: i64) -> NoisyState {
        NoisyState { spared_until: Some(now + config.duration as i64), ..NoisyState::default() }
    }

    /// Whether a throttle holds.
    pub fn is_throttled(&self) -> bool {
        self.throttle.is_some()
    }
}

impl Weight {
    /// A part of it; never so little that nothing is served.
    pub fn times(self, factor: f64) -> Weight {
        if self.is_held() { self } else { Weight::of(self.as_f64() * factor).unwrap_or(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A throttle from before the clock was set back would otherwise last until the clock reaches its end again.
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
