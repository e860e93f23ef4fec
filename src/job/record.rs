//! A stored job as the store gives it back, and as answers show it.

use super::escape::unescape;
use super::{State, json, retry, time};
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
    has_place: bool,
    has_error: bool,
    expired: bool,
    /// Failed attempts, oldest first: `attempt US ms US members`.
    pub failures: Vec<String>,
    pub result: Option<String>,
}

impl Record {
    /// A record of the given id and envelope; fields follow with [`Record::set`].
    pub fn new(id: String, envelope: String) -> Self {
        Record { id, envelope, ..Record::default() }
    }

    /// Takes over one field of the store; an empty value takes it back.
    pub fn set(&mut self, field: &str, value: &str) {
        let ms = || value.parse().ok();
        let given = !value.is_empty();
        match field {
            "state" => self.state = value.to_owned(),
            "queue" => self.queue = value.to_owned(),
            "type" => self.kind = value.to_owned(),
            "attempt" => self.attempt = value.parse().unwrap_or(0),
            "max" => self.max_attempts = value.parse().ok(),
            "worker" => self.worker = given.then(|| unescape(value)),
            "created" => self.created = ms().unwrap_or(0),
            "enqueued" => self.enqueued = ms(),
            "started" => self.started = ms(),
            "finished" => self.finished = ms(),
            "activated" => self.activated = ms(),
            "due" => self.due = ms(),
            "shows_due" => self.shows_due = given,
            "expires" => self.expires = ms(),
            "shows_expires" => self.shows_expires = given,
            "next_retry" => self.next_retry = ms(),
            "retry_delay" => self.retry_delay = value.parse().ok(),
            "retry" => self.has_policy = given,
            "seq" => self.has_place = given,
            "error" => self.has_error = given,
            "expired" => self.expired = given,
            _ => {} // fields that only scripts read
        }
    }

    /// Total runs that the job's policy allows.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(retry::DEFAULT_MAX_ATTEMPTS)
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
        self.enqueued.or_else(|| self.has_place.then_some(self.created))
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
            ("enqueued_at", self.enqueued()),
            ("started_at", self.started),
            ("next_retry_at", waits_again),
            ("completed_at", ended_in(State::Completed).or(failed_to_end)),
            ("discarded_at", ended_in(State::Discarded)),
            ("cancelled_at", ended_in(State::Cancelled)),
        ] {
            push_time(out, name, at);
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
        if let Some(result) = &self.result {
            out.push_str(",\"result\":");
            out.push_str(result);
        }
        out.push_str(more);
        out.push('}');
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

    fn shown(fields: &[(&str, &str)], failures: &[&str]) -> serde_json::Value {
        let mut record = Record::new("id".into(), r#"{"id":"id""#.into());
        fields.iter().for_each(|(field, value)| record.set(field, value));
        record.failures = failures.iter().map(|failure| (*failure).to_owned()).collect();
        let mut out = String::new();
        record.write(&mut out);
        serde_json::from_str(&out).expect("valid JSON")
    }

    #[test]
    fn each_end_has_its_own_timestamps() {
        let keys = ["completed_at", "discarded_at", "cancelled_at"];
        for (state, expired, expected) in [
            ("completed", "", [true, false, false]),
            ("discarded", "", [true, true, false]),
            ("discarded", "1", [false, true, false]),
            ("cancelled", "", [false, false, true]),
            ("active", "", [false, false, false]),
        ] {
            let job = shown(&[("state", state), ("finished", "1000"), ("expired", expired)], &[]);
            assert_eq!(keys.map(|key| job.get(key).is_some()), expected, "{state} {expired}");
        }
    }

    #[test]
    fn shows_the_latest_failure_until_success() {
        let failures = ["1\u{1f}1000\u{1f}\"type\":\"a\"", "2\u{1f}2000\u{1f}\"type\":\"b\""];
        let job = shown(&[("state", "retryable"), ("error", "1")], &failures);
        assert_eq!(job["error"]["type"], "b");
        assert_eq!(job["errors"][0]["occurred_at"], "1970-01-01T00:00:01.000Z");
        let job = shown(&[("state", "completed"), ("error", "1"), ("error", "")], &failures);
        assert_eq!(job.get("error"), None);
        assert_eq!(job["errors"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_job_that_never_was_available_has_no_enqueue_time() {
        assert_eq!(shown(&[("state", "scheduled"), ("created", "5")], &[]).get("enqueued_at"), None);
        let job = shown(&[("state", "available"), ("created", "5"), ("seq", "1")], &[]);
        assert_eq!(job["enqueued_at"], job["created_at"]);
    }
}
