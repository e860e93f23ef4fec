//! Records of stored jobs, as the store returns them, and their form in answers.

use super::NewJob;
use super::escape::unescape;
use super::request::ENVELOPE_START;
use super::scope::own_worker;
use super::{State, json, retry, tenant, time};
use std::fmt::Write;

/// The record of a stored job. Times are in milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub id: String,
    /// Stored envelope: a JSON object without its closing brace.
    pub envelope: String,
    pub state: String,
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
    enqueued: Option<i64>,
    started: Option<i64>,
    finished: Option<i64>,
    activated: Option<i64>,
    /// Time at which a scheduled job becomes available. Answers show it if `shows_due` is set.
    due: Option<i64>,
    shows_due: bool,
    expires: Option<i64>,
    shows_expires: bool,
    next_retry: Option<i64>,
    retry_delay: Option<u64>,
    has_policy: bool,
    /// True if no attempt has succeeded since the last failure.
    has_error: bool,
    expired: bool,
    /// True if the job waits in staging for a round of the planner.
    pub staged: bool,
    /// True if an enqueued job was not stored because this one is its duplicate.
    pub existing: bool,
    /// Number of jobs in the queue and its bound, if the job was stored into a queue that is
    /// filling up.
    pub pressure: Option<(u64, u64)>,
    /// Name of the external main queue into which the job was promoted. Its further fate is not
    /// known here.
    left: Option<String>,
    /// Failed attempts, oldest first: `attempt US ms US members`. US is the unit separator, U+001F.
    pub failures: Vec<String>,
    pub result: Option<String>,
    /// Checkpoint for the next attempt: `sequence US ms US state as JSON`.
    checkpoint: Option<String>,
    /// Results of the preceding steps in the workflow, as a JSON array.
    pub inputs: Option<String>,
}

impl Record {
    /// Parses a view of the store: the record as described in `lua/queue/job.lua`, optionally
    /// followed by failures, result, envelope, checkpoint and inputs.
    pub fn parse(view: &str) -> Option<Self> {
        let mut sections = view.split('\u{1e}');
        let mut changing = sections.next()?.split('\u{1f}');
        let mut next = || changing.next();
        let mut record = Record { state: next()?.to_owned(), attempt: next()?.parse().ok()?, ..Record::default() };
        let ms = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let _sequence = next()?;
        record.created = ms(next())?;
        (record.enqueued, record.started, record.finished) = (ms(next()), ms(next()), ms(next()));
        let _visible_until = next()?;
        record.worker =
            next().filter(|worker| !worker.is_empty()).map(|worker| own_worker(&unescape(worker)).to_owned());
        let (_op, _period, _stalled_at) = (next()?, next()?, next()?);
        (record.next_retry, record.retry_delay) = (ms(next()), next()?.parse().ok());
        record.activated = ms(next());
        record.pool = next().filter(|pool| !pool.is_empty()).map(str::to_owned);
        let marks = next()?;
        (record.has_error, record.expired) = (marks.contains('e'), marks.contains('x'));
        record.staged = marks.contains('s');

        let mut fixed = sections.next()?.split('\u{1f}');
        (record.queue, record.kind) = (fixed.next()?.to_owned(), fixed.next()?.to_owned());
        let _lane = fixed.next()?;
        while let (Some(name), Some(value)) = (fixed.next(), fixed.next()) {
            record.set(name, value);
        }
        let envelope = sections.next()?;
        let failures = sections.next().filter(|failures| !failures.is_empty());
        record.failures =
            failures.map(|failures| failures.split('\u{1d}').map(str::to_owned).collect()).unwrap_or_default();
        record.result = sections.next().filter(|result| !result.is_empty()).map(str::to_owned);
        let apart = sections.next();
        let envelope = if envelope.is_empty() { apart? } else { envelope };
        record.checkpoint = sections.next().filter(|kept| !kept.is_empty()).map(str::to_owned);
        record.inputs = sections.next().filter(|inputs| !inputs.is_empty()).map(str::to_owned);
        record.id = envelope.strip_prefix(ENVELOPE_START)?.get(..36)?.to_owned();
        record.envelope = envelope.to_owned();
        Some(record)
    }

    /// Builds the record of a job that was just stored, without reading it back. A `state` of `=ID`
    /// means that the existing job ID is its duplicate.
    pub fn stored(job: NewJob, state: &str, created: &str, due: &str) -> Self {
        if let Some(id) = state.strip_prefix('=') {
            return Record { id: id.to_owned(), existing: true, ..Record::default() };
        }
        let mut record =
            Record { queue: job.home().into_owned(), tenant: job.owner().map(str::to_owned), ..Record::default() };
        (record.id, record.envelope, record.kind) = (job.id, job.envelope, job.kind);
        job.fields.iter().for_each(|(name, value)| record.set(name, value));
        record.staged = !job.pending && state == State::Pending.name();
        record.state = state.to_owned();
        record.created = created.parse().unwrap_or(0);
        record.enqueued = (state == State::Available.name()).then_some(record.created);
        record.due = due.parse().ok();
        if let Some(time::At::Relative(after)) = job.expires {
            record.expires = Some(record.created + after as i64);
        }
        record
    }

