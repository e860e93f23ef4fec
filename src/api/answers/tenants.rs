//! Answers about tenants.

use super::types::{Timestamp, described};
use crate::api::openapi::tenants::{change, tenant_settings};
use crate::store;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

described! {
    /// The settings of a tenant, which are stored as well.
    TenantSettings(Value) => tenant_settings();
    /// A change of settings, as it is stored.
    Change(Value) => change();
}

/// A tenant: its settings and its numbers of jobs.
#[derive(Serialize, JsonSchema)]
pub struct Tenant {
    #[serde(flatten)]
    pub settings: TenantSettings,
    pub tenant_id: String,
    /// The origin of the settings: `api`, `file`, `tier`, or `default` if there are none.
    pub source: &'static str,
    /// The tier, if the settings come from it.
    pub tier: Option<String>,
    /// The time at which the tenant was configured.
    pub created_at: Option<Timestamp>,
    pub total_jobs: u64,
    pub jobs: TenantJobs,
}

/// Jobs of a tenant that have not finished, by state.
#[derive(Serialize, JsonSchema)]
pub struct TenantJobs {
    pub pending: u64,
    pub available: u64,
    pub scheduled: u64,
    pub retryable: u64,
    pub active: u64,
}

impl From<&store::TenantJobs> for TenantJobs {
    fn from(jobs: &store::TenantJobs) -> Self {
        let store::TenantJobs { pending, available, scheduled, retryable, active } = *jobs;
        TenantJobs { pending, available, scheduled, retryable, active }
    }
}

/// A tenant, at top level and inside `tenant`.
#[derive(Serialize, JsonSchema)]
pub struct TenantAnswer<'a> {
    #[serde(flatten)]
    pub members: &'a Tenant,
    pub tenant: &'a Tenant,
    /// Changes made at run time, the newest first.
    pub changes: Vec<Change>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct TenantRemoved<'a> {
    pub tenant_id: &'a str,
    pub removed: bool,
    /// The origin of the settings that apply now.
    pub holds: &'static str,
    pub total_jobs: u64,
    /// A note about the jobs that remain, if there are any.
    pub jobs: Option<String>,
}

/// The statistics and the usage of limits of a tenant. Values that were not counted are `null`.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct TenantStats<'a> {
    pub tenant_id: &'a str,
    pub total_jobs: u64,
    pub jobs: JobsAndEnded,
    pub throughput: Throughput,
    pub limits: LimitsUsage,
    pub fairness: Fairness,
    /// False if activity is not counted; values that need it are `null` then.
    pub counted: bool,
    pub computed_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct JobsAndEnded {
    #[serde(flatten)]
    pub jobs: TenantJobs,
    pub completed_24h: Option<u64>,
    pub failed_24h: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Throughput {
    pub processed_per_minute: Option<f64>,
    pub enqueued_per_minute: Option<f64>,
}

/// The limits that are set.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct LimitsUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queue_depth: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_scheduled: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_enqueue_rate: Option<Usage>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Usage {
    pub limit: u64,
    pub current: u64,
    /// The period of a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Fairness {
    #[schemars(with = "f64")]
    pub weight: Value,
    /// The share of all worker time that the tenant would have if all tenants with jobs were busy.
    pub effective_share: Option<f64>,
    /// The share of all worker time that the tenant had within the last minutes.
    pub actual_share: Option<f64>,
}
