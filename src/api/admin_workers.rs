//! Workers for admins: who there is, what they hold, and what they are to do.

use super::listing::Listing;
use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer};
use crate::job::time;
use crate::store::{SetDirectiveOutcome, Worker};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /admin/workers`.
pub(super) async fn list(api: Api, uri: Uri) -> Result<Response, Problem> {
    let page = Page::of_admin(&Query::of(&uri))?;
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
    Ok(Listing::of_values(items, &[]).with("summary", summary).paged(page, workers.len()))
}

/// `GET /admin/workers/{id}`.
pub(super) async fn show(api: Api, Name(id): Name) -> Result<Response, Problem> {
    let worker = find(&api, &id).await?;
    let held = api.store().leased_by(&id).await?;
    let mut shown = describe(&api, &worker, held.len().into());
    shown["active_job_ids"] = held.into();
    Ok(answer::value(StatusCode::OK, &shown))
}

/// `GET /workers/{id}/health`: 503 for one that was silent for too long.
pub(super) async fn health(api: Api, Name(id): Name) -> Result<Response, Problem> {
    let worker = find(&api, &id).await?;
    let state = state(&api, &worker);
    let status = if state == "stale" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let body = json!({"worker_id": id, "state": state, "last_heartbeat_at": time::rfc3339(worker.seen)});
    Ok(answer::value(status, &body))
}

/// `POST /admin/workers/{id}/quiet`: it gets no more jobs and finishes those that it has.
pub(super) async fn quiet(api: Api, Name(id): Name) -> Result<Response, Problem> {
    direct(&api, &id, "quiet").await
}

/// `POST /admin/workers/{id}/resume`: a quiet one gets jobs again.
pub(super) async fn resume(api: Api, Name(id): Name) -> Result<Response, Problem> {
    direct(&api, &id, "running").await
}

/// `POST /admin/workers/{id}/terminate`: it is to end, and does not go back.
pub(super) async fn terminate(api: Api, Name(id): Name) -> Result<Response, Problem> {
    direct(&api, &id, "terminate").await
}

async fn direct(api: &Api, id: &str, directive: &str) -> Result<Response, Problem> {
    match api.store().set_directive(id, directive).await? {
        SetDirectiveOutcome::Done => Ok(answer::value(StatusCode::OK, &json!({"worker_id": id, "state": directive}))),
        SetDirectiveOutcome::Missing => Err(Problem::missing("worker", id)),
        SetDirectiveOutcome::Terminates => {
            let message = format!("Worker {id} was told to terminate, and does not go back.");
            Err(Problem::new(StatusCode::CONFLICT, "conflict", message).with("worker_id", id))
        }
    }
}

/// `DELETE /admin/workers/{id}`: only one that was silent for too long; what it held is available again.
pub(super) async fn remove(api: Api, Name(id): Name) -> Result<Response, Problem> {
    let worker = find(&api, &id).await?;
    if state(&api, &worker) != "stale" {
        let message = format!("Worker {id} was heard of a moment ago; only one that is silent can be removed.");
        let problem = Problem::new(StatusCode::CONFLICT, "conflict", message).with("worker_id", &id);
        return Err(problem.hint("POST …/terminate tells it to end."));
    }
    let handed_back = api.store().deregister(&id).await?.ok_or_else(|| Problem::missing("worker", &id))?;
    Ok(answer::value(StatusCode::OK, &json!({"worker_id": id, "removed": true, "jobs_requeued": handed_back})))
}

async fn find(api: &Api, id: &str) -> Result<Worker, Problem> {
    api.store().worker(id).await?.ok_or_else(|| Problem::missing("worker", id))
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
