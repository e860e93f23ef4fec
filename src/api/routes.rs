//! Every route, with who may use it: the one table from which the router is made and by which callers are let in.
//!
//! A route that is not in here does not exist, and one cannot be added without saying whose it is.

use super::{
    Root, admin, admin_jobs, admin_workers, crons, dead_letter, events, fetch, jobs, keys, manifest, noise, planner,
    pools, progress, queue_config, queue_limits, queues, rate_limits, results, round_stream, scheduling, system,
    tenants, webhooks, workers, workflows,
};
use crate::auth::Role::{self, Admin, Operator, Producer, Worker};
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody, even without a key: what must be asked before one has a key, and what probes ask.
    Public,
    /// Holders of a key with one of these roles; those of a tenant see and touch what is the tenant's.
    Scoped(&'static [Role]),
    /// Holders of a key with one of these roles that is bound to no tenant: it is about all tenants.
    Whole(&'static [Role]),
}

use Access::{Public, Scoped, Whole};

const ALL: &[Role] = &[Producer, Worker, Operator, Admin];
const PRODUCERS: &[Role] = &[Producer, Admin];
const WORKERS: &[Role] = &[Worker, Admin];
const READERS: &[Role] = &[Operator, Admin];
const WATCHERS: &[Role] = &[Worker, Operator, Admin];
const ADMINS: &[Role] = &[Admin];

/// A route: what it answers to, who may use it, and what it does.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) handler: MethodRouter<Root>,
}

fn route<H, T>(method: Method, path: &'static str, access: Access, handler: H) -> Route
where
    H: Handler<T, Root>,
    T: 'static,
{
    let filter = match method {
        Method::POST => MethodFilter::POST,
        Method::PUT => MethodFilter::PUT,
        Method::PATCH => MethodFilter::PATCH,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    };
    Route { method, path, access, handler: on(filter, handler) }
}

fn get<H: Handler<T, Root>, T: 'static>(path: &'static str, access: Access, handler: H) -> Route {
    route(Method::GET, path, access, handler)
}

fn post<H: Handler<T, Root>, T: 'static>(path: &'static str, access: Access, handler: H) -> Route {
    route(Method::POST, path, access, handler)
}

fn put<H: Handler<T, Root>, T: 'static>(path: &'static str, access: Access, handler: H) -> Route {
    route(Method::PUT, path, access, handler)
}

fn patch<H: Handler<T, Root>, T: 'static>(path: &'static str, access: Access, handler: H) -> Route {
    route(Method::PATCH, path, access, handler)
}

fn delete<H: Handler<T, Root>, T: 'static>(path: &'static str, access: Access, handler: H) -> Route {
    route(Method::DELETE, path, access, handler)
}

