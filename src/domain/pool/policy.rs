//! The dispatch policy: pools, fairness between tenants, starvation prevention, limits.

use super::{Pool, PoolConflict, PoolValidator, Starvation};
use crate::domain::fairness::TenantFairness;
use crate::domain::limit::{LimitKey, LimitScope, Quota};
use crate::domain::names::fits;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The dispatch policy, as one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub pools: Vec<Pool>,
    /// Default for pools without their own setting and for workers without a pool.
    pub starvation: Starvation,
    /// Default for queues and pools without their own setting.
    pub tenant_fairness: TenantFairness,
    /// Settings of single queues.
    pub queues: BTreeMap<String, TenantFairness>,
    pub limits: Vec<LimitRule>,
}

/// A limit set by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRule {
    pub target: LimitTarget,
    pub quota: Quota,
}

/// The jobs that a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitTarget {
    /// Jobs of a queue.
    Queue(String),
    /// Jobs of a type, or of all types that match a glob, counted together.
    Type(String),
    /// Jobs that name a key.
    Key(String),
}

impl LimitRule {
    /// Maximum number of limit rules.
    pub const MOST: usize = 1000;

    /// Returns the key under which its jobs are counted.
    pub fn key(&self) -> LimitKey {
        match &self.target {
            LimitTarget::Queue(queue) => LimitKey::queue(queue),
            LimitTarget::Type(pattern) => LimitKey::of(LimitScope::Type, pattern),
            LimitTarget::Key(key) => LimitKey::key(key),
        }
    }

    /// Returns the rule with the names of the configuration.
    pub fn to_json(&self) -> Value {
        let (name, text) = match &self.target {
            LimitTarget::Queue(queue) => ("queue", queue),
            LimitTarget::Type(pattern) => ("type", pattern),
            LimitTarget::Key(key) => ("key", key),
        };
        let mut members = self.quota.to_json();
        members.insert(name.to_owned(), json!(text));
        Value::Object(members)
    }
}

impl Policy {
    /// Returns the pool of that name.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// Returns true if dispatch does not have to consult the policy.
    pub fn is_plain(&self) -> bool {
        let is_set = |fairness: &TenantFairness| *fairness != TenantFairness::default();
        self.pools.is_empty()
            && self.limits.is_empty()
            && !self.starvation.enabled
            && !is_set(&self.tenant_fairness)
            && !self.queues.values().any(is_set)
    }

    /// Returns the tenant fairness of a queue: its own, else that of the first pool that has the
    /// queue and a setting, else the default.
    pub fn fairness_of(&self, queue: &str) -> &TenantFairness {
        let of_pools =
            || self.pools.iter().filter(|pool| pool.has(queue)).find_map(|pool| pool.tenant_fairness.as_ref());
        self.queues.get(queue).or_else(of_pools).unwrap_or(&self.tenant_fairness)
    }

    /// Returns the first limit that matches a job type.
    pub fn type_limit(&self, kind: &str) -> Option<&LimitRule> {
        self.limits.iter().find(|rule| matches!(&rule.target, LimitTarget::Type(pattern) if fits(pattern, kind)))
    }

    /// Returns the limit on a queue.
    pub fn queue_limit(&self, queue: &str) -> Option<&LimitRule> {
        self.limits.iter().find(|rule| matches!(&rule.target, LimitTarget::Queue(name) if name == queue))
    }

