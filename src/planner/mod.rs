//! The planner: decides when staged jobs are promoted, how many, and with which weights. The order
//! of tenants is decided by the store's scripts, on current state.

mod drain_rates;
mod failure_reporter;
mod gate_reporter;
mod job_explanation;
mod low_water_poller;
mod preview;
mod promotion_window;
mod questions;
mod registry;
mod round_attempt;
mod round_report;
mod round_runner;
mod round_state;
mod rule_health;
mod scaling_reader;
mod scaling_report;
mod scheduler;
mod staged_status;
mod stats;
mod tenant_counts;
mod tenant_list;
mod webhook_reporter;
mod webhook_state;
mod weight_sync;

pub use failure_reporter::{FailureReporter, Notice};
pub use job_explanation::{Answered, JobExplanation, Viewer};
pub use preview::{Preview, preview};
pub use registry::RunnerRegistry;
pub use round_attempt::RoundAttempt;
pub use round_report::{RoundOutcome, RoundReason, RoundReport};
pub use round_runner::PORTION;
pub use scaling_reader::ScalingReader;
pub use scaling_report::{BacklogJobs, ScalingKind, ScalingOptions, ScalingReport};
pub use scheduler::Planner;
pub use staged_status::StagedStatus;
pub use stats::{RuleStats, shadow};
pub use tenant_counts::TenantCounts;
pub use tenant_list::{ListedTenant, TenantList, TenantOrder};
pub use webhook_reporter::WebhookReporter;
pub use webhook_state::WebhookState;
