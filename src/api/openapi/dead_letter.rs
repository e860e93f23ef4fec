//! The dead letter: list, look at, retry, delete, one or many.

use super::Shapes;
use super::jobs::bulk_request;
use super::operation::{Operation, op};
use super::schema::*;

pub fn shapes() -> Shapes {
    let filter = closed(request([
        ("queue?", text()),
        ("type?", text()),
        ("error_type?", text()),
        ("since?", time()),
        ("until?", time()),
        ("older_than?", duration()),
    ]));
    vec![("DeadLetterBulk", with(bulk_request(), request([("filter?", filter), ("older_than?", duration())])))]
}

fn filtered(operation: Operation) -> Operation {
    operation
        .query("queue", text(), "Jobs of this queue.")
        .query("type", text(), "Jobs of this type.")
        .query("error_type", text(), "Jobs whose last error was of this type.")
        .query("since", time(), "Ended at this time or later.")
        .query("until", time(), "Ended at this time or earlier.")
        .paged()
}

pub fn list_all() -> Operation {
    filtered(op("Jobs in the dead letter")).gives(200, "The newest first.", page_of(&["jobs"], refer("Job")))
}

pub fn list_items() -> Operation {
    filtered(op("Jobs in the dead letter")).gives(200, "The newest first.", page_of(&["jobs"], refer("Job")))
}

pub fn stats() -> Operation {
    let answer = object([
        ("total", count()),
        ("by_queue", map(count())),
        ("by_error_type", map(count())),
        ("oldest_at", or_null(time())),
        ("newest_at", or_null(time())),
        ("retention", object([("max_age_seconds", count()), ("max_count", count())])),
    ]);
    op("How many jobs are in the dead letter").gives(200, "Counts.", answer)
}

pub fn show() -> Operation {
    op("Show a job of the dead letter").gives(200, "The job.", refer("JobBothWays"))
}

pub fn show_to_admin() -> Operation {
    op("Show a job of the dead letter, as admins see it").gives(200, "The job.", refer("JobOfAdmin"))
}

/// `override` is refused: the job is retried as it is.
fn revives(summary: &'static str) -> Operation {
    op(summary).may_take(object([("override?", serde_json::json!({"type": "null"}))]))
}

pub fn retry() -> Operation {
    revives("Try a dead job again").gives(200, "It is available.", refer("JobBothWays"))
}

pub fn retry_as_admin() -> Operation {
    revives("Try a dead job again").gives(200, "It is available.", refer("JobBothWays"))
}

pub fn retry_many() -> Operation {
    op("Try dead jobs again").takes(refer("DeadLetterBulk")).gives(200, "What became of them.", refer("BulkAnswer"))
}

pub fn forget_many() -> Operation {
    op("Delete dead jobs").takes(refer("DeadLetterBulk")).gives(200, "What became of them.", refer("BulkAnswer"))
}

pub fn forget() -> Operation {
    op("Delete a dead job").gives(200, "It is gone.", object([("deleted", flag()), ("job_id", text())]))
}

pub fn forget_silently() -> Operation {
    op("Delete a dead job").gives_nothing(204, "It is gone.")
}
