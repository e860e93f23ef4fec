//! What an admin sees of the whole: totals, queues.

use super::listing::Listing;
use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer, queue_config};
use crate::job::{State as JobState, time};
use crate::store::Queue;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const MINUTE: i64 = 60_000;
/// Queues whose jobs are summed up.
const MOST_QUEUES: usize = 10_000;

/// `GET /admin/stats`.
pub(super) async fn stats(api: Api) -> Result<Response, Problem> {
    let store = api.store();
    let queues = store.queues().await?;
    let mut jobs: BTreeMap<&str, i64> = JobState::ALL.into_iter().map(|state| (state.name(), 0)).collect();
    for queue in queues.iter().take(MOST_QUEUES) {
        for (state, count) in store.queue_counts(&queue.name).await? {
            *jobs.entry(state).or_default() += count;
        }
    }
    let since = store.clock().now_ms() - MINUTE;
    let body = json!({
        "queues": queues.len(),
        "workers": store.worker_count().await?,
        "jobs": jobs,
        "throughput": {
            "processed_per_minute": store.ended_since(JobState::Completed, since).await?,
            "failed_per_minute": store.ended_since(JobState::Discarded, since).await?,
        },
        "uptime_seconds": api.inner.started.elapsed().as_secs(),
    });
    Ok(answer::value(StatusCode::OK, &body))
}

/// `GET /admin/queues`.
pub(super) async fn queues(api: Api, uri: Uri) -> Result<Response, Problem> {
    let page = Page::of_admin(&Query::of(&uri))?;
    let (queues, paused) = (api.store().queues().await?, api.store().paused_queues().await?);
    let scheduling = api.store().scheduling(&[]).await?;
    let shown: Vec<&Queue> = queues.iter().skip(page.offset).take(page.limit).collect();
    let names: Vec<&str> = shown.iter().map(|queue| queue.name.as_str()).collect();
    let ended = api.store().recently_ended(&names).await?;
    let mut items = Vec::new();
    for (place, queue) in shown.into_iter().enumerate() {
        let mut item = describe(&api, queue, paused.contains_key(&queue.name)).await?;
        let started = scheduling.queues.get(&queue.name);
        let ended = ended.as_ref().map(|ended| ended[place]);
        item["throughput"] = json!({
            "processed_per_minute": ended.map(|ended| ended.completed),
            "failed_per_minute": ended.map(|ended| ended.discarded),
            "started_per_minute": started.map_or(0, |queue| queue.jobs),
            "avg_wait_ms": started.map_or(0.0, |queue| queue.average_wait_ms() as f64),
        });
        items.push(item);
    }
    Ok(Listing::of_values(items, &[]).paged(page, queues.len()))
}

/// `GET /admin/queues/{name}`.
pub(super) async fn queue(api: Api, Name(name): Name) -> Result<Response, Problem> {
    let queue = api.store().queue(&name).await?.ok_or_else(|| Problem::missing("queue", &name))?;
    let since = api.store().paused_since(&name).await?;
    let mut shown = describe(&api, &queue, since.is_some()).await?;
    shown["configuration"] = queue_config::describe(&api, &name).await?;
    shown["oldest_available_at"] = api.store().queue_stats(&name).await?.oldest_available.map(time::rfc3339).into();
    Ok(answer::value(StatusCode::OK, &shown))
}

async fn describe(api: &Api, queue: &Queue, is_paused: bool) -> Result<Value, Problem> {
    Ok(json!({
        "name": queue.name,
        "state": if is_paused { "paused" } else { "active" },
        "paused": is_paused,
        "counts": api.store().queue_counts(&queue.name).await?,
        "created_at": time::rfc3339(queue.created),
    }))
}
