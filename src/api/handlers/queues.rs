//! Queues: list, counts, pause and resume.

use super::{PauseAction, queue_config};
use crate::api::answers::queues::{
    JobCounts, PausedState, QueueAnswer, QueueConfig, QueueItem, QueuePaused, QueueState, QueueStatsAnswer, Status,
};
use crate::api::answers::types::Timestamp;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::domain::job::State as JobState;
use crate::domain::names;
use crate::store::{JobFilter, Queue};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
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
    let items: Vec<QueueItem> = page_items
        .map(|queue| {
            let status = Status::of(paused.contains_key(&queue.name));
            QueueItem { name: queue.name.clone(), status, created_at: Timestamp(queue.created) }
        })
        .collect();
    Ok(ListResponse::from_values(&items, &["queues"]).paged(page, queues.len()))
}

/// `GET /queues/{name}`.
pub(crate) async fn show(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let (queue, state) = find(&api, &name).await?;
    let config = match is_shared(&api) {
        true => QueueConfig::default(),
        false => queue_config::describe(&api, &name).await?,
    };
    let body = QueueAnswer {
        queue: &state,
        name: &name,
        state: &state.status,
        config,
        stats: &state,
        created_at: Timestamp(queue.created),
    };
    Ok(response::json(StatusCode::OK, &body))
}

/// `GET /queues/{name}/stats`.
pub(crate) async fn stats(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    let (_, state) = find(&api, &name).await?;
    let stats = QueueState { queue: Some(name), ..state.clone() };
    let computed_at = Timestamp(api.store().clock().now_ms());
    // Some clients read the counts at top level.
    let body = QueueStatsAnswer { members: &state, queue: &state, stats: &stats, computed_at };
    Ok(response::json(StatusCode::OK, &body))
}

/// `POST /queues/{name}/pause`: fetches get no jobs of the queue; enqueues still work. A queue that does not exist is
/// created.
pub(crate) async fn pause(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &with_wrapper(set_paused(&api, &name, PauseAction::Pause).await?)))
}

/// `POST /queues/{name}/resume`.
pub(crate) async fn resume(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &with_wrapper(set_paused(&api, &name, PauseAction::Resume).await?)))
}

/// `POST /admin/queues/{name}/pause`, whose response has no wrapper.
pub(crate) async fn pause_as_admin(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &set_paused(&api, &name, PauseAction::Pause).await?))
}

/// `POST /admin/queues/{name}/resume`.
pub(crate) async fn resume_as_admin(api: Api, PathParam(name): PathParam) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &set_paused(&api, &name, PauseAction::Resume).await?))
}

async fn set_paused(api: &Api, name: &str, action: PauseAction) -> Result<QueuePaused, ApiError> {
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
    let now = || api.store().clock().now_ms();
    let (paused_at, resumed_at) = match action {
        PauseAction::Pause => (Some(Timestamp(since.unwrap_or_else(now))), None),
        PauseAction::Resume => (None, Some(Timestamp(now()))),
    };
    let paused = action.is_pause();
    let queue = PausedState { name: name.to_owned(), paused, status: Status::of(paused) };
    Ok(QueuePaused { queue, paused_at, resumed_at, wrapped: None })
}

fn with_wrapper(paused: QueuePaused) -> QueuePaused {
    QueuePaused { wrapped: Some(paused.queue.clone()), ..paused }
}

/// Returns true if the caller shares its queues with other tenants, whose jobs it must not see.
fn is_shared(api: &Api) -> bool {
    let scope = api.store().scope();
    scope.is_apart() && !scope.owns_queues()
}

/// Finds a queue, and describes it under the name by which the caller knows it.
async fn find(api: &Api, name: &str) -> Result<(Queue, QueueState), ApiError> {
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
    let state = QueueState {
        name: name.to_owned(),
        status: Status::of(paused.is_some()),
        paused: paused.is_some(),
        depth: stats.count(JobState::Available),
        latency_ms: stats.oldest_available.map_or(0, |at| (api.store().clock().now_ms() - at).max(0)),
        oldest_available_at: stats.oldest_available.map(Timestamp),
        max_depth: api.store().bound(name).await?.map(|bound| bound.most),
        paused_at: paused.map(Timestamp),
        queue: None,
        counts: JobCounts(stats.counts),
    };
    Ok((queue, state))
}
