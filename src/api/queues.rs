//! Queues: list, and how many jobs they hold.

use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer, tenant};
use crate::fair::Isolation;
use crate::job::planned::queue_of;
use crate::job::tenant::DEFAULT;
use crate::job::{State as JobState, time};
use crate::store::{Queue, QueueStats};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /queues`.
pub(super) async fn list(State(api): State<Api>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let page = Page::of(&Query::of(&uri))?;
    let mut queues = api.store().queues().await?;
    if let Some(tenant) = namespace(&api, &headers)? {
        let start = queue_of(&tenant, "");
        let own = |queue: Queue| Some(Queue { name: queue.name.strip_prefix(&start)?.to_owned(), ..queue });
        queues = queues.into_iter().filter_map(own).collect();
    }
    let shown = queues.iter().skip(page.offset).take(page.limit);
    let items: Vec<Value> = shown
        .map(|queue| json!({"name": queue.name, "status": "active", "created_at": time::rfc3339(queue.created)}))
        .collect();
    let body = json!({"queues": items, "pagination": page.describe(queues.len())});
    Ok(answer::value(StatusCode::OK, &body))
}

/// `GET /queues/{name}`.
pub(super) async fn show(State(api): State<Api>, Name(name): Name, headers: HeaderMap) -> Result<Response, Problem> {
    let (queue, stats) = find(&api, &name, &headers).await?;
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
pub(super) async fn stats(State(api): State<Api>, Name(name): Name, headers: HeaderMap) -> Result<Response, Problem> {
    let (_, stats) = find(&api, &name, &headers).await?;
    let shown = describe(&api, &name, &stats);
    let mut plain = shown.clone();
    plain["queue"] = name.into();
    let now = time::rfc3339(api.store().clock().now_ms());
    let body = json!({"queue": shown, "status": "active", "stats": plain, "computed_at": now});
    Ok(answer::value(StatusCode::OK, &body))
}

/// The tenant whose own queues a request is about, where tenants have some.
fn namespace(api: &Api, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let has_own = api.inner.tenancy.isolation == Isolation::Namespace;
    Ok(if has_own { tenant::wanted(headers)?.filter(|tenant| tenant != DEFAULT) } else { None })
}

async fn find(api: &Api, name: &str, headers: &HeaderMap) -> Result<(Queue, QueueStats), Problem> {
    let own = namespace(api, headers)?.map_or_else(|| name.to_owned(), |tenant| queue_of(&tenant, name));
    let queue = api.store().queue(&own).await?.ok_or_else(|| Problem::missing("queue", name))?;
    Ok((queue, api.store().queue_stats(&own).await?))
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
