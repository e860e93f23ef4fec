//! Dead letters: jobs that used up their attempts and whose retry policy keeps them for inspection.

use super::reply::{self, JobOutcome, JobReply};
use super::script::{JOB_DELETE, JOB_RETRY};
use super::{Error, Store};
use crate::domain::job::{Record, State, id};
use crate::domain::tenant::Scope;
use serde::{Deserialize, Serialize};

/// A filter for dead letters.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    pub queue: Option<String>,
    pub kind: Option<String>,
    pub error_type: Option<String>,
    /// Earliest time of discarding, in milliseconds.
    pub since: Option<i64>,
    /// Latest time of discarding, in milliseconds.
    pub until: Option<i64>,
}

/// The outcome of deleting a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Deleted {
    Done,
    Missing,
    /// The job has not ended, or is not a dead letter; its state.
    Conflict(State),
}

impl DeadLetterFilter {
    fn admits(&self, scope: &Scope, record: &Record) -> bool {
        let equals = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        self.queue.as_deref().is_none_or(|wanted| scope.qualified(wanted) == record.queue)
            && equals(&self.kind, &record.kind)
            && (self.error_type.is_none() || self.error_type == record.error_type())
    }

    fn is_by_time_only(&self) -> bool {
        self.queue.is_none() && self.kind.is_none() && self.error_type.is_none()
    }
}

#[derive(Serialize)]
struct JobRetry<'a> {
    id: &'a str,
    op: &'a str,
    tenant: &'a str,
    any: bool,
}

#[derive(Serialize)]
struct JobDelete<'a> {
    id: &'a str,
    tenant: &'a str,
    any: bool,
}

impl Store {
    /// Returns one page of dead letters, newest first, and the number of all that match. Retention
    /// bounds the set, which is read in portions.
    pub async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Record>, usize), Error> {
        let ids = self.dead_ids(filter).await?;
        if filter.is_by_time_only() && self.scope == Scope::ALL {
            let page: Vec<String> = ids.iter().skip(offset).take(limit).cloned().collect();
            return Ok((self.jobs(&page).await?, ids.len()));
        }
        let (mut page, mut matched) = (Vec::new(), 0);
        for portion in ids.chunks(200) {
            for record in self.jobs(portion).await?.into_iter().filter(|record| filter.admits(&self.scope, record)) {
                if matched >= offset && page.len() < limit {
                    page.push(record);
                }
                matched += 1;
            }
        }
        Ok((page, matched))
    }

    /// Returns the ids of all matching dead letters, newest first.
    pub async fn dead_letter_ids(&self, filter: &DeadLetterFilter) -> Result<Vec<String>, Error> {
        let ids = self.dead_ids(filter).await?;
        if filter.is_by_time_only() && self.scope == Scope::ALL {
            return Ok(ids);
        }
        let mut admitted = Vec::new();
        for portion in ids.chunks(200) {
            let records = self.jobs(portion).await?.into_iter().filter(|record| filter.admits(&self.scope, record));
            admitted.extend(records.map(|record| record.id));
        }
        Ok(admitted)
    }

    /// Returns the number of dead letters, regardless of the scope.
    pub async fn dead_letter_count(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.core.keys.dead());
        Ok(reply::number(self.core.command("dead_letters", command).await?, "dead_letters")?.max(0) as u64)
    }

    async fn dead_ids(&self, filter: &DeadLetterFilter) -> Result<Vec<String>, Error> {
        let bound = |ms: Option<i64>, open: &str| ms.map_or_else(|| open.to_owned(), |ms| ms.to_string());
        let mut command = redis::cmd("ZREVRANGEBYSCORE");
        command.arg(self.core.keys.dead()).arg(bound(filter.until, "+inf")).arg(bound(filter.since, "-inf"));
        reply::texts(self.core.command("dead_letters", command).await?, "dead_letters")
    }

    /// Returns a dead letter by its id.
    pub async fn dead_letter(&self, id: &str) -> Result<Option<Record>, Error> {
        let mut command = redis::cmd("ZSCORE");
        command.arg(self.core.keys.dead()).arg(id);
        match self.core.command("dead_letter", command).await? {
            redis::Value::Nil => Ok(None),
            _ => self.job(id).await,
        }
    }

    /// Makes a dead letter available again and resets its attempts.
    pub async fn retry_dead_letter(&self, id: &str) -> Result<JobOutcome, Error> {
        self.retry(id, false).await
    }

    /// Makes a discarded or cancelled job available again and resets its attempts.
    pub async fn retry_ended(&self, id: &str) -> Result<JobOutcome, Error> {
        self.retry(id, true).await
    }

    async fn retry(&self, id: &str, any: bool) -> Result<JobOutcome, Error> {
        let args = JobRetry { id, op: &id::generate(), tenant: &self.scope.word(), any };
        JOB_RETRY.call_packed::<JobReply>(&self.core, &args).await?.outcome("job_retry")
    }

    /// Deletes a dead letter. Returns false if there was none.
    pub async fn delete_dead_letter(&self, id: &str) -> Result<bool, Error> {
        Ok(self.delete(id, false).await? == Deleted::Done)
    }

    /// Deletes a job that has ended.
    pub async fn delete_ended(&self, id: &str) -> Result<Deleted, Error> {
        self.delete(id, true).await
    }

    async fn delete(&self, id: &str, any: bool) -> Result<Deleted, Error> {
        JOB_DELETE.call_packed(&self.core, &JobDelete { id, tenant: &self.scope.word(), any }).await
    }
}
