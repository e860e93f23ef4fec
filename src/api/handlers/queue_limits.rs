//! A queue's own rate limit: what the file says, or an admin in its place.

use super::rate_limits::{HINT, describe};
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::path::PathParam;
use crate::api::{Api, rate_limit_headers, response};
use crate::job::invalid::Kind;
use crate::job::{LimitChange, LimitKey, names};
use crate::planner::Source;
use crate::store::{Layer, LimitState};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

/// `GET /admin/queues/{name}/rate-limit`.
pub(crate) async fn show(api: Api, PathParam(queue): PathParam) -> Result<Response, ApiError> {
    let state = find(&api, &queue).await?;
    state.and_then(|state| shown(&queue, &state)).ok_or_else(|| missing(&queue))
}

/// `PUT /admin/queues/{name}/rate-limit`: all jobs of the queue, whatever limits of their own they have.
pub(crate) async fn put(api: Api, PathParam(queue): PathParam, request: Request) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let refused = |invalid| ApiError::from(invalid).hint(HINT);
    names::check_queue("name", &queue).map_err(|invalid| refused(invalid.of_kind(Kind::Policy)))?;
    let change = LimitChange::parse_lasting(body.fields()?.object()).map_err(refused)?;
    set_limit(&api, &queue, &change).await?;
    find(&api, &queue).await?.and_then(|state| shown(&queue, &state)).ok_or_else(ApiError::internal)
}

/// `DELETE /admin/queues/{name}/rate-limit`: the file's holds again, if there is one.
pub(crate) async fn remove(api: Api, PathParam(queue): PathParam) -> Result<Response, ApiError> {
    if api.store().set_limit(&LimitKey::queue(&queue), Layer::Admin, None, None).await? {
        let holds = find(&api, &queue).await?.and_then(|state| state.file);
        let holds = holds.map(|_| Source::File.name());
        return Ok(response::json(StatusCode::OK, &json!({"queue": queue, "removed": true, "holds": holds})));
    }
    if find(&api, &queue).await?.is_some_and(|state| state.file.is_some()) {
        let message = format!("The limit of queue {queue} stands in the configuration file.");
        let problem = ApiError::new(StatusCode::CONFLICT, "conflict", message).with("queue", &queue);
        return Err(problem.hint("Remove it from the file and restart, or PUT another one in its place."));
    }
    Err(missing(&queue))
}

/// Sets what an admin says about a queue in place of the file.
pub(crate) async fn set_limit(api: &Api, queue: &str, change: &LimitChange) -> Result<(), ApiError> {
    api.store().set_limit(&LimitKey::queue(queue), Layer::Admin, Some(&change.quota), None).await?;
    Ok(())
}

async fn find(api: &Api, queue: &str) -> Result<Option<LimitState>, ApiError> {
    Ok(api.store().limit(&LimitKey::queue(queue)).await?)
}

/// What was set, in the form in which it can be set again, and how it is used.
fn shown(queue: &str, state: &LimitState) -> Option<Response> {
    let (quota, source) = match (&state.admin, &state.file) {
        (Some(quota), _) => (quota, Source::Api),
        (None, Some(quota)) => (quota, Source::File),
        (None, None) => return None,
    };
    let mut body = Value::Object(quota.to_json());
    body["queue"] = queue.into();
    body["source"] = source.name().into();
    body["state"] = describe(state);
    Some(rate_limit_headers::add_state(response::json(StatusCode::OK, &body), state))
}

fn missing(queue: &str) -> ApiError {
    let hint = "PUT here sets one; GET /ojs/v1/rate-limits lists the limits that jobs bring along.";
    ApiError::not_found("limit of queue", queue).hint(hint)
}
