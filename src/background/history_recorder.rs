//! Records a sample of rules, queues and tenants after each interval, for charts of the last day.

use crate::domain::job::State;
use crate::planner::{RuleStats, RunnerRegistry};
use crate::store::{EndedJobs, Error, HistorySample, INTERVAL_MS, QueueSample, Store};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Interval at which the recorder checks if an interval has ended.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Most rules, queues and tenants of a sample, which bounds its size and its cost.
const MOST_RULES: usize = 50;
const MOST_QUEUES: usize = 50;
const MOST_TENANTS: usize = 50;

/// Records history. All processes try; the first one that finishes a sample stores it.
pub struct HistoryRecorder {
    registry: RunnerRegistry,
}

impl HistoryRecorder {
    pub fn new(registry: RunnerRegistry) -> Self {
        HistoryRecorder { registry }
    }

    /// Records until `stop`. Begins a moment after the start, which other work should not wait for.
    pub async fn run(self, stop: CancellationToken) {
        let mut timer = tokio::time::interval_at(Instant::now() + CHECK_EVERY, CHECK_EVERY);
        while stop.run_until_cancelled(timer.tick()).await.is_some() {
            if let Some(Err(error)) = stop.run_until_cancelled(self.record()).await {
                tracing::debug!(%error, "cannot record history; trying again");
            }
        }
    }

    /// Records the interval that ended last, unless that has been done. Figures such as the number
    /// of staged jobs are those of now, a moment after its end.
    pub async fn record(&self) -> Result<(), Error> {
        let store = self.registry.store();
        let at = (store.clock().now_ms().div_euclid(INTERVAL_MS) - 1) * INTERVAL_MS;
        if store.has_history_sample(at).await? {
            return Ok(());
        }
        let mut sample = HistorySample { at, ..HistorySample::default() };
        let known = self.registry.rules().known().await?;
        for name in known.names().take(MOST_RULES) {
            if let Some(stats) = RuleStats::read(&self.registry, name).await? {
                sample.rules.insert(name.to_owned(), stats.sample());
            }
        }
        self.add_queues(store, &mut sample).await?;
        if let Some((all, tenants)) = store.busiest_tenants(at, MOST_TENANTS).await? {
            (sample.all, sample.tenants) = (Some(all), tenants);
        }
        store.add_history_sample(&sample).await
    }

    /// Adds the queues with most jobs.
    async fn add_queues(&self, store: &Store, sample: &mut HistorySample) -> Result<(), Error> {
        let queues = store.queues().await?;
        let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
        let ended = store.ended_in_interval(sample.at, &names).await?;
        let now = store.clock().now_ms();
        let mut samples = Vec::new();
        for (name, EndedJobs { completed, discarded }) in names.iter().zip(ended) {
            let stats = store.queue_stats(name).await?;
            let count = |state| stats.count(state).unsigned_abs();
            let latency_ms = stats.oldest_available.map_or(0, |since| u64::try_from(now - since).unwrap_or(0));
            let (available, active) = (count(State::Available), count(State::Active));
            samples.push((*name, QueueSample { available, active, latency_ms, completed, discarded }));
        }
        let jobs = |queue: &QueueSample| queue.available + queue.active + queue.completed + queue.discarded;
        samples.sort_by_key(|(_, queue)| std::cmp::Reverse(jobs(queue)));
        let busiest = samples.into_iter().take(MOST_QUEUES).filter(|(_, queue)| jobs(queue) > 0);
        sample.queues = busiest.map(|(name, queue)| (name.to_owned(), queue)).collect();
        Ok(())
    }
}
