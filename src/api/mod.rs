//! The HTTP API: requests into verbs of the store, results into OJS answers. No business rule lives here.

mod answer;
mod body;
mod dead_letter;
mod event_stream;
mod events;
mod fetch;
mod frame;
mod jobs;
mod manifest;
mod mistakes;
mod noise;
mod page;
mod path;
mod planner;
mod pools;
mod problem;
mod queue_limits;
mod queues;
mod rate_limits;
mod round_stream;
mod scheduling;
mod server;
mod system;
mod workers;

pub use server::Server;

use crate::config::Config;
use crate::dispatch::{LongPolls, Neighbors, Waiters};
use crate::job;
use crate::planner::{Desk, Intake};
use crate::store::Store;
use crate::telemetry::Metrics;
use axum::Router;
use axum::routing::{delete, get, post};
use problem::Problem;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What every handler needs; clones share it.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    intake: Intake,
    desk: Desk,
    long_polls: LongPolls,
    neighbors: Neighbors,
    metrics: Metrics,
    limits: job::Limits,
    max_body: usize,
    request_timeout: Duration,
    heartbeat_interval: Duration,
    test_directives: bool,
    started: Instant,
    draining: CancellationToken,
    /// Streams of events that may be open at once.
    event_readers: Arc<tokio::sync::Semaphore>,
}

impl Api {
    /// An API on a store.
    pub fn new(store: Store, desk: Desk, waiters: Waiters, metrics: Metrics, config: &Config) -> Self {
        let limits = &config.limits;
        let draining = CancellationToken::new();
        let waiting = metrics.http.long_polls().clone();
        Api {
            inner: Arc::new(Inner {
                intake: Intake::new(store.clone(), desk.rules().clone()),
                long_polls: LongPolls::new(store.clone(), waiters, waiting, draining.clone()),
                neighbors: Neighbors::new(store.clone(), config.noisy_neighbors.clone(), metrics.noise.clone()),
                store,
                desk,
                metrics,
                limits: job::Limits {
                    max_envelope: limits.max_envelope.bytes(),
                    max_meta: limits.max_meta.bytes(),
                    max_result: limits.max_result.bytes(),
                    max_batch: limits.max_batch,
                    max_nesting: limits.max_nesting,
                },
                max_body: limits.max_body.bytes(),
                request_timeout: limits.request_timeout,
                heartbeat_interval: config.workers.heartbeat_interval,
                test_directives: config.server.test_directives,
                started: Instant::now(),
                draining,
                event_readers: Arc::new(tokio::sync::Semaphore::new(event_stream::MOST_READERS)),
            }),
        }
    }

    /// From now on `/ready` says no, so that nobody sends new requests, and what waits is answered.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    fn is_draining(&self) -> bool {
        self.inner.draining.is_cancelled()
    }

    fn store(&self) -> &Store {
        &self.inner.store
    }

    fn desk(&self) -> &Desk {
        &self.inner.desk
    }

    fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// All routes.
    pub fn router(&self) -> Router {
        // Flat, because every nested router costs each request a rewritten path.
        Router::new()
            .route("/ojs/v1/health", get(system::health))
            .route("/ojs/v1/jobs", post(jobs::enqueue))
            .route("/ojs/v1/jobs/batch", post(jobs::enqueue_batch))
            .route("/ojs/v1/jobs/{id}", get(jobs::show).delete(jobs::cancel))
            .route("/ojs/v1/jobs/{id}/cancel", post(jobs::cancel))
            .route("/ojs/v1/jobs/{id}/activate", post(jobs::activate))
            .route("/ojs/v1/jobs/{id}/ack", post(workers::ack_by_path))
            .route("/ojs/v1/jobs/{id}/nack", post(workers::nack_by_path))
            .route("/ojs/v1/workers/fetch", post(fetch::fetch))
            .route("/ojs/v1/workers/ack", post(workers::ack))
            .route("/ojs/v1/workers/nack", post(workers::nack))
            .route("/ojs/v1/workers/heartbeat", post(workers::heartbeat))
            .route("/ojs/v1/workers/register", post(workers::register))
            .route("/ojs/v1/workers/{id}", delete(workers::deregister))
            .route("/ojs/v1/queues", get(queues::list))
            .route("/ojs/v1/queues/{name}", get(queues::show))
            .route("/ojs/v1/queues/{name}/stats", get(queues::stats))
            .route("/ojs/v1/dead-letter", get(dead_letter::list))
            .route("/ojs/v1/dead-letter/stats", get(dead_letter::stats))
            .route("/ojs/v1/dead-letter/{id}", get(dead_letter::show).delete(dead_letter::forget))
            .route("/ojs/v1/dead-letter/{id}/retry", post(dead_letter::retry))
            .route("/ojs/v1/events", get(events::poll))
            .route("/ojs/v1/admin/planner", get(planner::list))
            .route("/ojs/v1/admin/planner/events", get(round_stream::all_rounds))
            .route("/ojs/v1/admin/planner/{name}", get(planner::show).put(planner::put).delete(planner::remove))
            .route("/ojs/v1/admin/planner/{name}/events", get(round_stream::rounds_of))
            .route("/ojs/v1/admin/planner/{name}/rounds", get(planner::rounds))
            .route("/ojs/v1/admin/planner/{name}/tenants", get(planner::tenants))
            .route("/ojs/v1/admin/planner/{name}/preview", get(planner::preview))
            .route("/ojs/v1/admin/planner/{name}/run", post(planner::run))
            .route("/ojs/v1/admin/planner/{name}/pause", post(planner::pause))
            .route("/ojs/v1/admin/planner/{name}/resume", post(planner::resume))
            .route("/ojs/v1/admin/jobs/{id}", get(jobs::show_to_admin))
            .route("/ojs/v1/admin/pools", get(pools::list).post(pools::add))
            .route("/ojs/v1/admin/pools/{name}", get(pools::show).put(pools::put).delete(pools::remove))
            .route("/ojs/v1/admin/scheduling/stats", get(scheduling::stats))
            .route("/ojs/v1/admin/scheduling/config", get(scheduling::config).put(scheduling::put_config))
            .route("/ojs/v1/admin/tenants/{id}/noise", get(noise::show))
            .route("/ojs/v1/admin/tenants/{id}/noise/reset", post(noise::reset))
            .route("/ojs/v1/rate-limits", get(rate_limits::list))
            .route(
                "/ojs/v1/rate-limits/{key}",
                get(rate_limits::show).put(rate_limits::put).delete(rate_limits::remove),
            )
            .route(
                "/ojs/v1/admin/queues/{name}/rate-limit",
                get(queue_limits::show).put(queue_limits::put).delete(queue_limits::remove),
            )
            .route("/ojs/manifest", get(manifest::show))
            .route("/health", get(system::health))
            .route("/healthz", get(system::health))
            .route("/ready", get(system::ready))
            .route("/readyz", get(system::ready))
            .route("/metrics", get(system::metrics))
            .fallback(|| async { Problem::unknown_path() })
            .method_not_allowed_fallback(|| async { Problem::method_not_allowed() })
            .layer(axum::middleware::from_fn_with_state(self.clone(), frame::around))
            .with_state(self.clone())
    }
}
