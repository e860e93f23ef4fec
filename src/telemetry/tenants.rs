//! Metrics of tenants, named after the OJS specification of multi-tenancy.

use super::{LabelPairs, Labels};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

/// Maximum number of tenants with series of their own, as the OJS specification recommends. All
/// others share `_other`.
pub const MOST_TENANTS: usize = 1000;
/// Maximum number of pairs of tenant and queue, or of rule and tenant, with series of their own.
pub(super) const MOST_PAIRS: usize = 5000;

/// Limits of tenants, and the reactions to exceeding them.
const LIMITS: [&str; 4] = ["max_concurrency", "max_enqueue_rate", "max_queue_depth", "max_scheduled"];
const ACTIONS: [&str; 3] = ["rejected", "accepted", "held"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TenantAndQueue {
    tenant_id: String,
    queue: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TenantName {
    tenant_id: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TenantAndLimit {
    tenant_id: String,
    limit: String,
    action: &'static str,
}

/// Metrics of jobs by tenant. Counters belong to this process; levels reflect the store at the last
/// reading. Jobs without a tenant are not counted.
#[derive(Clone)]
pub struct TenantMetrics {
    labels: Arc<(Labels, LabelPairs)>,
    shown: Arc<Mutex<HashSet<String>>>,
    enqueued: Family<TenantAndQueue, Counter>,
    processed: Family<TenantAndQueue, Counter>,
    failed: Family<TenantAndQueue, Counter>,
    exceeded: Family<TenantAndLimit, Counter>,
    active: Family<TenantName, Gauge>,
    depth: Family<TenantName, Gauge>,
}

impl Default for TenantMetrics {
    fn default() -> Self {
        TenantMetrics {
            labels: Arc::new((Labels::new(MOST_TENANTS), LabelPairs::new(MOST_PAIRS))),
            shown: Arc::default(),
            enqueued: Family::default(),
            processed: Family::default(),
            failed: Family::default(),
            exceeded: Family::default(),
            active: Family::default(),
            depth: Family::default(),
        }
    }
}

/// Numbers of a tenant's jobs.
#[derive(Clone, Debug)]
pub struct TenantLevel {
    pub tenant: String,
    pub active: u64,
    /// Number of waiting jobs.
    pub depth: u64,
}

impl TenantMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("ojs_tenant_jobs_enqueued", "Jobs enqueued by this process", self.enqueued.clone());
        registry.register("ojs_tenant_jobs_processed", "Jobs completed through this process", self.processed.clone());
        registry.register("ojs_tenant_jobs_failed", "Failed attempts reported to this process", self.failed.clone());
        registry.register("ojs_tenant_limit_exceeded", "Times that a tenant reached a limit", self.exceeded.clone());
        registry.register("ojs_tenant_jobs_active", "Active jobs", self.active.clone());
        registry.register("ojs_tenant_queue_depth", "Waiting jobs: staged, available or scheduled", self.depth.clone());
    }

    fn pair(&self, tenant: &str, queue: &str) -> TenantAndQueue {
        let tenant_id = self.labels.0.of(tenant);
        let queue = self.labels.1.of(tenant_id, queue);
        TenantAndQueue { tenant_id: tenant_id.to_owned(), queue: queue.to_owned() }
    }

    /// Counts an enqueued job of a tenant.
    pub fn enqueued(&self, tenant: Option<&str>, queue: &str) {
        tenant.into_iter().for_each(|tenant| _ = self.enqueued.get_or_create(&self.pair(tenant, queue)).inc());
    }

    /// Counts a completed job of a tenant.
    pub fn processed(&self, tenant: Option<&str>, queue: &str) {
        tenant.into_iter().for_each(|tenant| _ = self.processed.get_or_create(&self.pair(tenant, queue)).inc());
    }

    /// Counts a failed attempt of a tenant's job.
    pub fn failed(&self, tenant: Option<&str>, queue: &str) {
        tenant.into_iter().for_each(|tenant| _ = self.failed.get_or_create(&self.pair(tenant, queue)).inc());
    }

    /// Removes the series of tenants that lost their labels. If a tenant gets its label back, its
    /// counters restart at 0.
    fn forget(&self, tenants: &[String]) {
        for tenant in tenants {
            let other = super::labels::OTHER.to_owned();
            for queue in self.labels.1.remove(tenant).into_iter().chain([other]) {
                let labels = TenantAndQueue { tenant_id: tenant.clone(), queue };
                [&self.enqueued, &self.processed, &self.failed].iter().for_each(|family| _ = family.remove(&labels));
            }
        }
        for (tenant, limit, action) in tenants.iter().flat_map(|tenant| {
            LIMITS.iter().flat_map(move |limit| ACTIONS.iter().map(move |action| (tenant, *limit, *action)))
        }) {
            self.exceeded.remove(&TenantAndLimit { tenant_id: tenant.clone(), limit: limit.to_owned(), action });
        }
    }

    /// Counts a tenant that reached a limit, with the reaction.
    pub fn exceeded(&self, tenant: &str, limit: &str, action: &'static str) {
        let tenant_id = self.labels.0.of(tenant).to_owned();
        self.exceeded.get_or_create(&TenantAndLimit { tenant_id, limit: limit.to_owned(), action }).inc();
    }

    /// Sets the numbers of active and waiting jobs per tenant; `all` is the total. The tenants with
    /// most jobs keep their labels.
    pub fn levels(&self, tenants: &[TenantLevel], all: (u64, u64)) {
        let mut busiest: Vec<&TenantLevel> = tenants.iter().collect();
        busiest.sort_by_key(|level| std::cmp::Reverse(level.active + level.depth));
        self.forget(&self.labels.0.prefer(busiest.iter().map(|level| level.tenant.as_str())));
        let mut levels: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut rest = all;
        for TenantLevel { tenant, active, depth } in tenants {
            let label = self.labels.0.of(tenant);
            if label != super::labels::OTHER {
                levels.insert(label, (*active, *depth));
                rest = (rest.0.saturating_sub(*active), rest.1.saturating_sub(*depth));
            }
        }
        if rest != (0, 0) {
            levels.insert(super::labels::OTHER, rest);
        }
        // A poisoned lock means that another thread panicked while holding it; the set is
        // consistent nevertheless.
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let gone = std::mem::take(&mut *shown);
        for (tenant, (active, depth)) in levels {
            let name = TenantName { tenant_id: tenant.to_owned() };
            self.active.get_or_create(&name).set(active as i64);
            self.depth.get_or_create(&name).set(depth as i64);
            shown.insert(tenant.to_owned());
        }
        for tenant in gone.difference(&shown) {
            let name = TenantName { tenant_id: tenant.clone() };
            self.active.remove(&name);
            self.depth.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn so_many_tenants_have_labels_and_all_others_one_together() {
        let (metrics, mut registry) = (TenantMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        let shown = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).expect("a String takes everything");
            text
        };
        for number in 0..MOST_TENANTS + 2 {
            metrics.enqueued(Some(&format!("t{number}")), "q");
        }
        metrics.enqueued(None, "q");
        metrics.exceeded("t0", "max_queue_depth", "rejected");
        metrics.levels(&[TenantLevel { tenant: "t0".to_owned(), active: 1, depth: 2 }], (4, 9));
        let text = shown(&registry);
        for line in [
            "ojs_tenant_jobs_enqueued_total{tenant_id=\"t0\",queue=\"q\"} 1",
            "ojs_tenant_jobs_enqueued_total{tenant_id=\"_other\",queue=\"q\"} 2",
            "ojs_tenant_limit_exceeded_total{tenant_id=\"t0\",limit=\"max_queue_depth\",action=\"rejected\"} 1",
            "ojs_tenant_jobs_active{tenant_id=\"t0\"} 1",
            "ojs_tenant_queue_depth{tenant_id=\"_other\"} 7",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        metrics.levels(&[], (0, 0));
        assert!(!shown(&registry).contains("ojs_tenant_jobs_active{"));

        // A new tenant with more jobs than others gets a label, and a tenant without jobs loses it.
        metrics.levels(&[TenantLevel { tenant: "late".to_owned(), active: 1, depth: 100 }], (1, 100));
        metrics.enqueued(Some("late"), "q");
        let text = shown(&registry);
        for line in ["ojs_tenant_queue_depth{tenant_id=\"late\"} 100", "{tenant_id=\"late\",queue=\"q\"} 1"] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert_eq!(text.matches("ojs_tenant_jobs_enqueued_total{").count(), MOST_TENANTS + 1);
    }
}
