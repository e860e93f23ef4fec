//! What surrounds every request: its id, its deadline, the version header, errors as bodies, metrics.
//!
//! One function instead of a stack of layers, which would cost a fifth of the CPU.

use super::places::{Place, Places};
use super::problem::Problem;
use super::rate_limits::with_limit;
use super::relay::{self, Relay, Whose};
use super::routes::Access;
use super::slots::Peer;
use super::visit::{Ticket, Visit};
use super::{Api, access, answer, compress, manifest};
use crate::job::id;
use crate::keyring::Caller;
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

/// Runs a request inside its frame.
pub(super) async fn around(api: Api, mut request: Request, peer: Peer) -> Response {
    let started = Instant::now();
    let (method, is_head) = (method_label(request.method()), request.method() == Method::HEAD);
    let place = place_of(&api.inner.places, &mut request);
    let route = place.map_or("unmatched", |place| place.path);
    let ticket = Ticket::new(request_id(request.headers()), route, peer);

    let origin = api.inner.browser.allowed_origin(request.headers()).cloned();
    let preflight = api.inner.browser.preflight(request.method(), request.headers());
    let mut response = match (&api.inner.relay, preflight) {
        (_, Some(preflight)) => preflight,
        (Some(relay), None) => {
            request.headers_mut().insert(REQUEST_ID.clone(), ticket.id.clone());
            // Boxed, because it would make every request's future longer.
            Box::pin(pass(&api, relay, request, place, &ticket)).await
        }
        (None, None) => {
            let accepts = !is_head && compress::accepts_gzip(request.headers());
            let mut response = answer(&api, request, place, &ticket).await;
            match compress::is_wanted(accepts, &mut response) {
                true => Box::pin(api.inner.compressor.compress(response)).await,
                false => response,
            }
        }
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let allow = response.headers_mut().remove(ALLOW);
        response = error_response(&api, &problem, ticket.id.to_str().unwrap_or_default());
        if problem.closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        allow.into_iter().for_each(|allow| _ = response.headers_mut().insert(ALLOW, allow));
    }
    if is_head {
        response = head_of(response);
    }
    let headers = response.headers_mut();
    headers.insert(OJS_VERSION.clone(), HeaderValue::from_static("1.0"));
    headers.insert(REQUEST_ID.clone(), ticket.id.clone());
    api.inner.browser.expose(origin, headers);

    let (status, took) = (response.status().as_u16(), started.elapsed());
    api.metrics().http.observe(method, route, status, took.saturating_sub(ticket.waiting()));
    tracing::debug!(method, route, status, took_us = took.as_micros() as u64, "answered");
    response
}

/// Where a request leads. A slash at the end of its path makes no difference, and is not there for anybody who looks later.
fn place_of<'a>(places: &'a Places, request: &mut Request) -> Option<&'a Place> {
    let path = request.uri().path();
    if let Some(place) = places.find(path) {
        return Some(place);
    }
    let shorter = path.strip_suffix('/')?;
    let place = places.find(shorter)?;
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = format!("{shorter}{query}").parse().ok();
    *request.uri_mut() = Uri::from_parts(parts).ok()?;
    Some(place)
}

/// Answers a request ourselves.
async fn answer(api: &Api, request: Request, place: Option<&Place>, ticket: &Arc<Ticket>) -> Response {
    if let Err(problem) = check_version(request.headers()) {
        return problem.into_response();
    }
    match access::admit(api, head(&request), place, false).await {
        Ok(caller) => match scoped(api, caller, &request, place) {
            Ok(api) => run(api, request, place, ticket).await,
            Err(problem) => problem.into_response(),
        },
        Err(refusal) => refusal,
    }
}

/// What of a request decides whether it is let in. Its body is not for others' threads.
fn head(request: &Request) -> (&Method, &Uri, &HeaderMap) {
    (request.method(), request.uri(), request.headers())
}

/// The API as far as a request reaches.
fn scoped(api: &Api, caller: Option<Caller>, request: &Request, place: Option<&Place>) -> Result<Api, Problem> {
    let door = place.and_then(|place| place.door(request.method()));
    let access = door.map_or(Access::Public, |door| door.access);
    let scope = access::reach(api, caller.as_ref(), request.headers(), access)?;
    Ok(api.clone().of(caller, &scope))
}

/// The same where there is a server behind: hands the request on, unless it is ours or about a job that is still here.
async fn pass(api: &Api, relay: &Relay, request: Request, place: Option<&Place>, ticket: &Arc<Ticket>) -> Response {
    if relay::whose(request.method(), request.uri().path()) == Whose::Ours {
        return answer(api, request, place, ticket).await;
    }
    match access::admit(api, head(&request), place, true).await {
        Ok(caller) => match scoped(api, caller, &request, place) {
            Ok(api) => hand_on(&api, relay, request, place, ticket).await.unwrap_or_else(Problem::into_response),
            Err(problem) => problem.into_response(),
        },
        Err(refusal) => refusal,
    }
}

