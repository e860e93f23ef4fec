//! Description of the dispatch policy in sentences.

use std::time::Duration;

use crate::config::convert::show_duration;
use crate::domain::fairness::{Interleaved, TenantFairness};
use crate::domain::limit::Window;
use crate::domain::pool::{LimitRule, LimitTarget, Policy, Pool, Starvation, Strategy};
use crate::domain::tenant::Isolation;

/// Returns a sentence for each setting, and one that says how tenants share queues.
pub fn describe(policy: &Policy, isolation: Isolation) -> Vec<String> {
    let mut sentences: Vec<String> = policy.pools.iter().map(describe_pool).collect();
    if policy.starvation.enabled {
        sentences.push(format!("starvation prevention: {}", describe_starvation(&policy.starvation)));
    }
    sentences.push(describe_sharing(&policy.tenant_fairness, isolation));
    sentences.extend(policy.limits.iter().map(describe_limit));
    sentences
}

fn describe_pool(pool: &Pool) -> String {
    let place = |place: &crate::domain::pool::PoolQueue| match pool.strategy {
        Strategy::Weighted => format!("{} ({})", place.queue, place.weight),
        _ => place.queue.clone(),
    };
    let queues: Vec<_> = pool.queues.iter().map(place).collect();
    let mut text = format!("pool \"{}\" serves {}, {}", pool.name, queues.join(", "), pool.strategy.name());
    if let Some(most) = pool.concurrency {
        text += &format!(", at most {most} active job{}", if most == 1 { "" } else { "s" });
    }
    if pool.isolated {
        text += ", isolated";
    }
    if let Some(starvation) = pool.starvation.as_ref().filter(|starvation| starvation.enabled) {
        text += &format!("; {}", describe_starvation(starvation));
    }
    if let Some(fairness) = &pool.tenant_fairness {
        text += &match fairness.enabled {
            Some(false) => "; first in, first out for all tenants".to_owned(),
            _ => format!("; tenants share by {}", describe_fairness(fairness)),
        };
    }
    text
}

fn describe_starvation(starvation: &Starvation) -> String {
    let ratio = starvation.min_dispatch_ratio;
    let mut text =
        format!("each queue gets at least {ratio} of the jobs, and one every {}", time(starvation.rotation_interval));
    if starvation.max_consecutive > 0 {
        text += &format!(", at most {} in a row", starvation.max_consecutive);
    }
    let aging = starvation.priority_aging;
    if aging.step > 0 {
        text += &format!(", priority rises by {} every {} up to {}", aging.step, time(aging.every), aging.max);
    }
    text
}

fn describe_sharing(fairness: &TenantFairness, isolation: Isolation) -> String {
    match fairness.interleaves(isolation) {
        Interleaved::All => format!("tenants share queues by {}", describe_fairness(fairness)),
        Interleaved::OfTenants => format!(
            "jobs that name a tenant share queues by {} (isolation \"{}\"); planned jobs keep the order of their rule",
            describe_fairness(fairness),
            isolation.name()
        ),
        Interleaved::None if fairness.is_off() => {
            "jobs of all tenants are first in, first out (tenant_fairness is off)".to_owned()
        }
        Interleaved::None => {
            format!("jobs of a queue are first in, first out (isolation \"{}\")", isolation.name())
        }
    }
}

fn describe_fairness(fairness: &TenantFairness) -> String {
    match fairness.weights.len() {
        0 => fairness.strategy.name().to_owned(),
        1 => format!("{}, one tenant with its own weight", fairness.strategy.name()),
        some => format!("{}, {some} tenants with their own weights", fairness.strategy.name()),
    }
}

fn describe_limit(rule: &LimitRule) -> String {
    let target = match &rule.target {
        LimitTarget::Queue(queue) => format!("queue \"{queue}\""),
        LimitTarget::Type(pattern) => format!("jobs of type {pattern}"),
        LimitTarget::Key(key) => format!("key \"{key}\""),
    };
    let window = |window: Window, verb: &str| format!("{} {verb} every {}", window.limit, time(window.period));
    let parts = [
        rule.quota.concurrency.map(|most| format!("{most} active")),
        rule.quota.rate.map(|rate| window(rate, "starts")),
        rule.quota.throttle.map(|throttle| window(throttle, "evenly spaced starts")),
    ];
    format!("limit: {}: {}", target, parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn time(ms: u64) -> String {
    show_duration(Duration::from_millis(ms))
}
