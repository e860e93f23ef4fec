//! Health, readiness and metrics.

use super::problem::Problem;
use super::{Api, answer};
use crate::planner::{Known, RuleStats};
use crate::telemetry::{DispatchLevels, MOST_KEYS, MOST_TENANTS};
use axum::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::time::{Duration, Instant};

/// Queues whose depth is measured for one scrape.
const MOST_QUEUES: usize = 200;
/// Plan rules that are looked at for one scrape.
const TENANT_PORTIONS: usize = 10;
const MOST_RULES: usize = 50;

/// `GET /health`: 200 while the store answers, else 503 in the same shape.
pub(super) async fn health(api: Api) -> Response {
    let started = Instant::now();
    let queues = api.store().queues().await;
    let latency_ms = started.elapsed().as_secs_f64() * 1e3;
    let uptime = api.inner.started.elapsed().as_secs();
    let workers = api.store().worker_count().await.unwrap_or(0);
    let paused = api.store().paused_queues().await.map_or(0, |paused| paused.len());
    let (status, backend, active) = match &queues {
        Ok(queues) => {
            (StatusCode::OK, json!({"type": "redis", "status": "ok", "latency_ms": latency_ms}), queues.len())
        }
        Err(error) => {
            tracing::debug!(%error, "unhealthy");
            let backend = json!({"type": "redis", "status": "unhealthy", "error": "the store is not available"});
            (StatusCode::SERVICE_UNAVAILABLE, backend, 0)
        }
    };
    let body = json!({
        "status": if queues.is_ok() { "ok" } else { "unhealthy" },
        "version": "1.0",
        "uptime_seconds": uptime,
        "backend": backend,
        "queues": {"active": active.saturating_sub(paused), "paused": paused},
        "workers": {"connected": workers, "stale": 0},
    });
    with_retry_after(answer::value(status, &body))
}

/// `GET /ready`: whether to send requests here.
pub(super) async fn ready(api: Api) -> Response {
    let reason = if api.is_draining() {
        Some("shutting down")
    } else {
        let connected = api.store().connected_within(Duration::from_millis(200)).await;
        connected.is_err().then_some("the store is not available")
    };
    let response = match reason {
        None => answer::value(StatusCode::OK, &json!({"status": "ready"})),
        Some(reason) => {
            answer::value(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "not_ready", "reason": reason}))
        }
    };
    with_retry_after(response)
}

fn with_retry_after(mut response: Response) -> Response {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// `GET /metrics`.
pub(super) async fn metrics(api: Api, headers: HeaderMap) -> Result<Response, Problem> {
    // Without Redis there are no depths, but everything else is worth more than ever.
    if let Err(error) = measure_depths(&api).await {
        tracing::debug!(%error, "metrics without queue depths");
    }
    // A suite compares the type exactly when it asks for plain text; Prometheus asks for more and gets the version.
    let plain = headers.get(ACCEPT).is_some_and(|accept| accept == "text/plain");
    let kind = if plain { "text/plain" } else { "text/plain; version=0.0.4; charset=utf-8" };
    let mut response = api.metrics().encode().into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

async fn measure_depths(api: &Api) -> Result<(), crate::store::Error> {
    let jobs = &api.metrics().jobs;
    jobs.workers(api.store().worker_count().await?);
    let known = api.desk().rules().known().await?;
    let mut levels = Vec::new();
    for name in known.names().take(MOST_RULES) {
        levels.extend(RuleStats::read(api.desk(), name).await?.map(|stats| (name, stats.levels())));
    }
    api.metrics().planner.levels(levels);
    measure_dispatch(api, &known).await?;
    measure_tenants(api).await?;
    for queue in api.store().queues().await?.iter().take(MOST_QUEUES) {
        for (state, count) in api.store().queue_counts(&queue.name).await? {
            jobs.depth(&queue.name, state, count);
        }
    }
    Ok(())
}

/// Those of the first portions; all others are known by their sum.
async fn measure_tenants(api: &Api) -> Result<(), crate::store::Error> {
    let (mut cursor, mut tenants) = (0, Vec::new());
    for _ in 0..TENANT_PORTIONS {
        let (next, some) = api.store().tenants_with_jobs(cursor, MOST_TENANTS).await?;
        tenants.extend(some);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let named = tenants.into_iter().filter(|(id, _)| id != crate::job::tenant::DEFAULT);
    let levels: Vec<_> = named.map(|(id, jobs)| (id, jobs.active, jobs.depth())).collect();
    let all = api.store().all_tenants_jobs().await?;
    api.metrics().store.tenants.levels(&levels, (all.active, all.depth()));
    Ok(())
}

async fn measure_dispatch(api: &Api, known: &Known) -> Result<(), crate::store::Error> {
    let bounded: Vec<(&str, u64)> = known
        .dispatch
        .policy
        .pools
        .iter()
        .filter_map(|pool| Some((pool.name.as_str(), u64::from(pool.concurrency?))))
        .collect();
    let names: Vec<&str> = bounded.iter().map(|(name, _)| *name).collect();
    let scheduling = api.store().scheduling(&names).await?;
    let (_, limits) = api.store().limits(0, MOST_KEYS).await?;
    let total = scheduling.total();
    let queues = scheduling.queues.iter().map(|(name, queue)| (name.as_str(), queue.ratio(total)));
    let pools = bounded.iter().zip(&scheduling.pools).map(|((name, most), pool)| (*name, pool.active_jobs, *most));
    api.metrics().store.dispatch.levels(&DispatchLevels {
        queues: queues.collect(),
        pools: pools.collect(),
        limits: limits.iter().map(|limit| (limit.key.as_str(), limit.running, limit.waiting())).collect(),
    });
    Ok(())
}
