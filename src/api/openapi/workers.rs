//! What workers ask: fetch, ack, nack, heartbeat, register; and what admins tell them.

use super::Shapes;
use super::jobs::RATE;
use super::operation::{Operation, op};
use super::pools::STRATEGIES;
use super::schema::*;
use crate::api::handlers::fetch::MOST_QUEUES;
use crate::api::handlers::workers::MOST_NAMES;
use crate::job::Limits;
use serde_json::{Value, json};

pub fn shapes(limits: &Limits) -> Shapes {
    vec![
        ("Acks", request([("acks", list_of(any(), 1, limits.max_batch))])),
        ("Ack", request([("job_id", plain(128)), ("result?", any()), ("worker_id?", plain(256))])),
        ("Acked", acked()),
        ("Nacked", nacked()),
        ("Heartbeat", heartbeat_body()),
        ("Worker", worker()),
    ]
}

pub fn fetch() -> Operation {
    let year = 366 * 86_400_000;
    let body = request([
        ("queues?", described(list_of(queue(), 1, MOST_QUEUES), "May be left out where `pool` says it.")),
        ("pool?", text()),
        ("worker_id?", plain(256)),
        ("count?", described(whole(1), "More than 1000 count as 1000.")),
        ("batch_size?", described(whole(1), "The same, if `count` is left out.")),
        ("wait_ms?", described(at_least(0), "How long to wait for a job; more than 30000 count as 30000.")),
        ("visibility_timeout_ms?", integer(1, year)),
        ("strategy?", one_of(&STRATEGIES)),
        ("weights?", described(by_queue(json!({"type": "number", "exclusiveMinimum": 0})), "Of queues in `queues`.")),
        ("fetch_id?", described(plain(256), "Under the same id the same jobs are given again, for a minute.")),
    ]);
    op("Take jobs to work on")
        .about(
            "`X-RateLimit-*` describe the tightest limit of its last job or, if it got none, a limit that holds jobs back.",
        )
        .of_tenant()
        .takes(with_one_of(body, &["queues", "pool"]))
        .gives(
            200,
            "Jobs, now active; none if there are none. `job` is the first, where `count` was not said.",
            object([("jobs", list(refer("Job"))), ("job?", refer("Job"))]),
        )
        .with_headers(&RATE)
        .fails(&[404, 409])
}

fn once(operation: Operation) -> Operation {
    operation.header("Idempotency-Key", plain(256), "Whoever repeats it gets the first answer.").fails(&[404, 409])
}

fn acked() -> Value {
    object([
        ("acknowledged", flag()),
        ("id", text()),
        ("job_id", text()),
        ("state", state()),
        ("completed_at?", time()),
        ("job", refer("Job")),
    ])
}

pub fn ack() -> Operation {
    let results = object([("results", list(either([refer("Acked"), refer("Error")])))]);
    once(op("Tell that a job, or several, succeeded")).takes(either([refer("Ack"), refer("Acks")])).gives(
        200,
        "It is completed; of several, each has its own result.",
        either([refer("Acked"), results]),
    )
}

pub fn ack_by_path() -> Operation {
    once(op("Tell that a job succeeded")).may_take(request([("result?", any()), ("worker_id?", plain(256))])).gives(
        200,
        "It is completed.",
        refer("Acked"),
    )
}

fn failure() -> Value {
    request([
        ("code?", described(text(), "RETRY, DISCARD, DEAD_LETTER and FAIL decide what happens.")),
        ("type?", text()),
        ("message?", text()),
        ("retryable?", flag()),
        ("details?", any()),
        ("backtrace?", any()),
        ("rate_limit_until?", time()),
    ])
}

fn nack_body() -> Value {
    request([("error?", failure()), ("requeue?", flag()), ("worker_id?", plain(256))])
}

fn nacked() -> Value {
    object([
        ("id", text()),
        ("job_id", text()),
        ("state", state()),
        ("attempt", count()),
        ("max_attempts", count()),
        ("next_attempt_at?", time()),
        ("retry_delay_ms?", count()),
        ("discarded_at?", time()),
        ("completed_at?", time()),
        ("job", refer("Job")),
    ])
}

pub fn nack() -> Operation {
    once(op("Tell that a job failed")).takes(with(nack_body(), request([("job_id", plain(128))]))).gives(
        200,
        "It will be tried again, or not.",
        refer("Nacked"),
    )
}

