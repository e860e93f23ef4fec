//! The middleware around each request: request id, authorization, deadline, version header, error bodies and metrics.
//!
//! It is one function instead of a stack of tower layers, which would cost a fifth of the CPU.

use super::concurrency_limit::Peer;
use super::context::{HandlerState, RequestContext};
use super::error::ApiError;
use super::handlers::manifest;
use super::proxy::{self, JobLocation, Proxy, Responder};
use super::router::{MethodRouter, Router};
use super::routes::Access;
use super::{Api, auth, compression, rate_limit_headers, response};
use crate::auth::Caller;
use crate::domain::job::id;
use crate::store::LimitUsage;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

pub(super) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static OJS_VERSION: HeaderName = HeaderName::from_static("ojs-version");
static REQUIRES: HeaderName = HeaderName::from_static("ojs-requires-extension");

/// Handles a request from its head to a response that is ready to send.
pub(super) async fn handle(api: Api, mut request: Request, peer: Peer) -> Response {
    let started = Instant::now();
    let (method, is_head) = (method_label(request.method()), request.method() == Method::HEAD);
    let matched = match_path(&api.inner.router, &mut request);
    let route = matched.map_or("unmatched", |matched| matched.path);
    let context = RequestContext::new(request_id(request.headers()), route, peer);

    let origin = api.inner.browser.allowed_origin(request.headers()).cloned();
    let preflight = api.inner.browser.preflight(request.method(), request.headers());
    let mut response = match (&api.inner.proxy, preflight) {
        (_, Some(preflight)) => preflight,
        (Some(proxy), None) => {
            request.headers_mut().insert(REQUEST_ID.clone(), context.id.clone());
            // Boxed, because it would make the future of each request longer.
            Box::pin(handle_or_forward(&api, proxy, request, matched, &context)).await
        }
        (None, None) => {
            let accepts = !is_head && compression::accepts_gzip(request.headers());
            let mut response = handle_locally(&api, request, matched, &context).await;
            match compression::is_wanted(accepts, &mut response) {
                true => Box::pin(api.inner.compressor.compress(response)).await,
                false => response,
            }
        }
    };
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        let allow = response.headers_mut().remove(ALLOW);
        response = error_response(&api, &error, context.id.to_str().unwrap_or_default());
        if error.closes_connection {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        allow.into_iter().for_each(|allow| _ = response.headers_mut().insert(ALLOW, allow));
    }
    if is_head {
        response = without_body(response);
    }
    let headers = response.headers_mut();
    headers.insert(OJS_VERSION.clone(), HeaderValue::from_static("1.0"));
    headers.insert(REQUEST_ID.clone(), context.id.clone());
    api.inner.browser.expose(origin, headers);

    let (status, took) = (response.status().as_u16(), started.elapsed());
    api.metrics().http.observe(method, route, status, took.saturating_sub(context.waiting()));
    tracing::debug!(method, route, status, took_us = took.as_micros() as u64, "answered");
    response
}

/// Finds the routes of a request's path. A trailing slash is ignored, and removed from the request.
fn match_path<'a>(router: &'a Router, request: &mut Request) -> Option<&'a MethodRouter> {
    let path = request.uri().path();
    if let Some(matched) = router.at(path) {
        return Some(matched);
    }
    let shorter = path.strip_suffix('/')?;
    let matched = router.at(shorter)?;
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = format!("{shorter}{query}").parse().ok();
    *request.uri_mut() = Uri::from_parts(parts).ok()?;
    Some(matched)
}

/// Authorizes a request and runs its handler.
async fn handle_locally(
    api: &Api,
    request: Request,
    matched: Option<&MethodRouter>,
    context: &Arc<RequestContext>,
) -> Response {
    if let Err(error) = check_version(request.headers()) {
        return error.into_response();
    }
    match auth::authorize(api, head(&request), matched, auth::Unmatched::Refuse).await {
        Ok(caller) => match scoped(api, caller, &request, matched) {
            Ok(api) => run_handler(api, request, matched, context).await,
            Err(error) => error.into_response(),
        },
        Err(refusal) => refusal,
    }
}

/// The parts of a request that authorization reads. The body is left out because it is not `Sync`.
fn head(request: &Request) -> auth::RequestHead<'_> {
    auth::RequestHead { method: request.method(), uri: request.uri(), headers: request.headers() }
}

/// Restricts the API to the scope of a request.
fn scoped(
    api: &Api,
    caller: Option<Caller>,
    request: &Request,
    matched: Option<&MethodRouter>,
) -> Result<Api, ApiError> {
    let route = matched.and_then(|matched| matched.for_method(request.method()));
    let access = route.map_or(Access::Public, |route| route.access);
    let scope = auth::scope(api, caller.as_ref(), request.headers(), access)?;
    Ok(api.clone().scoped_to(caller, &scope))
}

/// Handles a request if there is an upstream server: locally if it is about planning or about a job that is still here,
/// otherwise by forwarding it.
async fn handle_or_forward(
    api: &Api,
    proxy: &Proxy,
    request: Request,
    matched: Option<&MethodRouter>,
    context: &Arc<RequestContext>,
) -> Response {
    if proxy::target(request.method(), request.uri().path()) == Responder::Local {
        return handle_locally(api, request, matched, context).await;
    }
    match auth::authorize(api, head(&request), matched, auth::Unmatched::Forward).await {
        Ok(caller) => match scoped(api, caller, &request, matched) {
            Ok(api) => forward(&api, proxy, request, matched, context).await.unwrap_or_else(ApiError::into_response),
            Err(error) => error.into_response(),
        },
        Err(refusal) => refusal,
    }
}

