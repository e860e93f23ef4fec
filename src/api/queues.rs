//! Queues: list, how many jobs they hold, pause and resume.

use super::listing::Listing;
use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer, queue_config};
use crate::job::{State as JobState, names, time};
use crate::store::{JobFilter, Queue};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::HashSet;

/// `GET /queues`.
pub(super) async fn list(api: Api, uri: Uri) -> Result<Response, Problem> {
    let page = Page::of(&Query::of(&uri))?;
    let (mut queues, paused) = (api.store().queues().await?, api.store().paused_queues().await?);
    if is_shared(&api) {
        let (jobs, _) = api.store().find_jobs(&JobFilter::default()).await?;
        let own: HashSet<String> = jobs.into_iter().map(|job| job.queue).collect();
        queues.retain(|queue| own.contains(&queue.name));
    }
    let shown = queues.iter().skip(page.offset).take(page.limit);
    let items: Vec<Value> = shown
        .map(|queue| {
            let status = status(paused.contains_key(&queue.name));
            json!({"name": queue.name, "status": status, "created_at": time::rfc3339(queue.created)})
        })
        .collect();
    Ok(Listing::of_values(items, &["queues"]).paged(page, queues.len()))
}

/// `GET /queues/{name}`.
pub(super) async fn show(api: Api, Name(name): Name) -> Result<Response, Problem> {
    let (queue, shown) = find(&api, &name).await?;
    let config = match is_shared(&api) {
        true => json!({}),
        false => queue_config::describe(&api, &name).await?,
    };
    let body = json!({
        "queue": shown,
        "name": name,
        "state": shown["status"],
        "config": config,
        "stats": shown,
        "created_at": time::rfc3339(queue.created),
    });
    Ok(answer::value(StatusCode::OK, &body))
}

/// `GET /queues/{name}/stats`.
pub(super) async fn stats(api: Api, Name(name): Name) -> Result<Response, Problem> {
    let (_, shown) = find(&api, &name).await?;
    let mut stats = shown.clone();
    stats["queue"] = name.into();
    // Some clients look for the counts at top level.
    let mut body = shown.clone();
    (body["queue"], body["stats"]) = (shown, stats);
    body["computed_at"] = time::rfc3339(api.store().clock().now_ms()).into();
    Ok(answer::value(StatusCode::OK, &body))
}

/// `POST /queues/{name}/pause`: jobs may come, none is handed out. A queue that is new springs into existence.
pub(super) async fn pause(api: Api, Name(name): Name) -> Result<Response, Problem> {
    Ok(answer::value(StatusCode::OK, &wrapped(&name, set_paused(&api, &name, true).await?)))
}

/// `POST /queues/{name}/resume`.
pub(super) async fn resume(api: Api, Name(name): Name) -> Result<Response, Problem> {
    Ok(answer::value(StatusCode::OK, &wrapped(&name, set_paused(&api, &name, false).await?)))
}

/// `POST /admin/queues/{name}/pause`, which answers without a wrapper.
pub(super) async fn pause_as_admin(api: Api, Name(name): Name) -> Result<Response, Problem> {
    Ok(answer::value(StatusCode::OK, &set_paused(&api, &name, true).await?))
}

/// `POST /admin/queues/{name}/resume`.
pub(super) async fn resume_as_admin(api: Api, Name(name): Name) -> Result<Response, Problem> {
    Ok(answer::value(StatusCode::OK, &set_paused(&api, &name, false).await?))
}

async fn set_paused(api: &Api, name: &str, pauses: bool) -> Result<Value, Problem> {
    names::check_queue("name", name)?;
    let by = api.actor();
    let was_paused = api.store().paused_since(name).await?.is_some();
    let Some(since) = api.store().pause_queue(name, pauses, &by).await? else {
        let message = "As many queues are paused as may be.";
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", message).with("queue", name));
    };
    if pauses != was_paused {
        tracing::info!(queue = name, by, "{}", if pauses { "queue paused" } else { "queue resumed" });
    }
    let now = || api.store().clock().now_ms();
    let (field, at) = if pauses { ("paused_at", since) } else { ("resumed_at", None) };
    let mut shown = json!({"name": name, "paused": pauses, "status": status(pauses)});
    shown[field] = time::rfc3339(at.unwrap_or_else(now)).into();
    Ok(shown)
}

fn wrapped(name: &str, mut shown: Value) -> Value {
    shown["queue"] = json!({"name": name, "paused": shown["paused"], "status": shown["status"]});
    shown
}

fn status(is_paused: bool) -> &'static str {
    if is_paused { "paused" } else { "active" }
}

/// Whether the caller sees nothing of other tenants, and queues are not its own.
fn is_shared(api: &Api) -> bool {
    let scope = api.store().scope();
    scope.is_apart() && !scope.owns_queues()
}

/// A queue, and how it is shown under the name that the caller knows it by.
async fn find(api: &Api, name: &str) -> Result<(Queue, Value), Problem> {
    let (scope, missing) = (api.store().scope(), || Problem::missing("queue", name));
    if scope.tenant().is_some() && names::check_queue("name", name).is_err() {
        return Err(missing()); // of another's namespace, perhaps
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
    let mut shown = json!({"name": name, "status": status(paused.is_some()), "paused": paused.is_some()});
    for (state, count) in &stats.counts {
        shown[*state] = (*count).into();
    }
    shown["depth"] = stats.count(JobState::Available).into();
    shown["oldest_available_at"] = stats.oldest_available.map(time::rfc3339).into();
    let latency = stats.oldest_available.map_or(0, |at| (api.store().clock().now_ms() - at).max(0));
    shown["latency_ms"] = latency.into();
    if let Some(bound) = api.store().bound(name).await? {
        shown["max_depth"] = bound.most.into();
    }
    if let Some(since) = paused {
        shown["paused_at"] = time::rfc3339(since).into();
    }
    Ok((queue, shown))
}
