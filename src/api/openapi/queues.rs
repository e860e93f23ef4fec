//! Queues: list, counts, pause and resume, settings, limits.

use super::Shapes;
use super::job_schemas::closed_quota;
use super::jobs::{RATE, bulk_request, states};
use super::operation::{Operation, op};
use super::schema::*;
use crate::job::State;
use serde_json::Value;

pub fn shapes() -> Shapes {
    vec![
        ("QueueState", queue_state()),
        ("QueuePaused", paused()),
        ("QueueConfig", config()),
        ("QueueConfigAnswer", with(config(), object([("name", text()), ("configuration", refer("QueueConfig"))]))),
        ("QueueLimit", queue_limit()),
    ]
}

fn status() -> Value {
    one_of(&["active", "paused"])
}

/// A queue with how many of its jobs are in each state.
fn queue_state() -> Value {
    let own = object([
        ("name", text()),
        ("status", status()),
        ("paused", flag()),
        ("depth", count()),
        ("latency_ms", count()),
        ("oldest_available_at", or_null(time())),
        ("max_depth?", count()),
        ("paused_at?", time()),
        ("queue?", text()),
    ]);
    with(own, counts("?"))
}

/// A member for each state.
fn counts(mark: &str) -> Value {
    let names = State::ALL.map(|state| format!("{}{mark}", state.name()));
    let [a, b, c, d, e, f, g, h] = names.each_ref().map(|name| (name.as_str(), count()));
    object([a, b, c, d, e, f, g, h])
}

fn config() -> Value {
    let bound = object([
        ("max_depth", count()),
        ("strategy", one_of(&["reject", "block", "drop_oldest"])),
        ("warning_threshold", ratio()),
    ]);
    object([("backpressure?", bound), ("rate_limit?", shown_quota())])
}

/// A quota as answers show it.
pub fn shown_quota() -> Value {
    object([("concurrency?", count()), ("rate?", refer("Window")), ("throttle?", refer("Window"))])
}

pub fn list_all() -> Operation {
    let item = object([("name", text()), ("status", status()), ("created_at", time())]);
    op("All queues").of_tenant().paged().gives(200, "Queues, by name.", page_of(&["queues"], item))
}

pub fn show() -> Operation {
    let answer = object([
        ("queue", refer("QueueState")),
        ("name", text()),
        ("state", status()),
        ("config", refer("QueueConfig")),
        ("stats", refer("QueueState")),
        ("created_at", time()),
    ]);
    op("Show a queue").of_tenant().gives(200, "The queue.", answer)
}

pub fn stats() -> Operation {
    let wrapped = object([("queue", refer("QueueState")), ("stats", refer("QueueState")), ("computed_at", time())]);
    let answer = with(queue_state(), wrapped);
    op("How many jobs a queue has").of_tenant().gives(200, "Its counts.", answer)
}

fn paused() -> Value {
    object([
        ("name", text()),
        ("paused", flag()),
        ("status", status()),
        ("paused_at?", time()),
        ("resumed_at?", time()),
        ("queue?", object([("name", text()), ("paused", flag()), ("status", status())])),
    ])
}

pub fn pause() -> Operation {
    op("Hand out no more jobs of a queue")
        .variable(queue())
        .gives(200, "It is paused.", refer("QueuePaused"))
        .fails(&[409])
}

pub fn resume() -> Operation {
    op("Hand out jobs of a queue again")
        .variable(queue())
        .gives(200, "It is active.", refer("QueuePaused"))
        .fails(&[409])
}

pub fn show_config() -> Operation {
    op("What is set for a queue").gives(200, "Only what is set.", refer("QueueConfigAnswer"))
}

pub fn put_config() -> Operation {
    let strategy = || one_of(&["reject", "block", "drop_oldest"]);
    let bound = closed(request([
        ("max_depth?", integer(0, 1_000_000_000)),
        ("strategy?", strategy()),
        ("warning_threshold?", ratio()),
    ]));
    let body = request([
        ("backpressure?", bound),
        ("max_size?", integer(0, 1_000_000_000)),
        ("overflow_policy?", strategy()),
        ("concurrency?", integer(0, crate::job::quota::MOST_CONCURRENCY.into())),
        ("rate_limit?", closed_quota(&answered())),
    ]);
    op("Change what is set for a queue")
        .about("What it does not name stays as it is; a `max_depth` of 0 is no bound.")
        .variable(queue())
        .takes(closed(body))
        .gives(200, "What is set now.", refer("QueueConfigAnswer"))
        .fails(&[409])
}

/// A queue's own limit.
fn queue_limit() -> Value {
    let own = object([("queue", text()), ("source", one_of(&["file", "api"])), ("state", refer("RateLimit"))]);
    with(own, shown_quota())
}

pub fn show_limit() -> Operation {
    op("A queue's own limit").gives(200, "The limit, and how it is used.", refer("QueueLimit")).with_headers(&RATE)
}

/// What an answer about a limit has beside it, and may come back with.
fn answered() -> Value {
    request([("queue?", any()), ("source?", any()), ("state?", any())])
}

pub fn put_limit() -> Operation {
    op("Limit all jobs of a queue")
        .variable(queue())
        .takes(closed_quota(&answered()))
        .gives(200, "The limit, and how it is used.", refer("QueueLimit"))
        .with_headers(&RATE)
}

pub fn remove_limit() -> Operation {
    let answer = object([("queue", text()), ("removed", flag()), ("holds", or_null(text()))]);
    op("Take a queue's limit away: the file's holds again, if there is one")
        .gives(200, "It is gone.", answer)
        .fails(&[409])
}

pub fn list_for_admin() -> Operation {
    let counted = "Jobs within the last minute; `null` while nobody counts what tenants do.";
    let throughput = object([
        ("processed_per_minute", described(or_null(count()), counted)),
        ("failed_per_minute", described(or_null(count()), counted)),
        ("started_per_minute", count()),
        ("avg_wait_ms", number()),
    ]);
    let item = with(for_admin(), object([("throughput", throughput)]));
    op("All queues, as admins see them").paged().gives(200, "Queues, by name.", page_of(&[], item))
}

pub fn show_to_admin() -> Operation {
    let more = object([("configuration", refer("QueueConfig")), ("oldest_available_at", or_null(time()))]);
    op("Show a queue, as admins see it").gives(200, "The queue.", with(for_admin(), more))
}

fn for_admin() -> Value {
    object([
        ("name", text()),
        ("state", status()),
        ("paused", flag()),
        ("counts", map(count())),
        ("created_at", time()),
    ])
}

pub fn purge() -> Operation {
    let purged = State::ALL.into_iter().filter(|state| *state != State::Active).map(State::name).collect::<Vec<_>>();
    let body = with(bulk_request(), request([("states", states(&purged)), ("older_than?", duration())]));
    op("Remove jobs of a queue for good")
        .about("Jobs that wait are cancelled first; those that workers have cannot be purged.")
        .variable(queue())
        .takes(body)
        .gives(200, "What became of them.", refer("BulkAnswer"))
}
