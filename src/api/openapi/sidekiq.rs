//! Jobs that wait in staging for a Sidekiq.

use super::operation::{Operation, operation};
use crate::api::answers::sidekiq::StagedJob;

pub fn show_job() -> Operation {
    operation("Find a staged job by its Sidekiq id (jid)")
        .description("Scans up to a million keys. Use it for support, not in requests of an application.")
        .answer::<StagedJob>(200, "The staged job.")
}
