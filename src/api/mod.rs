//! The HTTP API: translates requests into calls of the store and the planner, and their results into OJS responses. It
//! contains no business rules.

mod answers;
mod auth;
mod body;
mod browser;
mod compression;
mod concurrency_limit;
mod context;
mod error;
mod handlers;
mod list_response;
mod middleware;
mod openapi;
mod pagination;
mod path;
mod proxy;
mod rate_limit_headers;
mod response;
mod router;
mod routes;
mod server;
mod static_file;
mod tenant_header;
mod validation;

pub use openapi::document as openapi;
pub use routes::{Access, RouteInfo, routes};
pub use server::{Server, Timeouts};

use crate::auth::{Caller, KeyCache, Session};
use crate::background::{CronRunner, NoisyNeighborWatcher};
use crate::config::Config;
use crate::domain::job;
use crate::domain::tenant::{Scope, Tenancy};
use crate::enqueue::EnqueueService;
use crate::long_poll::{LongPolls, Waiters};
use crate::main_queue::MainQueue;
use crate::planner::RunnerRegistry;
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::webhooks::Sender;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The state of the API, as far as a request's caller may reach; clones share it.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
    /// The holder of the key that the request presented.
    caller: Option<Caller>,
    /// The store restricted to the scope of the request, unless the scope is everything.
    scoped: Option<Store>,
}

/// The services behind the API by which jobs and events come and go.
pub struct Services {
    pub enqueue_service: EnqueueService,
    pub cron_runner: CronRunner,
    pub waiters: Waiters,
    pub sender: Sender,
}

struct Inner {
    store: Store,
    keys: KeyCache,
    router: router::Router,
    enqueue_service: EnqueueService,
    cron_runner: CronRunner,
    sender: Sender,
    registry: RunnerRegistry,
    long_polls: LongPolls,
    neighbors: NoisyNeighborWatcher,
    metrics: Metrics,
    limits: job::RequestLimits,
    max_body: usize,
    request_timeout: Duration,
    heartbeat_interval: Duration,
    test_directives: bool,
    /// True if `/` serves the dashboard.
    has_dashboard: bool,
    browser: browser::BrowserPolicy,
    compressor: compression::Compressor,
    /// The proxy to the upstream server, which answers requests that are not about planning.
    proxy: Option<proxy::Proxy>,
    tenancy: Arc<Tenancy>,
    started: Instant,
    draining: CancellationToken,
    /// The OpenAPI document, generated on the first request for it.
    openapi: std::sync::OnceLock<String>,
    /// The limit on the event streams that each client has open at once.
    event_streams: concurrency_limit::ConcurrencyLimit<concurrency_limit::ClientId>,
}

impl Api {
    /// An API on a store.
    pub fn new(
        store: Store,
        keys: KeyCache,
        registry: RunnerRegistry,
        services: Services,
        metrics: Metrics,
        config: &Config,
    ) -> Self {
        let limits = &config.limits;
        let draining = CancellationToken::new();
        let waiting = metrics.http.long_polls().clone();
        let tenancy = Arc::new(config.tenancy.clone());
        let upstream = config.server.pass_through.as_ref().and_then(|name| registry.main_queues().get(name));
        let proxy = match &upstream {
            Some(MainQueue::Ojs(ojs)) => Some(proxy::Proxy::new(ojs.remote().clone())),
            _ => None,
        };
        Api {
            inner: Arc::new(Inner {
                enqueue_service: services.enqueue_service,
                cron_runner: services.cron_runner,
                sender: services.sender,
                long_polls: LongPolls::new(store.clone(), services.waiters, waiting, draining.clone()),
                neighbors: NoisyNeighborWatcher::new(
                    store.clone(),
                    config.noisy_neighbors.clone(),
                    metrics.noise.clone(),
                ),
                store,
                keys,
                router: router::Router::new(routes::table()),
                registry,
                metrics,
                limits: limits.of_jobs(),
                max_body: limits.max_body.bytes(),
                request_timeout: limits.request_timeout,
                heartbeat_interval: config.workers.heartbeat_interval,
                test_directives: config.server.test_directives,
                has_dashboard: config.server.dashboard,
                browser: browser::BrowserPolicy::new(&config.server),
                compressor: compression::Compressor::default(),
                proxy,
                tenancy,
                started: Instant::now(),
                draining,
                openapi: std::sync::OnceLock::new(),
                event_streams: concurrency_limit::ConcurrencyLimit::new(handlers::event_stream::MOST_STREAMS),
            }),
            caller: None,
            scoped: None,
        }
    }

    /// Starts the shutdown: `/ready` fails from now on, so that load balancers stop sending requests, and long polls end.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    fn is_draining(&self) -> bool {
        self.inner.draining.is_cancelled()
    }

    /// Restricts the API to a caller and a scope.
    fn scoped_to(self, caller: Option<Caller>, scope: &Scope) -> Self {
        let scoped = (*scope != Scope::ALL).then(|| self.inner.store.within(scope));
        Api { caller, scoped, ..self }
    }

    /// Target key the request presented, if it had to.
    fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// The name of the caller's key, by which events and logs name the author of a change.
    fn actor(&self) -> String {
        self.caller().map_or_else(|| "anonymous".to_owned(), |caller| caller.key.name.clone())
    }

    /// The session of the caller, for a request that lasts.
    fn session(&self) -> Session {
        self.inner.keys.session(self.caller.clone())
    }

    /// The store, restricted to the scope of the request.
    fn store(&self) -> &Store {
        self.scoped.as_ref().unwrap_or(&self.inner.store)
    }

    /// The enqueue service, restricted to the scope of the request.
    fn enqueue_service(&self) -> Cow<'_, EnqueueService> {
        match &self.scoped {
            Some(store) => Cow::Owned(self.inner.enqueue_service.within(store)),
            None => Cow::Borrowed(&self.inner.enqueue_service),
        }
    }

    /// The long polls, restricted to the scope of the request.
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
