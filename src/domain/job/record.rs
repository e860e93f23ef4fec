//! Records of stored jobs, as the store returns them, and their form in answers.

use super::{NewJob, State, retry};
use crate::domain::{json, time};
use std::fmt::Write;

/// The record of a stored job. Times are in milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub id: String,
    /// Stored envelope: a JSON object without its closing brace.
    pub envelope: String,
    pub state: State,
    pub queue: String,
    pub kind: String,
    pub attempt: u32,
    pub max_attempts: Option<u32>,
    pub worker: Option<String>,
    /// Tenant that owns the job; `None` for the default tenant.
    pub tenant: Option<String>,
    /// Pool of the worker that holds the lease.
    pub pool: Option<String>,
    pub created: i64,
    pub(crate) enqueued: Option<i64>,
    pub(crate) started: Option<i64>,
    pub(crate) finished: Option<i64>,
    pub(crate) activated: Option<i64>,
    /// Time at which a scheduled job becomes available. Answers show it if `shows_due` is set.
    pub(crate) due: Option<i64>,
    pub(crate) shows_due: bool,
    pub(crate) expires: Option<i64>,
    pub(crate) shows_expires: bool,
    pub(crate) next_retry: Option<i64>,
    pub(crate) retry_delay: Option<u64>,
    pub(crate) has_policy: bool,
    /// True if no attempt has succeeded since the last failure.
    pub(crate) has_error: bool,
    pub(crate) expired: bool,
    /// True if the job waits in staging for a round of the planner.
    pub staged: bool,
    /// True if an enqueued job was not stored because this one is its duplicate.
    pub existing: bool,
    /// Number of jobs in the queue and its bound, if the job was stored into a queue that is
    /// filling up.
    pub pressure: Option<(u64, u64)>,
    /// Name of the external main queue into which the job was promoted. Its further fate is not
    /// known here.
    pub(crate) left: Option<String>,
    /// Failed attempts, oldest first.
    pub failures: Vec<FailedAttempt>,
    pub result: Option<String>,
    /// Checkpoint for the next attempt.
    pub checkpoint: Option<Checkpoint>,
    /// Results of the preceding steps in the workflow, as a JSON array.
    pub inputs: Option<String>,
}

/// A failed attempt of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedAttempt {
    pub attempt: u32,
    /// Time of the failure in milliseconds since the epoch.
    pub at: i64,
    /// Failure as the worker reported it: the members of a JSON object.
    pub members: String,
}

/// State that a worker saved for the next attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    pub sequence: u64,
    /// Time in milliseconds since the epoch.
    pub created: i64,
    /// JSON text.
    pub state: String,
}

impl Record {
    /// Builds the placeholder of a job that was not stored because the job `id` is its duplicate.
    pub fn duplicate_of(id: &str) -> Self {
        Record { id: id.to_owned(), existing: true, ..Record::default() }
    }

    /// Builds the record of a job that was just stored, without reading it back.
    pub fn stored(job: NewJob, state: State, created: &str, due: &str) -> Self {
        let mut record =
            Record { queue: job.home().into_owned(), tenant: job.owner().map(str::to_owned), ..Record::default() };
        (record.id, record.envelope, record.kind) = (job.id, job.envelope, job.kind);
        (record.shows_due, record.shows_expires) = (job.shows_due, job.shows_expires);
        record.has_policy = job.retry.is_some();
        record.max_attempts = job.retry.map(|policy| policy.max_attempts);
        record.staged = !job.pending && state == State::Pending;
        record.state = state;
        record.created = created.parse().unwrap_or(0);
        record.enqueued = (state == State::Available).then_some(record.created);
        record.due = due.parse().ok();
        if let Some(time::At::Relative(after)) = job.expires {
            record.expires = Some(record.created + after as i64);
        }
        record
    }

