//! Replacement of the dispatch policy, in the form that scripts read.

use super::codec::wire;
use super::script::POLICY;
use super::{Error, Store};
use crate::domain::escape::escape;
use crate::domain::fairness::{TenantFairness, TenantStrategy};
use crate::domain::job::id;
use crate::domain::pool::rebalance::Rebalanced;
use crate::domain::pool::{LimitRule, LimitTarget, Policy, Pool, Starvation};
use serde::Serialize;

#[derive(Serialize)]
struct PolicyArgs<'a> {
    before: &'a str,
    version: &'a str,
    letters: String,
    document: &'a str,
    sp: String,
    types: String,
    events: Vec<RebalancedEvent<'a>>,
    sharings: Vec<Sharing<'a>>,
    pools: Vec<StoredPool<'a>>,
    limits: Vec<StoredLimit>,
}

#[derive(Serialize)]
struct RebalancedEvent<'a> {
    subject: &'a str,
    data: String,
}

#[derive(Serialize)]
struct Sharing<'a> {
    queue: &'a str,
    setting: String,
    weights: Vec<(String, u32)>,
}

#[derive(Serialize)]
struct StoredPool<'a> {
    name: &'a str,
    strategy: &'a str,
    queues: String,
    weights: String,
    concurrency: Option<u32>,
    isolated: bool,
    sp: String,
}

#[derive(Serialize)]
struct StoredLimit {
    key: String,
    quota: String,
}

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
        let events = changes.iter().map(|change| {
            let data = change.data.to_string();
            // The members without the braces of their object.
            let data = data[1..data.len() - 1].to_owned();
            RebalancedEvent { subject: change.subject.as_deref().unwrap_or_default(), data }
        });
        let limits = policy.limits.iter();
        let args = PolicyArgs {
            before: expected,
            version: &id::generate(),
            letters: letters(policy),
            document,
            sp: prevention(&policy.starvation),
            types: types(policy),
            events: events.collect(),
            sharings: sharings(policy),
            pools: policy.pools.iter().map(stored_pool).collect(),
            limits: limits.map(|rule| StoredLimit { key: rule.key().stored(), quota: rule.quota.packed() }).collect(),
        };
        POLICY.call_packed(&self.core, &args).await
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

/// Returns the sharing of each queue that does not share like all others.
fn sharings(policy: &Policy) -> Vec<Sharing<'_>> {
    let of_all = &policy.tenant_fairness;
    let default = TenantFairness::default();
    let is_own =
        |(queue, fairness): &(&str, &TenantFairness)| *fairness != if *queue == "*" { &default } else { of_all };
    let own = sharing(policy).into_iter().filter(is_own);
    own.map(|(queue, fairness)| {
        let letter = match fairness.strategy {
            TenantStrategy::FairShare => 'f',
            TenantStrategy::RoundRobin => 'r',
            TenantStrategy::Strict => 's',
        };
        let default_weight = fairness.default_weight.thousandths();
        let setting = match fairness.enabled {
            Some(false) => "off".to_owned(),
            Some(true) => format!("{letter} {default_weight}"),
            None => format!("{letter} {default_weight} isolation"),
        };
        let weights = fairness.weights.iter().map(|(tenant, weight)| (escape(tenant), weight.thousandths()));
        Sharing { queue, setting, weights: weights.collect() }
    })
    .collect()
}

fn stored_pool(pool: &Pool) -> StoredPool<'_> {
    let words = |word: &dyn Fn(&crate::domain::pool::PoolQueue) -> String| {
        pool.queues.iter().map(word).collect::<Vec<_>>().join(" ")
    };
    StoredPool {
        name: &pool.name,
        strategy: pool.strategy.name(),
        queues: words(&|place| place.queue.clone()),
        weights: words(&|place| place.weight.thousandths().to_string()),
        concurrency: pool.concurrency,
        isolated: pool.isolated,
        sp: match &pool.starvation {
            None => String::new(),
            Some(own) if !own.enabled => "off".to_owned(),
            Some(own) => prevention(own),
        },
    }
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
