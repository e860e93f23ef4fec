//! The verb that makes a dispatch policy hold, in the words that scripts read.

use super::script::POLICY;
use super::{Error, Store, or_empty, reply};
use crate::fair::{Policy, Pool, Starvation, TenantFairness, TenantStrategy};
use crate::job::escape::escape;
use crate::job::id;
use redis::Cmd;

impl Store {
    /// Replaces the policy if `expected` is still the version of the rules; whether it was. `document` is for other processes;
    /// `tells` makes events of what changes.
    pub async fn replace_policy(
        &self,
        expected: &str,
        policy: &Policy,
        document: &str,
        tells: bool,
    ) -> Result<bool, Error> {
        let version = id::generate();
        let fill = |command: &mut Cmd, _: bool| {
            let command = self.core.begin(command).arg(expected).arg(&version).arg(letters(policy)).arg(document);
            command.arg(prevention(&policy.starvation)).arg(u8::from(tells)).arg(for_all(policy));
            push_sharing(command, policy);
            command.arg(policy.pools.len());
            policy.pools.iter().for_each(|pool| push_pool(command, pool));
            command.arg(policy.limits.len());
            policy.limits.iter().for_each(|rule| _ = command.arg(rule.key()).arg(rule.quota.packed()));
        };
        Ok(reply::number(POLICY.call(&self.core.link, fill).await?) == 1)
    }
}

/// What there is to look at, a letter each: `policy.lua` has their meanings.
fn letters(policy: &Policy) -> String {
    let sharing: Vec<&TenantFairness> = sharing(policy).into_iter().filter_map(|(_, fairness)| fairness).collect();
    let prevents = |starvation: &Starvation| starvation.enabled;
    let pools = &policy.pools;
    [
        ('p', !pools.is_empty()),
        ('i', pools.iter().any(|pool| pool.isolated)),
        ('f', !sharing.is_empty()),
        ('x', sharing.iter().any(|fairness| fairness.strategy == TenantStrategy::Strict)),
        ('s', prevents(&policy.starvation) || pools.iter().any(|pool| pool.starvation.as_ref().is_some_and(prevents))),
    ]
    .into_iter()
    .filter_map(|(letter, holds)| holds.then_some(letter))
    .collect()
}

/// What holds for all pools and for single queues, to be compared: empty where that is the default.
fn for_all(policy: &Policy) -> String {
    let Policy { starvation, tenant_fairness, queues, .. } = policy.clone();
    let alone = Policy { starvation, tenant_fairness, queues, ..Policy::default() };
    if alone == Policy::default() { String::new() } else { alone.to_json().to_string() }
}

/// Every queue that may differ from the others in how tenants share it, and then all others.
fn sharing(policy: &Policy) -> Vec<(&str, Option<&TenantFairness>)> {
    let named = policy.queues.keys().map(String::as_str);
    let pooled = policy.pools.iter().flat_map(|pool| pool.queues.iter().map(|place| place.queue.as_str()));
    let mut queues: Vec<&str> = named.chain(pooled).collect();
    queues.sort_unstable();
    queues.dedup();
    let mut all: Vec<_> = queues.into_iter().map(|queue| (queue, policy.fairness_of(queue))).collect();
    all.push(("*", Some(&policy.tenant_fairness).filter(|fairness| fairness.enabled)));
    all
}

fn push_sharing(command: &mut Cmd, policy: &Policy) {
    let all = sharing(policy);
    let by_default = all.last().and_then(|(_, fairness)| *fairness);
    // Those that do as all others do need no word of their own.
    let own: Vec<_> = all.iter().filter(|(queue, fairness)| *queue == "*" || *fairness != by_default).collect();
    let own: Vec<_> = own.into_iter().filter(|(queue, fairness)| *queue != "*" || fairness.is_some()).collect();
    command.arg(own.len());
    for (queue, fairness) in own {
        let Some(fairness) = fairness else {
            command.arg(*queue).arg("off").arg(0);
            continue;
        };
        let letter = match fairness.strategy {
            TenantStrategy::FairShare => 'f',
            TenantStrategy::RoundRobin => 'r',
            TenantStrategy::Strict => 's',
        };
        command.arg(*queue).arg(format!("{letter} {}", fairness.default_weight.thousandths()));
        command.arg(fairness.weights.len());
        fairness.weights.iter().for_each(|(tenant, weight)| {
            command.arg(escape(tenant)).arg(weight.thousandths());
        });
    }
}

fn push_pool(command: &mut Cmd, pool: &Pool) {
    let words =
        |word: &dyn Fn(&crate::fair::PoolQueue) -> String| pool.queues.iter().map(word).collect::<Vec<_>>().join(" ");
    command.arg(&pool.name).arg(pool.strategy.name()).arg(words(&|place| place.queue.clone()));
    command.arg(words(&|place| place.weight.thousandths().to_string()));
    command.arg(or_empty(pool.concurrency.map(u64::from))).arg(u8::from(pool.isolated));
    command.arg(match &pool.starvation {
        None => String::new(),
        Some(own) if !own.enabled => "off".to_owned(),
        Some(own) => prevention(own),
    });
    command.arg(pool.tenant_fairness.as_ref().map(|own| own.to_json().to_string()).unwrap_or_default());
}

/// `rotation ms, ratio, most in a row, aging: every ms, step, most`; empty where it is off.
fn prevention(starvation: &Starvation) -> String {
    if !starvation.enabled {
        return String::new();
    }
    let aging = &starvation.priority_aging;
    format!(
        "{} {} {} {} {} {}",
        starvation.rotation_interval,
        starvation.min_dispatch_ratio,
        starvation.max_consecutive,
        aging.every,
        aging.step,
        aging.max
    )
}
