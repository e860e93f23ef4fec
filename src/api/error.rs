//! Error responses in the shape of OJS, with a constructor for each common error. `conversions` maps the errors of other
//! modules to them.

mod conversions;

use crate::auth::Role;
use crate::domain::invalid::Invalid;
use crate::domain::job::{EnqueueKind, State};
use crate::domain::json;
use crate::domain::limit::Overflow;
use crate::store;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::time::Duration;

/// The page of this server that explains the codes.
const DOCS: &str = "/docs/errors#";

/// An error response. The middleware turns it into a body, because it knows the id of the request.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    retryable: bool,
    /// The validation error behind this error, if there is one.
    invalid: Option<Box<Invalid>>,
    /// Members of `details`: name and JSON text.
    details: Vec<(&'static str, String)>,
    /// Details that are repeated next to the code, because some specifications have them there.
    top_level: Vec<(&'static str, String)>,
    /// The member `type`, which some conformance suites read.
    kind: Option<&'static str>,
    hint: Option<String>,
    pub(super) retry_after: Option<u32>,
    /// The value of `WWW-Authenticate`.
    pub(super) challenge: Option<&'static str>,
    /// The exhausted limit that refused the request, if there is one.
    pub(super) limit: Option<u64>,
    /// Depth and bound of the full queue that refused the request, if there is one.
    pub(super) queue_pressure: Option<(u64, u64)>,
    /// True if the request body was not read to its end, so that the connection cannot be reused.
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

    /// Adds a text to `details`.
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

    /// Adds a text to `details` and next to the code.
    pub(super) fn with_top_level(mut self, name: &'static str, value: &str) -> Self {
        self.top_level.push((name, json::quoted(value)));
        self.with(name, value)
    }

    /// Prefixes the field of a validation error with `path`, the place of the validated value.
    pub(super) fn within(mut self, path: &str) -> Self {
        if let Some(invalid) = self.invalid.take() {
            return invalid.within(path).into();
        }
        self
    }

    /// Closes the connection after the response.
    pub(super) fn closing_connection(mut self) -> Self {
        self.closes_connection = true;
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the error as retryable after a number of seconds.
    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        (self.retryable, self.retry_after) = (true, Some(seconds));
        self
    }

    /// The path is not in the table of routes.
    pub(super) fn unknown_path() -> Self {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", "The path does not exist.")
            .hint("The API starts at /ojs/v1. See GET /openapi.json for all paths.")
    }

    /// The path has no route for the method.
    pub(super) fn method_not_allowed() -> Self {
        let message = "The path does not support this method.";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", message)
            .hint("See the Allow header for the methods of the path.")
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

    /// The key is valid, but its role does not permit the request.
    pub(super) fn forbidden_role(role: Role, roles: &[Role]) -> Self {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        let message = format!("The role {} of the API key does not permit this request.", role.name());
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("canonical", "PERMISSION_DENIED")
            .with("role", role.name())
            .with("expected", &names.join(", "))
            .closing_connection()
            .hint("See docs/security.md for the requests that each role permits.")
    }

    /// The key is bound to a tenant, and the request names another one.
    pub(super) fn foreign_tenant(tenant: &str, field: &str) -> Self {
        let message = format!("`{field}` names another tenant than that of the caller, {tenant:?}.");
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("canonical", "TENANT_ACCESS_DENIED")
            .with("tenant_id", tenant)
            .with("field", field)
            .hint("Leave it out; the tenant of the caller is the default.")
    }

    /// The server has no keys, and the request changes something on behalf of a web page of another origin.
    pub(super) fn foreign_origin(origin: &str) -> Self {
        let message = format!("Pages of the origin {origin} may not change anything on this server.");
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("field", "Origin")
            .with("received", origin)
            .closing_connection()
            .hint("Add the origin to server.cors_origins, or create API keys; see docs/security.md.")
    }

    /// The server has no keys, and the request names an unknown host, possibly because of DNS rebinding.
    pub(super) fn unknown_host(host: &str) -> Self {
        let message = format!("The host {host:?} is not a name of this server.");
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("field", "Host")
            .with("received", host)
            .closing_connection()
            .hint("Add the name to server.allowed_hosts, or create API keys; see docs/security.md.")
    }

    /// The resource that the request names does not exist.
    pub(super) fn not_found(resource: &'static str, name: &str) -> Self {
        let message = format!("No {resource} {} exists.", json::quoted(name));
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
            .with("resource_type", resource)
            .with("resource_id", name)
            .hint(format!("Check the id. Retention deletes a {resource} some time after its end."))
    }

    /// The job is not in the state that the request requires, or another worker has its lease.
    pub(super) fn conflict(job_id: &str, done: &str, state: State, expected: &str, holder: Option<&str>) -> Self {
        let message = match holder {
            Some(_) => format!("Job {job_id} cannot be {done} by this worker: another worker has its lease."),
            None => format!("Job {job_id} is {state}; only a job that is {expected} can be {done}."),
        };
        let error = ApiError::new(StatusCode::CONFLICT, "conflict", message)
            .with("job_id", job_id)
            .with("current_state", state.name())
            .with("expected_state", expected);
        match holder {
            Some(holder) => error.with("worker_id", holder),
            None => error,
        }
    }

    /// The id of a new job is taken.
    pub(super) fn duplicate_id(id: &str, index: Option<usize>) -> Self {
        let path = index.map_or_else(|| "id".to_owned(), |index| format!("jobs[{index}].id"));
        let message = format!("`{path}` is taken: a job with the id {id} already exists.");
        let error = ApiError::new(StatusCode::CONFLICT, "duplicate", message).with("existing_job_id", id);
        match index {
            Some(index) => error.with("field", &format!("jobs[{index}].id")).with_number("index", index),
            None => error.with("field", "id"),
        }
    }

    /// A new unique job is a duplicate.
    pub(super) fn unique_conflict(id: &str, state: State, key: &str, index: Option<usize>) -> Self {
        let path = index.map_or_else(|| "unique".to_owned(), |index| format!("jobs[{index}].unique"));
        let message = format!("`{path}` refuses this job: it is a duplicate of job {id}, which is {state}.");
        let error = ApiError::new(StatusCode::CONFLICT, "duplicate", message)
            .with("existing_job_id", id)
            .with("existing_job_state", state.name())
            .with("unique_key", key)
            .with("field", &path);
        index.into_iter().fold(error, |error, index| error.with_number("index", index))
    }

    /// A plan rule has reached its limit of staged jobs.
    pub(super) fn staging_full(rule: &str, most: u64, staged: u64) -> Self {
        let message = format!("Plan rule {rule} has {staged} staged jobs; its limit is {most} (max_staged).");
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", message)
            .with("rule", rule)
            .with_number("limit", most as usize)
            .with_number("current", staged as usize)
            .retry_after(1)
            .hint("Send the request again later, when rounds have promoted jobs. A batch is stored as a whole or not at all.")
    }

    /// A new job exceeds a limit of its tenant.
    pub(super) fn tenant_limited(exceeded: &store::Exceeded, kind: EnqueueKind) -> Self {
        let store::Exceeded { index, tenant, limit, current, maximum, retry_after } = exceeded;
        let message = format!("Tenant {} has exceeded {limit} ({maximum}).", json::quoted(tenant));
        let seconds = retry_after.as_millis().div_ceil(1000).max(1) as u32;
        let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TENANT_LIMIT_EXCEEDED", message)
            .with_top_level("tenant_id", tenant)
            .with_top_level("limit", limit)
            .retry_after(seconds)
            .hint("Send the request again later. A batch is stored as a whole or not at all.");
        for (name, value) in [("current", current), ("maximum", maximum)] {
            error.top_level.push((name, value.to_string()));
            error.details.push((name, value.to_string()));
        }
        error.limit = Some(*maximum);
        match kind {
            EnqueueKind::Batch => error.with("field", &format!("jobs[{index}]")).with_number("index", *index),
            EnqueueKind::Single => error,
        }
    }

    /// A queue has reached its bound.
    pub(super) fn queue_full(queue: &str, depth: u64, most: u64, overflow: Overflow) -> Self {
        // The client knows the queue without the namespace of its tenant.
        let queue = queue.rsplit('/').next().unwrap_or(queue);
        let message = format!("Queue {queue} is full: it has {depth} jobs; its bound is {most}.");
        let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", message)
            .with_top_level("queue", queue)
            .with_top_level("strategy", overflow.name())
            .retry_after(1)
            .hint("Send the request again later. A batch is stored as a whole or not at all.");
        for (name, number) in [("depth", depth), ("bound", most)] {
            error.top_level.push((name, number.to_string()));
            error = error.with_number(name, number as usize);
        }
        error.queue_pressure = Some((depth, most));
        error
    }

    /// The request body did not arrive before its deadline.
    pub(super) fn body_timed_out(limit: Duration) -> Self {
        let message = format!("The request body did not arrive within {limit:?}.");
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message).closing_connection()
    }

    /// The handler did not finish before the deadline of the request.
    pub(super) fn timed_out(limit: Duration) -> Self {
        let message = format!("The request did not complete within {limit:?}.");
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, "backend_timeout", message).retry_after(1)
    }

    /// A bug in this server.
    pub(super) fn internal() -> Self {
        let mut error =
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "The server encountered a bug.");
        error.retryable = true;
        error.hint("See the server log for the details, under this request id.")
    }

    /// Builds the body, with the id of the request.
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
