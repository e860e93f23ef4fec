//! A fairgate in the test's process, with its own Redis.

use super::{Client, TestRedis, json};
use fairgate::app::App;
use fairgate::clock::Clock;
use fairgate::config::{Config, Role, StoreUrl};
use fairgate::store::{AuditMode, Event, EventFilter, Store};
use serde_json::Value;
use std::sync::Arc;

/// The time at which a manual clock starts: far from any boundary.
pub const NOON: i64 = 1_800_000_000_000;

/// A running fairgate with its client, clock and Redis. All end when dropped.
pub struct TestApp {
    pub app: App,
    pub client: Client,
    pub clock: Clock,
    pub redis: Arc<TestRedis>,
}

impl TestApp {
    /// Starts one with the defaults and the real clock.
    pub async fn start() -> Self {
        Self::start_with(Clock::System, |_| {}).await
    }

    /// Starts one with a manual clock, which stands still until the test moves it.
    pub async fn start_at(now_ms: i64) -> Self {
        Self::start_with(Clock::manual(now_ms), |_| {}).await
    }

    /// Starts one with other settings.
    pub async fn start_with(clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(Arc::new(TestRedis::start()), clock, change).await
    }

    /// Starts one at `NOON` that serves requests and does nothing in the background: no tick runs and nothing is promoted
    /// until the test does it.
    pub async fn start_passive(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_passive_on(Arc::new(TestRedis::start()), Clock::manual(NOON), change).await
    }

    /// The same on a given Redis and clock.
    pub async fn start_passive_on(redis: Arc<TestRedis>, clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(redis, clock, |config| {
            config.server.roles = vec![Role::Api];
            change(config);
        })
        .await
    }

    /// Starts one on a shared Redis.
    pub async fn start_on(redis: Arc<TestRedis>, clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.server.listen = "127.0.0.1:0".parse().expect("an address");
        config.store.url = Some(StoreUrl::parse(&redis.url()).expect("a valid url"));
        change(&mut config);
        let app = App::start(&config, clock.clone()).await.expect("fairgate starts");
        let client = Client::new(format!("http://{}", app.address));
        TestApp { app, client, clock, redis }
    }

    pub fn store(&self) -> &Store {
        &self.app.store
    }

    /// Handles everything that is due.
    pub async fn tick(&self) {
        while self.store().tick().await.expect("a tick") {}
    }

    /// Advances the manual clock and handles everything that is then due.
    pub async fn advance(&self, ms: i64) {
        self.clock.advance(ms);
        self.tick().await;
    }

    /// Enqueues jobs in batches of the largest size; returns their ids in order.
    pub async fn enqueue_all(&self, jobs: Vec<Value>) -> Vec<String> {
        let mut ids = Vec::new();
        for batch in jobs.chunks(1000) {
            ids.extend(self.client.post("/v1/jobs/batch", json!({"jobs": batch})).await.expect(201).job_ids());
        }
        ids
    }

    /// Stored events of the given type (`tenant.*` selects all of a family), oldest first: type and data.
    pub async fn stored_events(&self, kind: &str) -> Vec<(String, Value)> {
        let filter = EventFilter { types: vec![kind.to_owned()], ..EventFilter::default() };
        let page = self.store().events(&filter, None, 100_000).await.expect("events").expect("a page");
        // The control character marks times, which are stored as numbers.
        let data =
            |event: &Event| serde_json::from_str(&format!("{{{}}}", event.data.replace('\u{1d}', ""))).expect("JSON");
        page.events.iter().map(|event| (event.kind.clone(), data(event))).collect()
    }

    /// Data of all stored events of one type, oldest first.
    pub async fn event_data(&self, kind: &str) -> Vec<Value> {
        self.stored_events(kind).await.into_iter().map(|(_, data)| data).collect()
    }

    /// Fails the test if a stored counter or index disagrees with the jobs.
    pub async fn assert_consistent(&self) {
        assert_eq!(self.store().audit(AuditMode::Report, 5000, async || ()).await.expect("an audit").differences, []);
    }
}
