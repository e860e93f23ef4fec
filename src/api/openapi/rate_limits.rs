//! Rate limits and their overrides.

use super::job_schemas::closed_quota;
use super::jobs::RATE;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::rate_limits::RateLimit;
use crate::domain::limit::LimitScope;
use serde_json::json;

pub fn list_all() -> Operation {
    operation("List limits").paged().page::<RateLimit>(&[], "The limits that are in use, by key.")
}

fn scoped(operation: Operation) -> Operation {
    let description = "The jobs that the limit counts. Without a scope, the key is one that jobs name, unless only a limit of a queue, type or tenant has it.";
    operation.query("scope", enumeration(&LimitScope::NAMES), description)
}

pub fn show() -> Operation {
    scoped(operation("Show a limit")).answer::<RateLimit>(200, "The limit and its usage.").with_headers(&RATE)
}

pub fn put() -> Operation {
    scoped(operation("Override a limit, optionally until a point in time"))
        .path_parameter(json!({"type": "string", "pattern": "^[a-zA-Z0-9][a-zA-Z0-9._:*|=%@/-]*$", "maxLength": 256}))
        .request_body(any_of([closed_quota(&request([("expires_at?", time_or_delay())])), reference("RateLimit")]))
        .answer::<RateLimit>(200, "The limit that applies now.")
        .with_headers(&RATE)
}

pub fn remove() -> Operation {
    scoped(operation("Remove an override")).answer::<RateLimit>(200, "The limit that applies now.")
}
