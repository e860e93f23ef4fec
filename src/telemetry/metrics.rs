//! All metrics of the process, in Prometheus formats. Handles are cheap to clone; the registry is
//! encoded on request.

use super::{
    DispatchMetrics, Format, LabelPairs, Labels, NoiseMetrics, PlannerMetrics, ScalingMetrics, ShadowMetrics,
    SidekiqMetrics, TenantMetrics, Waiting, WeightsMetrics, exposition,
};
use crate::domain::job::State;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of queues, types and rules with series of their own.
pub(super) const MOST_NAMES: usize = 200;

/// Maximum number of pairs of queue and type, or of queue and pool, with series of their own. A
/// pair of queue and type has 34 series.
pub(super) const MOST_PAIRS: usize = 1000;

pub(super) const LATENCIES: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
const DURATIONS: [f64; 12] = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];
pub(super) const QUEUE_TIMES: [f64; 11] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0];

/// A gauge for fractions.
pub(super) type Level = Gauge<f64, AtomicU64>;

pub(super) type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallName {
    call: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct JobName {
    queue: String,
    r#type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Depth {
    queue: String,
    state: &'static str,
}

/// All metrics of the process.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    pub http: HttpMetrics,
    pub store: StoreMetrics,
    pub jobs: JobMetrics,
    pub weights: WeightsMetrics,
    pub planner: PlannerMetrics,
    pub shadow: ShadowMetrics,
    pub noise: NoiseMetrics,
    pub sidekiq: SidekiqMetrics,
    pub scaling: ScalingMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (http, store, jobs) = (HttpMetrics::default(), StoreMetrics::default(), JobMetrics::default());
        http.register(&mut registry);
        store.register(&mut registry);
        jobs.register(&mut registry);
        let weights = WeightsMetrics::default();
        weights.register(&mut registry);
        let planner = PlannerMetrics::default();
        planner.register(&mut registry);
        let shadow = ShadowMetrics::default();
        shadow.register(&mut registry);
        let noise = NoiseMetrics::default();
        noise.register(&mut registry);
        let sidekiq = SidekiqMetrics::default();
        sidekiq.register(&mut registry);
        let scaling = ScalingMetrics::default();
        scaling.register(&mut registry);
        Metrics { registry: Arc::new(registry), http, store, jobs, weights, planner, shadow, noise, sidekiq, scaling }
    }
}

impl Metrics {
    /// Encodes all metrics.
    pub fn encode(&self, format: Format) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        _ = encode(&mut text, &self.registry);
        match format {
            Format::OpenMetrics => text,
            Format::Text => exposition::to_text(&text),
        }
    }
}

/// HTTP requests by route and status. A route is a pattern such as `/ojs/v1/jobs/{id}`, never a
/// path chosen by a client.
#[derive(Clone)]
pub struct HttpMetrics {
    requests: Family<Route, Counter>,
    seconds: Histograms<CallName>,
    connections: Gauge,
    closed: Family<Reason, Counter>,
    long_polls: Waiting,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let seconds = Histograms::new_with_constructor(|| Histogram::new(LATENCIES));
        HttpMetrics {
            requests: Family::default(),
            seconds,
            connections: Gauge::default(),
            closed: Family::default(),
            long_polls: Waiting::default(),
        }
    }
}

impl HttpMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("fairgate_http_requests", "Requests answered", self.requests.clone());
        registry.register("fairgate_http_request_seconds", "Time to answer a request, by method", self.seconds.clone());
        registry.register("fairgate_http_connections", "Open connections", self.connections.clone());
        let closed = "Connections closed because of the server option given as the reason";
        registry.register("fairgate_http_connections_closed", closed, self.closed.clone());
        self.long_polls.register("fairgate_long_polls", "Fetches waiting for a job", registry);
    }

    /// Records an answered request.
    pub fn observe(&self, method: &'static str, route: &'static str, status: u16, took: Duration) {
        let route = Route { method, route, status };
        self.requests.get_or_create(&route).inc();
        self.seconds.get_or_create(&CallName { call: method }).observe(took.as_secs_f64());
    }

    /// Gauge of open connections.
    pub fn connections(&self) -> &Gauge {
        &self.connections
    }

    /// Counts a connection that was closed because of the option of `[server]` named by `reason`.
    pub fn closed(&self, reason: &'static str) {
        self.closed.get_or_create(&Reason { reason }).inc();
    }

    /// Gauge of fetches that are waiting for a job.
    pub fn long_polls(&self) -> &Waiting {
        &self.long_polls
    }
}

