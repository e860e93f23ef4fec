//! Workers for admins: who there is, what they hold, and what they are to do.

use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::job::time;
use crate::store::{SetDirectiveOutcome, Worker};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /admin/workers`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_admin_query(&Query::parse(&uri))?;
    let workers = api.store().workers().await?;
    let count = |name: &str| workers.iter().filter(|worker| state(&api, worker) == name).count();
    let (running, stale) = (count("running"), count("stale"));
    let mut items = Vec::new();
    for worker in workers.iter().skip(page.offset).take(page.limit) {
        let held = api.store().leased_by(&worker.id).await?;
        items.push(describe(&api, worker, held.len().into()));
    }
    let summary = json!({
        "total": workers.len(),
        "running": running,
        "quiet": workers.len() - running - stale,
        "stale": stale,
    });
    Ok(ListResponse::from_values(items, &[]).with("summary", summary).paged(page, workers.len()))
}

/// `GET /admin/workers/{id}`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let worker = find(&api, &id).await?;
    let held = api.store().leased_by(&id).await?;
    let mut shown = describe(&api, &worker, held.len().into());
    shown["active_job_ids"] = held.into();
    Ok(response::json(StatusCode::OK, &shown))
}

/// `GET /workers/{id}/health`: 503 for one that was silent for too long.
pub(crate) async fn health(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let worker = find(&api, &id).await?;
    let state = state(&api, &worker);
    let status = if state == "stale" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let body = json!({"worker_id": id, "state": state, "last_heartbeat_at": time::rfc3339(worker.seen)});
    Ok(response::json(status, &body))
}

/// `POST /admin/workers/{id}/quiet`: it gets no more jobs and finishes those that it has.
pub(crate) async fn quiet(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    direct(&api, &id, "quiet").await
}

/// `POST /admin/workers/{id}/resume`: a quiet one gets jobs again.
pub(crate) async fn resume(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    direct(&api, &id, "running").await
}

/// `POST /admin/workers/{id}/terminate`: it is to end, and does not go back.
pub(crate) async fn terminate(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    direct(&api, &id, "terminate").await
}

async fn direct(api: &Api, id: &str, directive: &str) -> Result<Response, ApiError> {
    match api.store().set_directive(id, directive).await? {
        SetDirectiveOutcome::Done => Ok(response::json(StatusCode::OK, &json!({"worker_id": id, "state": directive}))),
        SetDirectiveOutcome::Missing => Err(ApiError::not_found("worker", id)),
        SetDirectiveOutcome::Terminates => {
            let message = format!("Worker {id} was told to terminate, and does not go back.");
            Err(ApiError::new(StatusCode::CONFLICT, "conflict", message).with("worker_id", id))
        }
    }
}

/// `DELETE /admin/workers/{id}`: only one that was silent for too long; what it held is available again.
pub(crate) async fn remove(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    let worker = find(&api, &id).await?;
    if state(&api, &worker) != "stale" {
        let message = format!("Worker {id} was heard of a moment ago; only one that is silent can be removed.");
        let problem = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("worker_id", &id);
        return Err(problem.hint("POST …/terminate tells it to end."));
    }
    let handed_back = api.store().deregister(&id).await?.ok_or_else(|| ApiError::not_found("worker", &id))?;
    Ok(response::json(StatusCode::OK, &json!({"worker_id": id, "removed": true, "jobs_requeued": handed_back})))
}

async fn find(api: &Api, id: &str) -> Result<Worker, ApiError> {
    api.store().worker(id).await?.ok_or_else(|| ApiError::not_found("worker", id))
}

/// What a worker does: silent for too long, told to stop, or what it says itself.
fn state<'a>(api: &Api, worker: &'a Worker) -> &'a str {
    let silent = api.store().clock().now_ms() - worker.seen;
    if silent > api.inner.heartbeat_interval.as_millis() as i64 * 3 {
        return "stale";
    }
    match worker.directive.as_str() {
        "" | "running" => &worker.state,
        directive => directive,
    }
}

fn describe(api: &Api, worker: &Worker, active: Value) -> Value {
    let mut shown = json!({
        "id": worker.id,
        "state": state(api, worker),
        "active_jobs": active,
        "started_at": worker.since.map(time::rfc3339),
        "last_heartbeat_at": time::rfc3339(worker.seen),
    });
    for (name, value) in &worker.fields {
        // What the worker told about itself is kept as JSON.
        shown[name.as_str()] = serde_json::from_str(value).unwrap_or(Value::Null);
    }
    shown
}