/// What the server behind does not know although we do is on its way there, and answered by us.
async fn hand_on(
    api: &Api,
    relay: &Relay,
    request: Request,
    place: Option<&Place>,
    ticket: &Arc<Ticket>,
) -> Result<Response, Problem> {
    let is_here = match relay::whose(request.method(), request.uri().path()) {
        Whose::Job(id) => {
            let id = id.to_owned();
            relay::is_here(api, &id).await?
        }
        _ => None,
    };
    // A client may have chosen the id of a job that is another tenant's there: what we know of it is all that a tenant's key is told.
    let is_told_by_us = relay::check_scope(api.caller()).is_err();
    match is_here {
        Some(is_here) if is_here || is_told_by_us => Ok(run(api.clone(), request, place, ticket).await),
        Some(_) => {
            let (parts, body) = request.into_parts();
            let again = Request::from_parts(parts.clone(), Body::empty());
            let answer = relay.pass(api, Request::from_parts(parts, body)).await?;
            match answer.status() {
                StatusCode::NOT_FOUND => Ok(run(api.clone(), again, place, ticket).await),
                _ => Ok(answer),
            }
        }
        None => {
            relay::check_scope(api.caller())?;
            relay.pass(api, request).await
        }
    }
}

/// Lets the handler answer, within its time.
async fn run(api: Api, request: Request, place: Option<&Place>, ticket: &Arc<Ticket>) -> Response {
    let Some(place) = place else { return Problem::unknown_path().into_response() };
    let Some(door) = place.door(request.method()) else { return place.other_methods() };
    let limit = api.inner.request_timeout;
    let started = tokio::time::Instant::now();
    let answering = (door.handle)(request, Visit { api, ticket: Arc::clone(ticket) });
    // A panic is a bug, but one that should cost its own request only.
    let mut caught = AssertUnwindSafe(answering).catch_unwind();
    let mut allowed = limit;
    loop {
        match tokio::time::timeout_at(started + allowed, &mut caught).await {
            Ok(Ok(response)) => return response,
            Ok(Err(_)) => {
                tracing::error!(request_id = ?ticket.id, "a handler panicked");
                return Problem::bug().into_response();
            }
            // Only the handler knows how long its client is willing to wait.
            Err(_) if limit + ticket.waiting() > allowed => allowed = limit + ticket.waiting(),
            Err(_) => return Problem::timed_out(limit).into_response(),
        }
    }
}

/// What HEAD asks for: all of an answer but its body.
fn head_of(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let (Some(length), false) = (body.size_hint().exact(), parts.headers.contains_key(CONTENT_LENGTH)) {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

fn error_response(api: &Api, problem: &Problem, request_id: &str) -> Response {
    let mut response = answer::json(problem.status, problem.body(request_id));
    if let Some(challenge) = problem.challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if let Some(seconds) = problem.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(limit) = problem.limit {
        let free_at = api.store().clock().now_ms() + i64::from(problem.retry_after.unwrap_or(0)) * 1000;
        response = with_limit(response, LimitUsage { limit, remaining: 0, free_at });
    }
    match problem.pressure {
        Some(pressure) => answer::with_pressure(response, pressure),
        None => response,
    }
}

/// The client's id for the request, if it is fit for a header and a log line, else one of ours.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let fits = |value: &&HeaderValue| !value.is_empty() && value.len() <= 200 && value.to_str().is_ok();
    let own = headers.get(&REQUEST_ID).filter(fits);
    // Our own ids are plain ASCII.
    own.cloned().unwrap_or_else(|| {
        HeaderValue::try_from(["req_", &id::generate()].concat()).unwrap_or(HeaderValue::from_static("req_unknown"))
    })
}

fn check_version(headers: &HeaderMap) -> Result<(), Problem> {
    let version = headers.get(&OJS_VERSION).map(|version| version.to_str().unwrap_or("?"));
    if let Some(version) = version.filter(|version| !is_supported(version)) {
        let message = format!("`OJS-Version` {version:?} is not supported, only 1.0 is.");
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported", message);
        return Err(problem.with("field", "OJS-Version").with("received", version));
    }
    let required = headers.get_all(&REQUIRES).iter().flat_map(|value| value.to_str().unwrap_or("?").split(','));
    if let Some(extension) = required.map(str::trim).find(|extension| !manifest::has(extension)) {
        let message = format!("`OJS-Requires-Extension` names {extension:?}, which this server does not support.");
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "EXTENSION_NOT_SUPPORTED", message);
        return Err(problem.with("field", "OJS-Requires-Extension").with_beside("extension", extension));
    }
    Ok(())
}

/// True for 1.0, written `1` or `1.0`, and for its releases such as `1.0.0-rc.1`. Public SDKs send each of these.
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

/// Methods are chosen by clients; as labels there are only the known ones.
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
