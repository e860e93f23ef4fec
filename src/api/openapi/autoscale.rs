//! Backlogs for autoscalers.

use super::operation::{Operation, operation};
use super::schema::{enumeration, integer};
use crate::api::answers::autoscale::Autoscale;
use crate::api::handlers::autoscale::{MOST_SLOTS, MOST_TARGET};
use crate::planner::ScalingKind;

/// Adds the parameters of both routes.
fn with_options(operation: Operation) -> Operation {
    operation
        .query("kind", enumeration(&ScalingKind::NAMES), "Only rules, or only queues.")
        .query(
            "target_seconds",
            integer(1, MOST_TARGET as i64),
            "The time within which the backlog should be worked off. By default the `latency_threshold` of the rule, and 60 for \
             a queue.",
        )
        .query(
            "slots_per_worker",
            integer(1, MOST_SLOTS as i64),
            "Number of jobs that one worker runs at the same time. By default it follows from what the workers report.",
        )
}

pub fn list_all() -> Operation {
    with_options(operation("List backlogs and the workers that they need"))
        .paged()
        .page::<Autoscale>(&[], "Plan rules in their order, then queues by name.")
}

pub fn show() -> Operation {
    with_options(operation("Show a backlog and the workers that it needs"))
        .description(
            "The name is that of a plan rule or, if there is no such rule, of a queue. All numbers for scalers are at the top \
             level. A number of which too little is known is `null`, so that a scaler keeps its size.",
        )
        .answer::<Autoscale>(200, "The backlog.")
}
