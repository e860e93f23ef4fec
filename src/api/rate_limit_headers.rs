//! The `X-RateLimit-*` headers, which report the usage of a limit.

use crate::store::{LimitState, LimitUsage};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

static LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Adds the headers for the state of a limit. A limit that sets no number gets none.
pub(super) fn add_state(response: Response, state: &LimitState) -> Response {
    let quota = &state.quota;
    let limit = quota.rate.or(quota.throttle).map(|window| window.limit).or(quota.concurrency);
    let Some(limit) = limit else { return response };
    let remaining = state.room.unwrap_or(0);
    add_usage(response, LimitUsage { limit: limit.into(), remaining, free_at: state.free_at() })
}

/// Adds the headers for the usage of a limit.
pub(super) fn add_usage(mut response: Response, usage: LimitUsage) -> Response {
    // Rounded up to whole seconds, so that a client never retries too early.
    let reset = (usage.free_at + 999).div_euclid(1000);
    let headers = response.headers_mut();
    headers.insert(LIMIT.clone(), HeaderValue::from(usage.limit));
    headers.insert(REMAINING.clone(), HeaderValue::from(usage.remaining));
    headers.insert(RESET.clone(), HeaderValue::from(reset));
    response
}
