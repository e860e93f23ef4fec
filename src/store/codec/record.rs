//! Records of jobs: the counterpart of `lua/lib/record.lua`, which describes their layout.

use super::tenant::own_worker;
use super::wire::{GROUP, RECORD, UNIT, values};
use crate::domain::escape::unescape;
use crate::domain::job::request::ENVELOPE_START;
use crate::domain::job::{Checkpoint, FailedAttempt};
use crate::domain::job::{Record, State};
use crate::domain::tenant_id;
use serde_json::{Map, Value};

/// The fields that change, in their order. A test compares them with the list in `lua/lib/record.lua`.
const CHANGING: [&str; 17] = [
    "state",
    "attempt",
    "seq",
    "created",
    "enqueued",
    "started",
    "finished",
    "visible_until",
    "worker",
    "op",
    "period",
    "stalled_at",
    "next_retry",
    "retry_delay",
    "activated",
    "pool",
    "marks",
];

/// The fields that do not change, before the further ones.
const FIXED: [&str; 3] = ["queue", "type", "lane"];

/// Returns a record as people read it: its fields by name, without those that are empty.
pub fn shown(text: &str) -> Option<Value> {
    let mut sections = text.splitn(3, RECORD);
    let (changing, fixed, envelope) = (sections.next()?, sections.next()?, sections.next()?);
    let named = CHANGING.into_iter().zip(values(changing)).chain(FIXED.into_iter().zip(values(fixed)));
    let mut shown: Map<String, Value> =
        named.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value.into())).collect();
    let further: Vec<&str> = values(fixed).skip(FIXED.len()).collect();
    let fields: Map<String, Value> = further.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].into())).collect();
    shown.insert("fields".to_owned(), Value::Object(fields));
    // The envelope lacks its closing brace.
    let envelope = serde_json::from_str(&format!("{envelope}}}")).unwrap_or_else(|_| envelope.into());
    shown.insert("envelope".to_owned(), envelope);
    Some(Value::Object(shown))
}

/// Reads a view: a record, which may be followed by failures, result, envelope, checkpoint and inputs.
pub fn read(view: &str) -> Option<Record> {
    let mut sections = view.split(RECORD);
    let mut record = Record::default();
    read_changing(&mut record, sections.next()?)?;
    read_fixed(&mut record, sections.next()?)?;
    let envelope = sections.next()?;
    let mut optional = || sections.next().filter(|section| !section.is_empty());
    if let Some(failures) = optional() {
        record.failures = failures.split(GROUP).map(failure).collect::<Option<_>>()?;
    }
    record.result = optional().map(str::to_owned);
    let kept_apart = optional();
    record.checkpoint = match optional() {
        Some(text) => Some(checkpoint(text)?),
        None => None,
    };
    record.inputs = optional().map(str::to_owned);
    let envelope = if envelope.is_empty() { kept_apart? } else { envelope };
    record.id = envelope.strip_prefix(ENVELOPE_START)?.get(..36)?.to_owned();
    record.envelope = envelope.to_owned();
    Some(record)
}

fn read_changing(record: &mut Record, text: &str) -> Option<()> {
    let mut fields = values(text);
    let mut next = || fields.next();
    let ms = |text: Option<&str>| text.and_then(|text| text.parse().ok());
    record.state = State::from_name(next()?)?;
    record.attempt = next()?.parse().ok()?;
    let _seq = next()?;
    record.created = ms(next())?;
    (record.enqueued, record.started, record.finished) = (ms(next()), ms(next()), ms(next()));
    let _visible_until = next()?;
    record.worker = next().filter(|worker| !worker.is_empty()).map(|worker| own_worker(&unescape(worker)).to_owned());
    let (_op, _period, _stalled_at) = (next()?, next()?, next()?);
    (record.next_retry, record.retry_delay) = (ms(next()), next()?.parse().ok());
    record.activated = ms(next());
    record.pool = next().filter(|pool| !pool.is_empty()).map(str::to_owned);
    let marks = next()?;
    record.has_error = marks.contains('e');
    record.expired = marks.contains('x');
    record.staged = marks.contains('s');
    Some(())
}

fn read_fixed(record: &mut Record, text: &str) -> Option<()> {
    let mut fields = values(text);
    record.queue = fields.next()?.to_owned();
    record.kind = fields.next()?.to_owned();
    let _lane = fields.next()?;
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        set(record, name, value);
    }
    Some(())
}

/// Sets an immutable field. Fields that only scripts read are ignored.
fn set(record: &mut Record, name: &str, value: &str) {
    match name {
        "max" => record.max_attempts = value.parse().ok(),
        "due" => record.due = value.parse().ok(),
        "shows_due" => record.shows_due = true,
        "expires" => record.expires = value.parse().ok(),
        "shows_expires" => record.shows_expires = true,
        "retry" => record.has_policy = true,
        "tenant" if value != tenant_id::DEFAULT => record.tenant = Some(unescape(value)),
        "left" => record.left = Some(value.to_owned()),
        _ => {}
    }
}

fn failure(text: &str) -> Option<FailedAttempt> {
    let mut fields = text.splitn(3, UNIT);
    let (attempt, at) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(FailedAttempt { attempt, at, members: fields.next()?.to_owned() })
}

fn checkpoint(text: &str) -> Option<Checkpoint> {
    let mut fields = text.splitn(3, UNIT);
    let (sequence, created) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Checkpoint { sequence, created, state: fields.next()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::wire::{join, join_records};
    use super::*;

    #[test]
    fn scripts_and_this_module_have_the_same_fields() {
        let module = include_str!("../lua/lib/record.lua");
        let list =
            module.split_once("local CHANGING = {").and_then(|(_, rest)| rest.split_once('}')).expect("the list").0;
        let names: Vec<&str> = list.split(',').map(|name| name.trim().trim_matches('\'')).collect();
        assert_eq!(names, CHANGING);
    }

    const ID: &str = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";

    /// Builds a view as a script returns it. The next retry is at 7000 ms.
    fn view(state: &str, enqueued: &str, finished: &str, marks: &str, failures: &[[&str; 3]]) -> String {
        let changing =
            [state, "1", "9", "5", enqueued, "", finished, "", "", "", "", "", "7000", "2000", "", "", marks];
        let failures: Vec<String> = failures.iter().map(join).collect();
        join_records([
            join(changing),
            join(["q", "test.job", "p0", "max", "5", ""]),
            format!("{ENVELOPE_START}{ID}\""),
            failures.join(&GROUP.to_string()),
            String::new(),
        ])
    }

    /// Parses a view and formats the job.
    fn shown(state: &str, enqueued: &str, finished: &str, marks: &str, failures: &[[&str; 3]]) -> serde_json::Value {
        let record = read(&view(state, enqueued, finished, marks, failures)).expect("a record");
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
        let failures = [["1", "1000", "\"type\":\"a\""], ["2", "2000", "\"type\":\"b\""]];
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
        let views = [
            String::new(),
            "available".to_owned(),
            join_records([&join(["available", "x"]), ""]),
            join_records(["a", "b", "c"]),
            view("running", "", "", "", &[]),
        ];
        for view in views {
            assert_eq!(read(&view), None, "{view:?}");
        }
    }
}
