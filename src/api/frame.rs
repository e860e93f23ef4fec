//! What surrounds every request: its id, its deadline, the version header, errors as bodies, metrics.
//!
//! One function instead of a stack of layers, which would cost a fifth of the CPU.

use super::problem::Problem;
use super::relay::{self, Relay, Whose};
use super::{Api, access, answer, manifest};
use crate::job::id;
use crate::keyring::Caller;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static OJS_VERSION: HeaderName = HeaderName::from_static("ojs-version");
static REQUIRES: HeaderName = HeaderName::from_static("ojs-requires-extension");

/// The id of a request, for handlers that answer with several results in one body.
#[derive(Clone)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub(super) fn value(&self) -> &HeaderValue {
        &self.0
    }
}

/// Time that a request spends waiting because its client asked for that: it counts neither against the deadline nor as time
/// that we took.
#[derive(Clone, Default)]
pub(super) struct WaitingTime(Arc<AtomicU64>);

impl WaitingTime {
    /// Sets it: at first to what it may be, at the end to what it was.
    pub(super) fn set(&self, time: Duration) {
        self.0.store(time.as_micros() as u64, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Runs a request inside its frame.
pub(super) async fn around(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let request_id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(request_id.clone()));
    let waiting = WaitingTime::default();
    request.extensions_mut().insert(waiting.clone());

    let mut response = match &api.inner.relay {
        Some(relay) if relay::whose(request.method(), request.uri().path()) != Whose::Ours => {
            request.headers_mut().insert(REQUEST_ID.clone(), request_id.clone());
            match access::admit(&api, &mut request, route.as_ref(), true).await {
                Ok(()) => pass(&api, relay, request, next, &request_id).await.unwrap_or_else(Problem::into_response),
                Err(refusal) => refusal,
            }
        }
        _ => match check_version(request.headers()) {
            Ok(()) => match access::admit(&api, &mut request, route.as_ref(), false).await {
                Ok(()) => run(&api, request, next, &request_id, &waiting).await,
                Err(refusal) => refusal,
            },
            Err(problem) => problem.into_response(),
        },
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let allow = response.headers_mut().remove(axum::http::header::ALLOW);
        response = error_response(&problem, request_id.to_str().unwrap_or_default());
        if problem.closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        allow.into_iter().for_each(|allow| _ = response.headers_mut().insert(axum::http::header::ALLOW, allow));
    }
    let headers = response.headers_mut();
    headers.insert(OJS_VERSION.clone(), HeaderValue::from_static("1.0"));
    headers.insert(REQUEST_ID.clone(), request_id);

    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let (status, took) = (response.status().as_u16(), started.elapsed());
    api.metrics().http.observe(method, route, status, took.saturating_sub(waiting.get()));
    tracing::debug!(method, route, status, took_us = took.as_micros() as u64, "answered");
    response
}

/// Hands a request on to the server behind, unless it is about a job that is still here. What that server does not know although we do
/// is on its way there, and answered by us.
async fn pass(
    api: &Api,
    relay: &Relay,
    request: Request,
    next: Next,
    request_id: &HeaderValue,
) -> Result<Response, Problem> {
    let caller = request.extensions().get::<Caller>().cloned();
    let scoped = caller.as_ref().map_or_else(|| api.clone(), |caller| api.clone().of_caller(caller));
    let is_here = match relay::whose(request.method(), request.uri().path()) {
        Whose::Job(id) => relay::is_here(&scoped, id, request.headers()).await?,
        _ => None,
    };
    let waiting = WaitingTime::default();
    // A client may have chosen the id of a job that is another tenant's there: what we know of it is all that a tenant's key is told.
    let is_told_by_us = relay::check_scope(caller.as_ref()).is_err();
    match is_here {
        Some(is_here) if is_here || is_told_by_us => Ok(run(api, request, next, request_id, &waiting).await),
        Some(_) => {
            let (parts, body) = request.into_parts();
            let again = Request::from_parts(parts.clone(), axum::body::Body::empty());
            let answer = relay.pass(&scoped, Request::from_parts(parts, body)).await?;
            match answer.status() {
                StatusCode::NOT_FOUND => Ok(run(api, again, next, request_id, &waiting).await),
                _ => Ok(answer),
            }
        }
        None => {
            relay::check_scope(caller.as_ref())?;
            relay.pass(&scoped, request).await
        }
    }
}

async fn run(api: &Api, request: Request, next: Next, request_id: &HeaderValue, waiting: &WaitingTime) -> Response {
    let limit = api.inner.request_timeout;
    let started = tokio::time::Instant::now();
    // A panic is a bug, but one that should cost its own request only.
    let mut caught = pin!(AssertUnwindSafe(next.run(request)).catch_unwind());
    let mut allowed = limit;
    loop {
        match tokio::time::timeout_at(started + allowed, &mut caught).await {
            Ok(Ok(response)) => return response,
            Ok(Err(_)) => {
                tracing::error!(?request_id, "a handler panicked");
                return Problem::bug().into_response();
            }
            // Only the handler knows how long its client is willing to wait.
            Err(_) if limit + waiting.get() > allowed => allowed = limit + waiting.get(),
            Err(_) => return Problem::timed_out(limit).into_response(),
        }
    }
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
        HeaderValue::try_from(format!("req_{}", id::generate())).unwrap_or(HeaderValue::from_static("req_unknown"))
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