/// All routes.
pub(super) fn table() -> Vec<Route> {
    vec![
        get("/ojs/manifest", Public, manifest::show),
        get("/ojs/v1/health", Public, system::health),
        get("/health", Public, system::health),
        get("/healthz", Public, system::health),
        get("/ready", Public, system::ready),
        get("/readyz", Public, system::ready),
        get("/metrics", Whole(READERS), system::metrics),
        post("/ojs/v1/jobs", Scoped(PRODUCERS), jobs::enqueue),
        post("/ojs/v1/jobs/batch", Scoped(PRODUCERS), jobs::enqueue_batch),
        get("/ojs/v1/jobs/{id}", Scoped(ALL), jobs::show),
        delete("/ojs/v1/jobs/{id}", Scoped(PRODUCERS), jobs::cancel),
        post("/ojs/v1/jobs/{id}/cancel", Scoped(PRODUCERS), jobs::cancel),
        post("/ojs/v1/jobs/{id}/activate", Scoped(PRODUCERS), jobs::activate),
        post("/ojs/v1/jobs/{id}/ack", Scoped(WORKERS), workers::ack_by_path),
        post("/ojs/v1/jobs/{id}/nack", Scoped(WORKERS), workers::nack_by_path),
        post("/ojs/v1/workers/fetch", Scoped(WORKERS), fetch::fetch),
        post("/ojs/v1/workers/ack", Scoped(WORKERS), workers::ack),
        post("/ojs/v1/workers/nack", Scoped(WORKERS), workers::nack),
        post("/ojs/v1/workers/heartbeat", Scoped(WORKERS), workers::heartbeat),
        post("/ojs/v1/workers/register", Scoped(WORKERS), workers::register),
        delete("/ojs/v1/workers/{id}", Scoped(WORKERS), workers::deregister),
        get("/ojs/v1/queues", Scoped(READERS), queues::list),
        get("/ojs/v1/queues/{name}", Scoped(READERS), queues::show),
        get("/ojs/v1/queues/{name}/stats", Scoped(READERS), queues::stats),
        get("/ojs/v1/dead-letter", Scoped(READERS), dead_letter::list),
        get("/ojs/v1/dead-letter/stats", Scoped(READERS), dead_letter::stats),
        get("/ojs/v1/dead-letter/{id}", Scoped(READERS), dead_letter::show),
        delete("/ojs/v1/dead-letter/{id}", Scoped(ADMINS), dead_letter::forget),
        post("/ojs/v1/dead-letter/{id}/retry", Scoped(ADMINS), dead_letter::retry),
        post("/ojs/v1/workflows", Scoped(PRODUCERS), workflows::begin),
        get("/ojs/v1/workflows/{id}", Scoped(ALL), workflows::show),
        get("/ojs/v1/workflows/{id}/progress", Scoped(ALL), workflows::progress),
        delete("/ojs/v1/workflows/{id}", Scoped(PRODUCERS), workflows::cancel),
        get("/ojs/v1/events", Scoped(READERS), events::poll),
        get("/ojs/v1/events/stream", Scoped(READERS), events::stream),
        get("/ojs/v1/rate-limits", Scoped(READERS), rate_limits::list),
        get("/ojs/v1/rate-limits/{key}", Scoped(READERS), rate_limits::show),
        put("/ojs/v1/rate-limits/{key}", Scoped(ADMINS), rate_limits::put),
        delete("/ojs/v1/rate-limits/{key}", Scoped(ADMINS), rate_limits::remove),
        get("/ojs/v1/admin/jobs/{id}", Scoped(READERS), jobs::show_to_admin),
        get("/ojs/v1/admin/planner", Whole(READERS), planner::list),
        get("/ojs/v1/admin/planner/events", Whole(READERS), round_stream::all_rounds),
        get("/ojs/v1/admin/planner/{name}", Whole(READERS), planner::show),
        put("/ojs/v1/admin/planner/{name}", Whole(ADMINS), planner::put),
        delete("/ojs/v1/admin/planner/{name}", Whole(ADMINS), planner::remove),
        get("/ojs/v1/admin/planner/{name}/events", Whole(READERS), round_stream::rounds_of),
        get("/ojs/v1/admin/planner/{name}/rounds", Whole(READERS), planner::rounds),
        get("/ojs/v1/admin/planner/{name}/tenants", Whole(READERS), planner::tenants),
        get("/ojs/v1/admin/planner/{name}/preview", Whole(READERS), planner::preview),
        get("/ojs/v1/admin/planner/{name}/shadow", Whole(READERS), planner::show_shadow),
        post("/ojs/v1/admin/planner/{name}/run", Whole(ADMINS), planner::run),
        post("/ojs/v1/admin/planner/{name}/pause", Whole(READERS), planner::pause),
        post("/ojs/v1/admin/planner/{name}/resume", Whole(READERS), planner::resume),
        get("/ojs/v1/admin/pools", Whole(READERS), pools::list),
        post("/ojs/v1/admin/pools", Whole(ADMINS), pools::add),
        get("/ojs/v1/admin/pools/{name}", Whole(READERS), pools::show),
        put("/ojs/v1/admin/pools/{name}", Whole(ADMINS), pools::put),
        delete("/ojs/v1/admin/pools/{name}", Whole(ADMINS), pools::remove),
        get("/ojs/v1/admin/scheduling/stats", Whole(READERS), scheduling::stats),
        get("/ojs/v1/admin/scheduling/config", Whole(READERS), scheduling::config),
        put("/ojs/v1/admin/scheduling/config", Whole(ADMINS), scheduling::put_config),
        get("/ojs/v1/admin/tenants/{id}/noise", Whole(READERS), noise::show),
        post("/ojs/v1/admin/tenants/{id}/noise/reset", Whole(ADMINS), noise::reset),
        get("/ojs/v1/admin/queues/{name}/rate-limit", Whole(READERS), queue_limits::show),
        put("/ojs/v1/admin/queues/{name}/rate-limit", Whole(ADMINS), queue_limits::put),
        delete("/ojs/v1/admin/queues/{name}/rate-limit", Whole(ADMINS), queue_limits::remove),
        post("/ojs/v1/jobs/results", Scoped(ALL), results::read),
        get("/ojs/v1/jobs/{id}/result", Scoped(ALL), results::show),
        get("/ojs/v1/jobs/{id}/progress", Scoped(ALL), progress::show),
        put("/ojs/v1/jobs/{id}/progress", Scoped(WORKERS), progress::report),
        get("/ojs/v1/jobs/{id}/checkpoint", Scoped(WATCHERS), progress::checkpoint),
        put("/ojs/v1/jobs/{id}/checkpoint", Scoped(WORKERS), progress::keep),
        post("/ojs/v1/jobs/{id}/checkpoint", Scoped(WORKERS), progress::keep),
        delete("/ojs/v1/jobs/{id}/checkpoint", Scoped(WORKERS), progress::drop_checkpoint),
        post("/ojs/v1/workers/beat", Scoped(WORKERS), workers::heartbeat),
        get("/ojs/v1/workers/{id}/health", Whole(WATCHERS), admin_workers::health),
        post("/ojs/v1/queues/{name}/pause", Whole(READERS), queues::pause),
        post("/ojs/v1/queues/{name}/resume", Whole(READERS), queues::resume),
        get("/ojs/v1/queues/{name}/config", Whole(READERS), queue_config::show),
        put("/ojs/v1/queues/{name}/config", Whole(ADMINS), queue_config::put),
        delete("/ojs/v1/dead-letter", Scoped(ADMINS), dead_letter::forget_many),
        post("/ojs/v1/dead-letter/retry", Scoped(ADMINS), dead_letter::retry_many),
        get("/ojs/v1/cron", Whole(READERS), crons::list),
        post("/ojs/v1/cron", Whole(PRODUCERS), crons::register),
        get("/ojs/v1/cron/{name}", Whole(READERS), crons::show),
        patch("/ojs/v1/cron/{name}", Whole(PRODUCERS), crons::change),
        delete("/ojs/v1/cron/{name}", Whole(PRODUCERS), crons::remove),
        get("/ojs/v1/cron/{name}/next", Whole(READERS), crons::next_times),
        post("/ojs/v1/cron/{name}/run", Whole(PRODUCERS), crons::run),
        post("/ojs/v1/cron-preview", Whole(ALL), crons::preview),
        get("/ojs/v1/admin/stats", Whole(READERS), admin::stats),
        get("/ojs/v1/admin/queues", Whole(READERS), admin::queues),
        get("/ojs/v1/admin/queues/{name}", Whole(READERS), admin::queue),
        delete("/ojs/v1/admin/queues/{name}/jobs", Whole(ADMINS), admin_jobs::purge),
        get("/ojs/v1/admin/queues/{name}/config", Whole(READERS), queue_config::show),
        put("/ojs/v1/admin/queues/{name}/config", Whole(ADMINS), queue_config::put),
        post("/ojs/v1/admin/queues/{name}/pause", Whole(READERS), queues::pause_as_admin),
        post("/ojs/v1/admin/queues/{name}/resume", Whole(READERS), queues::resume_as_admin),
        get("/ojs/v1/admin/dead-letter", Scoped(READERS), dead_letter::list_items),
        delete("/ojs/v1/admin/dead-letter", Scoped(ADMINS), dead_letter::forget_many),
        get("/ojs/v1/admin/dead-letter/stats", Scoped(READERS), dead_letter::stats),
        post("/ojs/v1/admin/dead-letter/retry", Scoped(ADMINS), dead_letter::retry_many),
        get("/ojs/v1/admin/dead-letter/{id}", Scoped(READERS), dead_letter::show_to_admin),
        delete("/ojs/v1/admin/dead-letter/{id}", Scoped(ADMINS), dead_letter::forget_silently),
        post("/ojs/v1/admin/dead-letter/{id}/retry", Scoped(ADMINS), dead_letter::retry_as_admin),
        get("/ojs/v1/admin/jobs", Whole(READERS), admin_jobs::list),
        post("/ojs/v1/admin/jobs/{id}/cancel", Scoped(ADMINS), admin_jobs::cancel),
        post("/ojs/v1/admin/jobs/{id}/retry", Scoped(ADMINS), admin_jobs::retry),
        post("/ojs/v1/admin/jobs/bulk/retry", Whole(ADMINS), admin_jobs::retry_many),
        post("/ojs/v1/admin/jobs/bulk/cancel", Whole(ADMINS), admin_jobs::cancel_many),
        post("/ojs/v1/admin/jobs/bulk/delete", Whole(ADMINS), admin_jobs::delete_many),
        get("/ojs/v1/admin/workers", Whole(READERS), admin_workers::list),
        get("/ojs/v1/admin/workers/{id}", Whole(READERS), admin_workers::show),
        delete("/ojs/v1/admin/workers/{id}", Whole(ADMINS), admin_workers::remove),
        post("/ojs/v1/admin/workers/{id}/quiet", Whole(READERS), admin_workers::quiet),
        post("/ojs/v1/admin/workers/{id}/resume", Whole(READERS), admin_workers::resume),
        post("/ojs/v1/admin/workers/{id}/terminate", Whole(ADMINS), admin_workers::terminate),
        get("/ojs/v1/webhooks/subscriptions", Whole(READERS), webhooks::list),
        post("/ojs/v1/webhooks/subscriptions", Whole(ADMINS), webhooks::create),
        get("/ojs/v1/webhooks/subscriptions/{id}", Whole(READERS), webhooks::show),
        patch("/ojs/v1/webhooks/subscriptions/{id}", Whole(ADMINS), webhooks::change),
        delete("/ojs/v1/webhooks/subscriptions/{id}", Whole(ADMINS), webhooks::remove),
        post("/ojs/v1/webhooks/subscriptions/{id}/rotate-secret", Whole(ADMINS), webhooks::rotate),
        get("/ojs/v1/webhooks/deliveries", Whole(READERS), webhooks::deliveries),
        get("/ojs/v1/webhooks/deliveries/{id}", Whole(READERS), webhooks::delivery),
        post("/ojs/v1/webhooks/deliveries/{id}/retry", Whole(ADMINS), webhooks::redeliver),
        get("/ojs/v1/admin/tenants", Whole(READERS), tenants::list),
        get("/ojs/v1/admin/tenants/{id}", Whole(READERS), tenants::show),
        put("/ojs/v1/admin/tenants/{id}", Whole(ADMINS), tenants::put),
        delete("/ojs/v1/admin/tenants/{id}", Whole(ADMINS), tenants::remove),
        put("/ojs/v1/admin/tenants/{id}/limits", Whole(ADMINS), tenants::put_limits),
        get("/ojs/v1/admin/tenants/{id}/stats", Scoped(READERS), tenants::stats),
        get("/ojs/v1/admin/tenants/{id}/jobs", Scoped(READERS), tenants::jobs),
        get("/ojs/v1/admin/keys", Whole(ADMINS), keys::list),
        post("/ojs/v1/admin/keys", Whole(ADMINS), keys::create),
        delete("/ojs/v1/admin/keys/{id}", Whole(ADMINS), keys::revoke),
    ]
}

/// Method, path and access of every route, for whoever checks that none is forgotten.
pub fn routes() -> Vec<(String, &'static str, Access)> {
    table().into_iter().map(|route| (route.method.to_string(), route.path, route.access)).collect()
}
