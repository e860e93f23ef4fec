//! Metrics of shadow rules: waits of tenants as they are, and as they would be under the rule.

use super::Labels;
use super::metrics::{Level, MOST_NAMES};
use super::tenants::{MOST_PAIRS, MOST_TENANTS};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RuleName {
    rule: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TenantAndOrder {
    rule: String,
    tenant: String,
    order: &'static str,
}

/// Metrics of the shadow rules that this process watches.
#[derive(Clone)]
pub struct ShadowMetrics {
    labels: Arc<(Labels, Labels)>,
    shown: Arc<Mutex<HashSet<TenantAndOrder>>>,
    waiting: Family<RuleName, Gauge>,
    looked_at: Family<RuleName, Gauge>,
    p95: Family<TenantAndOrder, Level>,
}

/// Levels of a watched queue.
#[derive(Clone, Debug, Default)]
pub struct ShadowLevels {
    pub waiting: u64,
    pub looked_at: u64,
    pub tenants: Vec<TenantWaits>,
}

/// A tenant's 95th percentile of waits in seconds: actual, and as planned.
#[derive(Clone, Debug)]
pub struct TenantWaits {
    pub tenant: String,
    pub as_is: Option<f64>,
    pub planned: Option<f64>,
}

impl Default for ShadowMetrics {
    fn default() -> Self {
        ShadowMetrics {
            labels: Arc::new((Labels::new(MOST_NAMES), Labels::new(MOST_TENANTS))),
            shown: Arc::default(),
            waiting: Family::default(),
            looked_at: Family::default(),
            p95: Family::default(),
        }
    }
}

impl ShadowMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "fairgate_shadow_waiting_jobs",
            "Jobs in a queue that is watched in shadow mode",
            self.waiting.clone(),
        );
        registry.register(
            "fairgate_shadow_looked_at_jobs",
            "Jobs of that queue that the shadow report covers",
            self.looked_at.clone(),
        );
        registry.register(
            "fairgate_shadow_wait_p95_seconds",
            "95th percentile of a tenant's waits: actual (order=\"as_is\") and as planned",
            self.p95.clone(),
        );
    }

    /// Sets the levels of a rule. Removes those of tenants that are not listed.
    pub fn set(&self, rule: &str, levels: &ShadowLevels) {
        let rule = self.labels.0.of(rule).to_owned();
        let name = RuleName { rule: rule.clone() };
        self.waiting.get_or_create(&name).set(levels.waiting as i64);
        self.looked_at.get_or_create(&name).set(levels.looked_at as i64);
        let mut now = HashSet::new();
        for one in levels.tenants.iter().take(self.room(&rule)) {
            let tenant = self.labels.1.of(&one.tenant).to_owned();
            for (order, seconds) in [("as_is", one.as_is), ("planned", one.planned)] {
                let Some(seconds) = seconds else { continue };
                let label = TenantAndOrder { rule: rule.clone(), tenant: tenant.clone(), order };
                self.p95.get_or_create(&label).set(seconds);
                now.insert(label);
            }
        }
        self.replace(&rule, now);
    }

    /// Returns how many tenants of a rule may have series, given those of other rules.
    fn room(&self, rule: &str) -> usize {
        let shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let others = shown.iter().filter(|label| label.rule != rule).count();
        MOST_PAIRS.saturating_sub(others) / 2
    }

    /// Removes all levels of a rule that is no longer watched.
    pub fn forget(&self, rule: &str) {
        let rule = self.labels.0.of(rule).to_owned();
        let name = RuleName { rule: rule.clone() };
        self.waiting.remove(&name);
        self.looked_at.remove(&name);
        self.replace(&rule, HashSet::new());
    }

    fn replace(&self, rule: &str, now: HashSet<TenantAndOrder>) {
        // A poisoned lock means that another thread panicked while holding it; the set is
        // consistent nevertheless.
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_gone = |label: &TenantAndOrder| label.rule == rule && !now.contains(label);
        shown.iter().filter(|label| is_gone(label)).for_each(|label| _ = self.p95.remove(label));
        shown.retain(|label| !is_gone(label));
        shown.extend(now);
    }
}
