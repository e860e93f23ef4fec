//! Queues: list, and how many jobs they hold.

use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer};
use crate::job::{State as JobState, time};
use crate::store::{Queue, QueueStats};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /queues`.
pub(super) async fn list(api: Api, uri: Uri) -> Result<Response, Problem> {
    let page = Page::of(&Query::of(&uri))?;
    let queues = api.store().queues().await?;
    let shown = queues.iter().skip(page.offset).take(page.limit);
    let items: Vec<Value> = shown
        .map(|queue| json!({"name": queue.name, "status": "active", "created_at": time::rfc3339(queue.created)}))
        .collect();
    let body = json!({"queues": items, "pagination": page.describe(queues.len())});
    Ok(answer::value(StatusCode::OK, &body))
}

/// `GET /queues/{name}`.
pub(super) async fn show(api: Api, Name(name): Name) -> Result<Response, Problem> {
    let (queue, stats) = find(&api, &name).await?;
    let shown = describe(&api, &name, &stats);
    let body = json!({
        "queue": shown,
        "name": name,
        "state": "active",
        "stats": shown,
        "created_at": time::rfc3339(queue.created),
    });
    Ok(answer::value(StatusCode::OK, &body))
}

/// `GET /queues/{name}/stats`.
pub(super) async fn stats(api: Api, Name(name): Name) -> Result<Response, Problem> {
    let (_, stats) = find(&api, &name).await?;
    let shown = describe(&api, &name, &stats);
    let mut plain = shown.clone();
    plain["queue"] = name.into();
    let now = time::rfc3339(api.store().clock().now_ms());
    let body = json!({"queue": shown, "status": "active", "stats": plain, "computed_at": now});
    Ok(answer::value(StatusCode::OK, &body))
}

async fn find(api: &Api, name: &str) -> Result<(Queue, QueueStats), Problem> {
    let queue = api.store().queue(name).await?.ok_or_else(|| Problem::missing("queue", name))?;
    Ok((queue, api.store().queue_stats(name).await?))
}

fn describe(api: &Api, name: &str, stats: &QueueStats) -> Value {
    let mut shown = json!({"name": name, "status": "active", "paused": false});
    for (state, count) in &stats.counts {
        shown[*state] = (*count).into();
    }
    shown["depth"] = stats.count(JobState::Available).into();
    shown["oldest_available_at"] = stats.oldest_available.map(time::rfc3339).into();
    let latency = stats.oldest_available.map_or(0, |at| (api.store().clock().now_ms() - at).max(0));
    shown["latency_ms"] = latency.into();
    shown
}
