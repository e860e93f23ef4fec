//! The handlers, one file for each resource. A handler extracts what it needs from a request and builds the response.

pub(super) mod admin_jobs;
pub(super) mod admin_queues;
pub(super) mod admin_workers;
pub(super) mod autoscale;
pub(super) mod bulk;
pub(super) mod crons;
pub(super) mod dashboard;
pub(super) mod dead_letter;
pub(super) mod docs;
pub(super) mod event_stream;
pub(super) mod events;
pub(super) mod explain;
pub(super) mod fetch;
pub(super) mod health_report;
pub(super) mod history;
pub(super) mod jobs;
pub(super) mod keys;
pub(super) mod manifest;
pub(super) mod noise;
pub(super) mod planner;
pub(super) mod pools;
pub(super) mod progress;
pub(super) mod queue_config;
pub(super) mod queue_limits;
pub(super) mod queues;
pub(super) mod rate_limits;
pub(super) mod results;
pub(super) mod round_stream;
pub(super) mod scheduling;
pub(super) mod sidekiq;
pub(super) mod stats;
pub(super) mod system;
pub(super) mod tenants;
pub(super) mod waiting_for;
pub(super) mod webhooks;
pub(super) mod workers;
pub(super) mod workflows;

/// A change of the paused state of a queue or a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseAction {
    Pause,
    Resume,
}

impl PauseAction {
    /// Returns the paused state after the change.
    fn is_pause(self) -> bool {
        self == PauseAction::Pause
    }
}
