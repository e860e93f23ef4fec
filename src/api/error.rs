//! An OJS error answer: its members, and those that have names. What went wrong elsewhere becomes one in `conversions`.

mod conversions;

use crate::auth::Role;
use crate::job::Invalid;
use crate::job::json;
use crate::store;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::time::Duration;

/// Where codes are explained: a page of this server.
const DOCS: &str = "/docs/errors#";

/// An error answer. It becomes a body only where the request's id is known, in the middleware.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    retryable: bool,
    /// What was refused, if that is what went wrong.
    invalid: Option<Box<Invalid>>,
    /// Members of `details`: name and JSON text.
    details: Vec<(&'static str, String)>,
    /// Members that some texts want top_level the code as well.
    top_level: Vec<(&'static str, String)>,
    /// The name that some suites look for top_level the code.
    kind: Option<&'static str>,
    hint: Option<String>,
    pub(super) retry_after: Option<u32>,
    /// What WWW-Authenticate asks for.
    pub(super) challenge: Option<&'static str>,
    /// The number of the limit that refused the request, if one did: nothing is left of it.
    pub(super) limit: Option<u64>,
    /// Jobs in the queue that has no room, and how many those may be.
    pub(super) queue_pressure: Option<(u64, u64)>,
    /// The request's body was not read to its end, so that the connection cannot be used again.
    pub(super) closes_connection: bool,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        ApiError {
            status,
            code,
            message,
            retryable: false,
            invalid: None,
            details: Vec::new(),
            top_level: Vec::new(),
            kind: None,
            hint: None,
            retry_after: None,
            challenge: None,
            limit: None,
            queue_pressure: None,
            closes_connection: false,
        }
    }

    /// Adds a member to `details`, as text.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.details.push((name, json::quoted(value)));
        self
    }

    /// Adds a number to `details`.
    pub(super) fn with_number(mut self, name: &'static str, value: usize) -> Self {
        self.details.push((name, value.to_string()));
        self
    }

    /// Adds a value to `details`.
    pub(super) fn with_json(mut self, name: &'static str, value: &serde_json::Value) -> Self {
        self.details.push((name, value.to_string()));
        self
    }

    /// Adds a member both to `details` and top_level the code.
    pub(super) fn with_top_level(mut self, name: &'static str, value: &str) -> Self {
        self.top_level.push((name, json::quoted(value)));
        self.with(name, value)
    }

    /// The same error inside the value at `path`.
    pub(super) fn within(mut self, path: &str) -> Self {
        if let Some(invalid) = self.invalid.take() {
            return invalid.within(path).into();
        }
        self
    }

    /// The connection ends with this answer.
    pub(super) fn closing_connection(mut self) -> Self {
        self.closes_connection = true;
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        (self.retryable, self.retry_after) = (true, Some(seconds));
        self
    }

    pub(super) fn unknown_path() -> Self {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", "There is nothing at this path.")
            .hint("The API starts at /ojs/v1; GET /ojs/manifest tells what this server can do.")
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "This path exists, but not for this method.";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", message)
            .hint("The Allow header lists the methods of this path.")
    }

    /// The request has no API key, but the server requires one.
    pub(super) fn missing_key() -> Self {
        Self::unauthorized("This server requires an API key.", "Bearer realm=\"fairgate\"")
    }

    /// The API key of the request is unknown or was revoked.
    pub(super) fn invalid_key() -> Self {
        Self::unauthorized("The API key is not valid.", "Bearer realm=\"fairgate\", error=\"invalid_token\"")
    }

    fn unauthorized(message: &str, challenge: &'static str) -> Self {
        let error = ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
        // The body was not read.
        ApiError { challenge: Some(challenge), ..error }
            .closing_connection()
            .hint("Send `Authorization: Bearer KEY`; see docs/security.md for creating a key.")
    }

    /// The key is valid, but of another role.
    pub(super) fn forbidden_role(role: Role, roles: &[Role]) -> Self {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        let message = format!("A key with the role {} may not do this.", role.name());
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("canonical", "PERMISSION_DENIED")
            .with("role", role.name())
            .with("expected", &names.join(", "))
            .closing_connection()
            .hint("docs/security.md lists what each role may do.")
    }

    /// The key is bound to a tenant, and the request names another one.
    pub(super) fn foreign_tenant(tenant: &str, field: &str) -> Self {
        let message = format!("`{field}` belongs to another tenant than the caller, which is {tenant:?}.");
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("canonical", "TENANT_ACCESS_DENIED")
            .with("tenant_id", tenant)
            .with("field", field)
            .hint("Leave it out: what the caller enqueues and asks for is its tenant's.")
    }

    /// Without keys, a page of another origin could do whatever it likes.
    pub(super) fn foreign_origin(origin: &str) -> Self {
        let message = format!("A page of another origin ({origin}) may not change anything.");
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("field", "Origin")
            .with("received", origin)
            .closing_connection()
            .hint("List the origin in server.cors_origins, or give the server keys; see docs/security.md.")
    }

    /// The server has no keys, and a name that it does not know may be one that a page has made point here.
    pub(super) fn unknown_host(host: &str) -> Self {
        let message = format!("This server does not answer to the name {host:?}.");
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("field", "Host")
            .with("received", host)
            .closing_connection()
            .hint("List the name in server.allowed_hosts, or give the server keys; see docs/security.md.")
    }

    /// Something that was asked for by name does not exist.
    pub(super) fn not_found(resource: &'static str, name: &str) -> Self {
        let message = format!("There is no {resource} {}.", json::quoted(name));
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
            .with("resource_type", resource)
            .with("resource_id", name)
            .hint(format!("Check the id; a {resource} that ended some time ago is removed by retention."))
    }

    /// The job is in another state than the verb needs, or somebody else holds it.
    pub(super) fn conflict(job_id: &str, done: &str, state: &str, expected: &str, holder: Option<&str>) -> Self {
        let message = match holder {
            Some(_) => format!("Job {job_id} is held by another worker, so it cannot be {done} by this one."),
            None => format!("Job {job_id} is {state}; only a job that is {expected} can be {done}."),
        };
        let error = ApiError::new(StatusCode::CONFLICT, "conflict", message)
            .with("job_id", job_id)
            .with("current_state", state)
            .with("expected_state", expected);
        match holder {
            Some(holder) => error.with("worker_id", holder),
            None => error,
        }
    }

    /// An id of a new job is taken.
    pub(super) fn duplicate_id(id: &str, index: Option<usize>) -> Self {
        let place = index.map_or_else(|| "id".to_owned(), |index| format!("jobs[{index}].id"));
        let message = format!("`{place}` is taken: a job with the id {id} exists already.");
        let error = ApiError::new(StatusCode::CONFLICT, "duplicate", message).with("existing_job_id", id);
        match index {
            Some(index) => error.with("field", &format!("jobs[{index}].id")).with_number("index", index),
            None => error.with("field", "id"),
        }
    }

    /// A unique job has a duplicate.
    pub(super) fn unique_conflict(id: &str, state: &str, key: &str, index: Option<usize>) -> Self {
        let place = index.map_or_else(|| "unique".to_owned(), |index| format!("jobs[{index}].unique"));
        let message = format!("`{place}` does not allow this job: job {id} counts as the same and is {state}.");
        let error = ApiError::new(StatusCode::CONFLICT, "duplicate", message)
            .with("existing_job_id", id)
            .with("existing_job_state", state)
            .with("unique_key", key)
            .with("field", &place);
        index.into_iter().fold(error, |error, index| error.with_number("index", index))
    }

    /// A plan rule has as many jobs staged as it may.
    pub(super) fn staging_full(rule: &str, most: u64, staged: u64) -> Self {
        let message = format!("Plan rule {rule} has {staged} jobs staged and takes {most} at most (max_staged).");
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", message)
            .with("rule", rule)
            .with_number("limit", most as usize)
            .with_number("current", staged as usize)
            .retry_after(1)
            .hint("Send it again later; the rule's rounds make room. A batch is taken as a whole or not at all.")
    }

    /// A job would exceed what its tenant may enqueue.
    pub(super) fn tenant_limited(exceeded: &store::Exceeded, is_batch: bool) -> Self {
        let store::Exceeded { index, tenant, limit, current, maximum, retry_after } = exceeded;
        let message = format!("Tenant {} has exceeded {limit} ({maximum}).", json::quoted(tenant));
        let seconds = retry_after.as_millis().div_ceil(1000).max(1) as u32;
        let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TENANT_LIMIT_EXCEEDED", message)
            .with_top_level("tenant_id", tenant)
            .with_top_level("limit", limit)
            .retry_after(seconds)
            .hint("Send it again later. A batch is taken as a whole or not at all.");
        for (name, value) in [("current", current), ("maximum", maximum)] {
            error.top_level.push((name, value.to_string()));
            error.details.push((name, value.to_string()));
        }
        error.limit = Some(*maximum);
        match is_batch {
            true => error.with("field", &format!("jobs[{index}]")).with_number("index", *index),
            false => error,
        }
    }

    /// A queue holds as many jobs as it may.
    pub(super) fn queue_full(queue: &str, depth: u64, most: u64, strategy: &str) -> Self {
        // As its client named it, without the namespace of a tenant.
        let queue = queue.rsplit('/').next().unwrap_or(queue);
        let message = format!("Queue {queue} holds {depth} jobs and takes {most} at most.");
        let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", message)
            .with_top_level("queue", queue)
            .with_top_level("strategy", strategy)
            .retry_after(1)
            .hint("Send it again later. A batch is taken as a whole or not at all.");
        for (name, number) in [("depth", depth), ("bound", most)] {
            error.top_level.push((name, number.to_string()));
            error = error.with_number(name, number as usize);
        }
        error.queue_pressure = Some((depth, most));
        error
    }

    /// The client took too long to send its body.
    pub(super) fn body_timed_out(limit: Duration) -> Self {
        let message = format!("The request body did not arrive within {limit:?}.");
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message).closing_connection()
    }

    pub(super) fn timed_out(limit: Duration) -> Self {
        let message = format!("The request was not answered within {limit:?}.");
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, "backend_timeout", message).retry_after(1)
    }

    pub(super) fn internal() -> Self {
        let mut error =
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "This is a bug in fairgate.");
        error.retryable = true;
        error.hint("The log has the details under this request id.")
    }

    /// The body, under the id of its request.
    pub(super) fn body(&self, request_id: &str) -> String {
        let mut out = format!(
            "{{\"error\":{{\"code\":\"{}\",\"message\":{},\"retryable\":{},\"request_id\":{}",
            self.code,
            json::quoted(&self.message),
            self.retryable,
            json::quoted(request_id)
        );
        if let Some(kind) = self.kind {
            out.extend([",\"type\":\"", kind, "\""]);
        }
        let join = |members: &[(&str, String)]| {
            members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect::<Vec<_>>().join(",")
        };
        if !self.top_level.is_empty() {
            out.extend([",", &join(&self.top_level)]);
        }
        if !self.details.is_empty() {
            out.extend([",\"details\":{", &join(&self.details), "}"]);
        }
        if let Some(hint) = &self.hint {
            out.push_str(",\"hint\":");
            json::push_text(&mut out, hint);
        }
        out.extend([",\"docs_url\":\"", DOCS, self.code, "\"}}"]);
        out
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
