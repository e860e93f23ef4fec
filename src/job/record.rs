//! A stored job as the store gives it back, and as answers show it.

use super::NewJob;
use super::escape::unescape;
use super::request::ENVELOPE_START;
use super::scope::own_worker;
use super::{State, json, retry, tenant, time};
use std::fmt::Write;

/// A job's record. Times are milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub id: String,
    /// The stored envelope: an object without its closing brace.
    pub envelope: String,
    pub state: String,
    pub queue: String,
    pub kind: String,
    pub attempt: u32,
    pub max_attempts: Option<u32>,
    pub worker: Option<String>,
    /// The tenant that owns it; none for the default one.
    pub tenant: Option<String>,
    /// The pool whose worker holds it.
    pub pool: Option<String>,
    pub created: i64,
    enqueued: Option<i64>,
    started: Option<i64>,
    finished: Option<i64>,
    activated: Option<i64>,
    /// When a scheduled job was to become available, and whether answers must show it.
    due: Option<i64>,
    shows_due: bool,
    expires: Option<i64>,
    shows_expires: bool,
    next_retry: Option<i64>,
    retry_delay: Option<u64>,
    has_policy: bool,
    /// The last failure still counts: no attempt has succeeded since.
    has_error: bool,
    expired: bool,
    /// Waits in its tenant's lane for a round of the planner.
    pub staged: bool,
    /// Whether a new job was not stored because this one is its like.
    pub existing: bool,
    /// Jobs in its queue and how many those may be, where it was stored into one that fills up.
    pub pressure: Option<(u64, u64)>,
    /// The main queue that is not ours into which it was promoted: what became of it there is not known here.
    left: Option<String>,
    /// Failed attempts, oldest first: `attempt US ms US members`.
    pub failures: Vec<String>,
    pub result: Option<String>,
    /// What is kept for the next attempt: `sequence US ms US state as JSON`.
    checkpoint: Option<String>,
    /// What the steps before it in its workflow gave: a JSON array.
    pub inputs: Option<String>,
}

impl Record {
    /// Reads a view of the store: the record as `lua/queue/job.lua` describes it, and perhaps failures, result, envelope and inputs.
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

    /// The record of a job that was just stored, without reading it back.
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

    /// Takes over a field that does not change; those that only scripts read are passed over.
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

    /// Total runs that the job's policy allows.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(retry::DEFAULT_MAX_ATTEMPTS)
    }

    /// Whether it was promoted into another system, which alone knows what becomes of it.
    pub fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// When it ended, if it did.
    pub fn finished(&self) -> Option<i64> {
        self.finished
    }

    /// When its last attempt started, if one did.
    pub fn started(&self) -> Option<i64> {
        self.started
    }

    /// When it (last) became available, if it ever did.
    pub fn enqueued(&self) -> Option<i64> {
        self.enqueued
    }

    /// When the next attempt starts and how long that is after the last, while one is due.
    pub fn next_retry(&self) -> Option<(i64, u64)> {
        (self.state == State::Retryable.name()).then(|| self.next_retry.zip(self.retry_delay)).flatten()
    }

    /// The latest failure's type, unless the job succeeded since.
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

    /// Appends the job as JSON with further members, such as `,"previous_state":"pending"`.
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

    /// What is kept for the next attempt: how many were kept, when, and the state as JSON.
    pub fn checkpoint(&self) -> Option<(u64, i64, &str)> {
        let mut parts = self.checkpoint.as_deref()?.splitn(3, '\u{1f}');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?))
    }
}

/// Appends `,"name":"2026-…Z"` if there is a time.
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

    /// A job as it is shown, from the view that a script would give: state, finished, next retry, marks, failures.
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
