//! Compares what is counted with the leases, which are the truth about what runs.

use super::script::AUDIT;
use super::{Error, Store, reply};

/// A count that is not what the leases say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What is counted: `slot`, `held`, `lease`, `active`, `blocked` or `tenant`.
    pub what: String,
    /// Whose: a queue, a job, a set and a job, or a tenant and a state.
    pub name: String,
    pub counted: i64,
    pub real: i64,
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    pub compared: u64,
    pub differences: Vec<Difference>,
}

impl Store {
    /// Compares every count with the leases, in portions; `pause` is awaited between two of them. With `repair`, what differs is
    /// made right. Some counts can only be compared as of one moment, in one call: if there are more jobs than `most_at_once`, these are
    /// left out.
    pub async fn audit(&self, repair: bool, most_at_once: usize, pause: impl AsyncFn()) -> Result<Audit, Error> {
        let mut audit = Audit::default();
        for what in ["leases", "limits", "pools", "queues", "tenants"] {
            let mut cursor = "0".to_owned();
            loop {
                let fill = |command: &mut redis::Cmd, _: bool| {
                    self.core.begin(command).arg(what).arg(&cursor).arg(u8::from(repair)).arg(most_at_once);
                };
                let [next, compared, found] = reply::parts(AUDIT.call(&self.core.connection, fill).await?, "audit")?;
                audit.compared += reply::number(compared) as u64;
                audit.differences.extend(reply::texts(found, "audit")?.chunks_exact(4).map(difference));
                cursor = reply::text(next);
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
