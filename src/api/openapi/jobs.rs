//! Jobs: enqueue, look up, cancel, activate; for admins, many at once.

use super::Shapes;
use super::job_schemas;
use super::operation::{Operation, op};
use super::schema::*;
use crate::api::handlers::bulk;
use crate::job::{Limits, State};
use serde_json::{Value, json};

const PRESSURE: [&str; 3] = ["X-OJS-Queue-Depth", "X-OJS-Queue-Bound", "X-OJS-Queue-Pressure"];
pub const RATE: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

pub fn shapes(limits: &Limits) -> Shapes {
    vec![
        ("JobAnswer", with(job_schemas::both_ways(), object([("deduplicated?", flag())]))),
        ("NewJobs", request([("jobs", list_of(refer("NewJob"), 1, limits.max_batch))])),
        ("BulkAnswer", bulk_answer()),
    ]
}

/// Headers that tell about jobs to be stored.
pub fn stores(operation: Operation) -> Operation {
    operation
        .header("X-OJS-Tenant", tenant(), "The tenant of all jobs of the request.")
        .header("OJS-Block-Timeout", count(), "Seconds to wait for room in a queue that blocks.")
        .fails(&[409, 429])
}

pub fn enqueue() -> Operation {
    stores(op("Enqueue a job"))
        .takes(refer("NewJob"))
        .gives(200, "A job that counts as the same exists, and is kept in its place.", refer("JobAnswer"))
        .gives(201, "The job is stored.", refer("JobAnswer"))
        .with_headers(&["Location"])
        .with_headers(&PRESSURE)
        .with_headers(&RATE)
}

pub fn enqueue_batch() -> Operation {
    let answer = object([
        ("jobs", list(refer("Job"))),
        ("count", count()),
        ("deduplicated?", described(list(count()), "Places of jobs that were not stored because their like exists.")),
    ]);
    stores(op("Enqueue jobs: all of them or none"))
        .takes(refer("NewJobs"))
        .gives(201, "All jobs are stored.", answer)
        .with_headers(&PRESSURE)
        .with_headers(&RATE)
}

pub fn show() -> Operation {
    op("Show a job").of_tenant().gives(200, "The job.", refer("JobBothWays"))
}

pub fn show_to_admin() -> Operation {
    op("Show a job, as admins see it").gives(200, "The job.", refer("JobOfAdmin"))
}

pub fn cancel() -> Operation {
    op("Cancel a job that has not ended").of_tenant().gives(200, "It is cancelled.", refer("JobBothWays")).fails(&[409])
}

pub fn activate() -> Operation {
    op("Make a pending job available").gives(200, "It is available.", refer("JobBothWays")).fails(&[409])
}

/// The description of lists that scan keys.
pub const SCANNED: &str = "Each call looks at a bounded number of keys of the store, in no order. A page may have fewer items than `limit`, \
    even none, and an item may come again on a later page; go on while `has_more` is true. Whatever exists during the whole scan is returned.";

pub fn list_by_cursor() -> Operation {
    let answer = with(list_answer(&["jobs"], refer("Job")), object([("pagination", refer("CursorPagination"))]));
    filtered(op("List jobs").about(SCANNED).of_tenant()).paged_by_cursor().gives(200, "Jobs.", answer)
}

pub fn list_all() -> Operation {
    found(op("Find jobs"))
}

fn filtered(operation: Operation) -> Operation {
    operation
        .query("queue", text(), "Jobs of this queue.")
        .query("state", words(&State::ALL.map(State::name)), "Jobs of these states, separated by commas.")
        .query("type", text(), "Jobs of this type; a `*` at its end stands for anything.")
        .query("since", time(), "Created at this time or later.")
        .query("until", time(), "Created at this time or earlier.")
}

/// Jobs that a query finds.
pub fn found(operation: Operation) -> Operation {
    let answer = with(page_of(&[], refer("Job")), object([("truncated", flag())]));
    filtered(operation)
        .query("sort", one_of(&["created_at", "scheduled_at", "priority"]), "What they are sorted by.")
        .query("order", one_of(&["asc", "desc"]), "`desc` if it is not said.")
        .paged()
        .gives(200, "Jobs; `truncated` if there are more than were looked at.", answer)
}

pub fn cancel_as_admin() -> Operation {
    op("Cancel a job that has not ended").gives(200, "It is cancelled.", refer("JobBothWays")).fails(&[409])
}

pub fn retry() -> Operation {
    op("Begin a job anew that was discarded or cancelled")
        .gives(200, "It is available.", refer("JobBothWays"))
        .fails(&[409])
}

pub fn retry_many() -> Operation {
    many(op("Begin jobs anew that were discarded or cancelled"), |state| {
        matches!(state, State::Discarded | State::Cancelled)
    })
}

pub fn cancel_many() -> Operation {
    many(op("Cancel jobs that have not ended"), |state| !has_ended(state))
}

pub fn delete_many() -> Operation {
    many(op("Delete jobs that have ended"), has_ended)
}

fn has_ended(state: State) -> bool {
    matches!(state, State::Completed | State::Cancelled | State::Discarded)
}

fn many(operation: Operation, takes: fn(State) -> bool) -> Operation {
    let names: Vec<&str> = State::ALL.into_iter().filter(|state| takes(*state)).map(State::name).collect();
    let filter = closed(request([
        ("queue?", text()),
        ("state?", states(&names)),
        ("type?", text()),
        ("since?", time()),
        ("until?", time()),
    ]));
    operation.takes(with(bulk_request(), request([("filter?", filter)]))).gives(
        200,
        "What became of them.",
        refer("BulkAnswer"),
    )
}

/// One of some states, or several.
pub fn states(names: &[&str]) -> Value {
    either([one_of(names), list_of(one_of(names), 1, 100)])
}

/// What every request about many jobs has.
pub fn bulk_request() -> Value {
    let mut request = request([
        ("confirm?", described(flag(), "Must be true, unless it is a dry run.")),
        ("dry_run?", described(flag(), "Only tell how many there are.")),
        ("limit?", integer(1, bulk::MOST as i64)),
    ]);
    let is_true = |name: &str| json!({"required": [name], "properties": {name: {"const": true}}});
    request["anyOf"] = json!([is_true("confirm"), is_true("dry_run")]);
    request
}

fn bulk_answer() -> Value {
    object([
        ("action", text()),
        ("matched", count()),
        ("succeeded", count()),
        ("failed", count()),
        ("remaining", count()),
        ("dry_run", flag()),
        ("errors", list(object([("job_id", text()), ("error", text())]))),
        ("purged_count?", count()),
        ("states?", list(state())),
    ])
}
