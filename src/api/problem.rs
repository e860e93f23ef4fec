//! An OJS error answer: its members, and those that have names. What went wrong elsewhere becomes one in `causes`.

mod causes;

use crate::auth::Role;
use crate::job::Invalid;
use crate::job::json;
use crate::store;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::time::Duration;

/// Where codes are explained: a page of this server.
const DOCS: &str = "/docs/errors#";

/// An error answer. It becomes a body only where the request's id is known, in `frame`.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    retryable: bool,
    /// What was refused, if that is what went wrong.
    invalid: Option<Box<Invalid>>,
    /// Members of `details`: name and JSON text.
    details: Vec<(&'static str, String)>,
    /// Members that some texts want beside the code as well.
    beside: Vec<(&'static str, String)>,
    /// The name that some suites look for beside the code.
    kind: Option<&'static str>,
    hint: Option<String>,
    pub(super) retry_after: Option<u32>,
    /// What WWW-Authenticate asks for.
    pub(super) challenge: Option<&'static str>,
    /// The number of the limit that refused the request, if one did: nothing is left of it.
    pub(super) limit: Option<u64>,
    /// Jobs in the queue that has no room, and how many those may be.
    pub(super) pressure: Option<(u64, u64)>,
    /// The request's body was not read to its end, so that the connection cannot be used again.
    pub(super) closes: bool,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Problem {
            status,
            code,
            message,
            retryable: false,
            invalid: None,
            details: Vec::new(),
            beside: Vec::new(),
            kind: None,
            hint: None,
            retry_after: None,
            challenge: None,
            limit: None,
            pressure: None,
            closes: false,
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

    /// Adds a member both to `details` and beside the code.
    pub(super) fn with_beside(mut self, name: &'static str, value: &str) -> Self {
        self.beside.push((name, json::quoted(value)));
        self.with(name, value)
    }

    /// The same problem inside the value at `path`.
    pub(super) fn within(mut self, path: &str) -> Self {
        if let Some(invalid) = self.invalid.take() {
            return invalid.within(path).into();
        }
        self
    }

    /// The connection ends with this answer.
    pub(super) fn closing(mut self) -> Self {
        self.closes = true;
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
        Problem::new(StatusCode::NOT_FOUND, "not_found", "There is nothing at this path.")
            .hint("The API starts at /ojs/v1; GET /ojs/manifest tells what this server can do.")
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "This path exists, but not for this method.";
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", message)
            .hint("The Allow header lists the methods of this path.")
    }

    /// No key was presented, or one that is not valid.
    pub(super) fn unauthorized(is_wrong: bool) -> Self {
        let (message, challenge) = match is_wrong {
            false => ("This server asks for an API key.", "Bearer realm=\"fairgate\""),
            true => ("The API key is not valid.", "Bearer realm=\"fairgate\", error=\"invalid_token\""),
        };
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
        // The body was not read.
        Problem { challenge: Some(challenge), ..problem }
            .closing()
            .hint("Send `Authorization: Bearer KEY`; docs/security.md tells how keys are made.")
    }

    /// The key is valid, but of another role.
    pub(super) fn forbidden_role(role: Role, roles: &[Role]) -> Self {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        let message = format!("A key with the role {} may not do this.", role.name());
        Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("canonical", "PERMISSION_DENIED")
            .with("role", role.name())
            .with("expected", &names.join(", "))
            .closing()
            .hint("docs/security.md lists what each role may do.")
    }

    /// The key is bound to a tenant, and the request names another one.
    pub(super) fn foreign_tenant(tenant: &str, field: &str) -> Self {
        let message = format!("`{field}` belongs to another tenant than the caller, which is {tenant:?}.");
        Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("canonical", "TENANT_ACCESS_DENIED")
            .with("tenant_id", tenant)
            .with("field", field)
            .hint("Leave it out: what the caller enqueues and asks for is its tenant's.")
    }

    /// Without keys, a page of another origin could do whatever it likes.
    pub(super) fn foreign_origin(origin: &str) -> Self {
        let message = format!("A page of another origin ({origin}) may not change anything.");
        Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("field", "Origin")
            .with("received", origin)
            .closing()
            .hint("List the origin in server.cors_origins, or give the server keys; see docs/security.md.")
    }

    /// The server has no keys, and a name that it does not know may be one that a page has made point here.
    pub(super) fn unknown_host(host: &str) -> Self {
        let message = format!("This server does not answer to the name {host:?}.");
        Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
            .with("field", "Host")
            .with("received", host)
            .closing()
            .hint("List the name in server.allowed_hosts, or give the server keys; see docs/security.md.")
    }

    /// Something that was asked for by name does not exist.
    pub(super) fn missing(resource: &'static str, name: &str) -> Self {
        let message = format!("There is no {resource} {}.", json::quoted(name));
        Problem::new(StatusCode::NOT_FOUND, "not_found", message)
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
        let problem = Problem::new(StatusCode::CONFLICT, "conflict", message)
            .with("job_id", job_id)
            .with("current_state", state)
            .with("expected_state", expected);
        match holder {
            Some(holder) => problem.with("worker_id", holder),
            None => problem,
        }
    }

    /// An id of a new job is taken.
    pub(super) fn duplicate(id: &str, index: Option<usize>) -> Self {
        let place = index.map_or_else(|| "id".to_owned(), |index| format!("jobs[{index}].id"));
        let message = format!("`{place}` is taken: a job with the id {id} exists already.");
        let problem = Problem::new(StatusCode::CONFLICT, "duplicate", message).with("existing_job_id", id);
        match index {
            Some(index) => problem.with("field", &format!("jobs[{index}].id")).with_number("index", index),
            None => problem.with("field", "id"),
        }
    }

    /// A unique job has a duplicate.
    pub(super) fn exists(id: &str, state: &str, key: &str, index: Option<usize>) -> Self {
        let place = index.map_or_else(|| "unique".to_owned(), |index| format!("jobs[{index}].unique"));
        let message = format!("`{place}` does not allow this job: job {id} counts as the same and is {state}.");
        let problem = Problem::new(StatusCode::CONFLICT, "duplicate", message)
            .with("existing_job_id", id)
            .with("existing_job_state", state)
            .with("unique_key", key)
            .with("field", &place);
        index.into_iter().fold(problem, |problem, index| problem.with_number("index", index))
    }

    /// A plan rule has as many jobs staged as it may.
    pub(super) fn staging_full(rule: &str, most: u64, staged: u64) -> Self {
        let message = format!("Plan rule {rule} has {staged} jobs staged and takes {most} at most (max_staged).");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", message)
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
        let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "TENANT_LIMIT_EXCEEDED", message)
            .with_beside("tenant_id", tenant)
            .with_beside("limit", limit)
            .retry_after(seconds)
            .hint("Send it again later. A batch is taken as a whole or not at all.");
        for (name, value) in [("current", current), ("maximum", maximum)] {
            problem.beside.push((name, value.to_string()));
            problem.details.push((name, value.to_string()));
        }
        problem.limit = Some(*maximum);
        match is_batch {
            true => problem.with("field", &format!("jobs[{index}]")).with_number("index", *index),
            false => problem,
        }
    }

    /// A queue holds as many jobs as it may.
    pub(super) fn queue_full(queue: &str, depth: u64, most: u64, strategy: &str) -> Self {
        // As its client named it, without the namespace of a tenant.
        let queue = queue.rsplit('/').next().unwrap_or(queue);
        let message = format!("Queue {queue} holds {depth} jobs and takes {most} at most.");
        let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", message)
            .with_beside("queue", queue)
            .with_beside("strategy", strategy)
            .retry_after(1)
            .hint("Send it again later. A batch is taken as a whole or not at all.");
        for (name, number) in [("depth", depth), ("bound", most)] {
            problem.beside.push((name, number.to_string()));
            problem = problem.with_number(name, number as usize);
        }
        problem.pressure = Some((depth, most));
        problem
    }

    /// The client took too long to send its body.
    pub(super) fn body_timed_out(limit: Duration) -> Self {
        let message = format!("The request body did not arrive within {limit:?}.");
        Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message).closing()
    }

    pub(super) fn timed_out(limit: Duration) -> Self {
        let message = format!("The request was not answered within {limit:?}.");
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "backend_timeout", message).retry_after(1)
    }

    pub(super) fn bug() -> Self {
        let mut problem =
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "This is a bug in fairgate.");
        problem.retryable = true;
        problem.hint("The log has the details under this request id.")
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
        if !self.beside.is_empty() {
            out.extend([",", &join(&self.beside)]);
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

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
