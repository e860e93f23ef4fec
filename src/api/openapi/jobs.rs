//! Jobs: enqueue, show, cancel, activate; for admins, many at once.

use super::Schemas;
use super::job_schemas;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::bulk::BulkAnswer;
use crate::api::answers::explain::JobExplanation;
use crate::api::answers::lists::{CursorPaged, Truncated};
use crate::api::handlers::bulk;
use crate::domain::job::{RequestLimits, State};
use serde_json::{Value, json};

const PRESSURE: [&str; 3] = ["X-OJS-Queue-Depth", "X-OJS-Queue-Bound", "X-OJS-Queue-Pressure"];
pub const RATE: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

pub fn schemas(limits: &RequestLimits) -> Schemas {
    vec![
        ("JobAnswer", merge(job_schemas::wrapped_job(), object([("deduplicated?", boolean())]))),
        ("NewJobs", request([("jobs", array_of(reference("NewJob"), 1, limits.max_batch))])),
    ]
}

/// Adds the headers of requests that store jobs.
pub fn stores_jobs(operation: Operation) -> Operation {
    operation
        .header("X-OJS-Tenant", tenant(), "The tenant of all jobs of the request.")
        .header("OJS-Block-Timeout", count(), "Seconds to wait while a queue with overflow policy `block` is full.")
        .errors(&[409, 429])
}

pub fn enqueue() -> Operation {
    stores_jobs(operation("Enqueue a job"))
        .request_body(reference("NewJob"))
        .response(200, "A duplicate exists and is returned. No job was stored.", reference("JobAnswer"))
        .response(201, "The job was stored.", reference("JobAnswer"))
        .with_headers(&["Location"])
        .with_headers(&PRESSURE)
        .with_headers(&RATE)
}

pub fn enqueue_batch() -> Operation {
    let response = object([
        ("jobs", array(reference("Job"))),
        ("count", count()),
        (
            "deduplicated?",
            with_description(array(count()), "The indexes of jobs that were not stored because a duplicate exists."),
        ),
    ]);
    stores_jobs(operation("Enqueue a batch of jobs; all of them are stored, or none"))
        .request_body(reference("NewJobs"))
        .response(201, "All jobs were stored.", response)
        .with_headers(&PRESSURE)
        .with_headers(&RATE)
}

pub fn show() -> Operation {
    operation("Show a job").tenant_header().response(200, "The job.", reference("JobBothWays"))
}

pub fn explain() -> Operation {
    operation("Explain why a job waits")
        .description(
            "Lists the checks between a waiting job and a worker in their order, names the first one that blocks, and estimates when \
             the job starts. For a job that runs or has ended, lists the time spent in each stage. The id may be the Sidekiq id (jid) \
             of a staged job; that search scans up to a million keys.",
        )
        .tenant_header()
        .answer::<JobExplanation>(200, "The explanation.")
}

pub fn show_to_admin() -> Operation {
    operation("Show a job in the shape of the admin API").response(200, "The job.", reference("JobOfAdmin"))
}

pub fn cancel() -> Operation {
    operation("Cancel a job that has not finished")
        .tenant_header()
        .response(200, "The job is cancelled.", reference("JobBothWays"))
        .errors(&[409])
}

pub fn activate() -> Operation {
    operation("Make a pending job available")
        .response(200, "The job is available.", reference("JobBothWays"))
        .errors(&[409])
}

/// The description of lists that scan the keys of the store.
pub const SCANNED: &str = "Each call scans a bounded number of keys in the store, in no particular order. A page may have fewer items than `limit`, \
    or none, and an item may be repeated on a later page; continue while `has_more` is true. Each item that exists during the whole scan is returned.";

pub fn list_by_cursor() -> Operation {
    filtered(operation("List jobs").description(SCANNED).tenant_header()).paged_by_cursor().list_of::<CursorPaged>(
        &["jobs"],
        reference("Job"),
        "Jobs.",
    )
}

pub fn list_all() -> Operation {
    found(operation("Find jobs"))
}

fn filtered(operation: Operation) -> Operation {
    operation
        .query("queue", string(), "Only jobs of this queue.")
        .query(
            "state",
            comma_separated(&State::ALL.map(State::name)),
            "Only jobs in these states, separated by commas.",
        )
        .query("type", string(), "Only jobs of this type. A trailing `*` matches any text.")
        .query("since", timestamp(), "Only jobs created at this time or later.")
        .query("until", timestamp(), "Only jobs created at this time or earlier.")
}

/// A list of jobs that match a query.
pub fn found(operation: Operation) -> Operation {
    filtered(operation)
        .query("sort", enumeration(&["created_at", "scheduled_at", "priority"]), "The sort key.")
        .query("order", enumeration(&["asc", "desc"]), "The sort order; `desc` by default.")
        .paged()
        .page_of::<Truncated>(&[], reference("Job"), "Jobs.")
}

pub fn cancel_as_admin() -> Operation {
    operation("Cancel a job that has not finished")
        .response(200, "The job is cancelled.", reference("JobBothWays"))
        .errors(&[409])
}

pub fn retry() -> Operation {
    operation("Retry a discarded or cancelled job")
        .response(200, "The job is available.", reference("JobBothWays"))
        .errors(&[409])
}

pub fn retry_many() -> Operation {
    many(operation("Retry discarded or cancelled jobs"), |state| matches!(state, State::Discarded | State::Cancelled))
}

pub fn cancel_many() -> Operation {
    many(operation("Cancel jobs that have not finished"), |state| !has_ended(state))
}

pub fn delete_many() -> Operation {
    many(operation("Delete finished jobs"), has_ended)
}

fn has_ended(state: State) -> bool {
    matches!(state, State::Completed | State::Cancelled | State::Discarded)
}

fn many(operation: Operation, takes: fn(State) -> bool) -> Operation {
    let names: Vec<&str> = State::ALL.into_iter().filter(|state| takes(*state)).map(State::name).collect();
    let filter = closed(request([
        ("queue?", string()),
        ("state?", states(&names)),
        ("type?", string()),
        ("since?", timestamp()),
        ("until?", timestamp()),
    ]));
    operation
        .request_body(merge(bulk_request(), request([("filter?", filter)])))
        .answer::<BulkAnswer>(200, "The number of changed jobs, and errors.")
}

/// One of some states, or an array of them.
pub fn states(names: &[&str]) -> Value {
    any_of([enumeration(names), array_of(enumeration(names), 1, 100)])
}

/// The members of all bulk requests.
pub fn bulk_request() -> Value {
    let mut request = request([
        ("confirm?", with_description(boolean(), "Must be true unless `dry_run` is.")),
        ("dry_run?", with_description(boolean(), "Only count the jobs.")),
        ("limit?", integer(1, bulk::MOST as i64)),
    ]);
    let is_true = |name: &str| json!({"required": [name], "properties": {name: {"const": true}}});
    request["anyOf"] = json!([is_true("confirm"), is_true("dry_run")]);
    request
}
