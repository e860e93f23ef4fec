//! Rate limits: their usage, and overrides.

use crate::api::answers::rate_limits::{ConcurrencyUsage, Override, PartitionOf, RateLimit, RateUsage, ThrottleUsage};
use crate::api::answers::types::Timestamp;
use crate::api::body::RequestBody;
use crate::api::error::ApiError;
use crate::api::list_response::ListResponse;
use crate::api::pagination::{Page, Query};
use crate::api::path::PathParam;
use crate::api::{Api, rate_limit_headers, response};
use crate::domain::invalid::Invalid;
use crate::domain::limit::{LimitChange, LimitKey, LimitScope, Window, change};
use crate::store::{LimitLayer, LimitState};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

/// The number of partitions of a key that one response contains.
const MOST_PARTITIONS: usize = 100;

/// The hint for a limit that failed validation.
pub(crate) const HINT: &str = "See docs/dispatch.md for the syntax of a limit.";

/// `GET /rate-limits`.
pub(crate) async fn list(api: Api, uri: Uri) -> Result<Response, ApiError> {
    let page = Page::from_query(&Query::parse(&uri))?;
    let (total, limits) = api.store().limits(page.offset, page.limit).await?;
    let items: Vec<RateLimit> = limits.iter().map(summary).collect();
    Ok(ListResponse::from_values(&items, &[]).paged(page, total as usize))
}

/// `GET /rate-limits/{key}`.
pub(crate) async fn show(api: Api, PathParam(key): PathParam, uri: Uri) -> Result<Response, ApiError> {
    let (key, state) = find(&api, &key, &uri).await?;
    let (total, partitions) = match key.scope {
        LimitScope::Key => api.store().limit_parts(&key, MOST_PARTITIONS).await?,
        _ => (0, Vec::new()),
    };
    let state = state.ok_or_else(|| missing(&key))?;
    let mut body = describe(&state);
    if total > 0 {
        let held_by_partitions = partitions.iter().map(LimitState::waiting).sum();
        body.waiting_count = state.waiting().max(held_by_partitions);
        body.partitions = Some(partitions.iter().map(describe).collect());
        body.partitions_total = Some(total);
    }
    Ok(rate_limit_headers::add_state(response::json(StatusCode::OK, &body), &state))
}

/// `PUT /rate-limits/{key}`: overrides parts of a limit, optionally until a point in time. The key need not be in use.
pub(crate) async fn put(
    api: Api,
    PathParam(name): PathParam,
    uri: Uri,
    request: Request,
) -> Result<Response, ApiError> {
    let body = RequestBody::read(&api, request).await?;
    let fields = body.fields()?;
    let (key, state) = find(&api, &name, &uri).await?;
    // A key that is in use can be overridden even if its name is not valid for a new key.
    if let (Err(invalid), None) = (change::check_key(&key), &state) {
        return Err(
            ApiError::from(invalid).hint("Send GET /ojs/v1/rate-limits for a list of the keys that are in use.")
        );
    }
    let refused = |invalid| ApiError::from(invalid).hint(HINT);
    let change = LimitChange::parse(&key.to_string(), fields.object()).map_err(refused)?;
    if let Some(state) = state.filter(|state| change.repeats(&state.quota, state.overridden.flatten())) {
        return Ok(limit_response(&state));
    }
    if change.quota.is_empty() {
        return Err(refused(LimitChange::is_empty()));
    }
    if !api.store().override_limit(&key, &change.quota, change.until).await? {
        return Err(refused(LimitChange::is_past(fields.get("expires_at").unwrap_or_default())));
    }
    api.store().limit(&key).await?.map_or_else(|| Err(missing(&key)), |state| Ok(limit_response(&state)))
}

/// `DELETE /rate-limits/{key}`: removes an override.
pub(crate) async fn remove(api: Api, PathParam(name): PathParam, uri: Uri) -> Result<Response, ApiError> {
    let (key, _) = find(&api, &name, &uri).await?;
    if !api.store().set_limit(&key, LimitLayer::Override, None, None).await? {
        let error = ApiError::not_found("override", &name);
        return Err(error.hint("Send GET /ojs/v1/rate-limits: each limit with an override has the member `override`."));
    }
    match api.store().limit(&key).await? {
        Some(state) => Ok(response::json(StatusCode::OK, &describe(&state))),
        // The limit existed only as an override.
        None => Ok(response::json(StatusCode::OK, &named(&key, 0))),
    }
}

/// Finds the limit of a path and its query parameter `scope`, and the state of the limit if it is known.
///
/// Without a scope, the key is one that jobs name, unless only a limit of a queue, type or tenant has that name, or can.
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
    let possible = keys.iter().find(|key| change::check_key(key).is_ok());
    Ok((possible.unwrap_or(&keys[0]).clone(), None))
}

fn missing(key: &LimitKey) -> ApiError {
    let hint =
        "A key exists once a job that names it was enqueued. Send GET /ojs/v1/rate-limits for a list of the keys.";
    ApiError::not_found("rate limit", &key.to_string()).hint(hint)
}

fn limit_response(state: &LimitState) -> Response {
    rate_limit_headers::add_state(response::json(StatusCode::OK, &describe(state)), state)
}

/// A limit without numbers.
fn named(key: &LimitKey, waiting_count: u64) -> RateLimit {
    let partition =
        key.part().map(|part| PartitionOf { key: part.key.to_owned(), scope: part.by.name(), name: part.name });
    RateLimit {
        key: key.to_string(),
        scope: key.scope.name(),
        waiting_count,
        partition,
        partitions: None,
        partitions_total: None,
        concurrency: None,
        rate: None,
        throttle: None,
        hold_until: None,
        overridden: None,
    }
}

/// Describes a limit in full.
pub(crate) fn describe(state: &LimitState) -> RateLimit {
    let mut limit = summary(state);
    if let Some(concurrency) = &mut limit.concurrency {
        concurrency.available = Some(u64::from(concurrency.limit).saturating_sub(state.running));
    }
    if let Some(rate) = &mut limit.rate {
        rate.window_resets_at = Some(Timestamp(state.resets_at.unwrap_or(state.now)));
    }
    if let Some(throttle) = &mut limit.throttle {
        throttle.next_allowed_at = Some(Timestamp(state.next_start.max(state.now)));
    }
    limit
}

/// Describes a limit as an item of a list.
fn summary(state: &LimitState) -> RateLimit {
    let (quota, active) = (&state.quota, state.running);
    let rate = |rate: Window| RateUsage { window: rate.into(), current_count: state.started, window_resets_at: None };
    RateLimit {
        concurrency: quota.concurrency.map(|limit| ConcurrencyUsage { limit, active, available: None }),
        rate: quota.rate.map(rate),
        throttle: quota.throttle.map(|window| ThrottleUsage { window: window.into(), next_allowed_at: None }),
        hold_until: state.hold_until.map(Timestamp),
        overridden: state.overridden.map(|until| Override { expires_at: until.map(Timestamp) }),
        ..named(&state.key, state.waiting())
    }
}
