//! Workers: fetch, ack, nack, heartbeat, register; in the admin API, list and direct.

use super::Schemas;
use super::derived;
use super::jobs::RATE;
use super::operation::{Operation, operation};
use super::pools::STRATEGIES;
use super::schema::*;
use crate::api::answers::workers::{
    Heartbeat, Worker, WorkerDeregistered, WorkerDirected, WorkerHealth, WorkerRegistered, WorkerRemoved,
    WorkersSummary,
};
use crate::api::handlers::fetch::MOST_QUEUES;
use crate::api::handlers::workers::MOST_NAMES;
use crate::domain::job::RequestLimits;
use serde_json::{Value, json};

pub fn schemas(limits: &RequestLimits) -> Schemas {
    vec![
        ("Acks", request([("acks", array_of(any(), 1, limits.max_batch))])),
        ("Ack", request([("job_id", printable(128)), ("result?", any()), ("worker_id?", printable(256))])),
        ("Acked", acked()),
        ("Nacked", nacked()),
        ("Heartbeat", heartbeat_body()),
    ]
}

pub fn fetch() -> Operation {
    let year = 366 * 86_400_000;
    let body = request([
        ("queues?", with_description(array_of(queue(), 1, MOST_QUEUES), "Optional if `pool` is given.")),
        ("pool?", string()),
        ("worker_id?", printable(256)),
        ("count?", with_description(safe_integer(1), "The number of jobs. More than 1000 count as 1000.")),
        ("batch_size?", with_description(safe_integer(1), "An alias of `count`, which takes precedence.")),
        ("wait_ms?", with_description(at_least(0), "Milliseconds to wait for a job. More than 30000 count as 30000.")),
        ("visibility_timeout_ms?", integer(1, year)),
        ("strategy?", enumeration(&STRATEGIES)),
        (
            "weights?",
            with_description(
                by_queue(json!({"type": "number", "exclusiveMinimum": 0})),
                "Weights of queues in `queues`.",
            ),
        ),
        (
            "fetch_id?",
            with_description(
                printable(256),
                "A repeated fetch with the same id returns the same jobs, for one minute.",
            ),
        ),
    ]);
    operation("Fetch jobs")
        .description(
            "The `X-RateLimit-*` headers report the tightest limit of the last job, or without jobs a limit that blocks some.",
        )
        .tenant_header()
        .request_body(requiring_one_of(body, &["queues", "pool"]))
        .response(
            200,
            "The jobs, which are active now; the list may be empty. `job` is the first of them if the request has no `count`.",
            object([("jobs", array(reference("Job"))), ("job?", reference("Job"))]),
        )
        .with_headers(&RATE)
        .errors(&[404, 409])
}

fn once(operation: Operation) -> Operation {
    operation
        .header("Idempotency-Key", printable(256), "A repeated request with the same key gets the first response.")
        .errors(&[404, 409])
}

fn acked() -> Value {
    object([
        ("acknowledged", boolean()),
        ("id", string()),
        ("job_id", string()),
        ("state", state()),
        ("completed_at?", timestamp()),
        ("job", reference("Job")),
    ])
}

pub fn ack() -> Operation {
    let results = object([("results", array(any_of([reference("Acked"), reference("Error")])))]);
    once(operation("Acknowledge one or several jobs"))
        .request_body(any_of([reference("Ack"), reference("Acks")]))
        .response(
            200,
            "The job is completed. Several jobs have one result each.",
            any_of([reference("Acked"), results]),
        )
}

pub fn ack_by_path() -> Operation {
    once(operation("Acknowledge a job"))
        .optional_request_body(request([("result?", any()), ("worker_id?", printable(256))]))
        .response(200, "The job is completed.", reference("Acked"))
}

fn failure() -> Value {
    request([
        ("code?", with_description(string(), "RETRY, DISCARD, DEAD_LETTER and FAIL select what happens to the job.")),
        ("type?", string()),
        ("message?", string()),
        ("retryable?", boolean()),
        ("details?", any()),
        ("backtrace?", any()),
        ("rate_limit_until?", timestamp()),
    ])
}

fn nack_body() -> Value {
    request([("error?", failure()), ("requeue?", boolean()), ("worker_id?", printable(256))])
}

