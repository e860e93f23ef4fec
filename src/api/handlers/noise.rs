//! The noisy-neighbour state of a tenant: show it, and release a throttled tenant.

use crate::api::answers::noise::{Figures, Noise, NoiseReset, Thresholds, Throttle};
use crate::api::answers::types::Timestamp;
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, response};
use crate::background::NoiseReport;
use crate::domain::invalid::Invalid;
use crate::domain::noisy::NoisyNeighbors;
use crate::domain::{noisy as fairness, tenant_id};
use axum::http::StatusCode;
use axum::response::Response;

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
    let noise = describe(&id, neighbors.config(), &report);
    Ok(response::json(StatusCode::OK, &NoiseReset { noise, released: released.is_some() }))
}

fn check(id: &str) -> Result<(), Invalid> {
    if tenant_id::is_id(id) { Ok(()) } else { Err(Invalid::field("id", tenant_id::EXPECTED, id)) }
}

fn describe(id: &str, config: &NoisyNeighbors, report: &NoiseReport) -> Noise {
    let (figures, standing) = (&report.figures, &report.standing);
    let verdict = report.verdict.as_ref().or(standing.verdict.as_ref());
    Noise {
        tenant_id: id.to_owned(),
        enabled: config.enabled,
        noisy: report.verdict.is_some(),
        throttled: standing.is_throttled(),
        noisy_since: standing.noisy_since.map(Timestamp),
        spared_until: standing.spared_until.map(Timestamp),
        verdict: verdict.cloned(),
        throttle: standing.throttle.as_ref().map(describe_throttle),
        figures: Figures {
            window_ms: report.window_ms,
            depth: figures.depth,
            active: figures.active,
            enqueued: figures.enqueued,
            completed: figures.completed,
            failed: figures.failed,
            worker_ms: figures.worker_ms,
        },
        thresholds: Thresholds {
            queue_depth_ratio: config.queue_depth_ratio,
            enqueue_rate_ratio: config.enqueue_rate_ratio,
            active_ratio: config.active_ratio,
            error_rate_ratio: config.error_rate_ratio,
            worker_time_ratio: config.worker_time_ratio,
        },
    }
}

fn describe_throttle(throttle: &fairness::Throttle) -> Throttle {
    let (original, left) = throttle.concurrency.unzip();
    Throttle {
        action: throttle.action,
        reason: throttle.reason.clone(),
        original_weight: throttle.original_weight,
        effective_weight: throttle.effective_weight,
        since: Timestamp(throttle.since),
        until: Timestamp(throttle.until),
        original_concurrency: original,
        effective_concurrency: left,
    }
}
