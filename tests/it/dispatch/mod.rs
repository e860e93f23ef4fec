//! Dispatch: strategies, pools, starvation protection, and tenants that take turns.

mod at_most_once;
mod invariant;
mod plain;
mod pool_capacity;
mod pool_changes;
mod pool_members;
mod ratio;
mod records;
mod registered_strategies;
mod runtime_changes;
mod sharded;
mod starvation;
mod strategies;
mod survival;
mod tenant_differential;
mod tenant_filter;
mod tenant_limits;
mod tenants;
mod weighted;

use crate::support::{NOON, TestApp, TestRedis, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, PlanDefaults, policy_from_json, pool_from_json};
use fairgate::domain::job::Record;
use fairgate::domain::pool::Strategy;
use fairgate::domain::tenant::Weight;
use fairgate::rules::Rulebook;
use fairgate::store::{Ack, Error, Fetch, Heartbeat, QueueChoice};
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;

const SECOND: i64 = 1000;

/// A passive fairgate with a scheduling policy, and its rules as an administrator changes them.
struct DispatchEnv {
    app: TestApp,
    rules: Rulebook,
}

impl Deref for DispatchEnv {
    type Target = TestApp;

    fn deref(&self) -> &TestApp {
        &self.app
    }
}

impl DispatchEnv {
    /// Starts one with a policy in its configuration file.
    async fn open(policy: Value) -> DispatchEnv {
        DispatchEnv::open_on(&Arc::new(TestRedis::start()), Clock::manual(NOON), policy).await
    }

    /// Starts one on a given Redis and clock.
    async fn open_on(redis: &Arc<TestRedis>, clock: Clock, policy: Value) -> DispatchEnv {
        DispatchEnv::open_with(redis, clock, policy, |_| {}).await
    }

    /// Starts one with other settings as well.
    async fn open_with(
        redis: &Arc<TestRedis>,
        clock: Clock,
        policy: Value,
        change: impl FnOnce(&mut Config),
    ) -> DispatchEnv {
        let policy = policy_from_json(policy).expect("a policy");
        let (file, mut plan) = (policy.clone(), Vec::new());
        let app = TestApp::start_passive_on(Arc::clone(redis), clock, |config| {
            config.policy = file;
            change(config);
            plan = config.plan.clone();
        })
        .await;
        let rules = Rulebook::new(app.store().clone(), plan, policy, PlanDefaults::default());
        rules.start().await.expect("the rules");
        DispatchEnv { app, rules }
    }

    /// Sets a pool at run time, from the body of a PUT.
    async fn put_pool(&self, name: &str, pool: Value) {
        let pool = pool_from_json(Some(name), pool).expect("a pool");
        self.rules.put_pool(pool).await.expect("a pool that is consistent with the others");
    }

    /// Changes the global scheduling settings, from the body of a PUT.
    async fn put_scheduling(&self, change: Value) {
        self.rules.put_scheduling(&change).await.expect("a policy");
    }

    /// Enqueues plain jobs.
    async fn push(&self, queue: &str, jobs: usize) -> Vec<String> {
        self.enqueue_all(vec![job(queue, None, 0); jobs]).await
    }

    /// Enqueues jobs of tenants in queue `q`.
    async fn push_for(&self, tenants: &[(&str, usize)]) -> Vec<String> {
        let jobs = tenants.iter().flat_map(|(tenant, jobs)| vec![job("q", Some(tenant), 0); *jobs]);
        self.enqueue_all(jobs.collect()).await
    }

    async fn try_fetch(&self, fetch: Fetch) -> Result<Vec<Record>, Error> {
        Ok(self.store().fetch(fetch).await?.deliver())
    }

    async fn fetch(&self, fetch: Fetch) -> Vec<Record> {
        self.try_fetch(fetch).await.expect("an answer")
    }

    /// The queues of the fetched jobs in order, one letter each.
    async fn order(&self, fetch: Fetch) -> String {
        self.fetch(fetch).await.iter().map(|record| record.queue.as_str()).collect()
    }

    /// The tenants of the jobs fetched from queue `q`, in order.
    async fn turns(&self, count: usize) -> Vec<String> {
        self.fetch(from(&["q"], count)).await.iter().map(tenant_of).collect()
    }

    async fn ack(&self, record: &Record) {
        let ack = Ack { job_id: record.id.clone(), worker: None, result: None, idempotency_key: None };
        self.store().ack(ack).await.expect("an answer");
    }

    async fn beat(&self, worker: &str, pool: Option<&str>, registers: bool) -> Result<(), Error> {
        let fields = pool.map(|pool| ("pool", format!("\"{pool}\""))).into_iter().collect();
        let pool = pool.map(str::to_owned);
        let beat = Heartbeat { worker: worker.to_owned(), pool, registers, fields, ..Heartbeat::default() };
        self.store().heartbeat(&beat).await.map(drop)
    }

    /// Registers a worker with its concurrency.
    async fn declare(&self, worker: &str, concurrency: usize) {
        let fields = vec![("concurrency", concurrency.to_string())];
        let beat = Heartbeat { worker: worker.to_owned(), registers: true, fields, ..Heartbeat::default() };
        self.store().heartbeat(&beat).await.expect("an answer");
    }

    /// Active workers and jobs of a pool.
    async fn pool(&self, name: &str) -> (u64, u64) {
        let status = self.store().scheduling(&[name]).await.expect("a status").pools[0];
        (status.active_workers, status.active_jobs)
    }
}

fn job(queue: &str, tenant: Option<&str>, priority: i64) -> Value {
    let mut job = json!({"type": "test.job", "args": [], "options": {"queue": queue, "priority": priority}});
    if let Some(tenant) = tenant {
        job["meta"] = json!({"tenant_id": tenant});
    }
    job
}

/// A request without pool and strategy.
fn from(queues: &[&str], count: usize) -> Fetch {
    Fetch { queues: queues.iter().map(|queue| (*queue).to_owned()).collect(), count, ..Fetch::default() }
}

/// A request of a worker in a pool, for any of its queues.
fn of_pool(pool: &str, worker: &str, count: usize) -> Fetch {
    let (pool, worker) = (Some(pool.to_owned()), Some(worker.to_owned()).filter(|worker| !worker.is_empty()));
    Fetch { pool, worker, count, ..Fetch::default() }
}

/// A request that brings its own strategy.
fn by(strategy: Strategy, queues: &[(&str, f64)], count: usize) -> Fetch {
    let weights = queues.iter().map(|(_, weight)| Weight::of(*weight).unwrap()).collect();
    let names: Vec<&str> = queues.iter().map(|(queue, _)| *queue).collect();
    Fetch { choice: Some(QueueChoice { strategy, weights }), ..from(&names, count) }
}

/// The request of a worker without a pool.
fn as_worker(worker: &str, fetch: Fetch) -> Fetch {
    Fetch { worker: Some(worker.to_owned()), ..fetch }
}

fn tenant_of(record: &Record) -> String {
    let mut text = String::new();
    record.write(&mut text);
    let job: Value = serde_json::from_str(&text).expect("JSON");
    job["meta"]["tenant_id"].as_str().unwrap_or("_default").to_owned()
}

fn ids(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.id.clone()).collect()
}
