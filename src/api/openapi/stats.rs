//! Totals over all queues, jobs and workers, and the health report.

use super::operation::{Operation, operation};
use super::schema::{enumeration, string};
use crate::api::answers::health_report::HealthReport;
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
