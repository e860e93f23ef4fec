//! Jobs that wait in staging for a Sidekiq.

use super::operation::{Operation, operation};
use super::schema::*;

pub fn show_job() -> Operation {
    let job = object([
        ("jid", string()),
        ("id", with_description(uuid(), "The id of the job in fairgate, for `GET` and `DELETE /ojs/v1/jobs/{id}`.")),
        ("class", with_description(string(), "The Ruby class; for ActiveJob the wrapped class.")),
        ("tenant_id", string()),
        ("rule", string()),
        ("main_queue", nullable(string())),
        ("queue", with_description(string(), "The Sidekiq queue into which the job will be promoted.")),
        ("created_at", timestamp()),
        ("waits_ms", count()),
    ]);
    operation("Find a staged job by its Sidekiq id (jid)")
        .description("Scans up to a million keys. Use it for support, not in requests of an application.")
        .response(200, "The staged job.", job)
}
