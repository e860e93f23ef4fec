//! Totals over all queues, jobs and workers.

use super::operation::{Operation, operation};
use crate::api::answers::stats::Stats;

pub fn show() -> Operation {
    operation("Show totals of jobs, queues and workers").answer::<Stats>(200, "The totals.")
}
