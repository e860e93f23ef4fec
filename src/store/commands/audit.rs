//! Comparison of stored counts with the leases, which define what runs.

use super::script::AUDIT;
use super::{Error, Store};
use serde::{Deserialize, Serialize};

/// A count that disagrees with the leases.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Difference {
    /// The kind of count: `slot`, `worker`, `lease`, `active`, `blocked` or `tenant`.
    pub what: String,
    /// The owner of the count: a queue, a job, a set and a job, or a tenant and a state.
    pub name: String,
    pub counted: i64,
    pub real: i64,
}

/// The reaction of an audit to counts that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditMode {
    Report,
    Repair,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    pub compared: u64,
    pub differences: Vec<Difference>,
}

#[derive(Serialize)]
struct AuditArgs<'a> {
    what: &'a str,
    cursor: &'a str,
    repairs: bool,
    most: usize,
}

#[derive(Deserialize)]
struct AuditReply {
    cursor: String,
    compared: u64,
    differences: Vec<Difference>,
}

impl Store {
    /// Compares every count with the leases, one portion per call, and awaits `pause` after each.
    /// Some counts can only be compared in a single call; they are skipped if there are more than
    /// `most_at_once` jobs.
    pub async fn audit(&self, mode: AuditMode, most_at_once: usize, pause: impl AsyncFn()) -> Result<Audit, Error> {
        let mut audit = Audit::default();
        for what in ["leases", "limits", "pools", "queues", "tenants"] {
            let mut cursor = "0".to_owned();
            loop {
                let args = AuditArgs { what, cursor: &cursor, repairs: mode == AuditMode::Repair, most: most_at_once };
                let portion: AuditReply = AUDIT.call_packed(&self.core, &args).await?;
                audit.compared += portion.compared;
                audit.differences.extend(portion.differences);
                cursor = portion.cursor;
                pause().await;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(audit)
    }
}
