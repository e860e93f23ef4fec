//! Progress of active jobs for people, and checkpoints for the next attempt.

use super::reply;
use super::script::{CHECKPOINT, PROGRESS};
use super::{Error, Store};
use crate::domain::escape::{escape, unescape};
use crate::domain::job::{Checkpoint, State};
use serde::{Deserialize, Serialize};

/// A worker's progress report about its job. `data` and `message` are JSON.
#[derive(Clone, Debug, Default)]
pub struct ProgressReport {
    pub worker: Option<String>,
    /// The completed part, from 0 to 1.
    pub progress: Option<f64>,
    pub data: Option<String>,
    pub message: Option<String>,
}

/// A job's state and its last reported progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobProgress {
    pub state: State,
    pub progress: Option<f64>,
    pub data: Option<String>,
    pub message: Option<String>,
    pub updated: Option<i64>,
}

/// The outcome of an operation on a job's progress.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum ProgressOutcome<T> {
    Done(T),
    Missing,
    /// The job is not active, or another worker holds it.
    Conflict {
        state: State,
        holder: Option<String>,
    },
}

impl<T> ProgressOutcome<T> {
    /// Converts the result of an operation that was done, and the holder's name as it is stored.
    fn map<U>(self, done: impl FnOnce(T) -> U) -> ProgressOutcome<U> {
        match self {
            ProgressOutcome::Done(result) => ProgressOutcome::Done(done(result)),
            ProgressOutcome::Missing => ProgressOutcome::Missing,
            ProgressOutcome::Conflict { state, holder } => {
                ProgressOutcome::Conflict { state, holder: holder.map(|worker| unescape(&worker)) }
            }
        }
    }
}

#[derive(Serialize)]
struct ReportProgress<'a> {
    id: &'a str,
    worker: Option<String>,
    progress: Option<f64>,
    data: Option<&'a str>,
    message: Option<&'a str>,
    tenant: &'a str,
}

#[derive(Deserialize)]
struct Reported {
    state: State,
    attempt: u32,
    stored: StoredProgress,
}

/// The progress of the attempt that last reported any.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredProgress {
    attempt: Option<u32>,
    progress: Option<f64>,
    data: Option<String>,
    message: Option<String>,
    updated: Option<i64>,
}

impl StoredProgress {
    /// Returns the progress of a job in its current attempt.
    fn of(self, state: State, attempt: u32) -> JobProgress {
        // A new attempt starts without progress.
        if self.attempt.is_none() || (state == State::Active && self.attempt != Some(attempt)) {
            return JobProgress { state, ..JobProgress::default() };
        }
        // A completed job that reported any progress has reached the end.
        let progress = if state == State::Completed { Some(1.0) } else { self.progress };
        JobProgress { progress, state, data: self.data, message: self.message, updated: self.updated }
    }
}

#[derive(Serialize)]
struct PutCheckpoint<'a> {
    id: &'a str,
    state: Option<&'a str>,
    op: &'a str,
    tenant: &'a str,
}

#[derive(Deserialize)]
struct StoredCheckpoint {
    sequence: u64,
    created: i64,
}

impl Store {
    /// Records a worker's report. A job that is not active stays as it is.
    pub async fn progress(&self, id: &str, report: &ProgressReport) -> Result<ProgressOutcome<JobProgress>, Error> {
        let args = ReportProgress {
            id,
            worker: report.worker.as_deref().map(|name| escape(&self.scope.worker(name))),
            progress: report.progress,
            data: report.data.as_deref(),
            message: report.message.as_deref(),
            tenant: &self.scope.word(),
        };
        let outcome: ProgressOutcome<Reported> = PROGRESS.call_packed(&self.core, &args).await?;
        Ok(outcome.map(|job| job.stored.of(job.state, job.attempt)))
    }

    /// Returns a job's progress.
    pub async fn progress_of(&self, id: &str) -> Result<ProgressOutcome<JobProgress>, Error> {
        let Some(record) = self.job(id).await? else { return Ok(ProgressOutcome::Missing) };
        let mut command = redis::cmd("HMGET");
        command.arg(self.core.keys.progress(id)).arg(&["a", "p", "d", "m", "t"]);
        let fields = reply::texts(self.core.command("progress", command).await?, "progress")?;
        let [attempt, progress, data, message, updated] =
            <[String; 5]>::try_from(fields).map_err(|_| Error::unreadable("progress"))?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let stored = StoredProgress {
            attempt: attempt.parse().ok(),
            progress: progress.parse().ok(),
            data: some(data),
            message: some(message),
            updated: updated.parse().ok(),
        };
        Ok(ProgressOutcome::Done(stored.of(record.state, record.attempt)))
    }

    /// Stores a checkpoint for the next attempt. `state` is JSON.
    pub async fn keep_checkpoint(&self, id: &str, state: &str) -> Result<ProgressOutcome<Checkpoint>, Error> {
        let outcome = self.put_checkpoint(id, Some(state)).await?;
        Ok(outcome.map(|stored| Checkpoint {
            state: state.to_owned(),
            sequence: stored.sequence,
            created: stored.created,
        }))
    }

    /// Deletes a job's checkpoint. Returns false if there is no such job.
    pub async fn drop_checkpoint(&self, id: &str) -> Result<bool, Error> {
        Ok(!matches!(self.put_checkpoint(id, None).await?, ProgressOutcome::Missing))
    }

    async fn put_checkpoint(&self, id: &str, state: Option<&str>) -> Result<ProgressOutcome<StoredCheckpoint>, Error> {
        let (op, tenant) = (&crate::domain::job::id::generate(), &self.scope.word());
        CHECKPOINT.call_packed(&self.core, &PutCheckpoint { id, state, op, tenant }).await
    }
}
