//! The HTTP API: requests into verbs of the store, results into OJS answers. No business rule lives here.

mod admin;
mod admin_jobs;
mod admin_workers;
mod answer;
mod body;
mod bulk;
mod crons;
mod dead_letter;
mod event_stream;
mod events;
mod fetch;
mod frame;
mod jobs;
mod manifest;
mod mistakes;
mod page;
mod path;
mod planner;
mod pools;
mod problem;
mod progress;
mod queue_config;
mod queue_limits;
mod queues;
mod rate_limits;
mod results;
mod round_stream;
mod scheduling;
mod server;
mod system;
mod webhooks;
mod workers;

pub use server::Server;

use crate::config::Config;
use crate::dispatch::{LongPolls, Timetable, Waiters};
use crate::job;
use crate::planner::{Desk, Intake};
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::webhooks::Sender;
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

/// The ways by which jobs come and go.
pub struct Doors {
    pub intake: Intake,
    pub timetable: Timetable,
    pub waiters: Waiters,
    pub sender: Sender,
}

struct Inner {
    store: Store,
    intake: Intake,
    timetable: Timetable,
    sender: Sender,
    desk: Desk,
    long_polls: LongPolls,
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
    pub fn new(store: Store, desk: Desk, doors: Doors, metrics: Metrics, config: &Config) -> Self {
        let limits = &config.limits;
        let draining = CancellationToken::new();
        let waiting = metrics.http.long_polls().clone();
        Api {
            inner: Arc::new(Inner {
                intake: doors.intake,
                timetable: doors.timetable,
                sender: doors.sender,
                long_polls: LongPolls::new(store.clone(), doors.waiters, waiting, draining.clone()),
                store,
                desk,
                metrics,
                limits: limits.of_jobs(),
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
            .route("/ojs/v1/jobs/results", post(results::read))
            .route("/ojs/v1/jobs/{id}/result", get(results::show))
            .route("/ojs/v1/jobs/{id}/progress", get(progress::show).put(progress::report))
            .route(
                "/ojs/v1/jobs/{id}/checkpoint",
                get(progress::checkpoint).put(progress::keep).post(progress::keep).delete(progress::drop_checkpoint),
            )
            .route("/ojs/v1/workers/fetch", post(fetch::fetch))
            .route("/ojs/v1/workers/ack", post(workers::ack))
            .route("/ojs/v1/workers/nack", post(workers::nack))
            .route("/ojs/v1/workers/heartbeat", post(workers::heartbeat))
            .route("/ojs/v1/workers/beat", post(workers::heartbeat))
            .route("/ojs/v1/workers/{id}/health", get(admin_workers::health))
            .route("/ojs/v1/workers/register", post(workers::register))
            .route("/ojs/v1/workers/{id}", delete(workers::deregister))
            .route("/ojs/v1/queues", get(queues::list))
            .route("/ojs/v1/queues/{name}", get(queues::show))
            .route("/ojs/v1/queues/{name}/stats", get(queues::stats))
            .route("/ojs/v1/queues/{name}/pause", post(queues::pause))
            .route("/ojs/v1/queues/{name}/resume", post(queues::resume))
            .route("/ojs/v1/queues/{name}/config", get(queue_config::show).put(queue_config::put))
            .route("/ojs/v1/admin/queues/{name}/config", get(queue_config::show).put(queue_config::put))
            .route("/ojs/v1/admin/queues/{name}/pause", post(queues::pause_as_admin))
            .route("/ojs/v1/admin/queues/{name}/resume", post(queues::resume_as_admin))
            .route("/ojs/v1/dead-letter", get(dead_letter::list).delete(dead_letter::forget_many))
            .route("/ojs/v1/dead-letter/retry", post(dead_letter::retry_many))
            .route("/ojs/v1/dead-letter/stats", get(dead_letter::stats))
            .route("/ojs/v1/dead-letter/{id}", get(dead_letter::show).delete(dead_letter::forget))
            .route("/ojs/v1/dead-letter/{id}/retry", post(dead_letter::retry))
            .route("/ojs/v1/admin/dead-letter", get(dead_letter::list_items).delete(dead_letter::forget_many))
            .route("/ojs/v1/admin/dead-letter/stats", get(dead_letter::stats))
            .route("/ojs/v1/admin/dead-letter/retry", post(dead_letter::retry_many))
            .route(
                "/ojs/v1/admin/dead-letter/{id}",
                get(dead_letter::show_to_admin).delete(dead_letter::forget_silently),
            )
            .route("/ojs/v1/admin/dead-letter/{id}/retry", post(dead_letter::retry_as_admin))
            .route("/ojs/v1/webhooks/subscriptions", get(webhooks::list).post(webhooks::create))
            .route(
                "/ojs/v1/webhooks/subscriptions/{id}",
                get(webhooks::show).patch(webhooks::change).delete(webhooks::remove),
            )
            .route("/ojs/v1/webhooks/subscriptions/{id}/rotate-secret", post(webhooks::rotate))
            .route("/ojs/v1/webhooks/deliveries", get(webhooks::deliveries))
            .route("/ojs/v1/webhooks/deliveries/{id}", get(webhooks::delivery))
            .route("/ojs/v1/webhooks/deliveries/{id}/retry", post(webhooks::redeliver))
            .route("/ojs/v1/cron", get(crons::list).post(crons::register))
            .route("/ojs/v1/cron/{name}", get(crons::show).patch(crons::change).delete(crons::remove))
            .route("/ojs/v1/cron/{name}/next", get(crons::next_times))
            .route("/ojs/v1/cron/{name}/run", post(crons::run))
            .route("/ojs/v1/cron-preview", post(crons::preview))
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
            .route("/ojs/v1/admin/stats", get(admin::stats))
            .route("/ojs/v1/admin/queues", get(admin::queues))
            .route("/ojs/v1/admin/queues/{name}", get(admin::queue))
            .route("/ojs/v1/admin/queues/{name}/jobs", delete(admin_jobs::purge))
            .route("/ojs/v1/admin/jobs", get(admin_jobs::list))
            .route("/ojs/v1/admin/jobs/{id}", get(jobs::show_to_admin))
            .route("/ojs/v1/admin/jobs/{id}/cancel", post(admin_jobs::cancel))
            .route("/ojs/v1/admin/jobs/{id}/retry", post(admin_jobs::retry))
            .route("/ojs/v1/admin/jobs/bulk/retry", post(admin_jobs::retry_many))
            .route("/ojs/v1/admin/jobs/bulk/cancel", post(admin_jobs::cancel_many))
            .route("/ojs/v1/admin/jobs/bulk/delete", post(admin_jobs::delete_many))
            .route("/ojs/v1/admin/workers", get(admin_workers::list))
            .route("/ojs/v1/admin/workers/{id}", get(admin_workers::show).delete(admin_workers::remove))
            .route("/ojs/v1/admin/workers/{id}/quiet", post(admin_workers::quiet))
            .route("/ojs/v1/admin/workers/{id}/resume", post(admin_workers::resume))
            .route("/ojs/v1/admin/workers/{id}/terminate", post(admin_workers::terminate))
            .route("/ojs/v1/admin/pools", get(pools::list).post(pools::add))
            .route("/ojs/v1/admin/pools/{name}", get(pools::show).put(pools::put).delete(pools::remove))
            .route("/ojs/v1/admin/scheduling/stats", get(scheduling::stats))
            .route("/ojs/v1/admin/scheduling/config", get(scheduling::config).put(scheduling::put_config))
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