/// Forwards a request to the upstream server. A job that only this server knows is on its way there, so the local handler
/// answers for it.
async fn forward(
    api: &Api,
    proxy: &Proxy,
    request: Request,
    matched: Option<&MethodRouter>,
    context: &Arc<RequestContext>,
) -> Result<Response, ApiError> {
    let location = match proxy::target(request.method(), request.uri().path()) {
        Responder::Job(id) => {
            let id = id.to_owned();
            proxy::locate_job(api, &id).await?
        }
        _ => JobLocation::Unknown,
    };
    // A client may have chosen an id that belongs to a job of another tenant upstream. So a key that is bound to a tenant
    // gets only what this server knows about the job.
    let is_bound = proxy::check_scope(api.caller()).is_err();
    match location {
        JobLocation::Here => Ok(run_handler(api.clone(), request, matched, context).await),
        JobLocation::Left if is_bound => Ok(run_handler(api.clone(), request, matched, context).await),
        JobLocation::Left => {
            let (parts, body) = request.into_parts();
            let without_body = Request::from_parts(parts.clone(), Body::empty());
            let response = proxy.forward(api, Request::from_parts(parts, body)).await?;
            match response.status() {
                StatusCode::NOT_FOUND => Ok(run_handler(api.clone(), without_body, matched, context).await),
                _ => Ok(response),
            }
        }
        JobLocation::Unknown => {
            proxy::check_scope(api.caller())?;
            proxy.forward(api, request).await
        }
    }
}

/// Runs the handler of a request within its deadline.
async fn run_handler(
    api: Api,
    request: Request,
    matched: Option<&MethodRouter>,
    context: &Arc<RequestContext>,
) -> Response {
    let Some(matched) = matched else { return ApiError::unknown_path().into_response() };
    let Some(route) = matched.for_method(request.method()) else { return matched.method_not_allowed() };
    let limit = api.inner.request_timeout;
    let started = tokio::time::Instant::now();
    let responding = (route.handler)(request, HandlerState { api, context: Arc::clone(context) });
    // A panic is a bug, but it should fail only its own request.
    let mut caught = AssertUnwindSafe(responding).catch_unwind();
    let mut allowed = limit;
    loop {
        match tokio::time::timeout_at(started + allowed, &mut caught).await {
            Ok(Ok(response)) => return response,
            Ok(Err(_)) => {
                tracing::error!(request_id = ?context.id, "a handler panicked");
                return ApiError::internal().into_response();
            }
            // Only the handler knows how long its client is willing to wait.
            Err(_) if limit + context.waiting() > allowed => allowed = limit + context.waiting(),
            Err(_) => return ApiError::timed_out(limit).into_response(),
        }
    }
}

/// Removes the body of a response to HEAD and keeps its headers.
fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let (Some(length), false) = (body.size_hint().exact(), parts.headers.contains_key(CONTENT_LENGTH)) {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

fn error_response(api: &Api, error: &ApiError, request_id: &str) -> Response {
    let mut response = response::raw_json(error.status, error.body(request_id));
    if let Some(challenge) = error.challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(limit) = error.limit {
        let free_at = api.store().clock().now_ms() + i64::from(error.retry_after.unwrap_or(0)) * 1000;
        response = rate_limit_headers::add_usage(response, LimitUsage { limit, remaining: 0, free_at });
    }
    match error.queue_pressure {
        Some(pressure) => response::with_queue_pressure(response, pressure),
        None => response,
    }
}

/// The request id that the client sent, if it is valid in a header and a log line, otherwise a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let fits = |value: &&HeaderValue| !value.is_empty() && value.len() <= 200 && value.to_str().is_ok();
    let own = headers.get(&REQUEST_ID).filter(fits);
    // Generated ids are plain ASCII.
    own.cloned().unwrap_or_else(|| {
        HeaderValue::try_from(["req_", &id::generate()].concat()).unwrap_or(HeaderValue::from_static("req_unknown"))
    })
}

fn check_version(headers: &HeaderMap) -> Result<(), ApiError> {
    let version = headers.get(&OJS_VERSION).map(|version| version.to_str().unwrap_or("?"));
    if let Some(version) = version.filter(|version| !is_supported(version)) {
        let message = format!("`OJS-Version` {version:?} is not supported, only 1.0 is.");
        let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", message);
        return Err(error.with("field", "OJS-Version").with("received", version));
    }
    let required = headers.get_all(&REQUIRES).iter().flat_map(|value| value.to_str().unwrap_or("?").split(','));
    if let Some(extension) = required.map(str::trim).find(|extension| !manifest::has(extension)) {
        let message = format!("`OJS-Requires-Extension` names {extension:?}, which this server does not support.");
        let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "EXTENSION_NOT_SUPPORTED", message);
        return Err(error.with("field", "OJS-Requires-Extension").with_top_level("extension", extension));
    }
    Ok(())
}

/// Returns true for 1.0, written `1` or `1.0`, and for its releases such as `1.0.0-rc.1`. Public SDKs send each of these.
fn is_supported(version: &str) -> bool {
    if let "1" | "1.0" = version {
        return true;
    }
    let Some(release) = version.strip_prefix("1.0.") else { return false };
    let (patch, candidate) = release.split_once('-').unwrap_or((release, "rc"));
    let is_word =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit()) && is_word(candidate)
}

/// The method as a metric label. Clients may send any method, so unknown ones share a label.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_of_version_1_0_is_supported() {
        for version in ["1", "1.0", "1.0.0", "1.0.12", "1.0.0-rc.1", "1.0.0-beta"] {
            assert!(is_supported(version), "{version}");
        }
        for version in
            ["", "1.", "1.0.", "1.1", "1.1.0", "2.0", "10", "1.0.x", "1.0.0-", "1.0.0-rc 1", "1.0-rc.1", "v1.0"]
        {
            assert!(!is_supported(version), "{version}");
        }
    }
}
