//! Queues: list, counts, pause and resume, settings, limits.

use super::Schemas;
use super::job_schemas::closed_quota;
use super::jobs::{RATE, bulk_request, states};
use super::operation::{Operation, operation};
use super::schema::*;
use crate::domain::job::State;
use crate::domain::limit::Overflow;
use serde_json::Value;

pub fn schemas() -> Schemas {
    vec![
        ("QueueState", queue_state()),
        ("QueuePaused", paused()),
        ("QueueConfig", config()),
        (
            "QueueConfigAnswer",
            merge(config(), object([("name", string()), ("configuration", reference("QueueConfig"))])),
        ),
        ("QueueLimit", queue_limit()),
    ]
}

fn status() -> Value {
    enumeration(&["active", "paused"])
}

/// A queue with its number of jobs by state.
fn queue_state() -> Value {
    let own = object([
        ("name", string()),
        ("status", status()),
        ("paused", boolean()),
        ("depth", count()),
        ("latency_ms", count()),
        ("oldest_available_at", nullable(timestamp())),
        ("max_depth?", count()),
        ("paused_at?", timestamp()),
        ("queue?", string()),
    ]);
    merge(own, counts("?"))
}

/// One count for each job state.
fn counts(mark: &str) -> Value {
    let names = State::ALL.map(|state| format!("{}{mark}", state.name()));
    let [a, b, c, d, e, f, g, h] = names.each_ref().map(|name| (name.as_str(), count()));
    object([a, b, c, d, e, f, g, h])
}

fn config() -> Value {
    let bound =
        object([("max_depth", count()), ("strategy", enumeration(&Overflow::NAMES)), ("warning_threshold", ratio())]);
    object([("backpressure?", bound), ("rate_limit?", quota_response())])
}

/// A quota in a response.
pub fn quota_response() -> Value {
    object([("concurrency?", count()), ("rate?", reference("Window")), ("throttle?", reference("Window"))])
}

pub fn list_all() -> Operation {
    let item = object([("name", string()), ("status", status()), ("created_at", timestamp())]);
    operation("List queues").tenant_header().paged().response(200, "Queues, by name.", page_of(&["queues"], item))
}

pub fn show() -> Operation {
    let response = object([
        ("queue", reference("QueueState")),
        ("name", string()),
        ("state", status()),
        ("config", reference("QueueConfig")),
        ("stats", reference("QueueState")),
        ("created_at", timestamp()),
    ]);
    operation("Show a queue").tenant_header().response(200, "The queue.", response)
}

pub fn stats() -> Operation {
    let wrapped =
        object([("queue", reference("QueueState")), ("stats", reference("QueueState")), ("computed_at", timestamp())]);
    let response = merge(queue_state(), wrapped);
    operation("Count the jobs of a queue").tenant_header().response(200, "The counts.", response)
}

fn paused() -> Value {
    object([
        ("name", string()),
        ("paused", boolean()),
        ("status", status()),
        ("paused_at?", timestamp()),
        ("resumed_at?", timestamp()),
        ("queue?", object([("name", string()), ("paused", boolean()), ("status", status())])),
    ])
}

pub fn pause() -> Operation {
    operation("Pause a queue, so that fetches get no jobs of it")
        .path_parameter(queue())
        .response(200, "The queue is paused.", reference("QueuePaused"))
        .errors(&[409])
}

pub fn resume() -> Operation {
    operation("Resume a queue")
        .path_parameter(queue())
        .response(200, "The queue is active.", reference("QueuePaused"))
        .errors(&[409])
}

pub fn show_config() -> Operation {
    operation("Show the configuration of a queue").response(
        200,
        "The settings, without those that are not set.",
        reference("QueueConfigAnswer"),
    )
}

pub fn put_config() -> Operation {
    let strategy = || enumeration(&Overflow::NAMES);
    let bound = closed(request([
        ("max_depth?", integer(0, 1_000_000_000)),
        ("strategy?", strategy()),
        ("warning_threshold?", ratio()),
    ]));
    let body = request([
        ("backpressure?", bound),
        ("max_size?", integer(0, 1_000_000_000)),
        ("overflow_policy?", strategy()),
        ("concurrency?", integer(0, crate::domain::limit::quota::MOST_CONCURRENCY.into())),
        ("rate_limit?", closed_quota(&response_members())),
    ]);
    operation("Change the configuration of a queue")
        .description("Settings that are left out do not change. A `max_depth` of 0 removes the bound.")
        .path_parameter(queue())
        .request_body(closed(body))
        .response(200, "The settings that apply now.", reference("QueueConfigAnswer"))
        .errors(&[409])
}

/// The rate limit of a queue.
fn queue_limit() -> Value {
    let own =
        object([("queue", string()), ("source", enumeration(&["file", "api"])), ("state", reference("RateLimit"))]);
    merge(own, quota_response())
}

pub fn show_limit() -> Operation {
    operation("Show the rate limit of a queue")
        .response(200, "The limit and its usage.", reference("QueueLimit"))
        .with_headers(&RATE)
}

/// The members of a response about a limit that a request may contain. They are ignored, so that a response can be sent back.
fn response_members() -> Value {
    request([("queue?", any()), ("source?", any()), ("state?", any())])
}

pub fn put_limit() -> Operation {
    operation("Set the rate limit of a queue")
        .path_parameter(queue())
        .request_body(closed_quota(&response_members()))
        .response(200, "The limit and its usage.", reference("QueueLimit"))
        .with_headers(&RATE)
}

pub fn remove_limit() -> Operation {
    let response = object([("queue", string()), ("removed", boolean()), ("holds", nullable(string()))]);
    operation("Remove the rate limit of a queue; a limit in the configuration file applies again")
        .response(200, "The limit was removed.", response)
        .errors(&[409])
}

pub fn list_for_admin() -> Operation {
    let counted = "Jobs within the last minute; `null` if activity is not counted.";
    let throughput = object([
        ("processed_per_minute", with_description(nullable(count()), counted)),
        ("failed_per_minute", with_description(nullable(count()), counted)),
        ("started_per_minute", count()),
        ("avg_wait_ms", number()),
    ]);
    let item = merge(for_admin(), object([("throughput", throughput)]));
    operation("List queues in the shape of the admin API").paged().response(200, "Queues, by name.", page_of(&[], item))
}

pub fn show_to_admin() -> Operation {
    let more = object([("configuration", reference("QueueConfig")), ("oldest_available_at", nullable(timestamp()))]);
    operation("Show a queue in the shape of the admin API").response(200, "The queue.", merge(for_admin(), more))
}

fn for_admin() -> Value {
    object([
        ("name", string()),
        ("state", status()),
        ("paused", boolean()),
        ("counts", map_of(count())),
        ("created_at", timestamp()),
    ])
}

pub fn purge() -> Operation {
    let purged = State::ALL.into_iter().filter(|state| *state != State::Active).map(State::name).collect::<Vec<_>>();
    let body = merge(bulk_request(), request([("states", states(&purged)), ("older_than?", duration())]));
    operation("Purge jobs of a queue")
        .description("Deletes jobs. Waiting jobs are cancelled first; active jobs cannot be purged.")
        .path_parameter(queue())
        .request_body(body)
        .response(200, "The number of purged jobs, and errors.", reference("BulkAnswer"))
}
