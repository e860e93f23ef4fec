//! The proxy to an upstream OJS server, if `server.pass_through` names one: it answers all requests under `/ojs` that are
//! not about planning.

use super::Api;
use super::body::RequestBody;
use super::error::ApiError;
use crate::auth::{Caller, Session};
use crate::domain::job::EnqueueKind;
use crate::domain::job::id;
use crate::domain::json::{self, Object};
use crate::remote::{ErrorKind, Remote};
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, VIA};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use futures_util::StreamExt;
use http_body_util::Limited;
use std::borrow::Cow;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Paths under `/ojs` that are answered here.
const LOCAL: [&str; 3] = ["/ojs/v1/admin/planner", "/ojs/v1/admin/keys", "/ojs/v1/admin/tenants"];
/// Path prefixes that the id of a job follows. The job may be staged here.
const JOB_PREFIXES: [&str; 4] =
    ["/ojs/v1/jobs/", "/ojs/v1/admin/jobs/", "/ojs/v1/dead-letter/", "/ojs/v1/admin/dead-letter/"];
/// The longest wait that a client may ask the upstream server for, in addition to the request timeout.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The interval at which an open stream checks that its key is still valid.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Forwards requests to the upstream server.
pub(super) struct Proxy {
    remote: Remote,
    /// The name of this server in `Via`. A request that already has it is in a loop.
    via: HeaderValue,
}

/// The server that answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Responder<'a> {
    Local,
    Upstream,
    /// This server while it has the job with that id, then the upstream server.
    Job(&'a str),
}

/// Returns the server that answers a request.
pub(super) fn target<'a>(method: &Method, path: &'a str) -> Responder<'a> {
    let is_under =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let enqueues = method == Method::POST && ["/ojs/v1/jobs", "/ojs/v1/jobs/batch"].contains(&path);
    if !path.starts_with("/ojs/") || LOCAL.iter().any(|prefix| is_under(prefix)) || enqueues {
        return Responder::Local;
    }
    let rest = JOB_PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix));
    match rest.and_then(|rest| rest.split('/').next()).filter(|segment| id::is_valid(segment)) {
        Some(id) => Responder::Job(id),
        None => Responder::Upstream,
    }
}

impl Proxy {
    pub(super) fn new(remote: Remote) -> Proxy {
        let via = HeaderValue::try_from(format!("1.1 fairgate-{}", id::generate()));
        // Generated ids are plain ASCII.
        Proxy { remote, via: via.unwrap_or(HeaderValue::from_static("1.1 fairgate")) }
    }

    /// Forwards a request and returns the upstream response.
    pub(super) async fn forward(&self, api: &Api, mut request: Request) -> Result<Response, ApiError> {
        if request.headers().get_all(VIA).iter().any(|via| via == self.via) {
            let message = "Forwarding loop: the upstream server sent the request back to this server.";
            return Err(ApiError::new(StatusCode::LOOP_DETECTED, "internal_error", message)
                .hint("Set url of the [[main_queue]] that server.pass_through names to another server."));
        }
        request.headers_mut().append(VIA, self.via.clone());
        let most = api.inner.max_body;
        let announced =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if let Some(length) = announced.filter(|length| *length > most as u64) {
            return Err(super::body::too_large(length as usize, most));
        }
        let request = request.map(|body| Limited::new(body, most));
        let deadline = api.inner.request_timeout + LONGEST_WAIT;
        match self.remote.relay(request, deadline).await {
            Ok(response) if is_stream(&response) => {
                let ended = stream_end(api.inner.draining.clone(), api.session());
                let chunks = |body| Body::from_stream(Body::new(body).into_data_stream().take_until(Box::pin(ended)));
                Ok(response.map(chunks))
            }
            Ok(response) => Ok(response.map(Body::new)),
            Err(error) if error.kind == ErrorKind::NotPassed => {
                let message = "The path cannot be forwarded to the upstream server.";
                Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message)
                    .hint("Send a path without encoded slashes, and without segments that are only dots."))
            }
            Err(error) => {
                tracing::warn!(place = self.remote.place(), %error, "cannot forward a request to the upstream server");
                let message = "The upstream server that answers this request is not available.";
                Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "backend_unavailable", message).retry_after(1))
            }
        }
    }
}

/// Returns true if a response may never end.
fn is_stream<B>(response: &Response<B>) -> bool {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream"))
}

/// Completes when an open stream has to end: this process stops, or the key that opened the stream is revoked.
async fn stream_end(draining: CancellationToken, session: Session) {
    while session.is_valid() {
        tokio::select! {
            () = draining.cancelled() => return,
            () = tokio::time::sleep(SESSION_CHECK_INTERVAL) => {}
        }
    }
}

