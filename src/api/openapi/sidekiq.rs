//! Jobs that wait in staging for a Sidekiq.

use super::operation::{Operation, op};
use super::schema::*;

pub fn show_job() -> Operation {
    let job = object([
        ("jid", text()),
        ("id", described(uuid(), "Its id here, by which `GET /ojs/v1/jobs/{id}` shows it and `DELETE` cancels it.")),
        ("class", described(text(), "The Ruby class; of a job of ActiveJob the one that is wrapped.")),
        ("tenant_id", text()),
        ("rule", text()),
        ("main_queue", or_null(text())),
        ("queue", described(text(), "The queue of the Sidekiq that it is promoted into.")),
        ("created_at", time()),
        ("waits_ms", count()),
    ]);
    op("Find a staged job by the jid that Sidekiq gave it")
        .about("Looks through all jobs, up to a million keys: for people, not for every request.")
        .gives(200, "It waits in staging.", job)
}
