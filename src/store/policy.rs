//! Replacement of the dispatch policy, in the form that scripts read.

use super::codec::wire;
use super::script::POLICY;
use super::{Error, Store, or_empty, reply};
use crate::domain::escape::escape;
use crate::domain::fairness::{TenantFairness, TenantStrategy};
use crate::domain::job::id;
use crate::domain::pool::rebalance::Rebalanced;
use crate::domain::pool::{LimitRule, LimitTarget, Policy, Pool, Starvation};
use redis::Cmd;

impl Store {
    /// Replaces the policy if `expected` is still the version of the rules; returns false if it is
    /// not. `document` is the policy for other processes. Emits an event for each of `changes`.
    pub async fn replace_policy(
        &self,
        expected: &str,
        policy: &Policy,
        document: &str,
        changes: &[Rebalanced],
    ) -> Result<bool, Error> {
        let version = id::generate();
        let fill = |command: &mut Cmd, _: bool| {
            let command = self.core.begin(command).arg(expected).arg(&version).arg(letters(policy)).arg(document);
            command.arg(prevention(&policy.starvation)).arg(types(policy)).arg(changes.len());
            for change in changes {
                let data = change.data.to_string();
                command.arg(change.subject.as_deref().unwrap_or_default()).arg(&data[1..data.len() - 1]);
            }
            push_sharing(command, policy);
            command.arg(policy.pools.len());
            policy.pools.iter().for_each(|pool| push_pool(command, pool));
            command.arg(policy.limits.len());
            policy.limits.iter().for_each(|rule| _ = command.arg(rule.key().stored()).arg(rule.quota.packed()));
        };
        Ok(reply::number(POLICY.call(&self.core.connection, fill).await?, "policy")? == 1)
    }
}

/// Returns one letter for each feature that the policy uses. `lua/commands/policy.lua` documents
/// them.
fn letters(policy: &Policy) -> String {
    let sharing: Vec<&TenantFairness> = sharing(policy).into_iter().map(|(_, fairness)| fairness).collect();
    let (off, on): (Vec<&TenantFairness>, Vec<_>) = sharing.into_iter().partition(|fairness| fairness.is_off());
    let prevents = |starvation: &Starvation| starvation.enabled;
    let pools = &policy.pools;
    [
        ('p', !pools.is_empty()),
        ('i', pools.iter().any(|pool| pool.isolated)),
        ('f', on.iter().any(|fairness| **fairness != TenantFairness::default())),
        ('o', !off.is_empty()),
        ('t', !types(policy).is_empty()),
        ('x', on.iter().any(|fairness| fairness.strategy == TenantStrategy::Strict)),
        ('s', prevents(&policy.starvation) || pools.iter().any(|pool| pool.starvation.as_ref().is_some_and(prevents))),
    ]
    .into_iter()
    .filter_map(|(letter, holds)| holds.then_some(letter))
    .collect()
}

/// Returns patterns and keys of the limits on job types, in the order in which they are matched.
fn types(policy: &Policy) -> String {
    let of_type = |rule: &LimitRule| match &rule.target {
        LimitTarget::Type(pattern) => Some((pattern.clone(), rule.key().stored().clone())),
        LimitTarget::Queue(_) | LimitTarget::Key(_) => None,
    };
    wire::pairs(policy.limits.iter().filter_map(of_type))
}

/// Returns how tenants share each queue that the policy names, followed by `*` for all other
/// queues.
fn sharing(policy: &Policy) -> Vec<(&str, &TenantFairness)> {
    let named = policy.queues.keys().map(String::as_str);
    let pooled = policy.pools.iter().flat_map(|pool| pool.queues.iter().map(|place| place.queue.as_str()));
    let mut queues: Vec<&str> = named.chain(pooled).collect();
    queues.sort_unstable();
    queues.dedup();
    let mut all: Vec<_> = queues.into_iter().map(|queue| (queue, policy.fairness_of(queue))).collect();
    all.push(("*", &policy.tenant_fairness));
    all
}

fn push_sharing(command: &mut Cmd, policy: &Policy) {
    let of_all = &policy.tenant_fairness;
    let default = TenantFairness::default();
    // Queues that share like all others need no entry.
    let is_own =
        |(queue, fairness): &(&str, &TenantFairness)| *fairness != if *queue == "*" { &default } else { of_all };
    let own: Vec<_> = sharing(policy).into_iter().filter(is_own).collect();
    command.arg(own.len());
    for (queue, fairness) in own {
        let letter = match fairness.strategy {
            TenantStrategy::FairShare => 'f',
            TenantStrategy::RoundRobin => 'r',
            TenantStrategy::Strict => 's',
        };
        let default_weight = fairness.default_weight.thousandths();
        let how = match fairness.enabled {
            Some(false) => "off".to_owned(),
            Some(true) => format!("{letter} {default_weight}"),
            None => format!("{letter} {default_weight} isolation"),
        };
        command.arg(queue).arg(how).arg(fairness.weights.len());
        fairness.weights.iter().for_each(|(tenant, weight)| {
            command.arg(escape(tenant)).arg(weight.thousandths());
        });
    }
}

fn push_pool(command: &mut Cmd, pool: &Pool) {
    let words = |word: &dyn Fn(&crate::domain::pool::PoolQueue) -> String| {
        pool.queues.iter().map(word).collect::<Vec<_>>().join(" ")
    };
    command.arg(&pool.name).arg(pool.strategy.name()).arg(words(&|place| place.queue.clone()));
    command.arg(words(&|place| place.weight.thousandths().to_string()));
    command.arg(or_empty(pool.concurrency.map(u64::from))).arg(u8::from(pool.isolated));
    command.arg(match &pool.starvation {
        None => String::new(),
        Some(own) if !own.enabled => "off".to_owned(),
        Some(own) => prevention(own),
    });
}

/// Formats a starvation prevention: `rotation ms, ratio, most in a row, aging: every ms, step,
/// most`; empty if it is off.
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
