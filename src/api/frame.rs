//! What surrounds every request: its id, its deadline, the version header, errors as bodies, metrics.
//!
//! One function instead of a stack of layers, which would cost a fifth of the CPU.

use super::places::Place;
use super::problem::Problem;
use super::relay::{self, Relay, Whose};
use super::visit::{Ticket, Visit};
use super::{Api, access, answer, manifest};
use crate::job::id;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

pub(super) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static OJS_VERSION: HeaderName = HeaderName::from_static("ojs-version");
static REQUIRES: HeaderName = HeaderName::from_static("ojs-requires-extension");

/// Runs a request inside its frame.
pub(super) async fn around(api: Api, mut request: Request) -> Response {
    let started = Instant::now();
    let (method, is_head) = (method_label(request.method()), request.method() == Method::HEAD);
    let place = api.inner.places.find(request.uri().path());
    let route = place.map_or("unmatched", |place| place.path);
    let ticket = Ticket::new(request_id(request.headers()), route);

    let mut response = match &api.inner.relay {
        Some(relay) => {
            request.headers_mut().insert(REQUEST_ID.clone(), ticket.id.clone());
            // Boxed, because it would make every request's future longer.
            Box::pin(pass(&api, relay, request, place, &ticket)).await
        }
        None => answer(&api, request, place, &ticket).await,
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let allow = response.headers_mut().remove(ALLOW);
        response = error_response(&problem, ticket.id.to_str().unwrap_or_default());
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

    let (status, took) = (response.status().as_u16(), started.elapsed());
    api.metrics().http.observe(method, route, status, took.saturating_sub(ticket.waiting()));
    tracing::debug!(method, route, status, took_us = took.as_micros() as u64, "answered");
    response
}

/// Answers a request ourselves.
async fn answer(api: &Api, request: Request, place: Option<&Place>, ticket: &Arc<Ticket>) -> Response {
    if let Err(problem) = check_version(request.headers()) {
        return problem.into_response();
    }
    match access::admit(api, (request.method(), request.headers()), place, false).await {
        Ok(caller) => run(api.clone().of(caller), request, place, ticket).await,
        Err(refusal) => refusal,
    }
}

/// The same where there is a server behind: hands the request on, unless it is ours or about a job that is still here.
async fn pass(api: &Api, relay: &Relay, request: Request, place: Option<&Place>, ticket: &Arc<Ticket>) -> Response {
    if relay::whose(request.method(), request.uri().path()) == Whose::Ours {
        return answer(api, request, place, ticket).await;
    }
    match access::admit(api, (request.method(), request.headers()), place, true).await {
        Ok(caller) => {
            let scoped = api.clone().of(caller);
            hand_on(&scoped, relay, request, place, ticket).await.unwrap_or_else(Problem::into_response)
        }
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
            let (id, headers) = (id.to_owned(), request.headers().clone());
            relay::is_here(api, &id, &headers).await?
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

fn error_response(problem: &Problem, request_id: &str) -> Response {
    let mut response = answer::json(problem.status, problem.body(request_id));
    if let Some(challenge) = problem.challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if let Some(seconds) = problem.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
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
    if let Some(version) = headers.get(&OJS_VERSION).filter(|version| *version != "1.0" && *version != "1") {
        let version = version.to_str().unwrap_or("?");
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
