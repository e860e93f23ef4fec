//! Totals over all queues, jobs and workers, the health report, and history.

use super::operation::{Operation, operation};
use super::schema::{enumeration, integer, string};
use crate::api::answers::health_report::HealthReport;
use crate::api::answers::history::History;
use crate::api::answers::stats::Stats;

pub fn show() -> Operation {
    operation("Show totals of jobs, queues and workers").answer::<Stats>(200, "The totals.")
}

pub fn health_report() -> Operation {
    operation("Report what needs attention")
        .description(
            "Examines plan rules, main queues, weights webhooks, queues and limits. Each finding has a sentence, the \
             figures behind it and a next step. Clients that accept `text/plain` or `text/markdown` get text.",
        )
        .query("format", enumeration(&["json", "text", "markdown"]), "Form of the report, instead of `Accept`.")
        .answer::<HealthReport>(200, "The report.")
        .also_as("text/plain", string())
        .also_as("text/markdown", string())
}

pub fn history() -> Operation {
    operation("Show the history of the last hours")
        .description(
            "A sample for each interval of five minutes, kept for a day: at most 50 rules, the 50 queues with most jobs and \
             the 50 busiest tenants.",
        )
        .query("hours", integer(1, 24), "Number of hours; 24 by default.")
        .answer::<History>(200, "The samples, oldest first.")
}