    /// Returns the total number of attempts that the job's policy allows.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(retry::DEFAULT_MAX_ATTEMPTS)
    }

    /// Returns true if the job was promoted into an external system, which alone knows its further
    /// state.
    pub fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// Returns the external main queue into which the job was promoted.
    pub fn promoted_to(&self) -> Option<&str> {
        self.left.as_deref()
    }

    /// Returns the time at which the job reached a final state.
    pub fn finished(&self) -> Option<i64> {
        self.finished
    }

    /// Returns the time at which the last attempt started.
    pub fn started(&self) -> Option<i64> {
        self.started
    }

    /// Returns the time at which the job last became available.
    pub fn enqueued(&self) -> Option<i64> {
        self.enqueued
    }

    /// Returns the time of the next attempt and the delay before it in milliseconds, if the job is
    /// retryable.
    pub fn next_retry(&self) -> Option<(i64, u64)> {
        (self.state == State::Retryable).then(|| self.next_retry.zip(self.retry_delay)).flatten()
    }

    /// Returns the type of the latest failure, unless an attempt has succeeded since.
    pub fn error_type(&self) -> Option<String> {
        let members = &self.failures.last().filter(|_| self.has_error)?.members;
        let object = format!("{{{members}}}");
        let object = json::Object::parse(&object).ok()?;
        object.get("type").and_then(json::text).map(Into::into)
    }

    /// Appends the job as JSON.
    pub fn write(&self, out: &mut String) {
        self.write_with(out, "");
    }

    /// Appends the job as JSON with additional members, such as `,"previous_state":"pending"`.
    pub fn write_with(&self, out: &mut String, more: &str) {
        out.reserve(self.envelope.len() + 512);
        out.push_str(&self.envelope);
        // Writing to a String cannot fail.
        _ = write!(
            out,
            ",\"state\":\"{}\",\"attempt\":{},\"max_attempts\":{}",
            self.state,
            self.attempt,
            self.max_attempts()
        );
        if !self.has_policy {
            out.push_str(",\"retry\":");
            out.push_str(retry::DEFAULT_JSON);
        }
        let ended_in = |ended| self.finished.filter(|_| self.state == ended);
        let failed_to_end = ended_in(State::Discarded).filter(|_| !self.expired);
        let waits_again = self.next_retry.filter(|_| self.state == State::Retryable);
        for (name, at) in [
            ("created_at", Some(self.created)),
            ("scheduled_at", self.due.filter(|_| self.shows_due)),
            ("expires_at", self.expires.filter(|_| self.shows_expires)),
            ("activated_at", self.activated),
            ("enqueued_at", self.enqueued),
            ("started_at", self.started),
            ("next_retry_at", waits_again),
            ("completed_at", ended_in(State::Completed).or(failed_to_end)),
            ("discarded_at", ended_in(State::Discarded)),
            ("cancelled_at", ended_in(State::Cancelled)),
        ] {
            push_time(out, name, at);
        }
        if self.staged {
            out.push_str(",\"x_staged\":true");
        }
        if let Some(name) = &self.left {
            out.push_str(",\"x_promoted_to\":");
            json::push_text(out, name);
        }
        if let Some(delay) = self.retry_delay {
            _ = write!(out, ",\"retry_delay_ms\":{delay}");
        }
        if let Some(worker) = &self.worker {
            out.push_str(",\"worker_id\":");
            json::push_text(out, worker);
        }
        if let Some(latest) = self.failures.last().filter(|_| self.has_error) {
            out.push_str(",\"error\":");
            push_failure(out, latest);
        }
        if !self.failures.is_empty() {
            out.push_str(",\"errors\":[");
            for (index, failure) in self.failures.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                push_failure(out, failure);
            }
            out.push(']');
        }
        for (name, value) in [("parent_results", &self.inputs), ("result", &self.result)] {
            value.iter().for_each(|value| out.extend([",\"", name, "\":", value]));
        }
        if let Some(Checkpoint { sequence, created, state }) = &self.checkpoint {
            _ = write!(out, ",\"checkpoint\":{{\"sequence\":{sequence}");
            push_time(out, "created_at", Some(*created));
            out.extend([",\"state\":", state, "}"]);
        }
        out.push_str(more);
        out.push('}');
    }
}

/// Appends `,"name":"2026-…Z"` if `at` is a time.
pub fn push_time(out: &mut String, name: &str, at: Option<i64>) {
    if let Some(at) = at {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":\"");
        time::write_rfc3339(out, at);
        out.push('"');
    }
}

fn push_failure(out: &mut String, failure: &FailedAttempt) {
    _ = write!(out, "{{\"attempt\":{}", failure.attempt);
    push_time(out, "occurred_at", Some(failure.at));
    out.push(',');
    out.push_str(&failure.members);
    out.push('}');
}
