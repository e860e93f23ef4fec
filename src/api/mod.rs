//! The HTTP API: requests into verbs of the store, results into OJS answers. No business rule lives here.

mod access;
mod activity;
mod admin;
mod admin_jobs;
mod admin_workers;
mod answer;
mod body;
mod browser;
mod bulk;
mod compress;
mod connection;
mod crons;
mod dead_letter;
mod doc;
mod event_stream;
mod events;
mod fetch;
mod frame;
mod jobs;
mod keys;
mod listing;
mod manifest;
mod mistakes;
mod noise;
mod page;
mod path;
mod places;
mod planner;
mod pools;
mod problem;
mod progress;
mod queue_config;
mod queue_limits;
mod queues;
mod rate_limits;
mod relay;
mod results;
mod round_stream;
mod routes;
mod scheduling;
mod server;
mod sidekiq;
mod slots;
mod system;
mod tenant;
mod tenants;
mod visit;
mod waiting;
mod webhooks;
mod workers;
mod workflows;

pub use connection::Timeouts;
pub use doc::document as openapi;
pub use routes::{Access, routes};
pub use server::Server;

use crate::background::{CronRunner, NoisyNeighborWatcher};
use crate::config::Config;
use crate::fairness::Tenancy;
use crate::job::{self, Scope};
use crate::keyring::{Caller, Keyring, Pass};
use crate::long_poll::{LongPolls, Waiters};
use crate::main_queue::MainQueue;
use crate::planner::{EnqueueService, RunnerRegistry};
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::webhooks::Sender;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What every handler needs, as far as its caller may go; clones share it.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
    /// Whose key the request presented.
    caller: Option<Caller>,
    /// The store as far as that caller sees it, if that is not all of it.
    scoped: Option<Store>,
}

/// The ways by which jobs come and go.
pub struct Doors {
    pub enqueue_service: EnqueueService,
    pub cron_runner: CronRunner,
    pub waiters: Waiters,
    pub sender: Sender,
}

struct Inner {
    store: Store,
    keys: Keyring,
    places: places::Places,
    enqueue_service: EnqueueService,
    cron_runner: CronRunner,
    sender: Sender,
    registry: RunnerRegistry,
    long_polls: LongPolls,
    neighbors: NoisyNeighborWatcher,
    metrics: Metrics,
    limits: job::Limits,
    max_body: usize,
    request_timeout: Duration,
    heartbeat_interval: Duration,
    test_directives: bool,
    browser: browser::BrowserPolicy,
    compressor: compress::Compressor,
    /// The server to which requests go that are not about planning.
    relay: Option<relay::Relay>,
    tenancy: Arc<Tenancy>,
    started: Instant,
    draining: CancellationToken,
    /// OpenAPI of this server, made when somebody first asks for it.
    openapi: std::sync::OnceLock<String>,
    /// Streams of events that each credential may have open at once.
    event_streams: slots::Slots<slots::Credential>,
}

impl Api {
    /// An API on a store.
    pub fn new(
        store: Store,
        keys: Keyring,
        registry: RunnerRegistry,
        doors: Doors,
        metrics: Metrics,
        config: &Config,
    ) -> Self {
        let limits = &config.limits;
        let draining = CancellationToken::new();
        let waiting = metrics.http.long_polls().clone();
        let tenancy = Arc::new(config.tenancy.clone());
        let passage = config.server.pass_through.as_ref().and_then(|name| registry.main_queues().get(name));
        let relay = match &passage {
            Some(MainQueue::Ojs(ojs)) => Some(relay::Relay::new(ojs.remote().clone())),
            _ => None,
        };
        Api {
            inner: Arc::new(Inner {
                enqueue_service: doors.enqueue_service,
                cron_runner: doors.cron_runner,
                sender: doors.sender,
                long_polls: LongPolls::new(store.clone(), doors.waiters, waiting, draining.clone()),
                neighbors: NoisyNeighborWatcher::new(
                    store.clone(),
                    config.noisy_neighbors.clone(),
                    metrics.noise.clone(),
                ),
                store,
                keys,
                places: places::Places::of(routes::table()),
                registry,
                metrics,
                limits: limits.of_jobs(),
                max_body: limits.max_body.bytes(),
                request_timeout: limits.request_timeout,
                heartbeat_interval: config.workers.heartbeat_interval,
                test_directives: config.server.test_directives,
                browser: browser::BrowserPolicy::new(&config.server),
                compressor: compress::Compressor::default(),
                relay,
                tenancy,
                started: Instant::now(),
                draining,
                openapi: std::sync::OnceLock::new(),
                event_streams: slots::Slots::new(event_stream::MOST_STREAMS),
            }),
            caller: None,
            scoped: None,
        }
    }

    /// From now on `/ready` says no, so that nobody sends new requests, and what waits is answered.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    fn is_draining(&self) -> bool {
        self.inner.draining.is_cancelled()
    }

    /// The API as far as a caller's request reaches.
    fn of(self, caller: Option<Caller>, scope: &Scope) -> Self {
        let scoped = (*scope != Scope::ALL).then(|| self.inner.store.within(scope));
        Api { caller, scoped, ..self }
    }

    /// Whose key the request presented, if it had to.
    fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// The name of the caller's key, as events and logs report who changed something.
    fn actor(&self) -> String {
        self.caller().map_or_else(|| "anonymous".to_owned(), |caller| caller.key.name.clone())
    }

    /// What a request that stays may go by.
    fn pass(&self) -> Pass {
        self.inner.keys.pass(self.caller.clone())
    }

    /// The store as far as the caller sees it.
    fn store(&self) -> &Store {
        self.scoped.as_ref().unwrap_or(&self.inner.store)
    }

    /// The way in for the caller's jobs.
    fn enqueue_service(&self) -> Cow<'_, EnqueueService> {
        match &self.scoped {
            Some(store) => Cow::Owned(self.inner.enqueue_service.within(store)),
            None => Cow::Borrowed(&self.inner.enqueue_service),
        }
    }

    /// Long polls for what the caller may have.
    fn long_polls(&self) -> Cow<'_, LongPolls> {
        match &self.scoped {
            Some(store) => Cow::Owned(self.inner.long_polls.within(store)),
            None => Cow::Borrowed(&self.inner.long_polls),
        }
    }

    fn registry(&self) -> &RunnerRegistry {
        &self.inner.registry
    }

    fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }
}
