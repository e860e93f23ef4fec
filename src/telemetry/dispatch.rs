//! Metrics of dispatch, named after the OJS specifications of fair scheduling and rate limiting.

use super::metrics::{Histograms, Level, MOST_NAMES, MOST_PAIRS, QUEUE_TIMES};
use super::{LabelPairs, Labels};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

/// Maximum number of limits with series of their own. All others share one.
pub const MOST_KEYS: usize = 200;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueAndPool {
    queue: String,
    pool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueName {
    queue: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PoolName {
    pool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KeyName {
    key: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KeyAndStrategy {
    key: String,
    strategy: String,
}

/// Levels of dispatch at the time of a scrape.
#[derive(Clone, Debug, Default)]
pub struct DispatchLevels<'a> {
    /// Queues and their shares of the last minute's dispatches, 0 to 1.
    pub queues: Vec<(&'a str, f64)>,
    /// Pools with a concurrency limit.
    pub pools: Vec<PoolLevel<'a>>,
    pub limits: Vec<LimitLevel<'a>>,
}

/// Usage of a pool with a concurrency limit.
#[derive(Clone, Copy, Debug)]
pub struct PoolLevel<'a> {
    pub name: &'a str,
    pub active: u64,
    /// The pool's concurrency limit.
    pub most: u64,
}

/// Usage of a limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitLevel<'a> {
    pub key: &'a str,
    pub active: u64,
    /// Number of jobs that the limit blocks.
    pub waiting: u64,
}

/// Labels that currently have levels.
#[derive(Debug, Default)]
struct Shown {
    queues: HashSet<String>,
    pools: HashSet<String>,
    keys: HashSet<String>,
}

/// Metrics of dispatch. Counters belong to this process; levels reflect the store at the last
/// reading.
#[derive(Clone)]
pub struct DispatchMetrics {
    labels: Arc<(Labels, Labels, Labels)>,
    pairs: Arc<LabelPairs>,
    shown: Arc<Mutex<Shown>>,
    dispatched: Family<QueueAndPool, Counter>,
    ratio: Family<QueueName, Level>,
    waited: Histograms<QueueName>,
    utilization: Family<PoolName, Level>,
    starved: Family<QueueName, Counter>,
    active: Family<KeyName, Gauge>,
    waiting: Family<KeyName, Gauge>,
    exceeded: Family<KeyAndStrategy, Counter>,
    held: Histograms<KeyName>,
    drift: Gauge,
    dead_letters: Gauge,
}

impl Default for DispatchMetrics {
    fn default() -> Self {
        DispatchMetrics {
            labels: Arc::new((Labels::new(MOST_NAMES), Labels::new(MOST_NAMES), Labels::new(MOST_KEYS))),
            pairs: Arc::new(LabelPairs::new(MOST_PAIRS)),
            shown: Arc::default(),
            dispatched: Family::default(),
            ratio: Family::default(),
            waited: Histograms::new_with_constructor(|| Histogram::new(QUEUE_TIMES)),
            utilization: Family::default(),
            starved: Family::default(),
            active: Family::default(),
            waiting: Family::default(),
            exceeded: Family::default(),
            held: Histograms::new_with_constructor(|| Histogram::new(QUEUE_TIMES)),
            drift: Gauge::default(),
            dead_letters: Gauge::default(),
        }
    }
}

impl DispatchMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("ojs_scheduling_dispatch", "Jobs dispatched by this process", self.dispatched.clone());
        registry.register(
            "ojs_scheduling_dispatch_ratio",
            "Share of a queue in the dispatches of the last minute",
            self.ratio.clone(),
        );
        registry.register(
            "ojs_scheduling_queue_wait_duration",
            "Seconds from available to dispatched",
            self.waited.clone(),
        );
        registry.register(
            "ojs_scheduling_pool_utilization",
            "Active jobs divided by the pool's concurrency",
            self.utilization.clone(),
        );
        registry.register("ojs_scheduling_starvation_events", "Times that a queue was starved", self.starved.clone());
        registry.register("ojs_rate_limit_active", "Active jobs that count against a limit", self.active.clone());
        registry.register("ojs_rate_limit_waiting", "Available jobs that a limit blocks", self.waiting.clone());
        registry.register("ojs_rate_limit_exceeded", "Times that a limit was exceeded", self.exceeded.clone());
        registry.register(
            "ojs_rate_limit_wait_duration",
            "Seconds for which a limit delayed the start of a job",
            self.held.clone(),
        );
        registry.register("fairgate_drift", "Job counts that disagree with the leases", self.drift.clone());
        registry.register("fairgate_dead_letters", "Jobs in the dead letter", self.dead_letters.clone());
    }

    /// Records the dispatch of a job that waited for `waited_ms`.
    pub fn dispatched(&self, queue: &str, pool: Option<&str>, waited_ms: i64) {
        let queue = self.labels.0.of(queue);
        let pool = self.pairs.of(queue, self.labels.1.of(pool.unwrap_or(""))).to_owned();
        let queue = queue.to_owned();
        self.waited.get_or_create(&QueueName { queue: queue.clone() }).observe(waited_ms.max(0) as f64 / 1e3);
        self.dispatched.get_or_create(&QueueAndPool { queue, pool }).inc();
    }

    /// Counts a job or request that a limit stopped.
    pub fn exceeded(&self, key: &str, strategy: &str) {
        let key = self.labels.2.of(key).to_owned();
        self.exceeded.get_or_create(&KeyAndStrategy { key, strategy: strategy.to_owned() }).inc();
    }

    /// Records the start of a job that a limit delayed by `waited_ms`.
    pub fn released(&self, key: &str, waited_ms: u64) {
        let key = self.labels.2.of(key).to_owned();
        self.held.get_or_create(&KeyName { key }).observe(waited_ms as f64 / 1e3);
    }

    /// Counts a starved queue.
    pub fn starved(&self, queue: &str) {
        self.starved.get_or_create(&QueueName { queue: self.labels.0.of(queue).to_owned() }).inc();
    }

    /// Sets all levels. Removes those of queues, pools and limits that no longer exist.
    pub fn levels(&self, now: &DispatchLevels<'_>) {
        // Names without a series of their own are summed.
        let mut ratios: BTreeMap<&str, f64> = BTreeMap::new();
        for (queue, ratio) in &now.queues {
            *ratios.entry(self.labels.0.of(queue)).or_default() += ratio;
        }
        let mut pools: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for PoolLevel { name, active, most } in &now.pools {
            let used = pools.entry(self.labels.1.of(name)).or_default();
            *used = (used.0 + active, used.1 + most);
        }
        let mut keys: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for LimitLevel { key, active, waiting } in &now.limits {
            let used = keys.entry(self.labels.2.of(key)).or_default();
            *used = (used.0 + active, used.1 + waiting);
        }
        // A poisoned lock means that another thread panicked while holding it; the sets are
        // consistent nevertheless.
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let gone = std::mem::take(&mut *shown);
        for (queue, ratio) in ratios {
            self.ratio.get_or_create(&QueueName { queue: queue.to_owned() }).set(ratio);
            shown.queues.insert(queue.to_owned());
        }
        for (pool, (active, most)) in pools {
            let utilization = active as f64 / most.max(1) as f64;
            self.utilization.get_or_create(&PoolName { pool: pool.to_owned() }).set(utilization);
            shown.pools.insert(pool.to_owned());
        }
        for (key, (active, waiting)) in keys {
            let name = KeyName { key: key.to_owned() };
            self.active.get_or_create(&name).set(active as i64);
            self.waiting.get_or_create(&name).set(waiting as i64);
            shown.keys.insert(key.to_owned());
        }
        self.forget(&gone, &shown);
    }

    fn forget(&self, gone: &Shown, shown: &Shown) {
        for queue in gone.queues.difference(&shown.queues) {
            self.ratio.remove(&QueueName { queue: queue.clone() });
        }
        for pool in gone.pools.difference(&shown.pools) {
            self.utilization.remove(&PoolName { pool: pool.clone() });
        }
        for key in gone.keys.difference(&shown.keys) {
            let name = KeyName { key: key.clone() };
            self.active.remove(&name);
            self.waiting.remove(&name);
        }
    }

    /// Sets the number of job counts that disagree with the leases.
    pub fn drift(&self, differences: u64) {
        self.drift.set(differences as i64);
    }

    /// Sets the number of dead letters.
    pub fn dead_letters(&self, jobs: u64) {
        self.dead_letters.set(jobs as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn what_is_gone_has_no_levels_and_what_has_no_label_is_shown_together() {
        let (metrics, mut registry) = (DispatchMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        let shown = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).expect("a String takes everything");
            text
        };
        let names: Vec<String> = (0..MOST_KEYS + 2).map(|number| format!("k{number}")).collect();
        let pools = vec![PoolLevel { name: "p", active: 1, most: 4 }];
        let mut now = DispatchLevels { queues: vec![("q", 0.5)], pools, ..Default::default() };
        now.limits = names.iter().map(|name| LimitLevel { key: name, active: 2, waiting: 3 }).collect();
        metrics.levels(&now);
        let text = shown(&registry);
        for line in [
            "ojs_scheduling_dispatch_ratio{queue=\"q\"} 0.5",
            "ojs_scheduling_pool_utilization{pool=\"p\"} 0.25",
            "ojs_rate_limit_active{key=\"k0\"} 2",
            "ojs_rate_limit_waiting{key=\"_other\"} 6",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let limits = vec![LimitLevel { key: "k1", active: 0, waiting: 0 }];
        metrics.levels(&DispatchLevels { limits, ..Default::default() });
        let text = shown(&registry);
        for gone in ["queue=\"q\"", "pool=\"p\"", "k0", "_other"] {
            assert!(!text.contains(gone), "{gone} is still in\n{text}");
        }
        assert!(text.contains("ojs_rate_limit_active{key=\"k1\"} 0"), "{text}");
    }
}
