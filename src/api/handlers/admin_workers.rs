//! Workers in the admin API: list, show, and direct them.

use crate::api::answers::types::Timestamp;
use crate::api::answers::workers::{
    self as answers, WorkerDirected, WorkerHealth, WorkerNumbers, WorkerRemoved, WorkersSummary,
};
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::pool::{Directive, WorkerState};
use crate::store::{SetDirectiveOutcome, Worker};
use axum::http::{StatusCode, Uri};
use axum::response::Response;

/// `GET /admin/workers`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_admin_query(&Query::parse(&uri))?;
    let workers = api.store().workers().await?;
    let stale = workers.iter().filter(|worker| is_stale(&api, worker)).count();
    let runs = |worker: &&Worker| !is_stale(&api, worker) && worker.effective_state() == WorkerState::Running;
    let running = workers.iter().filter(runs).count();
    let mut items = Vec::new();
    for worker in workers.iter().skip(page.offset).take(page.limit) {
        let active = api.store().leased_by(&worker.id).await?;
        items.push(describe(&api, worker, active.len()));
    }
    let (quiet, total) = (workers.len() - running - stale, workers.len());
    let summary = WorkerNumbers { quiet, running, stale, total };
    Ok(ListResponse::from_values(&items, &[]).with(&WorkersSummary { summary }).paged(page, workers.len()))
}

/// `GET /admin/workers/{id}`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let worker = find(&api, &id).await?;
    let active = api.store().leased_by(&id).await?;
    let shown = answers::Worker { active_job_ids: Some(active.clone()), ..describe(&api, &worker, active.len()) };
    Ok(response::json(StatusCode::OK, &shown))
}

/// `GET /workers/{id}/health`: 503 for a worker without a recent heartbeat.
pub(crate) async fn health(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let worker = find(&api, &id).await?;
    let status = if is_stale(&api, &worker) { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let body = WorkerHealth { worker_id: &id, state: state(&api, &worker), last_heartbeat_at: Timestamp(worker.seen) };
    Ok(response::json(status, &body))
}

/// `POST /admin/workers/{id}/quiet`: the worker gets no more jobs and finishes its active ones.
pub(crate) async fn quiet(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    direct(&api, &id, Directive::Quiet).await
}

/// `POST /admin/workers/{id}/resume`: a quiet worker gets jobs again.
pub(crate) async fn resume(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    direct(&api, &id, Directive::Running).await
}

/// `POST /admin/workers/{id}/terminate`: asks the worker to exit. This cannot be undone.
pub(crate) async fn terminate(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    direct(&api, &id, Directive::Terminate).await
}

async fn direct(api: &Api, id: &str, directive: Directive) -> Result<Response, ApiError> {
    match api.store().set_directive(id, directive).await? {
        SetDirectiveOutcome::Done => {
            Ok(response::json(StatusCode::OK, &WorkerDirected { worker_id: id, state: directive.name() }))
        }
        SetDirectiveOutcome::Missing => Err(ApiError::not_found("worker", id)),
        SetDirectiveOutcome::Terminates => {
            let message = format!("Worker {id} is terminating; this cannot be undone.");
            Err(ApiError::new(StatusCode::CONFLICT, "conflict", message).with("worker_id", id))
        }
    }
}

/// `DELETE /admin/workers/{id}`: removes a stale worker and returns its active jobs to their queues.
pub(crate) async fn remove(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let worker = find(&api, &id).await?;
    if !is_stale(&api, &worker) {
        let message = format!("Worker {id} sent a heartbeat recently; only a stale worker can be removed.");
        let error = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("worker_id", &id);
        return Err(error.hint(format!("Send POST /ojs/v1/admin/workers/{id}/terminate to ask it to exit.")));
    }
    let handed_back = api.store().deregister(&id).await?.ok_or_else(|| ApiError::not_found("worker", &id))?;
    let body = WorkerRemoved { worker_id: &id, removed: true, jobs_requeued: handed_back };
    Ok(response::json(StatusCode::OK, &body))
}

async fn find(api: &Api, id: &str) -> Result<Worker, ApiError> {
    api.store().worker(id).await?.ok_or_else(|| ApiError::not_found("worker", id))
}

/// Returns true if the worker has sent no heartbeat recently.
fn is_stale(api: &Api, worker: &Worker) -> bool {
    let silence = api.store().clock().now_ms() - worker.seen;
    silence > api.inner.heartbeat_interval.as_millis() as i64 * 3
}

/// The state of a worker as responses show it.
fn state(api: &Api, worker: &Worker) -> &'static str {
    if is_stale(api, worker) { "stale" } else { worker.effective_state().name() }
}

fn describe<'a>(api: &Api, worker: &'a Worker, active_jobs: usize) -> answers::Worker<'a> {
    // The values that a worker reported are stored as JSON.
    let reported =
        |(name, value): (&'a String, &String)| (name.as_str(), serde_json::from_str(value).unwrap_or_default());
    answers::Worker {
        id: &worker.id,
        state: state(api, worker),
        active_jobs,
        active_job_ids: None,
        started_at: worker.since.map(Timestamp),
        last_heartbeat_at: Timestamp(worker.seen),
        reported: worker.fields.iter().map(reported).collect(),
    }
}