    /// Returns the isolated pool that has the queue.
    pub fn isolated(&self, queue: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.isolated && pool.has(queue))
    }

    /// Returns the starvation prevention for the queues of a pool, or of a worker without one.
    pub fn starvation_of<'a>(&'a self, pool: Option<&'a Pool>) -> &'a Starvation {
        pool.and_then(|pool| pool.starvation.as_ref()).unwrap_or(&self.starvation)
    }

    /// Replaces the pool of that name or appends a new one. Returns the conflicts with other pools,
    /// if there are any.
    pub fn set_pool(&mut self, pool: Pool) -> Result<(), Vec<PoolConflict>> {
        let mut validator = PoolValidator::new(&self.starvation);
        self.pools.iter().filter(|other| other.name != pool.name).for_each(|other| drop(validator.add(other)));
        let conflicts = validator.add(&pool);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        match self.pools.iter_mut().find(|other| other.name == pool.name) {
            Some(other) => *other = pool,
            None => self.pools.push(pool),
        }
        Ok(())
    }

    /// Removes a pool and returns it.
    pub fn remove_pool(&mut self, name: &str) -> Option<Pool> {
        let at = self.pools.iter().position(|pool| pool.name == name)?;
        Some(self.pools.remove(at))
    }

    /// Returns the default and per-queue settings with the names of the configuration.
    pub fn scheduling_to_json(&self) -> Value {
        let queue = |(name, fairness): (&String, &TenantFairness)| {
            (name.clone(), json!({"tenant_fairness": fairness.to_json()}))
        };
        json!({
            "starvation_prevention": self.starvation.to_json(),
            "tenant_fairness": self.tenant_fairness.to_json(),
            "queues": self.queues.iter().map(queue).collect::<Map<_, _>>(),
        })
    }

    /// Returns the whole policy with the names of the configuration, which has singular names for
    /// lists of tables.
    pub fn to_json(&self) -> Value {
        let mut all = self.scheduling_to_json();
        all["pool"] = self.pools.iter().map(Pool::to_json).collect();
        all["limit"] = self.limits.iter().map(LimitRule::to_json).collect();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::PoolQueue;
    use super::*;
    use crate::domain::tenant::Weight;

    fn pool(name: &str, queues: &[&str]) -> Pool {
        let place = |queue: &&str| PoolQueue { queue: (*queue).to_owned(), weight: Weight::ONE };
        Pool { name: name.to_owned(), queues: queues.iter().map(place).collect(), ..Pool::default() }
    }

    fn fairness(default_weight: f64) -> TenantFairness {
        let default_weight = Weight::of(default_weight).unwrap();
        TenantFairness { enabled: Some(true), default_weight, ..TenantFairness::default() }
    }

    fn limit(target: LimitTarget) -> LimitRule {
        LimitRule { target, quota: Quota { concurrency: Some(1), ..Quota::default() } }
    }

    #[test]
    fn the_nearest_fairness_counts() {
        let mut policy = Policy { tenant_fairness: fairness(1.0), ..Policy::default() };
        policy.pools = vec![pool("a", &["x", "y"]), pool("b", &["y", "z"]), pool("c", &["y"])];
        policy.pools[1].tenant_fairness = Some(fairness(2.0));
        policy.pools[2].tenant_fairness = Some(fairness(3.0));
        let off = TenantFairness { enabled: Some(false), ..TenantFairness::default() };
        policy.queues = [("z".to_owned(), fairness(4.0)), ("off".to_owned(), off)].into();
        let weight = |policy: &Policy, queue: &str| {
            let fairness = policy.fairness_of(queue);
            (!fairness.is_off()).then(|| fairness.default_weight.as_f64())
        };
        for (queue, expected) in
            [("x", Some(1.0)), ("y", Some(2.0)), ("z", Some(4.0)), ("off", None), ("other", Some(1.0))]
        {
            assert_eq!(weight(&policy, queue), expected, "{queue}");
        }
        policy.tenant_fairness.enabled = Some(false);
        assert_eq!((weight(&policy, "x"), weight(&policy, "y")), (None, Some(2.0)));
    }

    #[test]
    fn limits_are_found_by_type_and_counted_by_key() {
        let rules = [
            LimitTarget::Key("report.daily".to_owned()),
            LimitTarget::Type("report.*".to_owned()),
            LimitTarget::Type("report.daily".to_owned()),
            LimitTarget::Queue("email".to_owned()),
        ];
        let policy = Policy { limits: rules.map(limit).into(), ..Policy::default() };
        assert_eq!(
            policy.type_limit("report.daily").map(|rule| rule.key().to_string()).as_deref(),
            Some("type:report.*")
        );
        assert_eq!(policy.type_limit("email"), None);
        assert_eq!(
            (policy.limits[0].key(), policy.limits[3].key()),
            (LimitKey::key("report.daily"), LimitKey::queue("email"))
        );
        assert_eq!(policy.limits[3].to_json(), json!({"queue": "email", "concurrency": 1}));
    }

    #[test]
    fn a_policy_is_plain_until_something_is_set() {
        assert!(Policy::default().is_plain());
        let off = [("x".to_owned(), TenantFairness::default())].into();
        assert!(Policy { queues: off, ..Policy::default() }.is_plain());
        let starvation = Starvation { enabled: true, ..Starvation::default() };
        for policy in [
            Policy { pools: vec![pool("a", &["x"])], ..Policy::default() },
            Policy { limits: vec![limit(LimitTarget::Key("k".to_owned()))], ..Policy::default() },
            Policy { starvation, ..Policy::default() },
            Policy { tenant_fairness: fairness(1.0), ..Policy::default() },
            Policy {
                tenant_fairness: TenantFairness { enabled: Some(false), ..TenantFairness::default() },
                ..Policy::default()
            },
            Policy { queues: [("x".to_owned(), fairness(1.0))].into(), ..Policy::default() },
        ] {
            assert!(!policy.is_plain(), "{policy:?}");
        }
    }

    #[test]
    fn pools_are_set_by_name_unless_they_clash() {
        let mut policy = Policy::default();
        for name in ["a", "b"] {
            policy.set_pool(Pool { isolated: true, ..pool(name, &[name]) }).unwrap();
        }
        policy.set_pool(Pool { isolated: true, ..pool("a", &["a", "c"]) }).unwrap();
        assert_eq!(policy.pool("a").unwrap().queues.len(), 2);
        assert_eq!(policy.isolated("c").map(|pool| pool.name.as_str()), Some("a"));
        let before = policy.clone();
        assert_eq!(policy.set_pool(pool("d", &["c"])).unwrap_err().len(), 1);
        assert_eq!(policy.set_pool(pool("b", &["c"])).unwrap_err().len(), 1);
        assert_eq!(policy, before);
        assert_eq!(policy.remove_pool("a").map(|pool| pool.name).as_deref(), Some("a"));
        assert_eq!(policy.remove_pool("a"), None);
        policy.set_pool(pool("d", &["c"])).unwrap();
        let own = Starvation { enabled: true, ..Starvation::default() };
        policy.pools[0].starvation = Some(own);
        assert_eq!(policy.starvation_of(policy.pools.first()), &own);
        assert_eq!(
            [policy.starvation_of(policy.pools.get(1)), policy.starvation_of(None)],
            [&Starvation::default(); 2]
        );
    }
}
