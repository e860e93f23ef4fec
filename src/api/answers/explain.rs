//! The explanation of a job: why it waits, or how long its stages took.

use super::types::{JobId, JobState, Timestamp};
use crate::domain::explain::{
    Check, CheckName, CheckState, Eta, EtaTarget, Explanation, Holder, Position, Stage, StageName,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Why a job waits. A job that runs or has ended has `stages` instead of `checks`.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct JobExplanation {
    pub job_id: JobId,
    /// The Sidekiq id by which the job was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jid: Option<String>,
    pub state: JobState,
    pub waiting: bool,
    pub queue: String,
    pub tenant_id: String,
    /// The plan rule of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The main queue of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main_queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<JobPosition>,
    /// The first check that blocks, of a waiting job. `null` if none does: the next round or fetch gets the job.
    #[schemars(extend("enum" = binding_names()))]
    pub binding: Option<&'static str>,
    /// The sentence of that check, or a summary.
    pub summary: String,
    /// The checks in the order in which the job must pass them. Those that do not apply are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<JobCheck>>,
    /// An estimate, if there is a basis for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<JobEta>,
    /// The time spent in each stage of a job that runs or has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<JobStage>>,
    /// The time from the creation to the end, or to now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_ms: Option<u64>,
    /// The main queue of another system to which the job was promoted, and which alone knows its further state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted_to: Option<String>,
    pub created_at: Timestamp,
    pub computed_at: Timestamp,
}

fn binding_names() -> Vec<Value> {
    CheckName::NAMES.iter().map(|name| Value::from(*name)).chain([Value::Null]).collect()
}

/// The position of a waiting job.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct JobPosition {
    /// `staging` or `queue`.
    #[schemars(extend("enum" = ["staging", "queue"]))]
    pub r#in: &'static str,
    /// Jobs before it: promotions in fair order, or jobs of the queue. Left out if its tenant takes no turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs_before: Option<u64>,
    /// Jobs of its tenant before it in staging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_tenant: Option<u64>,
    /// True if `jobs_before` is an estimate, because tenants take turns.
    pub is_estimate: bool,
}

impl From<Position> for JobPosition {
    fn from(position: Position) -> Self {
        match position {
            Position::Staging { of_tenant, promotions_before } => JobPosition {
                r#in: "staging",
                jobs_before: promotions_before,
                of_tenant: Some(of_tenant),
                is_estimate: true,
            },
            Position::Queue { jobs_before, is_exact } => {
                JobPosition { r#in: "queue", jobs_before: Some(jobs_before), of_tenant: None, is_estimate: !is_exact }
            }
        }
    }
}

/// A check.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct JobCheck {
    #[schemars(extend("enum" = CheckName::NAMES))]
    pub name: &'static str,
    #[schemars(extend("enum" = CheckState::NAMES))]
    pub state: &'static str,
    /// The time since which it blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The time at which it ends without any action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The key of the limit, if the caller may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Up to 10 of the jobs that hold the slots, as far as the caller may read them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<SlotHolder>>")]
    pub holders: Vec<SlotHolder>,
    /// The numbers that decided.
    pub figures: Map<String, Value>,
    pub summary: String,
}

impl From<&Check> for JobCheck {
    fn from(check: &Check) -> Self {
        JobCheck {
            name: check.name.name(),
            state: check.state.name(),
            since: check.since.map(Timestamp),
            until: check.until.map(Timestamp),
            key: check.key.clone(),
            holders: check.holders.iter().map(SlotHolder::from).collect(),
            figures: check.figures.clone(),
            summary: check.summary.clone(),
        }
    }
}

/// An active job that holds a slot.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SlotHolder {
    pub job_id: JobId,
    pub queue: String,
}

impl From<&Holder> for SlotHolder {
    fn from(holder: &Holder) -> Self {
        SlotHolder { job_id: JobId(holder.id.clone()), queue: holder.queue.clone() }
    }
}

/// An estimate of the time at which a job moves on.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct JobEta {
    pub seconds: f64,
    pub at: Timestamp,
    /// The estimated event: the start of the job, or its promotion to another system.
    #[schemars(extend("enum" = EtaTarget::NAMES))]
    pub of: &'static str,
    /// The figures from which it was computed, in words.
    pub basis: String,
}

impl JobEta {
    /// Converts an estimate; `now` is the store's time.
    pub fn of(eta: &Eta, now: i64) -> JobEta {
        let seconds = (eta.at - now).max(0) as f64 / 1e3;
        JobEta { seconds, at: Timestamp(eta.at), of: eta.of.name(), basis: eta.basis.clone() }
    }
}

/// A stage in the life of a job.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct JobStage {
    #[schemars(extend("enum" = StageName::NAMES))]
    pub name: &'static str,
    pub ms: u64,
    pub from: Timestamp,
    pub to: Timestamp,
}

impl From<&Stage> for JobStage {
    fn from(stage: &Stage) -> Self {
        JobStage { name: stage.name.name(), ms: stage.ms(), from: Timestamp(stage.from), to: Timestamp(stage.to) }
    }
}

/// Returns the sentence for a waiting job.
pub fn waiting_summary(explanation: &Explanation) -> String {
    match explanation.binding() {
        Some(check) => check.summary.clone(),
        None => "Nothing blocks the job: the next round promotes it, or the next fetch gets it.".to_owned(),
    }
}