/// The body of a request that enqueues jobs, or the response of the server that took them.
pub(super) enum EnqueueBody {
    /// The jobs are enqueued here.
    Local(RequestBody),
    /// No plan rule names the types of the jobs, so the upstream server took them.
    Forwarded(Response),
}

/// Reads the body of a request that enqueues jobs, and forwards the request if no plan rule names their types.
pub(super) async fn read_jobs(api: &Api, request: Request, kind: EnqueueKind) -> Result<EnqueueBody, ApiError> {
    let Some(proxy) = &api.inner.proxy else { return RequestBody::read(api, request).await.map(EnqueueBody::Local) };
    let (parts, body) = request.into_parts();
    let head = parts.clone();
    let text = RequestBody::read(api, Request::from_parts(parts, body)).await?;
    let mut planned = Vec::new();
    for job_type in types(text.as_str(), kind) {
        planned.push(api.enqueue_service().plans(&job_type).await?);
    }
    // A body without readable types is refused by the parser that reads it next.
    if planned.iter().all(|planned| *planned) {
        return Ok(EnqueueBody::Local(text));
    }
    if planned.contains(&true) {
        let message = "The batch mixes jobs of types that a plan rule names with jobs that the upstream server takes.";
        let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", message).with("field", "jobs");
        return Err(error.hint("Send them in two batches: a batch is stored as a whole, by one server."));
    }
    check_scope(api.caller())?;
    let request = Request::from_parts(head, Body::from(text.bytes()));
    proxy.forward(api, request).await.map(EnqueueBody::Forwarded)
}

/// Returns the types of the jobs in a body, without those that cannot be read.
fn types(text: &str, kind: EnqueueKind) -> Vec<String> {
    let job_type = |job: &str| Object::parse(job).ok()?.get("type").and_then(json::text).map(Cow::into_owned);
    let jobs = || Object::parse(text).ok()?.get("jobs").and_then(json::elements);
    match kind {
        EnqueueKind::Batch => jobs().unwrap_or_default().into_iter().filter_map(job_type).collect(),
        EnqueueKind::Single => job_type(text).into_iter().collect(),
    }
}

/// The place of a job, as far as this server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobLocation {
    /// The job is on this server.
    Here,
    /// The job was on this server and has left it for the upstream server.
    Left,
    /// The caller sees no such job on this server.
    Unknown,
}

/// Finds the place of a job.
pub(super) async fn locate_job(api: &Api, id: &str) -> Result<JobLocation, ApiError> {
    Ok(match api.store().job(id).await? {
        Some(record) if record.has_left() => JobLocation::Left,
        Some(_) => JobLocation::Here,
        None => JobLocation::Unknown,
    })
}

/// Refuses to forward a request whose key is bound to a tenant: the upstream server does not know the key.
pub(super) fn check_scope(caller: Option<&Caller>) -> Result<(), ApiError> {
    match caller.and_then(|caller| caller.scope.tenant()) {
        None => Ok(()),
        Some(tenant) => {
            let message = format!(
                "The upstream server answers this request; the API key is bound to tenant {tenant:?}, which it does not know."
            );
            Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message).with("tenant_id", tenant).hint(
                "A key that is bound to a tenant can enqueue jobs of planned types and read those. Use another key.",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_about_planning_are_answered_here() {
        let id = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
        let (post, get) = (Method::POST, Method::GET);
        for (method, path, expected) in [
            (&get, "/health", Responder::Local),
            (&get, "/metrics", Responder::Local),
            (&get, "/elsewhere", Responder::Local),
            (&get, "/ojs/manifest", Responder::Upstream),
            (&get, "/ojs/v1/health", Responder::Upstream),
            (&post, "/ojs/v1/jobs", Responder::Local),
            (&post, "/ojs/v1/jobs/batch", Responder::Local),
            (&get, "/ojs/v1/jobs", Responder::Upstream),
            (&post, "/ojs/v1/jobs/bulk", Responder::Upstream),
            (&get, &format!("/ojs/v1/jobs/{id}"), Responder::Job(id)),
            (&post, &format!("/ojs/v1/jobs/{id}/cancel"), Responder::Job(id)),
            (&post, &format!("/ojs/v1/admin/dead-letter/{id}/retry"), Responder::Job(id)),
            (&get, "/ojs/v1/admin/planner", Responder::Local),
            (&get, "/ojs/v1/admin/planner/r/rounds", Responder::Local),
            (&get, "/ojs/v1/admin/planners", Responder::Upstream),
            (&get, "/ojs/v1/admin/keys/x", Responder::Local),
            (&get, "/ojs/v1/admin/stats", Responder::Upstream),
            (&post, "/ojs/v1/workers/fetch", Responder::Upstream),
        ] {
            assert_eq!(target(method, path), expected, "{method} {path}");
        }
    }
}
