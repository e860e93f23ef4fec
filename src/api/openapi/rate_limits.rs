//! Rate limits and their overrides.

use super::Shapes;
use super::job_schemas::closed_quota;
use super::jobs::RATE;
use super::operation::{Operation, op};
use super::schema::*;
use crate::job::{LimitScope, Partition};
use serde_json::{Value, json};

pub fn shapes() -> Shapes {
    vec![("RateLimit", rate_limit())]
}

fn rate_limit() -> Value {
    let rate = with(refer_window(), object([("current_count", count()), ("window_resets_at?", time())]));
    object([
        ("key", text()),
        (
            "scope",
            described(
                one_of(&LimitScope::NAMES),
                "What the limit counts: jobs with the key, or those of a queue, type or tenant.",
            ),
        ),
        ("waiting_count", count()),
        (
            "partition?",
            described(
                object([("key", text()), ("scope", one_of(&Partition::NAMES[1..])), ("name", text())]),
                "Of what this is a part, for the jobs of one tenant, queue or type.",
            ),
        ),
        (
            "partitions?",
            described(list(refer("RateLimit")), "Parts of a key that jobs divide, those first that were used last."),
        ),
        ("partitions_total?", count()),
        ("concurrency?", object([("limit", count()), ("active", count()), ("available?", count())])),
        ("rate?", rate),
        ("throttle?", with(refer_window(), object([("next_allowed_at?", time())]))),
        ("hold_until?", time()),
        ("override?", object([("expires_at", or_null(time()))])),
    ])
}

fn refer_window() -> Value {
    object([("limit", at_least(1)), ("period", text())])
}

pub fn list_all() -> Operation {
    op("All limits that are in use").paged().gives(200, "Limits, by key.", page_of(&[], refer("RateLimit")))
}

fn scoped(operation: Operation) -> Operation {
    let of = "What the limit counts. If it is left out, the key is one that jobs name, unless only a limit of a queue, type or tenant has it.";
    operation.query("scope", one_of(&LimitScope::NAMES), of)
}

pub fn show() -> Operation {
    scoped(op("Show a limit")).gives(200, "The limit, and how it is used.", refer("RateLimit")).with_headers(&RATE)
}

pub fn put() -> Operation {
    scoped(op("Override a limit, perhaps for a while"))
        .variable(json!({"type": "string", "pattern": "^[a-zA-Z0-9][a-zA-Z0-9._:*|=%@/-]*$", "maxLength": 256}))
        .takes(either([closed_quota(&request([("expires_at?", moment())])), refer("RateLimit")]))
        .gives(200, "What holds now.", refer("RateLimit"))
        .with_headers(&RATE)
}

pub fn remove() -> Operation {
    scoped(op("Take an override away")).gives(200, "What holds now.", refer("RateLimit"))
}