    /// Sets an immutable field. Fields that only scripts read are ignored.
    fn set(&mut self, name: &str, value: &str) {
        match name {
            "max" => self.max_attempts = value.parse().ok(),
            "due" => self.due = value.parse().ok(),
            "shows_due" => self.shows_due = true,
            "expires" => self.expires = value.parse().ok(),
            "shows_expires" => self.shows_expires = true,
            "retry" => self.has_policy = true,
            "tenant" if value != tenant::DEFAULT => self.tenant = Some(unescape(value)),
            "left" => self.left = Some(value.to_owned()),
            _ => {}
        }
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
        (self.state == State::Retryable.name()).then(|| self.next_retry.zip(self.retry_delay)).flatten()
    }

    /// Returns the type of the latest failure, unless an attempt has succeeded since.
    pub fn error_type(&self) -> Option<String> {
        let members = self.failures.last().filter(|_| self.has_error)?.splitn(3, '\u{1f}').nth(2)?;
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
        let state = State::from_name(&self.state);
        let ended_in = |ended| self.finished.filter(|_| state == Some(ended));
        let failed_to_end = ended_in(State::Discarded).filter(|_| !self.expired);
        let waits_again = self.next_retry.filter(|_| state == Some(State::Retryable));
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
        if let Some((sequence, created, state)) = self.checkpoint() {
            _ = write!(out, ",\"checkpoint\":{{\"sequence\":{sequence}");
            push_time(out, "created_at", Some(created));
            out.extend([",\"state\":", state, "}"]);
        }
        out.push_str(more);
        out.push('}');
    }

    /// Returns the checkpoint for the next attempt: its sequence number, its time, and its state as
    /// JSON.
    pub fn checkpoint(&self) -> Option<(u64, i64, &str)> {
        let mut parts = self.checkpoint.as_deref()?.splitn(3, '\u{1f}');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?))
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

fn push_failure(out: &mut String, failure: &str) {
    let mut parts = failure.splitn(3, '\u{1f}');
    let (attempt, at, members) = (parts.next(), parts.next(), parts.next());
    out.push_str("{\"attempt\":");
    out.push_str(attempt.unwrap_or("0"));
    push_time(out, "occurred_at", at.and_then(|at| at.parse().ok()));
    out.push(',');
    out.push_str(members.unwrap_or("\"code\":\"unknown\""));
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";

    /// Parses a view as a script returns it and formats the job. The next retry is at 7000 ms.
    fn shown(state: &str, enqueued: &str, finished: &str, marks: &str, failures: &[&str]) -> serde_json::Value {
        let changing =
            ["1", "9", "5", enqueued, "", finished, "", "", "", "", "", "7000", "2000", "", "", marks].join("\u{1f}");
        let fixed = "q\u{1f}test.job\u{1f}p0\u{1f}max\u{1f}5\u{1f}";
        let view = [
            &format!("{state}\u{1f}{changing}"),
            fixed,
            &format!("{ENVELOPE_START}{ID}\""),
            &failures.join("\u{1d}"),
            "",
        ];
        let record = Record::parse(&view.join("\u{1e}")).expect("a record");
        assert_eq!((record.id.as_str(), record.queue.as_str(), record.max_attempts()), (ID, "q", 5));
        let mut out = String::new();
        record.write(&mut out);
        serde_json::from_str(&out).expect("valid JSON")
    }

    #[test]
    fn each_end_has_its_own_timestamps() {
        let keys = ["completed_at", "discarded_at", "cancelled_at"];
        for (state, marks, expected) in [
            ("completed", "", [true, false, false]),
            ("discarded", "", [true, true, false]),
            ("discarded", "fex", [false, true, false]),
            ("cancelled", "", [false, false, true]),
            ("active", "", [false, false, false]),
        ] {
            let job = shown(state, "", "1000", marks, &[]);
            assert_eq!(keys.map(|key| job.get(key).is_some()), expected, "{state} {marks}");
        }
    }

    #[test]
    fn shows_the_latest_failure_until_success() {
        let failures = ["1\u{1f}1000\u{1f}\"type\":\"a\"", "2\u{1f}2000\u{1f}\"type\":\"b\""];
        let job = shown("retryable", "", "", "fe", &failures);
        assert_eq!(job["error"]["type"], "b");
        assert_eq!(job["next_retry_at"], "1970-01-01T00:00:07.000Z");
        assert_eq!(job["errors"][0]["occurred_at"], "1970-01-01T00:00:01.000Z");
        let job = shown("completed", "", "", "f", &failures);
        assert_eq!(job.get("error"), None);
        assert_eq!(job["errors"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_job_that_never_was_available_has_no_enqueue_time() {
        assert_eq!(shown("scheduled", "", "", "", &[]).get("enqueued_at"), None);
        assert_eq!(shown("available", "5", "", "", &[])["enqueued_at"], "1970-01-01T00:00:00.005Z");
    }

    #[test]
    fn what_is_no_record_is_not_read() {
        for view in ["", "available", "available\u{1f}x\u{1e}", "a\u{1e}b\u{1e}c"] {
            assert_eq!(Record::parse(view), None, "{view:?}");
        }
    }
}