pub fn nack_by_path() -> Operation {
    once(op("Tell that a job failed")).may_take(nack_body()).gives(
        200,
        "It will be tried again, or not.",
        refer("Nacked"),
    )
}

fn heartbeat_body() -> Value {
    let names = || list_of(text(), 0, MOST_NAMES);
    let beat = request([
        ("worker_id?", described(plain(256), "This or `id` must be there.")),
        ("id?", plain(256)),
        ("active_jobs?", described(either([names(), whole(0)]), "Ids, or how many.")),
        ("active_job_ids?", names()),
        ("job_id?", text()),
        ("state?", one_of(&["running", "quiet", "terminate", "drain"])),
        ("visibility_timeout_ms?", integer(1, 366 * 86_400_000)),
        ("pool?", text()),
        ("queues?", names()),
        ("labels?", names()),
        ("concurrency?", whole(0)),
        ("strategy?", described(one_of(&STRATEGIES), "Of fetches that name neither a pool nor a strategy.")),
        ("weights?", by_queue(json!({"type": "number", "exclusiveMinimum": 0}))),
        ("hostname?", any()),
        ("pid?", any()),
        ("version?", any()),
        ("started_at?", any()),
    ]);
    with_one_of(beat, &["worker_id", "id"])
}

pub fn heartbeat() -> Operation {
    let answer = object([
        ("state", described(text(), "What the worker is to do: running, quiet or terminate.")),
        ("jobs_extended", list(text())),
        ("cancelled_jobs", list(text())),
        ("server_time", time()),
        ("acknowledged", flag()),
    ]);
    op("Tell that a worker is alive, and extend its jobs")
        .takes(refer("Heartbeat"))
        .gives(200, "What it is to do.", answer)
        .fails(&[404, 409])
}

pub fn register() -> Operation {
    let answer = object([
        ("ok", flag()),
        ("worker_id", text()),
        ("state", text()),
        ("server_time", time()),
        ("heartbeat_interval", number()),
        ("heartbeat_timeout", number()),
        ("visibility_timeout_default", number()),
    ]);
    op("Register a worker")
        .takes(either([refer("Heartbeat"), request([("worker", refer("Heartbeat"))])]))
        .gives(200, "It is known.", answer)
        .fails(&[404, 409])
}

pub fn deregister() -> Operation {
    let answer = object([("ok", flag()), ("worker_id", text()), ("jobs_requeued", count())]);
    op("Say goodbye: what the worker held is available again").gives(200, "It is gone.", answer)
}

/// What a worker told of itself is shown as it told it.
fn worker() -> Value {
    open(object([
        ("id", text()),
        ("state", text()),
        ("active_jobs", count()),
        ("active_job_ids?", list(text())),
        ("started_at", any()),
        ("last_heartbeat_at", time()),
    ]))
}

pub fn list_all() -> Operation {
    let summary = object([("total", count()), ("running", count()), ("quiet", count()), ("stale", count())]);
    let answer = with(page_of(&[], refer("Worker")), object([("summary", summary)]));
    op("All workers").paged().gives(200, "Workers, and how many of each kind.", answer)
}

pub fn show() -> Operation {
    op("Show a worker").gives(200, "The worker.", refer("Worker"))
}

pub fn health() -> Operation {
    let health = object([("worker_id", text()), ("state", text()), ("last_heartbeat_at", time())]);
    op("Whether a worker is alive").gives(200, "It is.", health.clone()).gives(
        503,
        "It was silent for too long, or the store is away.",
        either([health, refer("Error")]),
    )
}

fn directed(summary: &'static str) -> Operation {
    op(summary).gives(200, "It will be told.", object([("worker_id", text()), ("state", text())])).fails(&[409])
}

pub fn quiet() -> Operation {
    directed("Give a worker no more jobs")
}

pub fn resume() -> Operation {
    directed("Give a quiet worker jobs again")
}

pub fn terminate() -> Operation {
    directed("Tell a worker to end")
}

pub fn remove() -> Operation {
    let answer = object([("worker_id", text()), ("removed", flag()), ("jobs_requeued", count())]);
    op("Remove a worker that is silent: what it held is available again")
        .gives(200, "It is gone.", answer)
        .fails(&[409])
}
