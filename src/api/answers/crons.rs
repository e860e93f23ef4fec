//! Answers about crons. A cron itself is a stored document, with the members of its template repeated.

use super::types::{CronName, Timestamp, described};
use crate::api::openapi::schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

described! {
    /// A cron.
    Cron(Box<RawValue>) => schema::reference("Cron");
}

/// A cron, in both dialects.
#[derive(Serialize, JsonSchema)]
pub struct CronAnswer {
    pub cron: Cron,
    pub cron_job: Cron,
    /// True in the response to a deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<CronName>,
}

/// The next times of a cron, or of an expression.
#[derive(Serialize, JsonSchema)]
pub struct CronTimes {
    pub expression: String,
    pub timezone: String,
    pub next_run_times: Vec<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
