//! Fairness between tenants in one queue at dispatch.

use crate::domain::tenant::{Isolation, Weight};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Optional prefix of tenant ids in the keys of `weights`.
const PREFIX: &str = "tenant:";

/// The order in which tenants are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantStrategy {
    /// Tenants share by weight.
    #[default]
    FairShare,
    /// Tenants take turns, regardless of weights.
    RoundRobin,
    /// Tenants share by weight, and each has as many slots as its weight. Unused slots are not lent
    /// to others.
    Strict,
}

impl TenantStrategy {
    /// All names, in the order of the documentation.
    pub const NAMES: [&'static str; 3] = ["fair-share", "round-robin", "strict"];

    /// Parses a name; `_` is accepted instead of `-`.
    pub fn parse(name: &str) -> Option<TenantStrategy> {
        match name {
            "fair-share" | "fair_share" | "fairshare" => Some(TenantStrategy::FairShare),
            "round-robin" | "round_robin" => Some(TenantStrategy::RoundRobin),
            "strict" => Some(TenantStrategy::Strict),
            _ => None,
        }
    }

    /// Returns the canonical name.
    pub fn name(self) -> &'static str {
        match self {
            TenantStrategy::FairShare => "fair-share",
            TenantStrategy::RoundRobin => "round-robin",
            TenantStrategy::Strict => "strict",
        }
    }
}

/// The jobs of a queue that are interleaved by tenant; the others are first in, first out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interleaved {
    /// All jobs; those without a tenant belong to the default tenant.
    All,
    /// Jobs that name a tenant and are under no plan rule.
    OfTenants,
    /// No jobs.
    None,
}

impl Interleaved {
    /// Returns the name used in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Interleaved::All => "all",
            Interleaved::OfTenants => "with_tenant",
            Interleaved::None => "none",
        }
    }
}

/// Fairness between tenants at dispatch, for all queues, those of a pool, or one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TenantFairness {
    /// True to interleave all jobs of a queue by tenant, false for none; if unset, the isolation
    /// decides.
    pub enabled: Option<bool>,
    pub strategy: TenantStrategy,
    /// Weights by tenant id.
    pub weights: BTreeMap<String, Weight>,
    /// The weight of all other tenants.
    pub default_weight: Weight,
}

impl TenantFairness {
    /// Maximum number of weights.
    pub const MOST_WEIGHTS: usize = 10_000;

    /// Returns true if fairness is switched off explicitly: jobs are first in, first out under any
    /// isolation.
    pub fn is_off(&self) -> bool {
        self.enabled == Some(false)
    }

    /// Returns the jobs that are interleaved under an isolation.
    pub fn interleaves(&self, isolation: Isolation) -> Interleaved {
        match (self.enabled, isolation) {
            (Some(true), _) => Interleaved::All,
            (None, Isolation::Sharded) => Interleaved::OfTenants,
            (Some(false), _) | (None, Isolation::Shared | Isolation::Namespace) => Interleaved::None,
        }
    }

    /// Returns the weight of a tenant.
    pub fn weight_of(&self, tenant: &str) -> Weight {
        match self.strategy {
            TenantStrategy::RoundRobin => Weight::ONE,
            TenantStrategy::FairShare | TenantStrategy::Strict => {
                self.weights.get(tenant).copied().unwrap_or(self.default_weight)
            }
        }
    }

    /// Returns the tenant id in a key of `weights`.
    pub fn tenant_in(key: &str) -> &str {
        key.strip_prefix(PREFIX).unwrap_or(key)
    }

    /// Returns the settings with the names of the configuration.
    pub fn to_json(&self) -> Value {
        let mut weights = Map::new();
        for (tenant, weight) in &self.weights {
            // An id that begins with the prefix would lose it on the way back.
            let key = if tenant.starts_with(PREFIX) { format!("{PREFIX}{tenant}") } else { tenant.clone() };
            weights.insert(key, weight.to_json());
        }
        json!({
            "enabled": self.enabled,
            "strategy": self.strategy.name(),
            "weights": weights,
            "default_weight": self.default_weight.to_json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_have_several_spellings() {
        for name in TenantStrategy::NAMES {
            assert_eq!(TenantStrategy::parse(name).map(TenantStrategy::name), Some(name));
        }
        for (name, expected) in [
            ("fair_share", Some(TenantStrategy::FairShare)),
            ("fairshare", Some(TenantStrategy::FairShare)),
            ("round_robin", Some(TenantStrategy::RoundRobin)),
            ("Strict", None),
            ("", None),
        ] {
            assert_eq!(TenantStrategy::parse(name), expected, "{name}");
        }
    }

    #[test]
    fn turns_are_equal_and_shares_are_weighed() {
        let three = Weight::of(3.0).unwrap();
        let mut fairness = TenantFairness {
            weights: [("a".to_owned(), three)].into(),
            enabled: Some(true),
            ..TenantFairness::default()
        };
        assert_eq!((fairness.weight_of("a"), fairness.weight_of("b")), (three, Weight::ONE));
        fairness.strategy = TenantStrategy::RoundRobin;
        assert_eq!(fairness.weight_of("a"), Weight::ONE);
        fairness.strategy = TenantStrategy::Strict;
        assert_eq!((fairness.weight_of("a"), fairness.weight_of("b")), (three, Weight::ONE));
    }

    #[test]
    fn the_isolation_decides_where_nothing_is_said() {
        use Interleaved::{All, None as Nothing, OfTenants};
        for (enabled, expected) in [
            (None, [OfTenants, Nothing, Nothing]),
            (Some(true), [All, All, All]),
            (Some(false), [Nothing, Nothing, Nothing]),
        ] {
            let fairness = TenantFairness { enabled, ..TenantFairness::default() };
            let isolations = [Isolation::Sharded, Isolation::Shared, Isolation::Namespace];
            assert_eq!(isolations.map(|isolation| fairness.interleaves(isolation)), expected, "{enabled:?}");
        }
    }

    #[test]
    fn a_prefix_is_left_out_and_an_id_that_looks_like_one_is_kept() {
        assert_eq!([TenantFairness::tenant_in("tenant:a"), TenantFairness::tenant_in("a")], ["a", "a"]);
        let weights = [("tenant:x".to_owned(), Weight::ONE)].into();
        let json = TenantFairness { weights, ..TenantFairness::default() }.to_json();
        assert_eq!(json["weights"], json!({"tenant:tenant:x": 1}));
    }
}
