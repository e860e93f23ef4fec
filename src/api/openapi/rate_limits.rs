//! Rate limits and their overrides.

use super::Schemas;
use super::job_schemas::closed_quota;
use super::jobs::RATE;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::job::{LimitScope, Partition};
use serde_json::{Value, json};

pub fn schemas() -> Schemas {
    vec![("RateLimit", rate_limit())]
}

fn rate_limit() -> Value {
    let rate = merge(refer_window(), object([("current_count", count()), ("window_resets_at?", timestamp())]));
    object([
        ("key", string()),
        (
            "scope",
            with_description(
                enumeration(&LimitScope::NAMES),
                "The jobs that the limit counts: those with the key, or those of a queue, type or tenant.",
            ),
        ),
        ("waiting_count", count()),
        (
            "partition?",
            with_description(
                object([("key", string()), ("scope", enumeration(&Partition::NAMES[1..])), ("name", string())]),
                "The key of which this limit is a partition, and the tenant, queue or type of its jobs.",
            ),
        ),
        (
            "partitions?",
            with_description(array(reference("RateLimit")), "The partitions of the key, most recently used first."),
        ),
        ("partitions_total?", count()),
        ("concurrency?", object([("limit", count()), ("active", count()), ("available?", count())])),
        ("rate?", rate),
        ("throttle?", merge(refer_window(), object([("next_allowed_at?", timestamp())]))),
        ("hold_until?", timestamp()),
        ("override?", object([("expires_at", nullable(timestamp()))])),
    ])
}

fn refer_window() -> Value {
    object([("limit", at_least(1)), ("period", string())])
}

pub fn list_all() -> Operation {
    operation("List limits").paged().page_of::<()>(&[], reference("RateLimit"), "The limits that are in use, by key.")
}

fn scoped(operation: Operation) -> Operation {
    let description = "The jobs that the limit counts. Without a scope, the key is one that jobs name, unless only a limit of a queue, type or tenant has it.";
    operation.query("scope", enumeration(&LimitScope::NAMES), description)
}

pub fn show() -> Operation {
    scoped(operation("Show a limit"))
        .response(200, "The limit and its usage.", reference("RateLimit"))
        .with_headers(&RATE)
}

pub fn put() -> Operation {
    scoped(operation("Override a limit, optionally until a point in time"))
        .path_parameter(json!({"type": "string", "pattern": "^[a-zA-Z0-9][a-zA-Z0-9._:*|=%@/-]*$", "maxLength": 256}))
        .request_body(any_of([closed_quota(&request([("expires_at?", time_or_delay())])), reference("RateLimit")]))
        .response(200, "The limit that applies now.", reference("RateLimit"))
        .with_headers(&RATE)
}

pub fn remove() -> Operation {
    scoped(operation("Remove an override")).response(200, "The limit that applies now.", reference("RateLimit"))
}
