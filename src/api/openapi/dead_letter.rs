//! The dead letter: list, show, retry or delete one or many jobs.

use super::Schemas;
use super::jobs::bulk_request;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::bulk::BulkAnswer;
use crate::api::answers::dead_letter::DeadLetterStats;
use crate::api::answers::types::Deleted;

pub fn schemas() -> Schemas {
    let filter = closed(request([
        ("queue?", string()),
        ("type?", string()),
        ("error_type?", string()),
        ("since?", timestamp()),
        ("until?", timestamp()),
        ("older_than?", duration()),
    ]));
    vec![("DeadLetterBulk", merge(bulk_request(), request([("filter?", filter), ("older_than?", duration())])))]
}

fn filtered(operation: Operation) -> Operation {
    operation
        .query("queue", string(), "Only jobs of this queue.")
        .query("type", string(), "Only jobs of this type.")
        .query("error_type", string(), "Only jobs whose last error is of this type.")
        .query("since", timestamp(), "Only jobs that ended at this time or later.")
        .query("until", timestamp(), "Only jobs that ended at this time or earlier.")
        .paged()
}

pub fn list_all() -> Operation {
    filtered(operation("List jobs in the dead letter")).page_of::<()>(
        &["jobs"],
        reference("Job"),
        "Jobs, newest first.",
    )
}

pub fn list_items() -> Operation {
    filtered(operation("List jobs in the dead letter")).page_of::<()>(
        &["jobs"],
        reference("Job"),
        "Jobs, newest first.",
    )
}

pub fn stats() -> Operation {
    operation("Count the jobs in the dead letter").answer::<DeadLetterStats>(200, "The counts.")
}

pub fn show() -> Operation {
    operation("Show a job in the dead letter").response(200, "The job.", reference("JobBothWays"))
}

pub fn show_to_admin() -> Operation {
    operation("Show a job in the dead letter, in the shape of the admin API").response(
        200,
        "The job.",
        reference("JobOfAdmin"),
    )
}

/// A retry of a job. `override` is refused, because the job is retried unchanged.
fn retries(summary: &'static str) -> Operation {
    operation(summary).optional_request_body(object([("override?", serde_json::json!({"type": "null"}))]))
}

pub fn retry() -> Operation {
    retries("Retry a dead job").response(200, "The job is available.", reference("JobBothWays"))
}

pub fn retry_as_admin() -> Operation {
    retries("Retry a dead job").response(200, "The job is available.", reference("JobBothWays"))
}

pub fn retry_many() -> Operation {
    operation("Retry dead jobs")
        .request_body(reference("DeadLetterBulk"))
        .answer::<BulkAnswer>(200, "The number of changed jobs, and errors.")
}

pub fn delete_many() -> Operation {
    operation("Delete dead jobs")
        .request_body(reference("DeadLetterBulk"))
        .answer::<BulkAnswer>(200, "The number of changed jobs, and errors.")
}

pub fn delete() -> Operation {
    operation("Delete a dead job").answer::<Deleted>(200, "The job was deleted.")
}

pub fn delete_as_admin() -> Operation {
    operation("Delete a dead job").empty_response(204, "The job was deleted.")
}
