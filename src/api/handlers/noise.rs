//! The noisy-neighbour state of a tenant: show it, and release a throttled tenant.

use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::background::NoiseReport;
use crate::domain::invalid::Invalid;
use crate::domain::noisy::{NoisyNeighbors, Throttle};
use crate::domain::tenant_id;
use crate::domain::time::rfc3339;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /admin/tenants/{id}/noise`.
pub(crate) async fn show(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    check(&id)?;
    let neighbors = &api.inner.neighbors;
    let report = neighbors.report(&id).await?;
    Ok(response::json(StatusCode::OK, &describe(&id, neighbors.config(), &report)))
}

/// `POST /admin/tenants/{id}/noise/reset`.
pub(crate) async fn reset(api: Api, PathParam(id): PathParam) -> Result<Response, ApiError> {
    check(&id)?;
    let neighbors = &api.inner.neighbors;
    let released = neighbors.reset(&id).await?;
    let report = neighbors.report(&id).await?;
    let mut body = describe(&id, neighbors.config(), &report);
    body["released"] = released.is_some().into();
    Ok(response::json(StatusCode::OK, &body))
}

fn check(id: &str) -> Result<(), Invalid> {
    if tenant_id::is_id(id) { Ok(()) } else { Err(Invalid::field("id", tenant_id::EXPECTED, id)) }
}

fn describe(id: &str, config: &NoisyNeighbors, report: &NoiseReport) -> Value {
    let (figures, standing) = (&report.figures, &report.standing);
    let time = |at: Option<i64>| at.map(rfc3339);
    json!({
        "tenant_id": id,
        "enabled": config.enabled,
        "noisy": report.verdict.is_some(),
        "throttled": standing.is_throttled(),
        "noisy_since": time(standing.noisy_since),
        "spared_until": time(standing.spared_until),
        // The current verdict, or else the stored one that led to the throttle.
        "verdict": report.verdict.as_ref().or(standing.verdict.as_ref()),
        "throttle": standing.throttle.as_ref().map(describe_throttle),
        "figures": {
            "window_ms": report.window_ms,
            "depth": figures.depth,
            "active": figures.active,
            "enqueued": figures.enqueued,
            "completed": figures.completed,
            "failed": figures.failed,
            "worker_ms": figures.worker_ms,
        },
        "thresholds": {
            "queue_depth_ratio": config.queue_depth_ratio,
            "enqueue_rate_ratio": config.enqueue_rate_ratio,
            "active_ratio": config.active_ratio,
            "error_rate_ratio": config.error_rate_ratio,
            "worker_time_ratio": config.worker_time_ratio,
        },
    })
}

fn describe_throttle(throttle: &Throttle) -> Value {
    let mut object = json!({
        "action": throttle.action,
        "reason": throttle.reason,
        "original_weight": throttle.original_weight,
        "effective_weight": throttle.effective_weight,
        "since": rfc3339(throttle.since),
        "until": rfc3339(throttle.until),
    });
    if let Some((original, left)) = throttle.concurrency {
        object["original_concurrency"] = original.into();
        object["effective_concurrency"] = left.into();
    }
    object
}
