//! Dispatch, named as the OJS texts on fair scheduling and rate limiting name it.

use super::Labels;
use super::metrics::{Histograms, MOST_NAMES, QUEUE_TIMES};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Limits that have series of their own; all others are counted together.
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

type Level = Gauge<f64, AtomicU64>;

/// What dispatch does. Counters are of this process; levels are of the store, as of the last reading.
#[derive(Clone)]
pub struct DispatchMetrics {
    labels: Arc<(Labels, Labels, Labels)>,
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
}

impl Default for DispatchMetrics {
    fn default() -> Self {
        DispatchMetrics {
            labels: Arc::new((Labels::new(MOST_NAMES), Labels::new(MOST_NAMES), Labels::new(MOST_KEYS))),
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
        }
    }
}

impl DispatchMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("ojs_scheduling_dispatch", "Jobs handed out by this process", self.dispatched.clone());
        registry.register("ojs_scheduling_dispatch_ratio", "A queue's share of the last minute", self.ratio.clone());
        registry.register(
            "ojs_scheduling_queue_wait_duration",
            "Seconds from available to handed out",
            self.waited.clone(),
        );
        registry.register("ojs_scheduling_pool_utilization", "Active jobs by concurrency", self.utilization.clone());
        registry.register(
            "ojs_scheduling_starvation_events",
            "Times that a queue was found starved",
            self.starved.clone(),
        );
        registry.register("ojs_rate_limit_active", "Leased jobs of a limit", self.active.clone());
        registry.register("ojs_rate_limit_waiting", "Available jobs that a limit holds back", self.waiting.clone());
        registry.register("ojs_rate_limit_exceeded", "Times that a limit was hit", self.exceeded.clone());
        registry.register("ojs_rate_limit_wait_duration", "Seconds that jobs waited for a limit", self.held.clone());
        registry.register("fairgate_drift", "Counts that differ from the leases", self.drift.clone());
    }

    /// A job was handed out after it had waited.
    pub fn dispatched(&self, queue: &str, pool: Option<&str>, waited_ms: i64) {
        let queue = self.labels.0.of(queue).to_owned();
        let pool = self.labels.1.of(pool.unwrap_or("")).to_owned();
        self.waited.get_or_create(&QueueName { queue: queue.clone() }).observe(waited_ms.max(0) as f64 / 1e3);
        self.dispatched.get_or_create(&QueueAndPool { queue, pool }).inc();
    }

    /// A limit stopped somebody.
    pub fn exceeded(&self, key: &str, strategy: &str) {
        let key = self.labels.2.of(key).to_owned();
        self.exceeded.get_or_create(&KeyAndStrategy { key, strategy: strategy.to_owned() }).inc();
    }

    /// A limit let somebody go who had waited for it.
    pub fn released(&self, key: &str, waited_ms: u64) {
        let key = self.labels.2.of(key).to_owned();
        self.held.get_or_create(&KeyName { key }).observe(waited_ms as f64 / 1e3);
    }

    /// A queue was found starved.
    pub fn starved(&self, queue: &str) {
        self.starved.get_or_create(&QueueName { queue: self.labels.0.of(queue).to_owned() }).inc();
    }

    /// A queue's share of all dispatches of the last minute.
    pub fn ratio(&self, queue: &str, ratio: f64) {
        self.ratio.get_or_create(&QueueName { queue: self.labels.0.of(queue).to_owned() }).set(ratio);
    }

    /// How much of a pool's concurrency is in use.
    pub fn utilization(&self, pool: &str, utilization: f64) {
        self.utilization.get_or_create(&PoolName { pool: self.labels.1.of(pool).to_owned() }).set(utilization);
    }

    /// What a limit holds, and holds back.
    pub fn limit(&self, key: &str, active: u64, waiting: u64) {
        let key = KeyName { key: self.labels.2.of(key).to_owned() };
        self.active.get_or_create(&key).set(active as i64);
        self.waiting.get_or_create(&key).set(waiting as i64);
    }

    /// Counts that differ from what the leases say.
    pub fn drift(&self, differences: u64) {
        self.drift.set(differences as i64);
    }
}
