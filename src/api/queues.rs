//! Queues: list, how many jobs they hold, pause and resume.

use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer, queue_config, tenant};
use crate::fair::Isolation;
use crate::job::planned::queue_of;
use crate::job::tenant::DEFAULT;
use crate::job::{State as JobState, names, time};
use crate::store::{JobFilter, Queue};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::HashSet;

/// `GET /queues`.
pub(super) async fn list(api: Api, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let page = Page::of(&Query::of(&uri))?;
    let (mut queues, paused) = (api.store().queues().await?, api.store().paused_queues().await?);
    let start = namespace(&api, &headers)?.map(|tenant| queue_of(&tenant, "")).unwrap_or_default();
    if api.inner.tenancy.isolation == Isolation::Namespace {
        queues.retain(|queue| queue.name.starts_with(&start));
        // What is in nobody's namespace is all that the default tenant's key may see.
        let sees_all = api.store().scope().tenant().is_none();
        queues.retain(|queue| sees_all || !queue.name[start.len()..].contains('/'));
    } else if let Some(tenant) = api.store().scope().tenant() {
        let filter = JobFilter { tenant: Some(tenant.to_owned()), ..JobFilter::default() };
        let (jobs, _) = api.store().find_jobs(&filter).await?;
        let own: HashSet<String> = jobs.into_iter().map(|job| job.queue).collect();
        queues.retain(|queue| own.contains(&queue.name));
    }
    let shown = queues.iter().skip(page.offset).take(page.limit);
    let items: Vec<Value> = shown
        .map(|queue| {
            let status = status(paused.contains_key(&queue.name));
            json!({"name": queue.name[start.len()..], "status": status, "created_at": time::rfc3339(queue.created)})
        })
        .collect();
    let body = json!({"queues": items, "pagination": page.describe(queues.len())});
    Ok(answer::value(StatusCode::OK, &body))
}

/// `GET /queues/{name}`.
pub(super) async fn show(api: Api, Name(name): Name, headers: HeaderMap) -> Result<Response, Problem> {
    let own = own_queue(&api, &name, &headers)?;
    let (queue, shown) = find(&api, &name, &headers).await?;
    let config = match is_shared(&api) {
        true => json!({}),
        false => queue_config::describe(&api, &own).await?,
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
pub(super) async fn stats(api: Api, Name(name): Name, headers: HeaderMap) -> Result<Response, Problem> {
    let (_, shown) = find(&api, &name, &headers).await?;
    let mut plain = shown.clone();
    plain["queue"] = name.into();
    let now = time::rfc3339(api.store().clock().now_ms());
    let body = json!({"queue": shown, "status": shown["status"], "stats": plain, "computed_at": now});
    Ok(answer::value(StatusCode::OK, &body))
}

/// `POST /queues/{name}/pause`: jobs may come, none is handed out. A queue that is new springs into existence.
pub(super) async fn pause(api: Api, Name(name): Name, headers: HeaderMap) -> Result<Response, Problem> {
    Ok(answer::value(StatusCode::OK, &wrapped(&name, set_paused(&api, &name, &headers, true).await?)))
}

/// `POST /queues/{name}/resume`.
pub(super) async fn resume(api: Api, Name(name): Name, headers: HeaderMap) -> Result<Response, Problem> {
    Ok(answer::value(StatusCode::OK, &wrapped(&name, set_paused(&api, &name, &headers, false).await?)))
}

/// `POST /admin/queues/{name}/pause`, which answers without a wrapper.
pub(super) async fn pause_as_admin(api: Api, Name(name): Name, headers: HeaderMap) -> Result<Response, Problem> {
    Ok(answer::value(StatusCode::OK, &set_paused(&api, &name, &headers, true).await?))
}

/// `POST /admin/queues/{name}/resume`.
pub(super) async fn resume_as_admin(api: Api, Name(name): Name, headers: HeaderMap) -> Result<Response, Problem> {
    Ok(answer::value(StatusCode::OK, &set_paused(&api, &name, &headers, false).await?))
}

async fn set_paused(api: &Api, name: &str, headers: &HeaderMap, pauses: bool) -> Result<Value, Problem> {
    names::check_queue("name", name)?;
    let Some(since) = api.store().pause_queue(&own_queue(api, name, headers)?, pauses).await? else {
        let message = "As many queues are paused as may be.";
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", message).with("queue", name));
    };
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

/// The tenant whose own queues a request is about, where tenants have some.
fn namespace(api: &Api, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    if api.inner.tenancy.isolation != Isolation::Namespace {
        return Ok(None);
    }
    Ok(tenant::of_caller(api, headers)?.filter(|tenant| tenant != DEFAULT))
}

/// Whether the caller's key is a tenant's, and queues are not.
fn is_shared(api: &Api) -> bool {
    api.inner.tenancy.isolation != Isolation::Namespace && api.store().scope().tenant().is_some()
}

/// The queue that a request means by a name.
pub(super) fn own_queue(api: &Api, name: &str, headers: &HeaderMap) -> Result<String, Problem> {
    Ok(namespace(api, headers)?.map_or_else(|| name.to_owned(), |tenant| queue_of(&tenant, name)))
}

/// A queue, and how it is shown under the name that the caller knows it by.
async fn find(api: &Api, name: &str, headers: &HeaderMap) -> Result<(Queue, Value), Problem> {
    let (own, missing) = (own_queue(api, name, headers)?, || Problem::missing("queue", name));
    let own = own.as_str();
    if api.store().scope().tenant().is_some() && names::check_queue("name", name).is_err() {
        return Err(missing()); // of another's namespace, perhaps
    }
    let queue = api.store().queue(own).await?.ok_or_else(missing)?;
    let stats = match tenant::of_caller(api, headers)? {
        Some(tenant) if api.inner.tenancy.isolation != Isolation::Namespace => {
            let stats = api.store().tenant_queue_stats(own, &tenant).await?;
            if is_shared(api) && stats.counts.values().all(|count| *count == 0) {
                return Err(missing());
            }
            stats
        }
        _ => api.store().queue_stats(own).await?,
    };
    let paused = api.store().paused_since(own).await?;
    let mut shown = json!({"name": name, "status": status(paused.is_some()), "paused": paused.is_some()});
    for (state, count) in &stats.counts {
        shown[*state] = (*count).into();
    }
    shown["depth"] = stats.count(JobState::Available).into();
    shown["oldest_available_at"] = stats.oldest_available.map(time::rfc3339).into();
    let latency = stats.oldest_available.map_or(0, |at| (api.store().clock().now_ms() - at).max(0));
    shown["latency_ms"] = latency.into();
    if let Some(bound) = api.store().bound(own).await? {
        shown["max_depth"] = bound.most.into();
    }
    if let Some(since) = paused {
        shown["paused_at"] = time::rfc3339(since).into();
    }
    Ok((queue, shown))
}
