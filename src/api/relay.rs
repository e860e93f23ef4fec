//! Requests that another server answers, where the configuration names one: all under `/ojs` that is not about planning.

use super::Api;
use super::body::Text;
use super::problem::Problem;
use crate::job::id;
use crate::job::json::{self, Object};
use crate::keyring::{Caller, Pass};
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

/// What stays ours although it is under `/ojs`.
const OWN: [&str; 3] = ["/ojs/v1/admin/planner", "/ojs/v1/admin/keys", "/ojs/v1/admin/tenants"];
/// Behind these stands the id of a job, which may be one that is staged here.
const OF_JOBS: [&str; 4] =
    ["/ojs/v1/jobs/", "/ojs/v1/admin/jobs/", "/ojs/v1/dead-letter/", "/ojs/v1/admin/dead-letter/"];
/// How long a client may ask a server to wait before it answers, beside what a request may take.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How often an open stream looks whether its key still holds.
const KEY_LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// Hands requests on to a server.
pub(super) struct Relay {
    remote: Remote,
    /// How we are named in `Via`: a request that has been here before goes in a circle.
    via: HeaderValue,
}

/// Who answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose<'a> {
    Ours,
    Theirs,
    /// Ours if the job of that id has not left.
    Job(&'a str),
}

/// Who answers a request, where there is another server.
pub(super) fn whose<'a>(method: &Method, path: &'a str) -> Whose<'a> {
    let is_own = |own: &str| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let enqueues = method == Method::POST && ["/ojs/v1/jobs", "/ojs/v1/jobs/batch"].contains(&path);
    if !path.starts_with("/ojs/") || OWN.iter().any(|own| is_own(own)) || enqueues {
        return Whose::Ours;
    }
    let behind = OF_JOBS.iter().find_map(|start| path.strip_prefix(start));
    match behind.and_then(|rest| rest.split('/').next()).filter(|segment| id::is_valid(segment)) {
        Some(id) => Whose::Job(id),
        None => Whose::Theirs,
    }
}

impl Relay {
    pub(super) fn new(remote: Remote) -> Relay {
        let via = HeaderValue::try_from(format!("1.1 fairgate-{}", id::generate()));
        // Our own ids are plain ASCII.
        Relay { remote, via: via.unwrap_or(HeaderValue::from_static("1.1 fairgate")) }
    }

    /// Hands a request on.
    pub(super) async fn pass(&self, api: &Api, mut request: Request) -> Result<Response, Problem> {
        if request.headers().get_all(VIA).iter().any(|via| via == self.via) {
            let message = "The request goes in a circle: the server behind this one sends it back here.";
            return Err(Problem::new(StatusCode::LOOP_DETECTED, "internal_error", message)
                .hint("url of the [[main_queue]] that server.pass_through names must lead to another server."));
        }
        request.headers_mut().append(VIA, self.via.clone());
        let most = api.inner.max_body;
        let announced =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if let Some(length) = announced.filter(|length| *length > most as u64) {
            return Err(super::body::too_long(length as usize, most));
        }
        let request = request.map(|body| Limited::new(body, most));
        let deadline = api.inner.request_timeout + LONGEST_WAIT;
        match self.remote.relay(request, deadline).await {
            Ok(response) if is_stream(&response) => {
                let over = over(api.inner.draining.clone(), api.pass());
                let chunks = |body| Body::from_stream(Body::new(body).into_data_stream().take_until(Box::pin(over)));
                Ok(response.map(chunks))
            }
            Ok(response) => Ok(response.map(Body::new)),
            Err(error) if error.kind == ErrorKind::NotPassed => {
                let problem =
                    Problem::new(StatusCode::BAD_REQUEST, "invalid_request", "The path is not passed through.");
                Err(problem.hint("Encoded slashes and dots as a whole part of a path are refused."))
            }
            Err(error) => {
                tracing::warn!(place = self.remote.place(), %error, "a request could not be passed through");
                let message = "The server that answers this is not available.";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "backend_unavailable", message).retry_after(1))
            }
        }
    }
}

/// Whether an answer may go on for ever.
fn is_stream<B>(response: &Response<B>) -> bool {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream"))
}

