//! The table of routes: each route with its access and its OpenAPI description.
//!
//! The router and the authorization read only this table. A route that is not in it does not exist, and a row cannot be
//! added without its access.

use super::context::HandlerState;
use super::openapi::Describe;
use super::router::{BoxedHandler, ResponseFuture};
use super::{
    handlers::{
        admin_jobs, admin_queues, admin_workers, autoscale, crons, dashboard, dead_letter, docs, events, explain,
        fetch, health_report, history, jobs, keys, manifest, noise, planner, pools, progress, queue_config,
        queue_limits, queues, rate_limits, results, round_stream, scheduling, sidekiq, stats, system, tenants,
        webhooks, workers, workflows,
    },
    openapi,
};
use crate::auth::Role::{self, Admin, Operator, Producer, Worker};
use axum::handler::Handler;
use axum::http::Method;

/// The keys that may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No key is needed: probes, and what a client reads before it has a key.
    Public,
    /// Keys with one of these roles. A key that is bound to a tenant reads and changes only what belongs to the tenant.
    Scoped(&'static [Role]),
    /// Keys with one of these roles that are bound to no tenant. The route is about queues, pools, workers or crons, or about
    /// jobs of many queues. With isolation by namespace, it is about those of the tenant that the request names.
    Namespaced(&'static [Role]),
    /// Keys with one of these roles that are bound to no tenant. The route spans all tenants, so with isolation by namespace
    /// it does not exist for a request that names a tenant.
    Global(&'static [Role]),
}

use Access::{Global, Namespaced, Public, Scoped};

const ALL: &[Role] = &[Producer, Worker, Operator, Admin];
const PRODUCERS: &[Role] = &[Producer, Admin];
const WORKERS: &[Role] = &[Worker, Admin];
const READERS: &[Role] = &[Operator, Admin];
const WATCHERS: &[Role] = &[Worker, Operator, Admin];
const ADMINS: &[Role] = &[Admin];

/// A row of the table.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) handler: BoxedHandler,
    /// The OpenAPI description.
    pub(super) describe: Describe,
}

/// Builds a row of the table. The description is a function of the file in `openapi` that describes the same resource.
fn route<H, T>(method: Method, path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, HandlerState, Future = ResponseFuture>,
    T: 'static,
{
    let boxed: BoxedHandler = Box::new(move |request, state| handler.clone().call(request, state));
    Route { method, path, access, handler: boxed, describe }
}

fn get<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, HandlerState, Future = ResponseFuture>,
    T: 'static,
{
    route(Method::GET, path, access, handler, describe)
}

fn post<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, HandlerState, Future = ResponseFuture>,
    T: 'static,
{
    route(Method::POST, path, access, handler, describe)
}

fn put<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, HandlerState, Future = ResponseFuture>,
    T: 'static,
{
    route(Method::PUT, path, access, handler, describe)
}

fn patch<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, HandlerState, Future = ResponseFuture>,
    T: 'static,
{
    route(Method::PATCH, path, access, handler, describe)
}

fn delete<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, HandlerState, Future = ResponseFuture>,
    T: 'static,
{
    route(Method::DELETE, path, access, handler, describe)
}

/// All routes.
pub(super) fn table() -> Vec<Route> {
    vec![
        get("/ojs/manifest", Public, manifest::show, openapi::system::manifest),
        get("/ojs/v1/health", Public, system::health, openapi::system::health),
        get("/health", Public, system::health, openapi::system::health),
        get("/healthz", Public, system::health, openapi::system::health),
        get("/ready", Public, system::ready, openapi::system::ready),
        get("/readyz", Public, system::ready, openapi::system::ready),
        get("/openapi.json", Public, docs::document, openapi::system::openapi),
        get("/docs", Public, docs::page, openapi::system::page),
        get("/docs/errors", Public, docs::errors, openapi::system::errors),
        get("/docs/script.js", Public, docs::script, openapi::system::script),
        get("/docs/style.css", Public, docs::style, openapi::system::style),
        get("/", Public, dashboard::page, openapi::system::dashboard),
        get("/dashboard/{file}", Public, dashboard::file, openapi::system::dashboard_file),
        get("/metrics", Global(READERS), system::metrics, openapi::system::metrics),
        post("/ojs/v1/jobs", Scoped(PRODUCERS), jobs::enqueue, openapi::jobs::enqueue),
        get("/ojs/v1/jobs", Scoped(READERS), jobs::list, openapi::jobs::list_by_cursor),
        post("/ojs/v1/jobs/batch", Scoped(PRODUCERS), jobs::enqueue_batch, openapi::jobs::enqueue_batch),
        get("/ojs/v1/jobs/{id}", Scoped(ALL), jobs::show, openapi::jobs::show),
        get("/ojs/v1/jobs/{id}/explain", Scoped(READERS), explain::show, openapi::jobs::explain),
        delete("/ojs/v1/jobs/{id}", Scoped(PRODUCERS), jobs::cancel, openapi::jobs::cancel),
        post("/ojs/v1/jobs/{id}/cancel", Scoped(PRODUCERS), jobs::cancel, openapi::jobs::cancel),
        post("/ojs/v1/jobs/{id}/activate", Scoped(PRODUCERS), jobs::activate, openapi::jobs::activate),
        post("/ojs/v1/jobs/{id}/ack", Scoped(WORKERS), workers::ack_by_path, openapi::workers::ack_by_path),
        post("/ojs/v1/jobs/{id}/nack", Scoped(WORKERS), workers::nack_by_path, openapi::workers::nack_by_path),
        post("/ojs/v1/workers/fetch", Scoped(WORKERS), fetch::fetch, openapi::workers::fetch),
        post("/ojs/v1/workers/ack", Scoped(WORKERS), workers::ack, openapi::workers::ack),
        post("/ojs/v1/workers/nack", Scoped(WORKERS), workers::nack, openapi::workers::nack),
        post("/ojs/v1/workers/progress", Scoped(WORKERS), progress::report_by_body, openapi::progress::report_by_body),
        post("/ojs/v1/workers/heartbeat", Scoped(WORKERS), workers::heartbeat, openapi::workers::heartbeat),
        post("/ojs/v1/workers/register", Scoped(WORKERS), workers::register, openapi::workers::register),
        delete("/ojs/v1/workers/{id}", Scoped(WORKERS), workers::deregister, openapi::workers::deregister),
        get("/ojs/v1/queues", Scoped(READERS), queues::list, openapi::queues::list_all),
        get("/ojs/v1/queues/{name}", Scoped(READERS), queues::show, openapi::queues::show),
        get("/ojs/v1/queues/{name}/stats", Scoped(READERS), queues::stats, openapi::queues::stats),
        get("/ojs/v1/dead-letter", Scoped(READERS), dead_letter::list, openapi::dead_letter::list_all),
        get("/ojs/v1/dead-letter/stats", Scoped(READERS), dead_letter::stats, openapi::dead_letter::stats),
        get("/ojs/v1/dead-letter/{id}", Scoped(READERS), dead_letter::show, openapi::dead_letter::show),
        delete("/ojs/v1/dead-letter/{id}", Scoped(ADMINS), dead_letter::delete, openapi::dead_letter::delete),
        post("/ojs/v1/dead-letter/{id}/retry", Scoped(ADMINS), dead_letter::retry, openapi::dead_letter::retry),
        post("/ojs/v1/workflows", Scoped(PRODUCERS), workflows::create, openapi::workflows::create),
        get("/ojs/v1/workflows", Scoped(READERS), workflows::list, openapi::workflows::list_all),
        get("/ojs/v1/workflows/{id}", Scoped(ALL), workflows::show, openapi::workflows::show),
        delete("/ojs/v1/workflows/{id}", Scoped(PRODUCERS), workflows::cancel, openapi::workflows::cancel),
        get("/ojs/v1/workflows/{id}/progress", Scoped(ALL), workflows::progress, openapi::workflows::progress),
        get("/ojs/v1/events/stream", Scoped(READERS), events::stream, openapi::events::stream),
        get("/ojs/v1/events", Scoped(READERS), events::poll, openapi::events::poll),
        get("/ojs/v1/rate-limits", Scoped(READERS), rate_limits::list, openapi::rate_limits::list_all),
        get("/ojs/v1/rate-limits/{key}", Scoped(READERS), rate_limits::show, openapi::rate_limits::show),
        put("/ojs/v1/rate-limits/{key}", Scoped(ADMINS), rate_limits::put, openapi::rate_limits::put),
        delete("/ojs/v1/rate-limits/{key}", Scoped(ADMINS), rate_limits::remove, openapi::rate_limits::remove),
        get("/ojs/v1/admin/jobs/{id}", Scoped(READERS), jobs::show_to_admin, openapi::jobs::show_to_admin),
        get("/ojs/v1/admin/planner", Global(READERS), planner::list, openapi::planner::list_all),
        get("/ojs/v1/admin/planner/events", Global(READERS), round_stream::all_rounds, openapi::planner::all_rounds),
        get("/ojs/v1/admin/planner/{name}", Global(READERS), planner::show, openapi::planner::show),
        put("/ojs/v1/admin/planner/{name}", Global(ADMINS), planner::put, openapi::planner::put),
        delete("/ojs/v1/admin/planner/{name}", Global(ADMINS), planner::remove, openapi::planner::remove),
        get(
            "/ojs/v1/admin/planner/{name}/events",
            Global(READERS),
            round_stream::rounds_of,
            openapi::planner::rounds_of,
        ),
        get("/ojs/v1/admin/planner/{name}/rounds", Global(READERS), planner::rounds, openapi::planner::rounds),
        get("/ojs/v1/admin/planner/{name}/tenants", Global(READERS), planner::tenants, openapi::planner::tenants),
        get("/ojs/v1/admin/planner/{name}/preview", Global(READERS), planner::preview, openapi::planner::preview),
        post("/ojs/v1/admin/planner/{name}/run", Global(ADMINS), planner::run, openapi::planner::run),
        post("/ojs/v1/admin/planner/{name}/pause", Global(READERS), planner::pause, openapi::planner::pause),
        post("/ojs/v1/admin/planner/{name}/resume", Global(READERS), planner::resume, openapi::planner::resume),
        get("/ojs/v1/admin/pools", Namespaced(READERS), pools::list, openapi::pools::list_all),
        post("/ojs/v1/admin/pools", Namespaced(ADMINS), pools::add, openapi::pools::add),
        get("/ojs/v1/admin/pools/{name}", Namespaced(READERS), pools::show, openapi::pools::show),
        put("/ojs/v1/admin/pools/{name}", Namespaced(ADMINS), pools::put, openapi::pools::put),
        delete("/ojs/v1/admin/pools/{name}", Namespaced(ADMINS), pools::remove, openapi::pools::remove),
        get("/ojs/v1/admin/scheduling/stats", Namespaced(READERS), scheduling::stats, openapi::pools::scheduling_stats),
        get("/ojs/v1/admin/scheduling/config", Global(READERS), scheduling::config, openapi::pools::scheduling_config),
        put(
            "/ojs/v1/admin/scheduling/config",
            Global(ADMINS),
            scheduling::put_config,
            openapi::pools::put_scheduling_config,
        ),
        get(
            "/ojs/v1/admin/queues/{name}/rate-limit",
            Namespaced(READERS),
            queue_limits::show,
            openapi::queues::show_limit,
        ),
        put(
            "/ojs/v1/admin/queues/{name}/rate-limit",
            Namespaced(ADMINS),
            queue_limits::put,
            openapi::queues::put_limit,
        ),
        delete(
            "/ojs/v1/admin/queues/{name}/rate-limit",
            Namespaced(ADMINS),
            queue_limits::remove,
            openapi::queues::remove_limit,
        ),
        post("/ojs/v1/jobs/results", Scoped(ALL), results::show_many, openapi::progress::results),
        get("/ojs/v1/jobs/{id}/result", Scoped(ALL), results::show, openapi::progress::result),
        get("/ojs/v1/jobs/{id}/progress", Scoped(ALL), progress::show, openapi::progress::show),
        put("/ojs/v1/jobs/{id}/progress", Scoped(WORKERS), progress::report, openapi::progress::report),
        get(
            "/ojs/v1/jobs/{id}/checkpoint",
            Scoped(WATCHERS),
            progress::show_checkpoint,
            openapi::progress::show_checkpoint,
        ),
        put(
            "/ojs/v1/jobs/{id}/checkpoint",
            Scoped(WORKERS),
            progress::put_checkpoint,
            openapi::progress::put_checkpoint,
        ),
        post(
            "/ojs/v1/jobs/{id}/checkpoint",
            Scoped(WORKERS),
            progress::put_checkpoint,
            openapi::progress::put_checkpoint,
        ),
        delete(
            "/ojs/v1/jobs/{id}/checkpoint",
            Scoped(WORKERS),
            progress::delete_checkpoint,
            openapi::progress::delete_checkpoint,
        ),
        post("/ojs/v1/workers/beat", Scoped(WORKERS), workers::heartbeat, openapi::workers::heartbeat),
        get("/ojs/v1/workers/{id}/health", Namespaced(WATCHERS), admin_workers::health, openapi::workers::health),
        post("/ojs/v1/queues/{name}/pause", Namespaced(READERS), queues::pause, openapi::queues::pause),
        post("/ojs/v1/queues/{name}/resume", Namespaced(READERS), queues::resume, openapi::queues::resume),
        get("/ojs/v1/queues/{name}/config", Namespaced(READERS), queue_config::show, openapi::queues::show_config),
        put("/ojs/v1/queues/{name}/config", Namespaced(ADMINS), queue_config::put, openapi::queues::put_config),
        delete("/ojs/v1/dead-letter", Scoped(ADMINS), dead_letter::delete_many, openapi::dead_letter::delete_many),
        post("/ojs/v1/dead-letter/retry", Scoped(ADMINS), dead_letter::retry_many, openapi::dead_letter::retry_many),
        get("/ojs/v1/cron", Namespaced(READERS), crons::list, openapi::crons::list_all),
        post("/ojs/v1/cron", Namespaced(PRODUCERS), crons::register, openapi::crons::register),
        get("/ojs/v1/cron/{name}", Namespaced(READERS), crons::show, openapi::crons::show),
        patch("/ojs/v1/cron/{name}", Namespaced(PRODUCERS), crons::update, openapi::crons::update),
        delete("/ojs/v1/cron/{name}", Namespaced(PRODUCERS), crons::remove, openapi::crons::remove),
        get("/ojs/v1/cron/{name}/next", Namespaced(READERS), crons::next_times, openapi::crons::next_times),
        post("/ojs/v1/cron/{name}/run", Namespaced(PRODUCERS), crons::run, openapi::crons::run),
        post("/ojs/v1/cron-preview", Namespaced(ALL), crons::preview, openapi::crons::preview),
        get("/ojs/v1/admin/health-report", Global(READERS), health_report::show, openapi::stats::health_report),
        get("/ojs/v1/admin/history", Global(READERS), history::show, openapi::stats::history),
        get("/ojs/v1/admin/autoscale", Global(READERS), autoscale::list, openapi::autoscale::list_all),
        get("/ojs/v1/admin/autoscale/{name}", Global(READERS), autoscale::show, openapi::autoscale::show),
        get("/ojs/v1/admin/stats", Global(READERS), stats::show, openapi::stats::show),
        get("/ojs/v1/admin/queues", Namespaced(READERS), admin_queues::list, openapi::queues::list_for_admin),
        get("/ojs/v1/admin/queues/{name}", Namespaced(READERS), admin_queues::show, openapi::queues::show_to_admin),
        delete("/ojs/v1/admin/queues/{name}/jobs", Namespaced(ADMINS), admin_jobs::purge, openapi::queues::purge),
        get(
            "/ojs/v1/admin/queues/{name}/config",
            Namespaced(READERS),
            queue_config::show,
            openapi::queues::show_config,
        ),
        put("/ojs/v1/admin/queues/{name}/config", Namespaced(ADMINS), queue_config::put, openapi::queues::put_config),
        post("/ojs/v1/admin/queues/{name}/pause", Namespaced(READERS), queues::pause_as_admin, openapi::queues::pause),
        post(
            "/ojs/v1/admin/queues/{name}/resume",
            Namespaced(READERS),
            queues::resume_as_admin,
            openapi::queues::resume,
        ),
        get("/ojs/v1/admin/dead-letter", Scoped(READERS), dead_letter::list_items, openapi::dead_letter::list_items),
        delete(
            "/ojs/v1/admin/dead-letter",
            Scoped(ADMINS),
            dead_letter::delete_many,
            openapi::dead_letter::delete_many,
        ),
        get("/ojs/v1/admin/dead-letter/stats", Scoped(READERS), dead_letter::stats, openapi::dead_letter::stats),
        post(
            "/ojs/v1/admin/dead-letter/retry",
            Scoped(ADMINS),
            dead_letter::retry_many,
            openapi::dead_letter::retry_many,
        ),
        get(
            "/ojs/v1/admin/dead-letter/{id}",
            Scoped(READERS),
            dead_letter::show_to_admin,
            openapi::dead_letter::show_to_admin,
        ),
        delete(
            "/ojs/v1/admin/dead-letter/{id}",
            Scoped(ADMINS),
            dead_letter::delete_as_admin,
            openapi::dead_letter::delete_as_admin,
        ),
        post(
            "/ojs/v1/admin/dead-letter/{id}/retry",
            Scoped(ADMINS),
            dead_letter::retry_as_admin,
            openapi::dead_letter::retry_as_admin,
        ),
        get("/ojs/v1/admin/jobs", Namespaced(READERS), admin_jobs::list, openapi::jobs::list_all),
        post("/ojs/v1/admin/jobs/{id}/cancel", Scoped(ADMINS), admin_jobs::cancel, openapi::jobs::cancel_as_admin),
        post("/ojs/v1/admin/jobs/{id}/retry", Scoped(ADMINS), admin_jobs::retry, openapi::jobs::retry),
        post("/ojs/v1/admin/jobs/bulk/retry", Namespaced(ADMINS), admin_jobs::retry_many, openapi::jobs::retry_many),
        post("/ojs/v1/admin/jobs/bulk/cancel", Namespaced(ADMINS), admin_jobs::cancel_many, openapi::jobs::cancel_many),
        post("/ojs/v1/admin/jobs/bulk/delete", Namespaced(ADMINS), admin_jobs::delete_many, openapi::jobs::delete_many),
        get("/ojs/v1/admin/workers", Namespaced(READERS), admin_workers::list, openapi::workers::list_all),
        get("/ojs/v1/admin/workers/{id}", Namespaced(READERS), admin_workers::show, openapi::workers::show),
        delete("/ojs/v1/admin/workers/{id}", Namespaced(ADMINS), admin_workers::remove, openapi::workers::remove),
        post("/ojs/v1/admin/workers/{id}/quiet", Namespaced(READERS), admin_workers::quiet, openapi::workers::quiet),
        post("/ojs/v1/admin/workers/{id}/resume", Namespaced(READERS), admin_workers::resume, openapi::workers::resume),
        post(
            "/ojs/v1/admin/workers/{id}/terminate",
            Namespaced(ADMINS),
            admin_workers::terminate,
            openapi::workers::terminate,
        ),
        get("/ojs/v1/webhooks/subscriptions", Global(READERS), webhooks::list, openapi::webhooks::list_all),
        post("/ojs/v1/webhooks/subscriptions", Global(ADMINS), webhooks::create, openapi::webhooks::create),
        get("/ojs/v1/webhooks/subscriptions/{id}", Global(READERS), webhooks::show, openapi::webhooks::show),
        patch("/ojs/v1/webhooks/subscriptions/{id}", Global(ADMINS), webhooks::update, openapi::webhooks::update),
        delete("/ojs/v1/webhooks/subscriptions/{id}", Global(ADMINS), webhooks::remove, openapi::webhooks::remove),
        post(
            "/ojs/v1/webhooks/subscriptions/{id}/rotate-secret",
            Global(ADMINS),
            webhooks::rotate_secret,
            openapi::webhooks::rotate_secret,
        ),
        get(
            "/ojs/v1/webhooks/deliveries",
            Global(READERS),
            webhooks::list_deliveries,
            openapi::webhooks::list_deliveries,
        ),
        get(
            "/ojs/v1/webhooks/deliveries/{id}",
            Global(READERS),
            webhooks::show_delivery,
            openapi::webhooks::show_delivery,
        ),
        post(
            "/ojs/v1/webhooks/deliveries/{id}/retry",
            Global(ADMINS),
            webhooks::retry_delivery,
            openapi::webhooks::retry_delivery,
        ),
        get("/ojs/v1/admin/tenants", Global(READERS), tenants::list, openapi::tenants::list_all),
        get("/ojs/v1/admin/tenants/{id}", Global(READERS), tenants::show, openapi::tenants::show),
        put("/ojs/v1/admin/tenants/{id}", Global(ADMINS), tenants::put, openapi::tenants::put),
        delete("/ojs/v1/admin/tenants/{id}", Global(ADMINS), tenants::remove, openapi::tenants::remove),
        put("/ojs/v1/admin/tenants/{id}/limits", Global(ADMINS), tenants::put_limits, openapi::tenants::put_limits),
        get("/ojs/v1/admin/tenants/{id}/stats", Scoped(READERS), tenants::stats, openapi::tenants::stats),
        get("/ojs/v1/admin/planner/{name}/shadow", Global(READERS), planner::show_shadow, openapi::planner::shadow),
        get("/ojs/v1/admin/sidekiq/jobs/{id}", Global(READERS), sidekiq::show_job, openapi::sidekiq::show_job),
        get("/ojs/v1/admin/tenants/{id}/noise", Global(READERS), noise::show, openapi::tenants::noise),
        post("/ojs/v1/admin/tenants/{id}/noise/reset", Global(ADMINS), noise::reset, openapi::tenants::reset_noise),
        get("/ojs/v1/admin/tenants/{id}/jobs", Scoped(READERS), tenants::jobs, openapi::tenants::jobs_of),
        get("/ojs/v1/admin/keys/current", Scoped(ALL), keys::current, openapi::keys::current),
        get("/ojs/v1/admin/keys", Global(ADMINS), keys::list, openapi::keys::list_all),
        post("/ojs/v1/admin/keys", Global(ADMINS), keys::create, openapi::keys::create),
        delete("/ojs/v1/admin/keys/{id}", Global(ADMINS), keys::revoke, openapi::keys::revoke),
    ]
}

/// The public facts about a route, for tests that check all routes.
#[derive(Clone, Debug)]
pub struct RouteInfo {
    pub method: String,
    pub path: &'static str,
    pub access: Access,
}

/// Returns all routes of the table.
pub fn routes() -> Vec<RouteInfo> {
    let info = |route: Route| RouteInfo { method: route.method.to_string(), path: route.path, access: route.access };
    table().into_iter().map(info).collect()
}
