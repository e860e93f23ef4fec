//! Queues: list, counts, pause and resume, settings, limits.

use super::job_schemas::closed_quota;
use super::jobs::{RATE, bulk_request, states};
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::bulk::BulkAnswer;
use crate::api::answers::queues::{
    AdminQueueAnswer, AdminQueueItem, QueueAnswer, QueueConfigAnswer, QueueItem, QueueLimit, QueueLimitRemoved,
    QueuePaused, QueueStatsAnswer,
};
use crate::domain::job::State;
use crate::domain::limit::Overflow;
use serde_json::{Map, Value, json};

/// The state of a queue.
pub fn status() -> Value {
    enumeration(&["active", "paused"])
}

/// One count for each job state.
pub fn counts() -> Value {
    let properties = State::ALL.map(|state| (state.name().to_owned(), count()));
    json!({"type": "object", "properties": properties.into_iter().collect::<Map<_, _>>()})
}

pub fn list_all() -> Operation {
    operation("List queues").tenant_header().paged().page::<QueueItem>(&["queues"], "Queues, by name.")
}

pub fn show() -> Operation {
    operation("Show a queue").tenant_header().answer::<QueueAnswer>(200, "The queue.")
}

pub fn stats() -> Operation {
    operation("Count the jobs of a queue").tenant_header().answer::<QueueStatsAnswer>(200, "The counts.")
}

pub fn pause() -> Operation {
    operation("Pause a queue, so that fetches get no jobs of it")
        .path_parameter(queue())
        .answer::<QueuePaused>(200, "The queue is paused.")
        .errors(&[409])
}

pub fn resume() -> Operation {
    operation("Resume a queue")
        .path_parameter(queue())
        .answer::<QueuePaused>(200, "The queue is active.")
        .errors(&[409])
}

pub fn show_config() -> Operation {
    operation("Show the configuration of a queue")
        .answer::<QueueConfigAnswer>(200, "The settings, without those that are not set.")
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
        .answer::<QueueConfigAnswer>(200, "The settings that apply now.")
        .errors(&[409])
}

pub fn show_limit() -> Operation {
    operation("Show the rate limit of a queue")
        .answer::<QueueLimit>(200, "The limit and its usage.")
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
        .answer::<QueueLimit>(200, "The limit and its usage.")
        .with_headers(&RATE)
}

pub fn remove_limit() -> Operation {
    operation("Remove the rate limit of a queue; a limit in the configuration file applies again")
        .answer::<QueueLimitRemoved>(200, "The limit was removed.")
        .errors(&[409])
}

pub fn list_for_admin() -> Operation {
    operation("List queues in the shape of the admin API").paged().page::<AdminQueueItem>(&[], "Queues, by name.")
}

pub fn show_to_admin() -> Operation {
    operation("Show a queue in the shape of the admin API").answer::<AdminQueueAnswer>(200, "The queue.")
}

pub fn purge() -> Operation {
    let purged = State::ALL.into_iter().filter(|state| *state != State::Active).map(State::name).collect::<Vec<_>>();
    let body = merge(bulk_request(), request([("states", states(&purged)), ("older_than?", duration())]));
    operation("Purge jobs of a queue")
        .description("Deletes jobs. Waiting jobs are cancelled first; active jobs cannot be purged.")
        .path_parameter(queue())
        .request_body(body)
        .answer::<BulkAnswer>(200, "The number of purged jobs, and errors.")
}
