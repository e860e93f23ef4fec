//! Noisy neighbours on a real Redis: counting, detection, throttling and release.

mod api;
mod concurrency;
mod counting;
mod plan_rule;
mod shared_queue;
mod victims;
mod watcher;

use crate::support::{NOON, TestApp, TestRedis, json};
use fairgate::background::NoisyNeighborWatcher;
use fairgate::clock::Clock;
use fairgate::config::Config;
use fairgate::domain::noisy::{Action, NoisyNeighbors};
use fairgate::telemetry::NoiseMetrics;
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;

/// A passive fairgate with a watcher of noisy neighbours that runs when the test asks.
struct NeighborEnv {
    app: TestApp,
    config: NoisyNeighbors,
    neighbors: NoisyNeighborWatcher,
}

fn throttling() -> NoisyNeighbors {
    NoisyNeighbors { action: Action::WeightReduced, ..NoisyNeighbors::default() }
}

impl Deref for NeighborEnv {
    type Target = TestApp;

    fn deref(&self) -> &TestApp {
        &self.app
    }
}

impl NeighborEnv {
    async fn open() -> NeighborEnv {
        NeighborEnv::with(throttling(), |_| {}).await
    }

    async fn with(noisy: NoisyNeighbors, change: impl FnOnce(&mut Config)) -> NeighborEnv {
        NeighborEnv::on(Arc::new(TestRedis::start()), Clock::manual(NOON), noisy, change).await
    }

    /// Starts one on a shared Redis and clock.
    async fn on(
        redis: Arc<TestRedis>,
        clock: Clock,
        noisy: NoisyNeighbors,
        change: impl FnOnce(&mut Config),
    ) -> NeighborEnv {
        let app = TestApp::start_passive_on(redis, clock, |config| {
            config.noisy_neighbors = noisy.clone();
            change(config);
        })
        .await;
        let neighbors = NoisyNeighborWatcher::new(app.store().clone(), noisy.clone(), NoiseMetrics::default());
        neighbors.look("hand").await.unwrap(); // from here on it is counted
        NeighborEnv { app, config: noisy, neighbors }
    }

    /// Enqueues jobs of a tenant.
    async fn push(&self, tenant: &str, jobs: usize) -> Vec<String> {
        let job = json!({"type": "t.job", "args": [], "meta": {"tenant_id": tenant}, "options": {"queue": "q"}});
        self.enqueue_all(vec![job; jobs]).await
    }

    /// Enqueues jobs of five tenants; the first has far more than the others.
    async fn flood(&self) {
        self.push("loud", 2000).await;
        for tenant in ["a", "b", "c", "d"] {
            self.push(tenant, 40).await;
        }
    }

    /// Runs the watcher every five seconds for a time.
    async fn look_for(&self, seconds: i64) {
        for _ in 0..seconds / 5 {
            self.clock.advance(5 * SECOND);
            self.neighbors.look("hand").await.unwrap();
        }
    }

    /// Fetches and completes jobs; returns the number of jobs per tenant, by name.
    async fn work(&self, most: usize) -> Vec<(String, usize)> {
        let fetched = self.client.fetch("q", most).await;
        for id in fetched.job_ids() {
            self.client.ack(&id).await.expect(200);
        }
        let jobs = fetched.at("/jobs").as_array().cloned().unwrap_or_default();
        let mut tenants: Vec<String> =
            jobs.iter().map(|job| job["meta"]["tenant_id"].as_str().unwrap_or_default().to_owned()).collect();
        tenants.sort();
        tenants.chunk_by(|left, right| left == right).map(|jobs| (jobs[0].clone(), jobs.len())).collect()
    }

    /// Jobs of a tenant: pending, available, scheduled, retryable, active.
    async fn jobs(&self, tenant: &str) -> [u64; 5] {
        let jobs = self.store().tenant_jobs(&[tenant]).await.unwrap()[0];
        [jobs.pending, jobs.available, jobs.scheduled, jobs.retryable, jobs.active]
    }

    /// The ids of leased jobs.
    async fn leased(&self) -> Vec<String> {
        self.redis.command(&["ZRANGE", "fg:{default}:leases", "0", "-1"]).await
    }

    /// All events about throttles, oldest first: type and data.
    async fn throttle_events(&self) -> Vec<(String, Value)> {
        self.stored_events("tenant.*").await
    }

    async fn kinds(&self) -> Vec<String> {
        self.throttle_events().await.into_iter().map(|(kind, _)| kind).collect()
    }
}

fn shares(shares: &[(&str, usize)]) -> Vec<(String, usize)> {
    shares.iter().map(|(tenant, jobs)| ((*tenant).to_owned(), *jobs)).collect()
}
