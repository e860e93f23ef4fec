//! Scheduling: the dispatches of queues within the last minute, and the policy of all queues.

use crate::api::answers::pools::{Dispatches, DispatchesAnswer, QueueDispatches, Scheduling, SchedulingSettings};
use crate::api::answers::types::{Ratio, Source};
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::{Api, response};
use crate::rules::KnownRules;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;

/// The window over which the store counts dispatches.
const WINDOW: &str = "PT1M";

/// `GET /admin/scheduling/stats`.
pub(crate) async fn stats(api: Api) -> Result<Response, ApiError> {
    let scheduling = api.store().scheduling(&[]).await?;
    let total = scheduling.total();
    let queue = |(name, queue): (&String, &crate::store::Dispatched)| QueueDispatches {
        name: name.clone(),
        dispatch_count_1m: queue.jobs,
        dispatch_ratio_1m: Ratio(queue.ratio(total)),
        avg_wait_ms: queue.average_wait_ms(),
        active_jobs: queue.active,
    };
    let stats = Dispatches { queues: scheduling.queues.iter().map(queue).collect(), window: WINDOW };
    Ok(response::json(StatusCode::OK, &DispatchesAnswer { members: &stats, stats: &stats }))
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

fn describe(known: &KnownRules) -> Scheduling {
    let settings = SchedulingSettings(known.dispatch.policy.scheduling_to_json());
    Scheduling { settings, source: Source(known.dispatch.scheduling_source().name()) }
}
