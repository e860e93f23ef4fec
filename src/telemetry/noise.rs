//! Metrics of noisy neighbours, and the shares of tenants.

use super::Labels;
use super::labels::OTHER;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// Maximum number of tenants with series of their own, as the OJS specification recommends. All
/// others share `_other`.
const MOST_TENANTS: usize = 1000;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TenantName {
    tenant_id: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SignalName {
    signal: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Metrics of noisy neighbours. Only the process that currently decides about throttles has values.
#[derive(Clone)]
pub struct NoiseMetrics {
    labels: Arc<Labels>,
    shown: Arc<Mutex<HashSet<String>>>,
    detected: Family<SignalName, Counter>,
    throttles: Family<TenantName, Counter>,
    released: Family<Reason, Counter>,
    throttled: Gauge,
    share: Family<TenantName, Gauge<f64, AtomicU64>>,
}

impl Default for NoiseMetrics {
    fn default() -> Self {
        NoiseMetrics {
            labels: Arc::new(Labels::new(MOST_TENANTS)),
            shown: Arc::default(),
            detected: Family::default(),
            throttles: Family::default(),
            released: Family::default(),
            throttled: Gauge::default(),
            share: Family::default(),
        }
    }
}

fn name(tenant: &str) -> TenantName {
    TenantName { tenant_id: tenant.to_owned() }
}

impl NoiseMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("fairgate_noisy_detected", "Tenants detected as noisy, by signal", self.detected.clone());
        registry.register("fairgate_noisy_throttles", "Throttles that began", self.throttles.clone());
        registry.register("fairgate_noisy_released", "Throttles that ended, by reason", self.released.clone());
        registry.register("fairgate_noisy_throttled", "Tenants currently throttled", self.throttled.clone());
        registry.register("ojs_tenant_fairness_share", "Share of the workers' time, 0 to 1", self.share.clone());
    }

    /// Counts a tenant that a signal identified as noisy.
    pub fn detected(&self, signal: &'static str) {
        self.detected.get_or_create(&SignalName { signal }).inc();
    }

    /// Counts a throttle that begins.
    pub fn throttled(&self, tenant: &str) {
        self.throttles.get_or_create(&name(self.labels.of(tenant))).inc();
    }

    /// Counts a throttle that ends.
    pub fn released(&self, reason: &'static str) {
        self.released.get_or_create(&Reason { reason }).inc();
    }

    /// Sets the number of throttled tenants, and the share of the workers' time of each tenant,
    /// busiest first. The busiest keep their labels; the rest up to 1 belongs to `_other`.
    pub fn shares(&self, throttled: usize, shares: &[(&str, f64)]) {
        self.throttled.set(throttled as i64);
        for gone in self.labels.prefer(shares.iter().map(|(tenant, _)| *tenant)) {
            self.throttles.remove(&name(&gone));
        }
        let mut levels: BTreeMap<&str, f64> = BTreeMap::new();
        shares.iter().for_each(|(tenant, share)| *levels.entry(self.labels.of(tenant)).or_default() += share);
        let rest = 1.0 - shares.iter().map(|(_, share)| share).sum::<f64>();
        if rest > 1e-6 && !shares.is_empty() {
            *levels.entry(OTHER).or_default() += rest;
        }
        // A poisoned lock means that another thread panicked while holding it; the set is
        // consistent nevertheless.
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let gone = std::mem::take(&mut *shown);
        for (tenant, share) in levels {
            self.share.get_or_create(&name(tenant)).set(share);
            shown.insert(tenant.to_owned());
        }
        gone.difference(&shown).for_each(|tenant| _ = self.share.remove(&name(tenant)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn the_busiest_have_labels_and_the_rest_one_together() {
        let (metrics, mut registry) = (NoiseMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        let shown = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).expect("a String takes everything");
            text
        };
        (0..MOST_TENANTS).for_each(|number| metrics.throttled(&format!("t{number}")));
        metrics.throttled("loud");
        metrics.shares(1, &[("loud", 0.5), ("t1", 0.25)]);
        metrics.throttled("loud");
        let text = shown(&registry);
        for line in [
            "fairgate_noisy_throttled 1",
            "fairgate_noisy_throttles_total{tenant_id=\"_other\"} 1",
            "fairgate_noisy_throttles_total{tenant_id=\"loud\"} 1",
            "ojs_tenant_fairness_share{tenant_id=\"loud\"} 0.5",
            "ojs_tenant_fairness_share{tenant_id=\"_other\"} 0.25",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert_eq!(text.matches("fairgate_noisy_throttles_total{").count(), MOST_TENANTS + 1);
        metrics.shares(0, &[]);
        assert!(!shown(&registry).contains("ojs_tenant_fairness_share{"));
    }
}
