//! A worker pool: the queues that its workers serve, and their order.

use super::Starvation;
use crate::domain::fairness::TenantFairness;
use crate::domain::job::queue_of;
use crate::domain::tenant::Weight;
use serde_json::{Map, Value, json};

/// The order in which the queues of a pool are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The first queue in the list that has a job.
    Strict,
    /// Each queue in turn.
    #[default]
    RoundRobin,
    /// By weight.
    Weighted,
    /// The queue with the most jobs.
    LeastLoaded,
}

impl Strategy {
    /// All names, in the order of the documentation.
    pub const NAMES: [&'static str; 4] = ["strict", "round-robin", "weighted", "least-loaded"];

    /// Parses a name; `_` is accepted instead of `-`.
    pub fn parse(name: &str) -> Option<Strategy> {
        match name {
            "strict" => Some(Strategy::Strict),
            "round-robin" | "round_robin" => Some(Strategy::RoundRobin),
            "weighted" | "weighted-fair" | "weighted_fair" => Some(Strategy::Weighted),
            "least-loaded" | "least_loaded" => Some(Strategy::LeastLoaded),
            _ => None,
        }
    }

    /// Returns the canonical name.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Strict => "strict",
            Strategy::RoundRobin => "round-robin",
            Strategy::Weighted => "weighted",
            Strategy::LeastLoaded => "least-loaded",
        }
    }
}

/// A queue of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolQueue {
    pub queue: String,
    /// Share under the weighted strategy; never 0.
    pub weight: Weight,
}

/// A named group of workers that serve the same queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The tenant that owns its queues, if tenants have namespaces. The names of the pool and of
    /// its queues then begin with the tenant's name.
    pub tenant: Option<String>,
    pub name: String,
    /// Queues that its workers serve; the order matters for the strict strategy.
    pub queues: Vec<PoolQueue>,
    pub strategy: Strategy,
    /// Maximum number of jobs that all its workers together may hold.
    pub concurrency: Option<u32>,
    /// No other pool may serve its queues.
    pub isolated: bool,
    /// Overrides the default.
    pub starvation: Option<Starvation>,
    /// Overrides the default.
    pub tenant_fairness: Option<TenantFairness>,
}

impl Pool {
    /// Maximum number of queues of a pool.
    pub const MOST_QUEUES: usize = 256;

    /// Returns the pool with its names in the namespace of a tenant.
    pub fn of_tenant(self, tenant: &str) -> Pool {
        let own = |place: PoolQueue| PoolQueue { queue: queue_of(tenant, &place.queue), ..place };
        let (name, queues) = (queue_of(tenant, &self.name), self.queues.into_iter().map(own).collect());
        Pool { tenant: Some(tenant.to_owned()), name, queues, ..self }
    }

    /// Returns the name without the tenant's namespace.
    pub fn own_name(&self) -> &str {
        own_part(&self.name)
    }

    /// Returns true if its workers serve the queue.
    pub fn has(&self, queue: &str) -> bool {
        self.queues.iter().any(|place| place.queue == queue)
    }

    /// Returns the pool with the names of the configuration; `weights` only if they matter, and
    /// `tenant` only if there is one.
    pub fn to_json(&self) -> Value {
        let names: Vec<&str> = self.queues.iter().map(|place| own_part(&place.queue)).collect();
        let mut pool = json!({
            "name": self.own_name(),
            "queues": names,
            "strategy": self.strategy.name(),
            "concurrency": self.concurrency,
            "isolated": self.isolated,
            "starvation_prevention": self.starvation.as_ref().map(Starvation::to_json),
            "tenant_fairness": self.tenant_fairness.as_ref().map(TenantFairness::to_json),
        });
        if self.strategy == Strategy::Weighted || self.queues.iter().any(|place| place.weight != Weight::ONE) {
            let weights = self.queues.iter().map(|place| (own_part(&place.queue).to_owned(), place.weight.to_json()));
            pool["weights"] = Value::Object(weights.collect::<Map<_, _>>());
        }
        if let Some(tenant) = &self.tenant {
            pool["tenant"] = json!(tenant);
        }
        pool
    }
}

/// Returns a name without the tenant's namespace.
fn own_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_have_several_spellings() {
        for name in Strategy::NAMES {
            assert_eq!(Strategy::parse(name).map(Strategy::name), Some(name));
        }
        for (name, expected) in [
            ("round_robin", Some(Strategy::RoundRobin)),
            ("least_loaded", Some(Strategy::LeastLoaded)),
            ("weighted-fair", Some(Strategy::Weighted)),
            ("random", None),
        ] {
            assert_eq!(Strategy::parse(name), expected, "{name}");
        }
        assert_eq!(Strategy::default(), Strategy::RoundRobin);
    }

    #[test]
    fn weights_are_shown_where_they_mean_something() {
        let place = |queue: &str, weight| PoolQueue { queue: queue.to_owned(), weight: Weight::of(weight).unwrap() };
        let mut pool = Pool {
            name: "p".to_owned(),
            queues: vec![place("b", 1.0), place("a", 1.0)],
            concurrency: Some(20),
            ..Pool::default()
        };
        let expected = json!({"name": "p", "queues": ["b", "a"], "strategy": "round-robin", "concurrency": 20,
            "isolated": false, "starvation_prevention": null, "tenant_fairness": null});
        assert_eq!(pool.to_json(), expected);
        pool.strategy = Strategy::Weighted;
        assert_eq!(pool.to_json()["weights"], json!({"a": 1, "b": 1}));
        pool = Pool { strategy: Strategy::Strict, queues: vec![place("a", 0.5)], concurrency: None, ..pool };
        assert_eq!((&pool.to_json()["weights"], &pool.to_json()["concurrency"]), (&json!({"a": 0.5}), &Value::Null));
        assert!(pool.has("a") && !pool.has("b"));
        let own = pool.clone().of_tenant("acme");
        assert!(own.has("acme/a") && !own.has("a"));
        assert_eq!((own.name.as_str(), own.own_name()), ("acme/p", "p"));
        let mut expected = pool.to_json();
        expected["tenant"] = json!("acme");
        assert_eq!(own.to_json(), expected);
    }
}