fn nacked() -> Value {
    object([
        ("id", string()),
        ("job_id", string()),
        ("state", state()),
        ("attempt", count()),
        ("max_attempts", count()),
        ("next_attempt_at?", timestamp()),
        ("retry_delay_ms?", count()),
        ("discarded_at?", timestamp()),
        ("completed_at?", timestamp()),
        ("job", reference("Job")),
    ])
}

pub fn nack() -> Operation {
    once(operation("Report the failure of a job"))
        .request_body(merge(nack_body(), request([("job_id", printable(128))])))
        .response(
            200,
            "The new state of the job, with the time of the next attempt if there is one.",
            reference("Nacked"),
        )
}

pub fn nack_by_path() -> Operation {
    once(operation("Report the failure of a job")).optional_request_body(nack_body()).response(
        200,
        "The new state of the job, with the time of the next attempt if there is one.",
        reference("Nacked"),
    )
}

fn heartbeat_body() -> Value {
    let names = || array_of(string(), 0, MOST_NAMES);
    let beat = request([
        ("worker_id?", with_description(printable(256), "Required unless `id` is given.")),
        ("id?", printable(256)),
        ("active_jobs?", with_description(any_of([names(), safe_integer(0)]), "The ids of the jobs, or their number.")),
        ("active_job_ids?", names()),
        ("job_id?", string()),
        ("state?", enumeration(&["running", "quiet", "terminate", "drain"])),
        ("visibility_timeout_ms?", integer(1, 366 * 86_400_000)),
        ("pool?", string()),
        ("queues?", names()),
        ("labels?", names()),
        ("concurrency?", safe_integer(0)),
        (
            "strategy?",
            with_description(
                enumeration(&STRATEGIES),
                "The strategy of fetches that name neither a pool nor a strategy.",
            ),
        ),
        ("weights?", by_queue(json!({"type": "number", "exclusiveMinimum": 0}))),
        ("hostname?", any()),
        ("pid?", any()),
        ("version?", any()),
        ("started_at?", any()),
    ]);
    requiring_one_of(beat, &["worker_id", "id"])
}

pub fn heartbeat() -> Operation {
    operation("Send a heartbeat, which extends the leases of the worker's jobs")
        .request_body(reference("Heartbeat"))
        .answer::<Heartbeat>(200, "The directive for the worker, and the jobs whose leases were extended.")
        .errors(&[404, 409])
}

pub fn register() -> Operation {
    operation("Register a worker")
        .request_body(any_of([reference("Heartbeat"), request([("worker", reference("Heartbeat"))])]))
        .answer::<WorkerRegistered>(200, "The worker is registered.")
        .errors(&[404, 409])
}

pub fn deregister() -> Operation {
    operation("Deregister a worker and return its jobs to their queues")
        .answer::<WorkerDeregistered>(200, "The worker was removed.")
}

pub fn list_all() -> Operation {
    operation("List workers")
        .paged()
        .page_with::<Worker, WorkersSummary>(&[], "The workers, and their number by state.")
}

pub fn show() -> Operation {
    operation("Show a worker").answer::<Worker>(200, "The worker.")
}

pub fn health() -> Operation {
    let (stale, _) = derived::schema_of::<WorkerHealth>();
    operation("Check the health of a worker").answer::<WorkerHealth>(200, "The worker is healthy.").response(
        503,
        "The worker sent no heartbeat recently, or the store is unavailable.",
        any_of([stale, reference("Error")]),
    )
}

fn directed(summary: &'static str) -> Operation {
    operation(summary)
        .answer::<WorkerDirected>(200, "The worker gets the directive with its next heartbeat.")
        .errors(&[409])
}

pub fn quiet() -> Operation {
    directed("Quiet a worker, so that it gets no more jobs")
}

pub fn resume() -> Operation {
    directed("Resume a quiet worker")
}

pub fn terminate() -> Operation {
    directed("Ask a worker to exit")
}

pub fn remove() -> Operation {
    operation("Remove a stale worker and return its jobs to their queues")
        .answer::<WorkerRemoved>(200, "The worker was removed.")
        .errors(&[409])
}
