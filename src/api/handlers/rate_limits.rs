//! Rate limits: how they are used, and overrides of them.

use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, rate_limit_headers, response};
use crate::job::invalid::Invalid;
use crate::job::{LimitChange, LimitKey, LimitScope, Window, limit_change, time};
use crate::store::{Layer, LimitState};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

/// Parts of a divided key that one answer shows.
const MOST_PARTS: usize = 100;

/// What to look at when a limit is refused.
pub(crate) const HINT: &str = "docs/dispatch.md tells how a limit is written.";

/// `GET /rate-limits`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_query(&Query::parse(&uri))?;
    let (total, limits) = api.store().limits(page.offset, page.limit).await?;
    let items: Vec<Value> = limits.iter().map(summary).collect();
    Ok(ListResponse::from_values(items, &[]).paged(page, total as usize))
}

/// `GET /rate-limits/{key}`.
pub(crate) async fn show(api: Api, PathParam(key): PathParam, uri: Uri) -> Result<Response, ApiError> {
    let (key, state) = find(&api, &key, &uri).await?;
    let (total, parts) = match key.scope {
        LimitScope::Key => api.store().limit_parts(&key, MOST_PARTS).await?,
        _ => (0, Vec::new()),
    };
    let state = state.ok_or_else(|| missing(&key))?;
    let mut body = describe(&state);
    if total > 0 {
        let held_by_parts = parts.iter().map(LimitState::waiting).sum();
        body["waiting_count"] = state.waiting().max(held_by_parts).into();
        body["partitions"] = parts.iter().map(describe).collect::<Vec<_>>().into();
        body["partitions_total"] = total.into();
    }
    Ok(rate_limit_headers::add_state(response::json(StatusCode::OK, &body), &state))
}

/// `PUT /rate-limits/{key}`: overrides what it names, perhaps for a while. A key that nobody has used yet will do.
pub(crate) async fn put(
    api: Api,
    PathParam(name): PathParam,
    uri: Uri,
    request: Request,
) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    let (key, state) = find(&api, &name, &uri).await?;
    // What is listed can be overridden, whatever its key looks like.
    if let (Err(invalid), None) = (limit_change::check_key(&key), &state) {
        return Err(ApiError::from(invalid).hint("GET /ojs/v1/rate-limits lists the keys that are in use."));
    }
    let refused = |invalid| ApiError::from(invalid).hint(HINT);
    let change = LimitChange::parse(&key.to_string(), fields.object()).map_err(refused)?;
    if let Some(state) = state.filter(|state| change.repeats(&state.quota, state.overridden.flatten())) {
        return Ok(shown(&state));
    }
    if change.quota.is_empty() {
        return Err(refused(LimitChange::is_empty()));
    }
    if !api.store().override_limit(&key, &change.quota, change.until).await? {
        return Err(refused(LimitChange::is_past(fields.get("expires_at").unwrap_or_default())));
    }
    api.store().limit(&key).await?.map_or_else(|| Err(missing(&key)), |state| Ok(shown(&state)))
}

/// `DELETE /rate-limits/{key}`: what was overridden holds again.
pub(crate) async fn remove(api: Api, PathParam(name): PathParam, uri: Uri) -> Result<Response, ApiError> {
    let (key, _) = find(&api, &name, &uri).await?;
    if !api.store().set_limit(&key, Layer::Override, None, None).await? {
        let problem = ApiError::not_found("override", &name);
        return Err(problem.hint("GET /ojs/v1/rate-limits shows an `override` with each limit that has one."));
    }
    match api.store().limit(&key).await? {
        Some(state) => Ok(response::json(StatusCode::OK, &describe(&state))),
        // Nothing but the override said anything about it.
        None => Ok(response::json(StatusCode::OK, &named(&key, 0))),
    }
}

/// The limit that a path and its `scope` mean, and its state if it is known. Without a scope it is the key of jobs, unless only a
/// limit of the server's is known, or possible, that is shown in the same way.
async fn find(api: &Api, name: &str, uri: &Uri) -> Result<(LimitKey, Option<LimitState>), ApiError> {
    let query = Query::parse(uri);
    let keys = match query.get("scope") {
        None => LimitKey::candidates(name),
        Some(scope) => {
            let expected = format!("one of {}", LimitScope::NAMES.join(", "));
            let scope = LimitScope::parse(scope).ok_or_else(|| Invalid::field("scope", expected, scope))?;
            vec![LimitKey::of(scope, name)]
        }
    };
    for key in &keys {
        if let Some(state) = api.store().limit(key).await? {
            return Ok((key.clone(), Some(state)));
        }
    }
    let possible = keys.iter().find(|key| limit_change::check_key(key).is_ok());
    Ok((possible.unwrap_or(&keys[0]).clone(), None))
}

fn missing(key: &LimitKey) -> ApiError {
    let hint = "A key is known once a job that names it was enqueued; GET /ojs/v1/rate-limits lists them.";
    ApiError::not_found("rate limit", &key.to_string()).hint(hint)
}

fn shown(state: &LimitState) -> Response {
    rate_limit_headers::add_state(response::json(StatusCode::OK, &describe(state)), state)
}

fn named(key: &LimitKey, waiting: u64) -> Value {
    let mut shown = json!({"key": key.to_string(), "scope": key.scope.name(), "waiting_count": waiting});
    if let Some((whole, by, name)) = key.part() {
        shown["partition"] = json!({"key": whole, "scope": by.name(), "name": name});
    }
    shown
}

/// A limit with all that is known about it.
pub(crate) fn describe(state: &LimitState) -> Value {
    let mut shown = summary(state);
    if let Some(most) = state.quota.concurrency {
        shown["concurrency"]["available"] = u64::from(most).saturating_sub(state.running).into();
    }
    if state.quota.rate.is_some() {
        shown["rate"]["window_resets_at"] = time::rfc3339(state.resets_at.unwrap_or(state.now)).into();
    }
    if state.quota.throttle.is_some() {
        shown["throttle"]["next_allowed_at"] = time::rfc3339(state.next_start.max(state.now)).into();
    }
    shown
}

/// A limit as lists show it.
fn summary(state: &LimitState) -> Value {
    let mut shown = named(&state.key, state.waiting());
    if let Some(most) = state.quota.concurrency {
        shown["concurrency"] = json!({"limit": most, "active": state.running});
    }
    if let Some(rate) = state.quota.rate {
        shown["rate"] = rate.to_json();
        shown["rate"]["current_count"] = state.started.into();
    }
    if let Some(throttle) = state.quota.throttle.map(Window::to_json) {
        shown["throttle"] = throttle;
    }
    if let Some(until) = state.hold_until {
        shown["hold_until"] = time::rfc3339(until).into();
    }
    if let Some(until) = state.overridden {
        shown["override"] = json!({"expires_at": until.map(time::rfc3339)});
    }
    shown
}
