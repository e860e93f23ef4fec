//! Comparison of stored counts with the leases, which define what runs.

use super::script::AUDIT;
use super::{Error, Store, reply};

/// A count that disagrees with the leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of count: `slot`, `held`, `lease`, `active`, `blocked` or `tenant`.
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

impl Store {
    /// Compares every count with the leases, one portion per call, and awaits `pause` after each.
    /// Some counts can only be compared in a single call; they are skipped if there are more than
    /// `most_at_once` jobs.
    pub async fn audit(&self, mode: AuditMode, most_at_once: usize, pause: impl AsyncFn()) -> Result<Audit, Error> {
        let mut audit = Audit::default();
        for what in ["leases", "limits", "pools", "queues", "tenants"] {
            let mut cursor = "0".to_owned();
            loop {
                let fill = |command: &mut redis::Cmd, _: bool| {
                    self.core
                        .begin(command)
                        .arg(what)
                        .arg(&cursor)
                        .arg(u8::from(mode == AuditMode::Repair))
                        .arg(most_at_once);
                };
                let [next, compared, found] = reply::parts(AUDIT.call(&self.core.connection, fill).await?, "audit")?;
                audit.compared += reply::number(compared, "audit")? as u64;
                audit.differences.extend(reply::texts(found, "audit")?.chunks_exact(4).map(difference));
                cursor = reply::text(next, "audit")?;
                pause().await;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(audit)
    }
}

fn difference(words: &[String]) -> Difference {
    let number = |index: usize| words[index].parse().unwrap_or(0);
    Difference { what: words[0].clone(), name: words[1].clone(), counted: number(2), real: number(3) }
}
