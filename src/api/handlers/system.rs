//! Health, readiness and metrics.

use crate::api::answers::system::{BackendHealth, Health, NotReady, QueueNumbers, Ready, WorkerNumbers};
use crate::api::error::ApiError;
use crate::api::{Api, response};
use crate::planner::{RuleStats, ScalingOptions, ScalingReader, ScalingReport};
use crate::rules::KnownRules;
use crate::store::{Error, Queue, TenantJobs};
use crate::telemetry::{
    DispatchLevels, Format, LimitLevel, MOST_KEYS, MOST_TENANTS, PoolLevel, ScalingLevel, TenantLevel,
};
use axum::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time that `/ready` waits for the store. The probes of Kubernetes time out after a second by default.
const READY_WITHIN: Duration = Duration::from_millis(900);
/// The number of queues whose depth is measured for one scrape.
const MOST_QUEUES: usize = 200;
/// The number of pages of tenants that are read for one scrape.
const MOST_TENANT_PAGES: usize = 10;
/// The number of plan rules that are read for one scrape.
const MOST_RULES: usize = 50;

/// `GET /health`: 200 while the store responds, otherwise 503 in the same shape. The route is public, so its cost does not
/// depend on the number of queues.
pub(crate) async fn health(api: Api) -> Response {
    let started = Instant::now();
    let queues = api.store().queue_numbers().await;
    // A whole number, because typed clients expect one.
    let latency_ms = started.elapsed().as_millis() as u64;
    let uptime = api.inner.started.elapsed().as_secs();
    let workers = api.store().worker_count().await.unwrap_or(0);
    let (status, backend, (all, paused)) = match &queues {
        Ok(numbers) => {
            let backend = BackendHealth { kind: "redis", status: "ok", latency_ms: Some(latency_ms), error: None };
            (StatusCode::OK, backend, *numbers)
        }
        Err(error) => {
            tracing::debug!(%error, "unhealthy");
            let error = Some("the store is not available");
            let backend = BackendHealth { kind: "redis", status: "unhealthy", latency_ms: None, error };
            (StatusCode::SERVICE_UNAVAILABLE, backend, (0, 0))
        }
    };
    let body = Health {
        status: if queues.is_ok() { "ok" } else { "unhealthy" },
        version: "1.0",
        uptime_seconds: uptime,
        backend,
        queues: QueueNumbers { active: all.saturating_sub(paused), paused },
        workers: WorkerNumbers { connected: workers, stale: 0 },
    };
    with_retry_after(response::json(status, &body))
}

/// `GET /ready`: 200 if the server accepts requests, otherwise 503 with the reason.
pub(crate) async fn ready(api: Api) -> Response {
    let reason = if api.is_draining() {
        Some("shutting down")
    } else {
        match api.store().ready_within(READY_WITHIN).await {
            Ok(()) => None,
            Err(Error::Backend(error)) => {
                tracing::warn!(error, "not ready: Redis cannot run scripts");
                Some("the store does not run scripts")
            }
            Err(_) => Some("the store is not available"),
        }
    };
    let response = match reason {
        None => response::json(StatusCode::OK, &Ready { status: "ready" }),
        Some(reason) => response::json(StatusCode::SERVICE_UNAVAILABLE, &NotReady { status: "not_ready", reason }),
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
pub(crate) async fn metrics(api: Api, headers: HeaderMap) -> Result<Response, ApiError> {
    // The other metrics are most useful while Redis is unavailable, so they are returned without depths.
    if let Err(error) = measure_depths(&api).await {
        tracing::debug!(%error, "metrics without queue depths");
    }
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::accepted_by(accept);
    // The conformance suite accepts exactly `text/plain` and compares the type. Prometheus gets the type with a version.
    let kind = if accept == "text/plain" { accept } else { format.content_type() };
    let kind = HeaderValue::from_str(kind).map_err(|_| ApiError::internal())?;
    let mut response = api.metrics().encode(format).into_response();
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

async fn measure_depths(api: &Api) -> Result<(), Error> {
    let jobs = &api.metrics().jobs;
    jobs.workers(api.store().worker_count().await?);
    api.metrics().store.dispatch.dead_letters(api.store().dead_letter_count().await?);
    let known = api.registry().rules().known().await?;
    let reader = ScalingReader::open(api.registry(), ScalingOptions::default()).await?;
    let (mut levels, mut backlogs) = (Vec::new(), Vec::new());
    for name in known.names().take(MOST_RULES) {
        let Some(stats) = RuleStats::read(api.registry(), name).await? else { continue };
        levels.push((name, stats.levels()));
        backlogs.push(reader.of_rule(&stats).await?);
    }
    api.metrics().planner.levels(levels);
    measure_dispatch(api, &known).await?;
    measure_tenants(api).await?;
    let queues: Vec<Queue> = api.store().queues().await?.into_iter().take(MOST_QUEUES).collect();
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    backlogs.extend(reader.queues(&names).await?);
    api.metrics().scaling.levels(&backlogs.iter().map(scaling_level).collect::<Vec<_>>());
    let mut depths = Vec::new();
    for queue in queues {
        let counts = api.store().queue_counts(&queue.name).await?;
        depths.push((queue.name, counts));
    }
    jobs.depths(&depths);
    Ok(())
}

/// Returns the numbers of a report that metrics show.
fn scaling_level(report: &ScalingReport) -> ScalingLevel<'_> {
    ScalingLevel {
        kind: report.kind.name(),
        name: &report.name,
        backlog_jobs: report.backlog_jobs(),
        backlog_seconds: report.advice.backlog_seconds,
        load: report.advice.load,
        workers_wanted: report.advice.workers_wanted,
    }
}

/// Measures the tenants of the first pages by name, and the sum of all tenants.
async fn measure_tenants(api: &Api) -> Result<(), Error> {
    let (mut cursor, mut tenants) = (0, Vec::new());
    for _ in 0..MOST_TENANT_PAGES {
        let (next, some) = api.store().tenants_with_jobs(cursor, MOST_TENANTS).await?;
        tenants.extend(some);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let named = tenants.into_iter().filter(|(id, _)| id != crate::domain::tenant_id::DEFAULT);
    let level = |(tenant, jobs): (String, TenantJobs)| TenantLevel { tenant, active: jobs.active, depth: jobs.depth() };
    let levels: Vec<TenantLevel> = named.map(level).collect();
    let all = api.store().all_tenants_jobs().await?;
    api.metrics().store.tenants.levels(&levels, (all.active, all.depth()));
    Ok(())
}

async fn measure_dispatch(api: &Api, known: &KnownRules) -> Result<(), Error> {
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
    // The key of a job may equal the name of a queue; both share a label then.
    let mut levels: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for limit in &limits {
        let level = levels.entry(limit.key.to_string()).or_default();
        *level = (level.0 + limit.running, level.1 + limit.waiting());
    }
    let queues = scheduling.queues.iter().map(|(name, queue)| (name.as_str(), queue.ratio(total)));
    let pools = bounded.iter().zip(&scheduling.pools);
    let pools = pools.map(|((name, most), pool)| PoolLevel { name, active: pool.active_jobs, most: *most });
    let limits = levels.iter().map(|(key, (active, waiting))| LimitLevel { key, active: *active, waiting: *waiting });
    api.metrics().store.dispatch.levels(&DispatchLevels {
        queues: queues.collect(),
        pools: pools.collect(),
        limits: limits.collect(),
    });
    Ok(())
}
