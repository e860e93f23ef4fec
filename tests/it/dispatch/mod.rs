//! Who gets which job next: strategies, pools, what keeps queues from starving, and tenants that take turns.

mod backlog;
mod invariant;
mod plain;
mod pool_capacity;
mod pool_changes;
mod pool_members;
mod ratio;
mod records;
mod registered;
mod sharded;
mod starvation;
mod strategies;
mod survival;
mod tenant_differential;
mod tenant_limits;
mod tenants;
mod weighted;

use crate::support::{TestApp, TestRedis, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, PlanDefaults, Role, policy_from_json, pool_from_json};
use fairgate::fairness::{Strategy, Weight};
use fairgate::job::Record;
use fairgate::planner::Rulebook;
use fairgate::store::{Ack, Choice, Error, Event, EventFilter, Fetch, Heartbeat, Store};
use serde_json::Value;
use std::sync::Arc;

const NOON: i64 = 1_800_000_000_000;
const SECOND: i64 = 1000;

/// A fairgate whose clock stands still and whose ticks a test makes itself.
struct Ground {
    app: TestApp,
    rules: Rulebook,
}

impl Ground {
    /// One with a policy in its file.
    async fn open(policy: Value) -> Ground {
        Ground::open_on(&Arc::new(TestRedis::start()), Clock::manual(NOON), policy).await
    }

    /// One more on the same Redis, or one with another clock.
    async fn open_on(redis: &Arc<TestRedis>, clock: Clock, policy: Value) -> Ground {
        Ground::open_with(redis, clock, policy, |_| {}).await
    }

    /// One with other settings as well.
    async fn open_with(
        redis: &Arc<TestRedis>,
        clock: Clock,
        policy: Value,
        change: impl FnOnce(&mut Config),
    ) -> Ground {
        let policy = policy_from_json(policy).expect("a policy");
        let (file, mut plan) = (policy.clone(), Vec::new());
        let app = TestApp::start_on(Arc::clone(redis), clock, |config| {
            config.server.roles = vec![Role::Api];
            config.policy = file;
            change(config);
            plan = config.plan.clone();
        })
        .await;
        let rules = Rulebook::new(app.app.store.clone(), plan, policy, PlanDefaults::default());
        rules.start().await.expect("the rules");
        Ground { app, rules }
    }

    fn store(&self) -> &Store {
        &self.app.app.store
    }

    /// Sets a pool at run time, given as in a PUT.
    async fn put_pool(&self, name: &str, pool: Value) {
        let pool = pool_from_json(Some(name), pool).expect("a pool");
        self.rules.put_pool(pool).await.expect("a pool that goes with the others");
    }

    /// Changes what holds for all pools and queues, given as in a PUT.
    async fn put_scheduling(&self, change: Value) {
        self.rules.put_scheduling(&change).await.expect("a policy");
    }

    /// Stores jobs in one request; their ids, in order.
    async fn push_all(&self, jobs: Vec<Value>) -> Vec<String> {
        let mut ids = Vec::new();
        for part in jobs.chunks(1000) {
            ids.extend(self.app.client.post("/v1/jobs/batch", json!({"jobs": part})).await.expect(201).job_ids());
        }
        ids
    }

    /// Stores plain jobs in a queue.
    async fn push(&self, queue: &str, jobs: usize) -> Vec<String> {
        self.push_all(vec![job(queue, None, 0); jobs]).await
    }

    /// Stores jobs of tenants in queue `q`.
    async fn push_for(&self, tenants: &[(&str, usize)]) -> Vec<String> {
        let jobs = tenants.iter().flat_map(|(tenant, jobs)| vec![job("q", Some(tenant), 0); *jobs]);
        self.push_all(jobs.collect()).await
    }

    async fn try_fetch(&self, fetch: Fetch) -> Result<Vec<Record>, Error> {
        Ok(self.store().fetch(fetch).await?.deliver())
    }

    async fn fetch(&self, fetch: Fetch) -> Vec<Record> {
        self.try_fetch(fetch).await.expect("an answer")
    }

    /// The queues that jobs come from, in order, one letter each.
    async fn order(&self, fetch: Fetch) -> String {
        self.fetch(fetch).await.iter().map(|record| record.queue.as_str()).collect()
    }

    /// The tenants whose jobs leave queue `q`, in order.
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

    /// A worker tells how many jobs it can do at once.
    async fn declare(&self, worker: &str, concurrency: usize) {
        let fields = vec![("concurrency", concurrency.to_string())];
        let beat = Heartbeat { worker: worker.to_owned(), registers: true, fields, ..Heartbeat::default() };
        self.store().heartbeat(&beat).await.expect("an answer");
    }

    async fn tick(&self) {
        while self.store().tick(false).await.expect("a tick") {}
    }

    /// Active workers and jobs of a pool.
    async fn pool(&self, name: &str) -> (u64, u64) {
        let status = self.store().scheduling(&[name]).await.expect("a status").pools[0];
        (status.active_workers, status.active_jobs)
    }

    /// Data of all events of a kind, oldest first.
    async fn events(&self, kind: &str) -> Vec<Value> {
        let filter = EventFilter { types: vec![kind.to_owned()], ..EventFilter::default() };
        let page = self.store().events(&filter, None, 1000).await.expect("events").expect("a page");
        let data = |event: &Event| serde_json::from_str(&format!("{{{}}}", event.data)).expect("JSON");
        page.events.iter().map(data).collect()
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
    Fetch { choice: Some(Choice { strategy, weights }), ..from(&names, count) }
}

/// A worker without a pool asks.
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
