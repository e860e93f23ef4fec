//! Rate limits: how they are used, and overrides of them.

use super::body::Text;
use super::page::{Page, Query};
use super::path::Name;
use super::problem::Problem;
use super::{Api, answer};
use crate::job::{LimitChange, Window, limit_change, time};
use crate::store::{Layer, LimitState};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

static LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What to look at when a limit is refused.
pub(super) const HINT: &str = "docs/dispatch.md tells how a limit is written.";

/// `GET /rate-limits`.
pub(super) async fn list(api: Api, uri: Uri) -> Result<Response, Problem> {
    let page = Page::of(&Query::of(&uri))?;
    let (total, limits) = api.store().limits(page.offset, page.limit).await?;
    let items: Vec<Value> = limits.iter().map(summary).collect();
    Ok(answer::value(StatusCode::OK, &json!({"items": items, "pagination": page.describe(total as usize)})))
}

/// `GET /rate-limits/{key}`.
pub(super) async fn show(api: Api, Name(key): Name) -> Result<Response, Problem> {
    found(&api, &key).await
}

/// `PUT /rate-limits/{key}`: overrides what it names, perhaps for a while. A key that nobody has used yet will do.
pub(super) async fn put(api: Api, Name(key): Name, request: Request) -> Result<Response, Problem> {
    let body = Text::read(&api, request).await?;
    let fields = body.fields()?;
    // What is listed can be overridden, whatever its key looks like.
    if let Err(invalid) = limit_change::check_key(&key)
        && api.store().limit(&key).await?.is_none()
    {
        return Err(Problem::from(invalid).hint("GET /ojs/v1/rate-limits lists the keys that are in use."));
    }
    let refused = |invalid| Problem::from(invalid).hint(HINT);
    let change = LimitChange::parse(fields.object()).map_err(refused)?;
    if !api.store().override_limit(&key, &change.quota, change.until).await? {
        return Err(refused(LimitChange::is_past(fields.get("expires_at").unwrap_or_default())));
    }
    found(&api, &key).await
}

/// `DELETE /rate-limits/{key}`: what was overridden holds again.
pub(super) async fn remove(api: Api, Name(key): Name) -> Result<Response, Problem> {
    if !api.store().set_limit(&key, Layer::Override, None, None).await? {
        let problem = Problem::missing("override", &key);
        return Err(problem.hint("GET /ojs/v1/rate-limits shows an `override` with each limit that has one."));
    }
    match api.store().limit(&key).await? {
        Some(state) => Ok(answer::value(StatusCode::OK, &describe(&state))),
        // Nothing but the override said anything about it.
        None => Ok(answer::value(StatusCode::OK, &json!({"key": key, "waiting_count": 0}))),
    }
}

async fn found(api: &Api, key: &str) -> Result<Response, Problem> {
    let state = api.store().limit(key).await?.ok_or_else(|| {
        let hint = "A key is known once a job that names it was enqueued; GET /ojs/v1/rate-limits lists them.";
        Problem::missing("rate limit", key).hint(hint)
    })?;
    Ok(with_headers(answer::value(StatusCode::OK, &describe(&state)), &state))
}

/// Adds what is left of a limit to an answer.
pub(super) fn with_headers(mut response: Response, state: &LimitState) -> Response {
    let quota = &state.quota;
    let limit = quota.rate.or(quota.throttle).map(|window| window.limit).or(quota.concurrency);
    if let Some(limit) = limit {
        // Whole seconds, and never too early.
        let reset = (state.free_at() + 999).div_euclid(1000);
        let headers = response.headers_mut();
        headers.insert(LIMIT.clone(), HeaderValue::from(limit));
        headers.insert(REMAINING.clone(), HeaderValue::from(state.room.unwrap_or(0)));
        headers.insert(RESET.clone(), HeaderValue::from(reset));
    }
    response
}

/// A limit with all that is known about it.
pub(super) fn describe(state: &LimitState) -> Value {
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
    let mut shown = json!({"key": state.key, "waiting_count": state.waiting()});
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