/// Calls to Redis by script.
#[derive(Clone)]
pub struct StoreMetrics {
    calls: Family<CallName, Counter>,
    errors: Family<CallName, Counter>,
    seconds: Histograms<CallName>,
    groups: Histograms<CallName>,
    /// Metrics of dispatch, which only the answers of scripts contain.
    pub dispatch: DispatchMetrics,
    /// Metrics of tenants, which only the answers of scripts contain.
    pub tenants: TenantMetrics,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        StoreMetrics {
            calls: Family::default(),
            errors: Family::default(),
            seconds: Histograms::new_with_constructor(|| Histogram::new(LATENCIES)),
            groups: Histograms::new_with_constructor(|| Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])),
            dispatch: DispatchMetrics::default(),
            tenants: TenantMetrics::default(),
        }
    }
}

impl StoreMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("fairgate_store_calls", "Calls to Redis", self.calls.clone());
        registry.register("fairgate_store_errors", "Calls to Redis that failed", self.errors.clone());
        registry.register("fairgate_store_call_seconds", "Time that a call to Redis took", self.seconds.clone());
        registry.register("fairgate_store_group_size", "Requests per group commit", self.groups.clone());
        self.dispatch.register(registry);
        self.tenants.register(registry);
    }

    /// Records a call.
    pub fn observe(&self, call: &'static str, took: Duration, succeeded: bool) {
        let name = CallName { call };
        self.calls.get_or_create(&name).inc();
        self.seconds.get_or_create(&name).observe(took.as_secs_f64());
        if !succeeded {
            self.errors.get_or_create(&name).inc();
        }
    }

    /// Records the number of requests in a group commit.
    pub fn group(&self, call: &'static str, size: usize) {
        self.groups.get_or_create(&CallName { call }).observe(size as f64);
    }
}

/// Metrics of jobs by queue and type, named after the OJS specification.
#[derive(Clone)]
pub struct JobMetrics {
    labels: Arc<(Labels, LabelPairs)>,
    /// Labels that currently have depths.
    shown: Arc<Mutex<HashSet<Depth>>>,
    enqueued: Family<JobName, Counter>,
    completed: Family<JobName, Counter>,
    failed: Family<JobName, Counter>,
    retried: Family<JobName, Counter>,
    cancelled: Family<JobName, Counter>,
    duration: Histograms<JobName>,
    queue_time: Histograms<JobName>,
    depth: Family<Depth, Gauge>,
    workers: Gauge,
}

impl Default for JobMetrics {
    fn default() -> Self {
        JobMetrics {
            labels: Arc::new((Labels::new(MOST_NAMES), LabelPairs::new(MOST_PAIRS))),
            shown: Arc::default(),
            enqueued: Family::default(),
            completed: Family::default(),
            failed: Family::default(),
            retried: Family::default(),
            cancelled: Family::default(),
            duration: Histograms::new_with_constructor(|| Histogram::new(DURATIONS)),
            queue_time: Histograms::new_with_constructor(|| Histogram::new(QUEUE_TIMES)),
            depth: Family::default(),
            workers: Gauge::default(),
        }
    }
}

