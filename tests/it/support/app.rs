//! A fairgate inside the test's process, on a Redis of its own.

use super::{Client, TestRedis};
use fairgate::app::App;
use fairgate::clock::Clock;
use fairgate::config::{Config, StoreUrl};
use std::sync::Arc;

/// A running fairgate, its client, its clock and its Redis; all gone when dropped.
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

    /// Starts one whose clock stands still until the test moves it.
    pub async fn start_at(now_ms: i64) -> Self {
        Self::start_with(Clock::manual(now_ms), |_| {}).await
    }

    /// Starts one with other settings.
    pub async fn start_with(clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(Arc::new(TestRedis::start()), clock, change).await
    }

    /// Starts one on a Redis that others use too.
    pub async fn start_on(redis: Arc<TestRedis>, clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.server.listen = "127.0.0.1:0".parse().expect("an address");
        config.store.url = Some(StoreUrl::parse(&redis.url()).expect("a valid url"));
        change(&mut config);
        let app = App::start(&config, clock.clone()).await.expect("fairgate starts");
        let client = Client::new(format!("http://{}", app.address));
        TestApp { app, client, clock, redis }
    }
}
