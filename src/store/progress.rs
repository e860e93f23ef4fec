//! Progress of active jobs for people, and checkpoints for the next attempt.

use super::reply;
use super::script::{CHECKPOINT, PROGRESS};
use super::{Error, Store};
use crate::domain::escape::{escape, unescape};
use crate::domain::job::{Checkpoint, State};
use redis::Value;

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
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressOutcome<T> {
    Done(T),
    Missing,
    /// The job is not active, or another worker holds it.
    Conflict {
        state: State,
        holder: Option<String>,
    },
}

impl Store {
    /// Records a worker's report. A job that is not active stays as it is.
    pub async fn progress(&self, id: &str, report: &ProgressReport) -> Result<ProgressOutcome<JobProgress>, Error> {
        let worker = report.worker.as_deref().map(|name| escape(&self.scope.worker(name))).unwrap_or_default();
        let progress = report.progress.map(|progress| progress.to_string()).unwrap_or_default();
        let answer = PROGRESS
            .call(&self.core.connection, |command, _| {
                self.core.begin(command).arg(id).arg(&worker).arg(&progress);
                command
                    .arg(report.data.as_deref().unwrap_or_default())
                    .arg(report.message.as_deref().unwrap_or_default())
                    .arg(self.scope.word());
            })
            .await?;
        let mut parts = reply::array(answer, "progress")?.into_iter();
        let state = reply::text(parts.next().unwrap_or(Value::Nil), "progress")?;
        match state.as_str() {
            "missing" => return Ok(ProgressOutcome::Missing),
            "conflict" => return conflict(parts, "progress"),
            _ => {}
        }
        let attempt = reply::text(parts.next().unwrap_or(Value::Nil), "progress")?;
        read(reply::state(&state, "progress")?, &attempt, reply::texts(parts.next().unwrap_or(Value::Nil), "progress")?)
    }

    /// Returns a job's progress.
    pub async fn progress_of(&self, id: &str) -> Result<ProgressOutcome<JobProgress>, Error> {
        let Some(record) = self.job(id).await? else { return Ok(ProgressOutcome::Missing) };
        let mut command = redis::cmd("HMGET");
        command.arg(self.core.keys.progress(id)).arg(&["a", "p", "d", "m", "t"]);
        let fields = reply::texts(self.core.command("progress", command).await?, "progress")?;
        read(record.state, &record.attempt.to_string(), fields)
    }

    /// Stores a checkpoint for the next attempt. `state` is JSON.
    pub async fn keep_checkpoint(&self, id: &str, state: &str) -> Result<ProgressOutcome<Checkpoint>, Error> {
        let op = crate::domain::job::id::generate();
        let outcome = self.checkpoint_call(id, &["put", state, &op]).await?;
        Ok(match outcome {
            ProgressOutcome::Done((sequence, created)) => {
                ProgressOutcome::Done(Checkpoint { state: state.to_owned(), sequence, created })
            }
            ProgressOutcome::Missing => ProgressOutcome::Missing,
            ProgressOutcome::Conflict { state, holder } => ProgressOutcome::Conflict { state, holder },
        })
    }

    /// Deletes a job's checkpoint. Returns false if there is no such job.
    pub async fn drop_checkpoint(&self, id: &str) -> Result<bool, Error> {
        Ok(self.checkpoint_call(id, &["drop", "", ""]).await? != ProgressOutcome::Missing)
    }

    async fn checkpoint_call(&self, id: &str, words: &[&str]) -> Result<ProgressOutcome<(u64, i64)>, Error> {
        let fill = |command: &mut redis::Cmd, _: bool| {
            self.core.begin(command).arg(id).arg(words).arg(self.scope.word());
        };
        let answer = CHECKPOINT.call(&self.core.connection, fill).await?;
        let mut parts = reply::array(answer, "checkpoint")?.into_iter();
        match reply::text(parts.next().unwrap_or(Value::Nil), "checkpoint")?.as_str() {
            "missing" => Ok(ProgressOutcome::Missing),
            "conflict" => conflict(parts, "checkpoint"),
            sequence => {
                let created = reply::number(parts.next().unwrap_or(Value::Nil), "checkpoint")?;
                Ok(ProgressOutcome::Done((reply::parse(sequence, "checkpoint")?, created)))
            }
        }
    }
}

fn conflict<T>(parts: impl Iterator<Item = Value>, command: &str) -> Result<ProgressOutcome<T>, Error> {
    let words: Vec<String> = parts.map(|part| reply::text(part, command)).collect::<Result<_, _>>()?;
    let mut words = words.into_iter();
    let state = reply::state(&words.next().unwrap_or_default(), command)?;
    let holder = words.next().filter(|worker| !worker.is_empty()).map(|worker| unescape(&worker));
    Ok(ProgressOutcome::Conflict { state, holder })
}

/// Parses the stored progress: attempt, progress, data, message, time.
fn read(state: State, attempt: &str, fields: Vec<String>) -> Result<ProgressOutcome<JobProgress>, Error> {
    let [of_attempt, progress, data, message, updated] =
        <[String; 5]>::try_from(fields).map_err(|_| Error::unreadable("progress"))?;
    // A new attempt starts without progress.
    if of_attempt.is_empty() || (state == State::Active && of_attempt != attempt) {
        return Ok(ProgressOutcome::Done(JobProgress { state, ..JobProgress::default() }));
    }
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok(ProgressOutcome::Done(JobProgress {
        // A completed job that reported any progress has reached the end.
        progress: if state == State::Completed { Some(1.0) } else { progress.parse().ok() },
        state,
        data: some(data),
        message: some(message),
        updated: updated.parse().ok(),
    }))
}