/// Ends when a stream has to: this process stops, or the key that opened it is revoked.
async fn over(draining: CancellationToken, pass: Pass) {
    while pass.holds() {
        tokio::select! {
            () = draining.cancelled() => return,
            () = tokio::time::sleep(KEY_LOOKED_AT_EVERY) => {}
        }
    }
}

/// The body of a request that enqueues jobs, or the answer of another server that takes them because no rule names their types.
pub(super) async fn read_jobs(api: &Api, request: Request, is_batch: bool) -> Result<Result<Text, Response>, Problem> {
    let Some(relay) = &api.inner.relay else { return Text::read(api, request).await.map(Ok) };
    let (parts, body) = request.into_parts();
    let head = parts.clone();
    let text = Text::read(api, Request::from_parts(parts, body)).await?;
    let mut planned = Vec::new();
    for kind in types(text.as_str(), is_batch) {
        planned.push(api.enqueue_service().plans(&kind).await?);
    }
    // What cannot be read is told by whoever reads it next.
    if planned.iter().all(|planned| *planned) {
        return Ok(Ok(text));
    }
    if planned.contains(&true) {
        let message = "The batch holds jobs of types that a plan rule names, and others, which another server takes.";
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", message).with("field", "jobs");
        return Err(problem.hint("Send them apart: a batch is taken as a whole, and this one would be taken by two."));
    }
    check_scope(api.caller())?;
    let request = Request::from_parts(head, Body::from(text.bytes()));
    relay.pass(api, request).await.map(Err)
}

/// The types of jobs in a body, as far as they can be read.
fn types(text: &str, is_batch: bool) -> Vec<String> {
    let kind = |job: &str| Object::parse(job).ok()?.get("type").and_then(json::text).map(Cow::into_owned);
    let jobs = || Object::parse(text).ok()?.get("jobs").and_then(json::elements);
    match is_batch {
        true => jobs().unwrap_or_default().into_iter().filter_map(kind).collect(),
        false => kind(text).into_iter().collect(),
    }
}

/// Whether a job that a request is about is still here; none if we know of no such job, as far as the caller sees.
pub(super) async fn is_here(api: &Api, id: &str) -> Result<Option<bool>, Problem> {
    Ok(api.store().job(id).await?.map(|record| !record.has_left()))
}

/// Refuses what a tenant's key may not have answered by a server that knows nothing of it.
pub(super) fn check_scope(caller: Option<&Caller>) -> Result<(), Problem> {
    match caller.and_then(|caller| caller.scope.tenant()) {
        None => Ok(()),
        Some(tenant) => {
            let message = "The key is bound to a tenant, and another server that knows nothing of it answers this.";
            let problem = Problem::new(StatusCode::FORBIDDEN, "forbidden", message);
            Err(problem
                .with("tenant_id", tenant)
                .hint("Such a key can enqueue jobs of planned types and look at those."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_planning_stays_here() {
        let id = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
        let (post, get) = (Method::POST, Method::GET);
        for (method, path, expected) in [
            (&get, "/health", Whose::Ours),
            (&get, "/metrics", Whose::Ours),
            (&get, "/elsewhere", Whose::Ours),
            (&get, "/ojs/manifest", Whose::Theirs),
            (&get, "/ojs/v1/health", Whose::Theirs),
            (&post, "/ojs/v1/jobs", Whose::Ours),
            (&post, "/ojs/v1/jobs/batch", Whose::Ours),
            (&get, "/ojs/v1/jobs", Whose::Theirs),
            (&post, "/ojs/v1/jobs/bulk", Whose::Theirs),
            (&get, &format!("/ojs/v1/jobs/{id}"), Whose::Job(id)),
            (&post, &format!("/ojs/v1/jobs/{id}/cancel"), Whose::Job(id)),
            (&post, &format!("/ojs/v1/admin/dead-letter/{id}/retry"), Whose::Job(id)),
            (&get, "/ojs/v1/admin/planner", Whose::Ours),
            (&get, "/ojs/v1/admin/planner/r/rounds", Whose::Ours),
            (&get, "/ojs/v1/admin/planners", Whose::Theirs),
            (&get, "/ojs/v1/admin/keys/x", Whose::Ours),
            (&get, "/ojs/v1/admin/stats", Whose::Theirs),
            (&post, "/ojs/v1/workers/fetch", Whose::Theirs),
        ] {
            assert_eq!(whose(method, path), expected, "{method} {path}");
        }
    }
}
