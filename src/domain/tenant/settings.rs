//! The settings of a tenant: its weight, its priority boost and its limits.

use super::Weight;
use crate::domain::limit::Window;
use crate::domain::tenant_id;
use serde_json::{Map, Value, json};

/// Limits of a tenant; `None` means unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Maximum number of active jobs in all queues; 0 pauses the tenant.
    pub max_concurrency: Option<u32>,
    /// Maximum number of jobs enqueued in any window of the period.
    pub max_enqueue_rate: Option<Window>,
    /// Maximum number of waiting jobs: pending, staged, available or scheduled.
    pub max_queue_depth: Option<u64>,
    /// Maximum number of scheduled jobs.
    pub max_scheduled: Option<u64>,
    /// True if enqueues above a limit are accepted and only reported.
    pub soft: bool,
}

/// The settings of one tenant or of a tier of tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantSettings {
    /// The weight, unless a more specific setting overrides it.
    pub weight: Option<Weight>,
    /// Added to the priority of each of its jobs, clamped to the range of priorities.
    pub boost: i8,
    pub limits: TenantLimits,
}

/// Settings of a tenant, identified by its id, or of a tier, identified by a prefix of ids followed
/// by `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantRule {
    pub id: String,
    pub terms: TenantSettings,
}

impl TenantLimits {
    /// Maximum value of a limit on jobs.
    pub const MOST_JOBS: u64 = 1_000_000_000;

    /// Returns the limits with the names of the configuration.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            value.into_iter().for_each(|value| _ = members.insert(name.to_owned(), value));
        };
        put("max_concurrency", self.max_concurrency.map(Value::from));
        put("max_enqueue_rate", self.max_enqueue_rate.map(Window::to_json));
        put("max_queue_depth", self.max_queue_depth.map(Value::from));
        put("max_scheduled", self.max_scheduled.map(Value::from));
        put("enforcement", Some(json!(if self.soft { "soft" } else { "hard" })));
        Value::Object(members)
    }
}

impl TenantSettings {
    /// Returns the settings with the names of the configuration.
    pub fn to_json(&self) -> Value {
        json!({
            "fairness_weight": self.weight.unwrap_or(Weight::ONE).to_json(),
            "priority_boost": self.boost,
            "limits": self.limits.to_json(),
        })
    }
}

impl TenantRule {
    /// Maximum number of tenant rules in a configuration file.
    pub const MOST: usize = 1000;
    /// Description of valid ids for error messages.
    pub const EXPECTED: &'static str = "a tenant id, `_default`, or a prefix of ids followed by `*`";

    /// Returns the prefix of ids, if the rule is for a tier.
    pub fn prefix(&self) -> Option<&str> {
        self.id.strip_suffix('*')
    }

    /// Returns true if a text is a valid id of a tenant or a tier.
    pub fn is_id(text: &str) -> bool {
        match text.strip_suffix('*') {
            Some(prefix) => prefix.is_empty() || tenant_id::is_name(prefix),
            None => text == tenant_id::DEFAULT || tenant_id::is_name(text),
        }
    }

    /// Returns the rule of a tenant: its own, else that of the tier with the longest prefix.
    pub fn of<'a>(rules: &'a [TenantRule], tenant: &str) -> Option<&'a TenantRule> {
        let own = rules.iter().find(|rule| rule.id == tenant);
        let fits = |rule: &&TenantRule| rule.prefix().is_some_and(|prefix| tenant.starts_with(prefix));
        own.or_else(|| rules.iter().filter(fits).max_by_key(|rule| rule.id.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(id: &str, concurrency: u32) -> TenantRule {
        let limits = TenantLimits { max_concurrency: Some(concurrency), ..TenantLimits::default() };
        TenantRule { id: id.to_owned(), terms: TenantSettings { limits, ..TenantSettings::default() } }
    }

    #[test]
    fn the_most_specific_rule_holds() {
        let rules = [rule("*", 1), rule("free-*", 2), rule("free-a*", 3), rule("free-abc", 4), rule("_default", 5)];
        for (tenant, expected) in
            [("x", 1), ("free-x", 2), ("free-", 2), ("free-ab", 3), ("free-abc", 4), ("_default", 5)]
        {
            let found = TenantRule::of(&rules, tenant).and_then(|rule| rule.terms.limits.max_concurrency);
            assert_eq!(found, Some(expected), "{tenant}");
        }
        assert_eq!(TenantRule::of(&rules[1..], "acme"), None);
    }

    #[test]
    fn ids_are_names_or_beginnings_of_names() {
        for id in ["acme", "free-*", "*", "_default", "a:b*"] {
            assert!(TenantRule::is_id(id), "{id}");
        }
        for id in ["", "_x", "a b", "*a", "a*b", "**", "-*", "é"] {
            assert!(!TenantRule::is_id(id), "{id}");
        }
    }

    #[test]
    fn settings_are_shown_as_the_configuration_names_them() {
        let limits = TenantLimits {
            max_concurrency: Some(20),
            max_enqueue_rate: Some(Window { limit: 1000, period: 60_000 }),
            max_queue_depth: Some(50_000),
            max_scheduled: Some(10_000),
            soft: true,
        };
        let terms = TenantSettings { weight: Weight::of(10.0), boost: -3, limits };
        assert_eq!(
            terms.to_json(),
            json!({
                "fairness_weight": 10,
                "priority_boost": -3,
                "limits": {
                    "max_concurrency": 20,
                    "max_enqueue_rate": {"limit": 1000, "period": "PT1M"},
                    "max_queue_depth": 50000,
                    "max_scheduled": 10000,
                    "enforcement": "soft",
                },
            })
        );
    }
}
