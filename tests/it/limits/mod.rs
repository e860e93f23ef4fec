//! Limits at dispatch: which jobs may start, which wait, and when they continue.

mod audit;
mod concurrency;
mod cost;
mod drops;
mod events;
mod headers;
mod holds;
mod model;
mod overrides;
mod planned;
mod rate;
mod reference;
mod reschedule;
mod scopes;
mod several_limits;
mod skipping;
mod slots;
mod tenants;
mod throttle;
mod wait_times;
mod waiting;

use crate::support::{NOON, TestApp, json};
use fairgate::config::Config;
use fairgate::domain::job::Record;
use fairgate::domain::limit::{LimitKey, LimitScope, Quota, Window};
use fairgate::store::{Ack, Fetch, LimitLayer, LimitState};
use serde_json::Value;
use std::ops::Deref;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;

/// A passive fairgate, and shorthands for limits.
struct LimitsEnv {
    app: TestApp,
}

impl Deref for LimitsEnv {
    type Target = TestApp;

    fn deref(&self) -> &TestApp {
        &self.app
    }
}

impl LimitsEnv {
    async fn open() -> LimitsEnv {
        LimitsEnv::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> LimitsEnv {
        LimitsEnv { app: TestApp::start_passive(change).await }
    }

    /// Enqueues a job under a limit.
    async fn push(&self, queue: &str, rate_limit: Value) -> String {
        self.push_at(queue, 0, rate_limit).await
    }

    async fn push_at(&self, queue: &str, priority: i32, rate_limit: Value) -> String {
        self.client.enqueue(job(queue, priority, rate_limit)).await
    }

    /// Enqueues a number of equal jobs.
    async fn push_many(&self, jobs: usize, queue: &str, rate_limit: Value) -> Vec<String> {
        self.enqueue_all(vec![job(queue, 0, rate_limit); jobs]).await
    }

    async fn fetch(&self, queue: &str, count: usize) -> Vec<String> {
        self.fetch_from(&[queue], count).await
    }

    async fn fetch_from(&self, queues: &[&str], count: usize) -> Vec<String> {
        self.fetch_as("w", queues, count).await.into_iter().map(|record| record.id).collect()
    }

    async fn fetch_as(&self, worker: &str, queues: &[&str], count: usize) -> Vec<Record> {
        self.store().fetch(request(worker, queues, count)).await.unwrap().deliver()
    }

    async fn ack(&self, id: &str) {
        let ack = Ack { job_id: id.to_owned(), worker: None, result: None, idempotency_key: None };
        self.store().ack(ack).await.unwrap();
    }

    async fn ack_all(&self, ids: &[String]) {
        for id in ids {
            self.ack(id).await;
        }
    }

    async fn limit(&self, key: &str) -> LimitState {
        self.store().limit(&limit_key(key)).await.unwrap().unwrap_or_else(|| panic!("no limit {key}"))
    }

    async fn set(&self, key: &str, layer: LimitLayer, quota: Quota, until: Option<i64>) {
        assert!(self.store().set_limit(&limit_key(key), layer, Some(&quota), until).await.unwrap());
    }

    async fn unset(&self, key: &str, layer: LimitLayer) -> bool {
        self.store().set_limit(&limit_key(key), layer, None, None).await.unwrap()
    }

    async fn state(&self, id: &str) -> String {
        self.client.state(id).await
    }

    async fn audit(&self) {
        audit::audit(&self.app).await;
    }
}

fn request(worker: &str, queues: &[&str], count: usize) -> Fetch {
    Fetch {
        worker: Some(worker.to_owned()),
        queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
        count,
        ..Fetch::default()
    }
}

fn job(queue: &str, priority: i32, rate_limit: Value) -> Value {
    let options = json!({"queue": queue, "priority": priority});
    let retry =
        json!({"max_attempts": 100, "initial_interval": "PT1S", "backoff_strategy": "constant", "jitter": false});
    json!({"type": "test.job", "args": [], "options": options, "retry": retry, "rate_limit": rate_limit})
}

fn concurrency(most: u32) -> Quota {
    Quota { concurrency: Some(most), ..Quota::default() }
}

fn rate(limit: u32, period: u64) -> Quota {
    Quota { rate: Some(Window { limit, period }), ..Quota::default() }
}

fn throttle(limit: u32, period: u64) -> Quota {
    Quota { throttle: Some(Window { limit, period }), ..Quota::default() }
}

/// Parses the shown name of a limit: of a queue, a type, or else a key.
fn limit_key(shown: &str) -> LimitKey {
    let server = [LimitScope::Queue, LimitScope::Type]
        .into_iter()
        .find(|scope| shown.starts_with(&format!("{}:", scope.name())));
    LimitKey::of(server.unwrap_or(LimitScope::Key), shown)
}
