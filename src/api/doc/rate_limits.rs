//! Rate limits and their overrides.

use super::Shapes;
use super::job_shapes::closed_quota;
use super::jobs::RATE;
use super::operation::{Operation, op};
use super::schema::*;
use serde_json::{Value, json};

pub fn shapes() -> Shapes {
    vec![("RateLimit", rate_limit())]
}

fn rate_limit() -> Value {
    let rate = with(refer_window(), object([("current_count", count()), ("window_resets_at?", time())]));
    object([
        ("key", text()),
        ("waiting_count", count()),
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
    op("All limits that are in use").paged().gives(200, "Limits, by key.", page_of("items", refer("RateLimit")))
}

pub fn show() -> Operation {
    op("Show a limit").gives(200, "The limit, and how it is used.", refer("RateLimit")).with_headers(&RATE)
}

pub fn put() -> Operation {
    op("Override a limit, perhaps for a while")
        .variable(json!({"type": "string", "pattern": "^[a-zA-Z0-9][a-zA-Z0-9._:*-]*$", "maxLength": 256}))
        .takes(closed_quota(&request([("expires_at?", moment())])))
        .gives(200, "What holds now.", refer("RateLimit"))
        .with_headers(&RATE)
}

pub fn remove() -> Operation {
    op("Take an override away").gives(200, "What holds now.", refer("RateLimit"))
}
