//! Scheduling: the dispatches of queues within the last minute, and the policy of all queues.

use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::{Api, response};
use crate::planner::KnownRules;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

/// The window over which the store counts dispatches.
const WINDOW: &str = "PT1M";

/// `GET /admin/scheduling/stats`.
pub(crate) async fn stats(api: Api) -> Result<Response, ApiError> {
    let scheduling = api.store().scheduling(&[]).await?;
    let total = scheduling.total();
    let queue = |(name, queue): (&String, &crate::store::Dispatched)| {
        json!({
            "name": name,
            "dispatch_count_1m": queue.jobs,
            "dispatch_ratio_1m": queue.ratio(total),
            "avg_wait_ms": queue.average_wait_ms(),
            "active_jobs": queue.active,
        })
    };
    let queues: Vec<Value> = scheduling.queues.iter().map(queue).collect();
    let body = json!({"stats": {"queues": queues, "window": WINDOW}, "queues": queues, "window": WINDOW});
    Ok(response::json(StatusCode::OK, &body))
}

/// `GET /admin/scheduling/config`.
pub(crate) async fn config(api: Api) -> Result<Response, ApiError> {
    Ok(response::json(StatusCode::OK, &describe(&*api.registry().rules().known().await?)))
}

/// `PUT /admin/scheduling/config`: changes the members that the body contains.
pub(crate) async fn put_config(api: Api, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?.value()?;
    Ok(response::json(StatusCode::OK, &describe(&*api.registry().rules().put_scheduling(&body).await?)))
}

fn describe(known: &KnownRules) -> Value {
    let mut object = known.dispatch.policy.scheduling_to_json();
    object["source"] = known.dispatch.scheduling_source().name().into();
    object
}
