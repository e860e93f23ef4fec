//! Every route, with who may use it: the one table by which requests find their handler and callers are let in.
//!
//! A route that is not in here does not exist, and one cannot be added without saying whose it is.

use super::doc::Describe;
use super::places::{Answering, Handle};
use super::visit::Visit;
use super::{
    admin, admin_jobs, admin_workers, crons, dead_letter, doc, events, fetch, jobs, keys, manifest, noise, planner,
    pools, progress, queue_config, queue_limits, queues, rate_limits, results, round_stream, scheduling, sidekiq,
    system, tenants, webhooks, workers, workflows,
};
use crate::auth::Role::{self, Admin, Operator, Producer, Worker};
use axum::handler::Handler;
use axum::http::Method;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody, even without a key: what must be asked before one has a key, and what probes ask.
    Public,
    /// Holders of a key with one of these roles; those of a tenant see and touch what is the tenant's.
    Scoped(&'static [Role]),
    /// Holders of a key with one of these roles that is bound to no tenant: it is about queues, pools, workers or crons, or jobs of
    /// many queues. Where tenants have namespaces, it is about those of the tenant that the request names.
    Named(&'static [Role]),
    /// The same, but it spans all tenants: a request that names one of several namespaces finds nothing.
    Whole(&'static [Role]),
}

use Access::{Named, Public, Scoped, Whole};

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
    pub(super) handle: Handle,
    /// How it stands in the document.
    pub(super) describe: Describe,
}

/// A row of the table. Its description is a function of `src/api/doc`, in the file of what the route is about.
fn route<H, T>(method: Method, path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, Visit, Future = Answering>,
    T: 'static,
{
    let handle: Handle = Box::new(move |request, visit| handler.clone().call(request, visit));
    Route { method, path, access, handle, describe }
}

fn get<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, Visit, Future = Answering>,
    T: 'static,
{
    route(Method::GET, path, access, handler, describe)
}

fn post<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, Visit, Future = Answering>,
    T: 'static,
{
    route(Method::POST, path, access, handler, describe)
}

fn put<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, Visit, Future = Answering>,
    T: 'static,
{
    route(Method::PUT, path, access, handler, describe)
}

fn patch<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, Visit, Future = Answering>,
    T: 'static,
{
    route(Method::PATCH, path, access, handler, describe)
}

fn delete<H, T>(path: &'static str, access: Access, handler: H, describe: Describe) -> Route
where
    H: Handler<T, Visit, Future = Answering>,
    T: 'static,
{
    route(Method::DELETE, path, access, handler, describe)
}

/// All routes.
pub(super) fn table() -> Vec<Route> {
    vec![
        get("/ojs/manifest", Public, manifest::show, doc::system::manifest),
        get("/ojs/v1/health", Public, system::health, doc::system::health),
        get("/health", Public, system::health, doc::system::health),
        get("/healthz", Public, system::health, doc::system::health),
        get("/ready", Public, system::ready, doc::system::ready),
        get("/readyz", Public, system::ready, doc::system::ready),
        get("/openapi.json", Public, doc::page::document, doc::system::openapi),
        get("/docs", Public, doc::page::page, doc::system::page),
        get("/docs/errors", Public, doc::page::errors, doc::system::errors),
        get("/docs/script.js", Public, doc::page::script, doc::system::script),
        get("/docs/style.css", Public, doc::page::style, doc::system::style),
        get("/metrics", Whole(READERS), system::metrics, doc::system::metrics),
        post("/ojs/v1/jobs", Scoped(PRODUCERS), jobs::enqueue, doc::jobs::enqueue),
        get("/ojs/v1/jobs", Scoped(READERS), jobs::list, doc::jobs::list_by_cursor),
        post("/ojs/v1/jobs/batch", Scoped(PRODUCERS), jobs::enqueue_batch, doc::jobs::enqueue_batch),
        get("/ojs/v1/jobs/{id}", Scoped(ALL), jobs::show, doc::jobs::show),
        delete("/ojs/v1/jobs/{id}", Scoped(PRODUCERS), jobs::cancel, doc::jobs::cancel),
        post("/ojs/v1/jobs/{id}/cancel", Scoped(PRODUCERS), jobs::cancel, doc::jobs::cancel),
        post("/ojs/v1/jobs/{id}/activate", Scoped(PRODUCERS), jobs::activate, doc::jobs::activate),
        post("/ojs/v1/jobs/{id}/ack", Scoped(WORKERS), workers::ack_by_path, doc::workers::ack_by_path),
        post("/ojs/v1/jobs/{id}/nack", Scoped(WORKERS), workers::nack_by_path, doc::workers::nack_by_path),
        post("/ojs/v1/workers/fetch", Scoped(WORKERS), fetch::fetch, doc::workers::fetch),
        post("/ojs/v1/workers/ack", Scoped(WORKERS), workers::ack, doc::workers::ack),
        post("/ojs/v1/workers/nack", Scoped(WORKERS), workers::nack, doc::workers::nack),
        post("/ojs/v1/workers/progress", Scoped(WORKERS), progress::report_by_body, doc::progress::report_by_body),
        post("/ojs/v1/workers/heartbeat", Scoped(WORKERS), workers::heartbeat, doc::workers::heartbeat),
        post("/ojs/v1/workers/register", Scoped(WORKERS), workers::register, doc::workers::register),
        delete("/ojs/v1/workers/{id}", Scoped(WORKERS), workers::deregister, doc::workers::deregister),
        get("/ojs/v1/queues", Scoped(READERS), queues::list, doc::queues::list_all),
        get("/ojs/v1/queues/{name}", Scoped(READERS), queues::show, doc::queues::show),
        get("/ojs/v1/queues/{name}/stats", Scoped(READERS), queues::stats, doc::queues::stats),
        get("/ojs/v1/dead-letter", Scoped(READERS), dead_letter::list, doc::dead_letter::list_all),
        get("/ojs/v1/dead-letter/stats", Scoped(READERS), dead_letter::stats, doc::dead_letter::stats),
        get("/ojs/v1/dead-letter/{id}", Scoped(READERS), dead_letter::show, doc::dead_letter::show),
        delete("/ojs/v1/dead-letter/{id}", Scoped(ADMINS), dead_letter::forget, doc::dead_letter::forget),
        post("/ojs/v1/dead-letter/{id}/retry", Scoped(ADMINS), dead_letter::retry, doc::dead_letter::retry),
        post("/ojs/v1/workflows", Scoped(PRODUCERS), workflows::begin, doc::workflows::begin),
        get("/ojs/v1/workflows", Scoped(READERS), workflows::list, doc::workflows::list_all),
        get("/ojs/v1/workflows/{id}", Scoped(ALL), workflows::show, doc::workflows::show),
        delete("/ojs/v1/workflows/{id}", Scoped(PRODUCERS), workflows::cancel, doc::workflows::cancel),
        get("/ojs/v1/workflows/{id}/progress", Scoped(ALL), workflows::progress, doc::workflows::progress),
        get("/ojs/v1/events/stream", Scoped(READERS), events::stream, doc::events::stream),
        get("/ojs/v1/events", Scoped(READERS), events::poll, doc::events::poll),
        get("/ojs/v1/rate-limits", Scoped(READERS), rate_limits::list, doc::rate_limits::list_all),
        get("/ojs/v1/rate-limits/{key}", Scoped(READERS), rate_limits::show, doc::rate_limits::show),
        put("/ojs/v1/rate-limits/{key}", Scoped(ADMINS), rate_limits::put, doc::rate_limits::put),
        delete("/ojs/v1/rate-limits/{key}", Scoped(ADMINS), rate_limits::remove, doc::rate_limits::remove),
        get("/ojs/v1/admin/jobs/{id}", Scoped(READERS), jobs::show_to_admin, doc::jobs::show_to_admin),
        get("/ojs/v1/admin/planner", Whole(READERS), planner::list, doc::planner::list_all),
        get("/ojs/v1/admin/planner/events", Whole(READERS), round_stream::all_rounds, doc::planner::all_rounds),
        get("/ojs/v1/admin/planner/{name}", Whole(READERS), planner::show, doc::planner::show),
        put("/ojs/v1/admin/planner/{name}", Whole(ADMINS), planner::put, doc::planner::put),
        delete("/ojs/v1/admin/planner/{name}", Whole(ADMINS), planner::remove, doc::planner::remove),
        get("/ojs/v1/admin/planner/{name}/events", Whole(READERS), round_stream::rounds_of, doc::planner::rounds_of),
        get("/ojs/v1/admin/planner/{name}/rounds", Whole(READERS), planner::rounds, doc::planner::rounds),
        get("/ojs/v1/admin/planner/{name}/tenants", Whole(READERS), planner::tenants, doc::planner::tenants),
        get("/ojs/v1/admin/planner/{name}/preview", Whole(READERS), planner::preview, doc::planner::preview),
        post("/ojs/v1/admin/planner/{name}/run", Whole(ADMINS), planner::run, doc::planner::run),
        post("/ojs/v1/admin/planner/{name}/pause", Whole(READERS), planner::pause, doc::planner::pause),
        post("/ojs/v1/admin/planner/{name}/resume", Whole(READERS), planner::resume, doc::planner::resume),
        get("/ojs/v1/admin/pools", Named(READERS), pools::list, doc::pools::list_all),
        post("/ojs/v1/admin/pools", Named(ADMINS), pools::add, doc::pools::add),
        get("/ojs/v1/admin/pools/{name}", Named(READERS), pools::show, doc::pools::show),
        put("/ojs/v1/admin/pools/{name}", Named(ADMINS), pools::put, doc::pools::put),
        delete("/ojs/v1/admin/pools/{name}", Named(ADMINS), pools::remove, doc::pools::remove),
        get("/ojs/v1/admin/scheduling/stats", Named(READERS), scheduling::stats, doc::pools::scheduling_stats),
        get("/ojs/v1/admin/scheduling/config", Whole(READERS), scheduling::config, doc::pools::scheduling_config),
        put(
            "/ojs/v1/admin/scheduling/config",
            Whole(ADMINS),
            scheduling::put_config,
            doc::pools::put_scheduling_config,
        ),
        get("/ojs/v1/admin/queues/{name}/rate-limit", Named(READERS), queue_limits::show, doc::queues::show_limit),
        put("/ojs/v1/admin/queues/{name}/rate-limit", Named(ADMINS), queue_limits::put, doc::queues::put_limit),
        delete(
            "/ojs/v1/admin/queues/{name}/rate-limit",
            Named(ADMINS),
            queue_limits::remove,
            doc::queues::remove_limit,
        ),
        post("/ojs/v1/jobs/results", Scoped(ALL), results::read, doc::progress::results),
        get("/ojs/v1/jobs/{id}/result", Scoped(ALL), results::show, doc::progress::result),
        get("/ojs/v1/jobs/{id}/progress", Scoped(ALL), progress::show, doc::progress::show),
        put("/ojs/v1/jobs/{id}/progress", Scoped(WORKERS), progress::report, doc::progress::report),
        get("/ojs/v1/jobs/{id}/checkpoint", Scoped(WATCHERS), progress::checkpoint, doc::progress::checkpoint_shown),
        put("/ojs/v1/jobs/{id}/checkpoint", Scoped(WORKERS), progress::keep, doc::progress::keep),
        post("/ojs/v1/jobs/{id}/checkpoint", Scoped(WORKERS), progress::keep, doc::progress::keep),
        delete(
            "/ojs/v1/jobs/{id}/checkpoint",
            Scoped(WORKERS),
            progress::drop_checkpoint,
            doc::progress::drop_checkpoint,
        ),
        post("/ojs/v1/workers/beat", Scoped(WORKERS), workers::heartbeat, doc::workers::heartbeat),
        get("/ojs/v1/workers/{id}/health", Named(WATCHERS), admin_workers::health, doc::workers::health),
        post("/ojs/v1/queues/{name}/pause", Named(READERS), queues::pause, doc::queues::pause),
        post("/ojs/v1/queues/{name}/resume", Named(READERS), queues::resume, doc::queues::resume),
        get("/ojs/v1/queues/{name}/config", Named(READERS), queue_config::show, doc::queues::show_config),
        put("/ojs/v1/queues/{name}/config", Named(ADMINS), queue_config::put, doc::queues::put_config),
        delete("/ojs/v1/dead-letter", Scoped(ADMINS), dead_letter::forget_many, doc::dead_letter::forget_many),
        post("/ojs/v1/dead-letter/retry", Scoped(ADMINS), dead_letter::retry_many, doc::dead_letter::retry_many),
        get("/ojs/v1/cron", Named(READERS), crons::list, doc::crons::list_all),
        post("/ojs/v1/cron", Named(PRODUCERS), crons::register, doc::crons::register),
        get("/ojs/v1/cron/{name}", Named(READERS), crons::show, doc::crons::show),
        patch("/ojs/v1/cron/{name}", Named(PRODUCERS), crons::change, doc::crons::change),
        delete("/ojs/v1/cron/{name}", Named(PRODUCERS), crons::remove, doc::crons::remove),
        get("/ojs/v1/cron/{name}/next", Named(READERS), crons::next_times, doc::crons::next_times),
        post("/ojs/v1/cron/{name}/run", Named(PRODUCERS), crons::run, doc::crons::run),
        post("/ojs/v1/cron-preview", Named(ALL), crons::preview, doc::crons::preview),
        get("/ojs/v1/admin/stats", Whole(READERS), admin::stats, doc::admin::stats),
        get("/ojs/v1/admin/queues", Named(READERS), admin::queues, doc::queues::list_for_admin),
        get("/ojs/v1/admin/queues/{name}", Named(READERS), admin::queue, doc::queues::show_to_admin),
        delete("/ojs/v1/admin/queues/{name}/jobs", Named(ADMINS), admin_jobs::purge, doc::queues::purge),
        get("/ojs/v1/admin/queues/{name}/config", Named(READERS), queue_config::show, doc::queues::show_config),
        put("/ojs/v1/admin/queues/{name}/config", Named(ADMINS), queue_config::put, doc::queues::put_config),
        post("/ojs/v1/admin/queues/{name}/pause", Named(READERS), queues::pause_as_admin, doc::queues::pause),
        post("/ojs/v1/admin/queues/{name}/resume", Named(READERS), queues::resume_as_admin, doc::queues::resume),
        get("/ojs/v1/admin/dead-letter", Scoped(READERS), dead_letter::list_items, doc::dead_letter::list_items),
        delete("/ojs/v1/admin/dead-letter", Scoped(ADMINS), dead_letter::forget_many, doc::dead_letter::forget_many),
        get("/ojs/v1/admin/dead-letter/stats", Scoped(READERS), dead_letter::stats, doc::dead_letter::stats),
        post("/ojs/v1/admin/dead-letter/retry", Scoped(ADMINS), dead_letter::retry_many, doc::dead_letter::retry_many),
        get(
            "/ojs/v1/admin/dead-letter/{id}",
            Scoped(READERS),
            dead_letter::show_to_admin,
            doc::dead_letter::show_to_admin,
        ),
        delete(
            "/ojs/v1/admin/dead-letter/{id}",
            Scoped(ADMINS),
            dead_letter::forget_silently,
            doc::dead_letter::forget_silently,
        ),
        post(
            "/ojs/v1/admin/dead-letter/{id}/retry",
            Scoped(ADMINS),
            dead_letter::retry_as_admin,
            doc::dead_letter::retry_as_admin,
        ),
        get("/ojs/v1/admin/jobs", Named(READERS), admin_jobs::list, doc::jobs::list_all),
        post("/ojs/v1/admin/jobs/{id}/cancel", Scoped(ADMINS), admin_jobs::cancel, doc::jobs::cancel_as_admin),
        post("/ojs/v1/admin/jobs/{id}/retry", Scoped(ADMINS), admin_jobs::retry, doc::jobs::retry),
        post("/ojs/v1/admin/jobs/bulk/retry", Named(ADMINS), admin_jobs::retry_many, doc::jobs::retry_many),
        post("/ojs/v1/admin/jobs/bulk/cancel", Named(ADMINS), admin_jobs::cancel_many, doc::jobs::cancel_many),
        post("/ojs/v1/admin/jobs/bulk/delete", Named(ADMINS), admin_jobs::delete_many, doc::jobs::delete_many),
        get("/ojs/v1/admin/workers", Named(READERS), admin_workers::list, doc::workers::list_all),
        get("/ojs/v1/admin/workers/{id}", Named(READERS), admin_workers::show, doc::workers::show),
        delete("/ojs/v1/admin/workers/{id}", Named(ADMINS), admin_workers::remove, doc::workers::remove),
        post("/ojs/v1/admin/workers/{id}/quiet", Named(READERS), admin_workers::quiet, doc::workers::quiet),
        post("/ojs/v1/admin/workers/{id}/resume", Named(READERS), admin_workers::resume, doc::workers::resume),
        post("/ojs/v1/admin/workers/{id}/terminate", Named(ADMINS), admin_workers::terminate, doc::workers::terminate),
        get("/ojs/v1/webhooks/subscriptions", Whole(READERS), webhooks::list, doc::webhooks::list_all),
        post("/ojs/v1/webhooks/subscriptions", Whole(ADMINS), webhooks::create, doc::webhooks::create),
        get("/ojs/v1/webhooks/subscriptions/{id}", Whole(READERS), webhooks::show, doc::webhooks::show),
        patch("/ojs/v1/webhooks/subscriptions/{id}", Whole(ADMINS), webhooks::change, doc::webhooks::change),
        delete("/ojs/v1/webhooks/subscriptions/{id}", Whole(ADMINS), webhooks::remove, doc::webhooks::remove),
        post(
            "/ojs/v1/webhooks/subscriptions/{id}/rotate-secret",
            Whole(ADMINS),
            webhooks::rotate,
            doc::webhooks::rotate,
        ),
        get("/ojs/v1/webhooks/deliveries", Whole(READERS), webhooks::deliveries, doc::webhooks::deliveries),
        get("/ojs/v1/webhooks/deliveries/{id}", Whole(READERS), webhooks::delivery, doc::webhooks::delivery_shown),
        post("/ojs/v1/webhooks/deliveries/{id}/retry", Whole(ADMINS), webhooks::redeliver, doc::webhooks::redeliver),
        get("/ojs/v1/admin/tenants", Whole(READERS), tenants::list, doc::tenants::list_all),
        get("/ojs/v1/admin/tenants/{id}", Whole(READERS), tenants::show, doc::tenants::show),
        put("/ojs/v1/admin/tenants/{id}", Whole(ADMINS), tenants::put, doc::tenants::put),
        delete("/ojs/v1/admin/tenants/{id}", Whole(ADMINS), tenants::remove, doc::tenants::remove),
        put("/ojs/v1/admin/tenants/{id}/limits", Whole(ADMINS), tenants::put_limits, doc::tenants::put_limits),
        get("/ojs/v1/admin/tenants/{id}/stats", Scoped(READERS), tenants::stats, doc::tenants::stats),
        get("/ojs/v1/admin/planner/{name}/shadow", Whole(READERS), planner::show_shadow, doc::planner::shadow),
        get("/ojs/v1/admin/sidekiq/jobs/{id}", Whole(READERS), sidekiq::show_job, doc::sidekiq::show_job),
        get("/ojs/v1/admin/tenants/{id}/noise", Whole(READERS), noise::show, doc::tenants::noise),
        post("/ojs/v1/admin/tenants/{id}/noise/reset", Whole(ADMINS), noise::reset, doc::tenants::reset_noise),
        get("/ojs/v1/admin/tenants/{id}/jobs", Scoped(READERS), tenants::jobs, doc::tenants::jobs_of),
        get("/ojs/v1/admin/keys", Whole(ADMINS), keys::list, doc::keys::list_all),
        post("/ojs/v1/admin/keys", Whole(ADMINS), keys::create, doc::keys::create),
        delete("/ojs/v1/admin/keys/{id}", Whole(ADMINS), keys::revoke, doc::keys::revoke),
    ]
}

/// Method, path and access of every route, for whoever checks that none is forgotten.
pub fn routes() -> Vec<(String, &'static str, Access)> {
    table().into_iter().map(|route| (route.method.to_string(), route.path, route.access)).collect()
}
