//! The differences between two dispatch policies, as the event `scheduling.rebalanced` reports
//! them.

use super::Policy;
use crate::domain::fairness::TenantFairness;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One change of how queues or tenants are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebalanced {
    /// The pool or queue that changed; `None` for the defaults.
    pub subject: Option<String>,
    /// The event's data.
    pub data: Value,
}

/// Returns all changes from one policy to another: of pools, defaults and single queues. The
/// strategies of a pool are about queues, the others about tenants.
pub fn changes(before: &Policy, after: &Policy) -> Vec<Rebalanced> {
    let mut all = vec![];
    let settings = [
        ("starvation_prevention", before.starvation != after.starvation),
        ("tenant_fairness", before.tenant_fairness != after.tenant_fairness),
    ];
    let changed: Vec<&str> = settings.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect();
    if !changed.is_empty() {
        let mut data = strategies(of_tenants(&before.tenant_fairness), of_tenants(&after.tenant_fairness));
        data["changed"] = json!(changed);
        all.push(Rebalanced { subject: None, data });
    }
    let queues: BTreeSet<&String> = before.queues.keys().chain(after.queues.keys()).collect();
    for queue in queues.into_iter().filter(|queue| before.queues.get(*queue) != after.queues.get(*queue)) {
        let of_queue = |policy: &Policy| of_tenants(policy.fairness_of(queue));
        let mut data = strategies(of_queue(before), of_queue(after));
        data["queue"] = json!(queue);
        all.push(Rebalanced { subject: Some(queue.clone()), data });
    }
    let pools = before.pools.iter().chain(after.pools.iter().filter(|pool| before.pool(&pool.name).is_none()));
    for name in pools.map(|pool| pool.name.as_str()) {
        let (old, new) = (before.pool(name), after.pool(name));
        if old != new {
            let mut data = strategies(old.map(|pool| pool.strategy.name()), new.map(|pool| pool.strategy.name()));
            data["pool"] = json!(name);
            all.push(Rebalanced { subject: Some(name.to_owned()), data });
        }
    }
    all
}

/// Returns the strategy between tenants; `None` if it is switched off. If `enabled` is unset, the
/// strategy applies to the jobs that the isolation interleaves.
fn of_tenants(fairness: &TenantFairness) -> Option<&'static str> {
    (!fairness.is_off()).then(|| fairness.strategy.name())
}

fn strategies(previous: Option<&str>, new: Option<&str>) -> Value {
    json!({"pool": null, "previous_strategy": previous, "new_strategy": new})
}

#[cfg(test)]
mod tests {
    use super::super::{Pool, Starvation, Strategy};
    use super::*;
    use crate::domain::fairness::TenantStrategy;

    #[test]
    fn every_change_is_found_once() {
        let before = Policy::default();
        assert_eq!(changes(&before, &before), []);
        let fair =
            TenantFairness { enabled: Some(true), strategy: TenantStrategy::RoundRobin, ..TenantFairness::default() };
        let after = Policy {
            pools: vec![Pool { name: "p".to_owned(), strategy: Strategy::Weighted, ..Pool::default() }],
            starvation: Starvation { enabled: true, ..Starvation::default() },
            tenant_fairness: fair,
            queues: [("q".to_owned(), TenantFairness { enabled: Some(false), ..TenantFairness::default() })].into(),
            ..Policy::default()
        };
        let found = |before, after| {
            let told = |change: Rebalanced| (change.subject.unwrap_or_default(), change.data);
            changes(before, after).into_iter().map(told).collect::<Vec<_>>()
        };
        let both = json!(["starvation_prevention", "tenant_fairness"]);
        let data = |pool: Option<&str>, previous: Option<&str>, new: Option<&str>| json!({"pool": pool, "previous_strategy": previous, "new_strategy": new});
        let with = |mut data: Value, name: &str, value: &Value| {
            data[name] = value.clone();
            data
        };
        let expected = [
            (String::new(), with(data(None, Some("fair-share"), Some("round-robin")), "changed", &both)),
            ("q".to_owned(), with(data(None, Some("fair-share"), None), "queue", &json!("q"))),
            ("p".to_owned(), data(Some("p"), None, Some("weighted"))),
        ];
        assert_eq!(found(&before, &after), expected);
        let expected = [
            (String::new(), with(data(None, Some("round-robin"), Some("fair-share")), "changed", &both)),
            ("q".to_owned(), with(data(None, None, Some("fair-share")), "queue", &json!("q"))),
            ("p".to_owned(), data(Some("p"), Some("weighted"), None)),
        ];
        assert_eq!(found(&after, &before), expected);
    }
}