impl JobMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("ojs_job_enqueued", "Jobs accepted by this process", self.enqueued.clone());
        registry.register("ojs_job_completed", "Jobs acked through this process", self.completed.clone());
        registry.register("ojs_job_failed", "Jobs discarded through this process", self.failed.clone());
        registry.register("ojs_job_retried", "Failed attempts that will be retried", self.retried.clone());
        registry.register("ojs_job_cancelled", "Jobs cancelled through this process", self.cancelled.clone());
        registry.register("ojs_job_duration_seconds", "Time from fetch to ack", self.duration.clone());
        registry.register("ojs_job_queue_time_seconds", "Time from available to fetch", self.queue_time.clone());
        registry.register("ojs_queue_depth", "Jobs in the store by queue and state", self.depth.clone());
        registry.register("ojs_workers_active", "Workers with a recent heartbeat", self.workers.clone());
    }

    fn name(&self, queue: &str, kind: &str) -> JobName {
        let queue = self.labels.0.of(queue);
        JobName { queue: queue.to_owned(), r#type: self.labels.1.of(queue, kind).to_owned() }
    }

    /// Counts an enqueued job.
    pub fn enqueued(&self, queue: &str, kind: &str) {
        self.enqueued.get_or_create(&self.name(queue, kind)).inc();
    }

    /// Records the start of a job that waited for `waited_ms`.
    pub fn started(&self, queue: &str, kind: &str, waited_ms: i64) {
        self.queue_time.get_or_create(&self.name(queue, kind)).observe(waited_ms.max(0) as f64 / 1e3);
    }

    /// Records a completed job that ran for `ran_ms`.
    pub fn completed(&self, queue: &str, kind: &str, ran_ms: i64) {
        let name = self.name(queue, kind);
        self.completed.get_or_create(&name).inc();
        self.duration.get_or_create(&name).observe(ran_ms.max(0) as f64 / 1e3);
    }

    /// Counts a discarded job.
    pub fn discarded(&self, queue: &str, kind: &str) {
        self.failed.get_or_create(&self.name(queue, kind)).inc();
    }

    /// Counts a failed attempt that will be retried.
    pub fn retried(&self, queue: &str, kind: &str) {
        self.retried.get_or_create(&self.name(queue, kind)).inc();
    }

    /// Counts a cancelled job.
    pub fn cancelled(&self, queue: &str, kind: &str) {
        self.cancelled.get_or_create(&self.name(queue, kind)).inc();
    }

    /// Sets the number of jobs per queue and state. Removes the levels of queues that are not
    /// listed.
    pub fn depths(&self, queues: &[(String, BTreeMap<State, i64>)]) {
        let mut sums: BTreeMap<(&str, State), i64> = BTreeMap::new();
        for (queue, counts) in queues {
            // Queues without a series of their own are summed.
            let queue = self.labels.0.of(queue);
            counts.iter().for_each(|(state, jobs)| *sums.entry((queue, *state)).or_default() += jobs);
        }
        let mut now = HashSet::new();
        for ((queue, state), jobs) in sums {
            let label = Depth { queue: queue.to_owned(), state: state.name() };
            self.depth.get_or_create(&label).set(jobs);
            now.insert(label);
        }
        // A poisoned lock means that another thread panicked while holding it; the set is
        // consistent nevertheless.
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shown.difference(&now).for_each(|label| _ = self.depth.remove(label));
        *shown = now;
    }

    /// Sets the number of active workers.
    pub fn workers(&self, workers: u64) {
        self.workers.set(workers as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the samples of all metrics.
    fn samples(metrics: &Metrics) -> Vec<String> {
        let text = metrics.encode(Format::Text);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn series_are_bounded_by_the_product_of_their_labels() {
        let metrics = Metrics::default();
        for (queue, other) in (0..MOST_NAMES).flat_map(|queue| (0..MOST_NAMES).map(move |other| (queue, other))) {
            let (queue, other) = (format!("q{queue}"), format!("o{other}"));
            metrics.jobs.enqueued(&queue, &other);
            metrics.jobs.started(&queue, &other, 1);
            metrics.jobs.completed(&queue, &other, 1);
            metrics.store.dispatch.dispatched(&queue, Some(&other), 1);
            metrics.planner.promoted(&queue, &other, 1);
        }
        let samples = samples(&metrics);
        assert!(samples.len() < 50_000, "{} samples", samples.len());
        for (family, most) in [
            ("ojs_job_enqueued_total{", MOST_PAIRS + MOST_NAMES),
            ("ojs_job_duration_seconds_count{", MOST_PAIRS + MOST_NAMES),
            ("ojs_scheduling_dispatch_total{", MOST_PAIRS + MOST_NAMES),
            ("fairgate_planner_promoted_total{", 5000 + MOST_NAMES),
        ] {
            let count = samples.iter().filter(|sample| sample.starts_with(family)).count();
            assert!((MOST_PAIRS..=most).contains(&count), "{count} of {family}");
        }
        let expected = format!("ojs_job_enqueued_total{{queue=\"q199\",type=\"_other\"}} {MOST_NAMES}");
        assert!(samples.contains(&expected), "what has no pair of its own is counted by its queue");
    }

    #[test]
    fn a_queue_that_is_gone_has_no_depth() {
        let metrics = Metrics::default();
        let depths = |queues: &[&str]| {
            let counts = BTreeMap::from([(State::Available, 2)]);
            let queues: Vec<_> = queues.iter().map(|queue| ((*queue).to_owned(), counts.clone())).collect();
            metrics.jobs.depths(&queues);
        };
        depths(&["a", "b"]);
        depths(&["b"]);
        let samples = samples(&metrics);
        let of_depth: Vec<&String> = samples.iter().filter(|sample| sample.starts_with("ojs_queue_depth")).collect();
        assert_eq!(of_depth, ["ojs_queue_depth{queue=\"b\",state=\"available\"} 2"]);
    }
}
