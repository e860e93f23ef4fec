//! The rate limit of a queue, from the configuration file or from an admin, who takes precedence.

use super::rate_limits::{HINT, describe};
use crate::api::answers::queues::{QueueLimit, QueueLimitRemoved};
use crate::api::answers::types as answers;
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, rate_limit_headers, response};
use crate::domain::invalid::Kind;
use crate::domain::limit::{LimitChange, LimitKey};
use crate::domain::names;
use crate::rules::RuleSource;
use crate::store::{LimitLayer, LimitState};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;

/// `GET /admin/queues/{name}/rate-limit`.
pub(crate) async fn show(api: Api, PathParam(queue): PathParam) -> Result<Response, ApiError> {
    let state = find(&api, &queue).await?;
    state.and_then(|state| limit_response(&queue, &state)).ok_or_else(|| missing(&queue))
}

/// `PUT /admin/queues/{name}/rate-limit`: limits all jobs of the queue, in addition to the limits of the jobs themselves.
pub(crate) async fn put(api: Api, PathParam(queue): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let refused = |invalid| ApiError::from(invalid).hint(HINT);
    names::check_queue("name", &queue).map_err(|invalid| refused(invalid.of_kind(Kind::Policy)))?;
    let change = LimitChange::parse_lasting(body.fields()?.object()).map_err(refused)?;
    set_limit(&api, &queue, &change).await?;
    find(&api, &queue).await?.and_then(|state| limit_response(&queue, &state)).ok_or_else(ApiError::internal)
}

/// `DELETE /admin/queues/{name}/rate-limit`: removes the limit of the admin, so that the file's applies, if there is one.
pub(crate) async fn remove(api: Api, PathParam(queue): PathParam) -> Result<Response, ApiError> {
    if api.store().set_limit(&LimitKey::queue(&queue), LimitLayer::Admin, None, None).await? {
        let holds = find(&api, &queue).await?.and_then(|state| state.file);
        let holds = holds.map(|_| RuleSource::File.name());
        return Ok(response::json(StatusCode::OK, &QueueLimitRemoved { queue: &queue, removed: true, holds }));
    }
    if find(&api, &queue).await?.is_some_and(|state| state.file.is_some()) {
        let message = format!("The limit of queue {queue} is set in the configuration file.");
        let error = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("queue", &queue);
        return Err(error.hint("Remove it from the file and restart, or PUT another limit in its place."));
    }
    Err(missing(&queue))
}

/// Sets the limit of a queue in place of that of the file.
pub(crate) async fn set_limit(api: &Api, queue: &str, change: &LimitChange) -> Result<(), ApiError> {
    api.store().set_limit(&LimitKey::queue(queue), LimitLayer::Admin, Some(&change.quota), None).await?;
    Ok(())
}

async fn find(api: &Api, queue: &str) -> Result<Option<LimitState>, ApiError> {
    Ok(api.store().limit(&LimitKey::queue(queue)).await?)
}

/// Describes the limit in the shape of a request, so that it can be sent back, and its usage in `state`.
fn limit_response(queue: &str, state: &LimitState) -> Option<Response> {
    let (quota, source) = match (&state.admin, &state.file) {
        (Some(quota), _) => (quota, RuleSource::Api),
        (None, Some(quota)) => (quota, RuleSource::File),
        (None, None) => return None,
    };
    let body =
        QueueLimit { quota: quota.into(), queue, source: answers::Source(source.name()), state: describe(state) };
    Some(rate_limit_headers::add_state(response::json(StatusCode::OK, &body), state))
}

fn missing(queue: &str) -> ApiError {
    let hint = "Send PUT to this path to set one. Send GET /ojs/v1/rate-limits for a list of the limits of jobs.";
    ApiError::not_found("limit of queue", queue).hint(hint)
}
