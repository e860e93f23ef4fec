//! Queues: list, counts, pause and resume.

use super::{PauseAction, queue_config};
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::job::State as JobState;
use crate::domain::{names, time};
use crate::store::{JobFilter, Queue};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::HashSet;

/// `GET /queues`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_query(&Query::parse(&uri))?;
    let (mut queues, paused) = (api.store().queues().await?, api.store().paused_queues().await?);
    if is_shared(&api) {
        let (jobs, _) = api.store().find_jobs(&JobFilter::default()).await?;
        let own: HashSet<String> = jobs.into_iter().map(|job| job.queue).collect();
        queues.retain(|queue| own.contains(&queue.name));
    }
    let page_items = queues.iter().skip(page.offset).take(page.limit);
    let items: Vec<Value> = page_items
        .map(|queue| {
            let status = status(paused.contains_key(&queue.name));
            json!({"name": queue.name, "status": status, "created_at": time::rfc3339(queue.created)})
        })
        .collect();
    Ok(ListResponse::from_values(items, &["queues"]).paged(page, queues.len()))
}

/// `GET /queues/{name}`.
pub(crate) async fn show(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let (queue, object) = find(&api, &name).await?;
    let config = match is_shared(&api) {
        true => json!({}),
        false => queue_config::describe(&api, &name).await?,
    };
    let body = json!({
        "queue": object,
        "name": name,
        "state": object["status"],
        "config": config,
        "stats": object,
        "created_at": time::rfc3339(queue.created),
    });
    Ok(response::json(StatusCode::OK, &body))
}

/// `GET /queues/{name}/stats`.
pub(crate) async fn stats(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let (_, object) = find(&api, &name).await?;
    let mut stats = object.clone();
    stats["queue"] = name.into();
    // Some clients read the counts at top level.
    let mut body = object.clone();
    (body["queue"], body["stats"]) = (object, stats);
    body["computed_at"] = time::rfc3339(api.store().clock().now_ms()).into();
    Ok(response::json(StatusCode::OK, &body))
}

/// `POST /queues/{name}/pause`: fetches get no jobs of the queue; enqueues still work. A queue that does not exist is
/// created.
pub(crate) async fn pause(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &with_wrapper(&name, set_paused(&api, &name, PauseAction::Pause).await?)))
}

/// `POST /queues/{name}/resume`.
pub(crate) async fn resume(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &with_wrapper(&name, set_paused(&api, &name, PauseAction::Resume).await?)))
}

/// `POST /admin/queues/{name}/pause`, whose response has no wrapper.
pub(crate) async fn pause_as_admin(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &set_paused(&api, &name, PauseAction::Pause).await?))
}

/// `POST /admin/queues/{name}/resume`.
pub(crate) async fn resume_as_admin(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &set_paused(&api, &name, PauseAction::Resume).await?))
}

async fn set_paused(api: &Api, name: &str, action: PauseAction) -> Result<Value, ApiError> {
    names::check_queue("name", name)?;
    let by = api.actor();
    let was_paused = api.store().paused_since(name).await?.is_some();
    let Some(since) = api.store().pause_queue(name, action.is_pause(), &by).await? else {
        let message = "The limit on the number of paused queues is reached.";
        return Err(ApiError::new(StatusCode::CONFLICT, "conflict", message).with("queue", name));
    };
    match action {
        PauseAction::Pause if !was_paused => tracing::info!(queue = name, by, "queue paused"),
        PauseAction::Resume if was_paused => tracing::info!(queue = name, by, "queue resumed"),
        PauseAction::Pause | PauseAction::Resume => {} // nothing changed
    }
    let (field, at) = match action {
        PauseAction::Pause => ("paused_at", since),
        PauseAction::Resume => ("resumed_at", None),
    };
    let now = || api.store().clock().now_ms();
    let paused = action.is_pause();
    let mut object = json!({"name": name, "paused": paused, "status": status(paused)});
    object[field] = time::rfc3339(at.unwrap_or_else(now)).into();
    Ok(object)
}

fn with_wrapper(name: &str, mut object: Value) -> Value {
    object["queue"] = json!({"name": name, "paused": object["paused"], "status": object["status"]});
    object
}

fn status(is_paused: bool) -> &'static str {
    if is_paused { "paused" } else { "active" }
}

/// Returns true if the caller shares its queues with other tenants, whose jobs it must not see.
fn is_shared(api: &Api) -> bool {
    let scope = api.store().scope();
    scope.is_apart() && !scope.owns_queues()
}

/// Finds a queue, and describes it under the name by which the caller knows it.
async fn find(api: &Api, name: &str) -> Result<(Queue, Value), ApiError> {
    let (scope, missing) = (api.store().scope(), || ApiError::not_found("queue", name));
    if scope.tenant().is_some() && names::check_queue("name", name).is_err() {
        return Err(missing()); // perhaps a queue of another namespace
    }
    let queue = api.store().queue(name).await?.ok_or_else(missing)?;
    let stats = match scope.tenant() {
        Some(tenant) if !scope.owns_queues() => {
            let stats = api.store().tenant_queue_stats(name, tenant).await?;
            if is_shared(api) && stats.counts.values().all(|count| *count == 0) {
                return Err(missing());
            }
            stats
        }
        _ => api.store().queue_stats(name).await?,
    };
    let paused = api.store().paused_since(name).await?;
    let mut object = json!({"name": name, "status": status(paused.is_some()), "paused": paused.is_some()});
    for (state, count) in &stats.counts {
        object[state.name()] = (*count).into();
    }
    object["depth"] = stats.count(JobState::Available).into();
    object["oldest_available_at"] = stats.oldest_available.map(time::rfc3339).into();
    let latency = stats.oldest_available.map_or(0, |at| (api.store().clock().now_ms() - at).max(0));
    object["latency_ms"] = latency.into();
    if let Some(bound) = api.store().bound(name).await? {
        object["max_depth"] = bound.most.into();
    }
    if let Some(since) = paused {
        object["paused_at"] = time::rfc3339(since).into();
    }
    Ok((queue, object))
}
