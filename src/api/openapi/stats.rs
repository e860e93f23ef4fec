//! Totals over all queues, jobs and workers.

use super::Schemas;
use super::operation::{Operation, operation};
use super::schema::*;

pub fn schemas() -> Schemas {
    let stats = object([
        ("queues", count()),
        ("workers", count()),
        ("jobs", map_of(count())),
        ("throughput", object([("processed_per_minute", count()), ("failed_per_minute", count())])),
        ("uptime_seconds", count()),
    ]);
    vec![("Stats", stats)]
}

pub fn show() -> Operation {
    operation("Show totals of jobs, queues and workers").response(200, "The totals.", reference("Stats"))
}
