//! What an admin sees of the whole.

use super::Shapes;
use super::operation::{Operation, op};
use super::schema::*;

pub fn shapes() -> Shapes {
    let stats = object([
        ("queues", count()),
        ("workers", count()),
        ("jobs", map(count())),
        ("throughput", object([("processed_per_minute", count()), ("failed_per_minute", count())])),
        ("uptime_seconds", count()),
    ]);
    vec![("Stats", stats)]
}

pub fn stats() -> Operation {
    op("Jobs by state, queues and workers").gives(200, "SidekiqTotals.", refer("Stats"))
}
