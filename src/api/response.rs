//! Responses: JSON text of the OJS media type. Clients compare the media type, so it has no parameters.

use crate::domain::job::Record;
use crate::domain::json::Object;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;

pub(super) const MEDIA_TYPE: &str = "application/openjobspec+json";

/// The members of a job that are times.
const TIMES: [&str; 9] = [
    "created_at",
    "enqueued_at",
    "scheduled_at",
    "started_at",
    "completed_at",
    "cancelled_at",
    "discarded_at",
    "next_retry_at",
    "expires_at",
];

/// A response with a body that is JSON text already.
pub(super) fn raw_json(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// A response with status 204 and without a body.
pub(super) fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// A response with a body that `serde_json` serializes, for requests that are not frequent.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    raw_json(status, to_value(body).to_string())
}

/// Like [`json`], with the members in the order of the struct, and JSON text inside of it unchanged.
pub(super) fn json_in_order(status: StatusCode, body: &impl Serialize) -> Response {
    raw_json(status, in_order(body))
}

/// An answer as JSON text, with the members in the order of the struct.
pub(super) fn in_order(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

/// An answer as a value, whose members are sorted by name. Answers have no other keys than strings, so each can be one.
pub(super) fn to_value(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

/// A job in the shape of the admin API, with `further` members: its times are repeated in `metadata`, its retry policy as
/// `retry_policy`.
pub(super) fn job_for_admin(status: StatusCode, record: &Record, further: &str) -> Response {
    let mut plain = String::new();
    record.write(&mut plain);
    let mut more = format!("{further},\"metadata\":{{");
    let mut policy = None;
    // The text was written above, so it parses.
    if let Ok(job) = Object::parse(&plain) {
        policy = job.get("retry");
        let times = job.members().filter(|member| TIMES.contains(&&*member.name));
        let times: Vec<String> = times.map(|member| format!("\"{}\":{}", member.name, member.value)).collect();
        more.push_str(&times.join(","));
    }
    more.push('}');
    if let Some(policy) = policy {
        more.extend([",\"retry_policy\":", policy]);
    }
    let mut body = String::new();
    record.write_with(&mut body, &more);
    raw_json(status, body)
}

/// Wraps an object under a name and repeats its members at top level, because public clients read either place.
///
/// `more` are further members of the body; one without a value is not written and only reserves its name. A member of the
/// object is not repeated if its name is taken.
pub(super) fn wrapped(name: &str, object: &str, more: &[(&str, Option<&str>)]) -> String {
    let mut body = String::with_capacity(2 * object.len() + 64);
    body.extend(["{\"", name, "\":", object]);
    for (name, value) in more {
        value.iter().for_each(|value| body.extend([",\"", name, "\":", value]));
    }
    let is_taken = |member: &str| member == name || more.iter().any(|(other, _)| *other == member);
    // Only members that the client chose can have such a name, possibly written with escapes.
    let may_repeat = |name: &str| object.contains(&format!("\"{name}\""));
    if !object.contains("\\u") && !may_repeat(name) && !more.iter().any(|(name, _)| may_repeat(name)) {
        body.push(',');
        body.push_str(&object[1..]);
        return body;
    }
    // The object is JSON that this server wrote.
    let members = Object::parse(object).unwrap_or_default();
    for member in members.members().filter(|member| !is_taken(&member.name)) {
        body.extend([",", member.raw_name, ":", member.value]);
    }
    body.push('}');
    body
}

/// A job, at top level and inside `job`.
pub(super) fn job(record: &Record) -> Response {
    job_with(record, "")
}

/// Like [`job`], with further members of the job.
pub(super) fn job_with(record: &Record, more: &str) -> Response {
    let mut plain = String::new();
    record.write_with(&mut plain, more);
    raw_json(StatusCode::OK, wrapped("job", &plain, &[]))
}

/// An existing job, returned in place of a new one that is a duplicate of it.
pub(super) fn deduplicated(record: &Record) -> Response {
    let mut plain = String::new();
    record.write(&mut plain);
    raw_json(StatusCode::OK, wrapped("job", &plain, &[("deduplicated", Some("true"))]))
}

/// A job that was just stored, with its URL in `Location`.
pub(super) fn created(record: &Record) -> Response {
    let mut plain = String::new();
    record.write(&mut plain);
    let mut response = raw_json(StatusCode::CREATED, wrapped("job", &plain, &[("deduplicated", None)]));
    // Job ids are valid in a header.
    if let Ok(location) = HeaderValue::try_from(["/ojs/v1/jobs/", &record.id].concat()) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Adds the headers that report how full a queue is: its depth and its bound, in jobs.
pub(super) fn with_queue_pressure(mut response: Response, (depth, most): (u64, u64)) -> Response {
    let pressure = format!("{:.2}", depth as f64 / most.max(1) as f64);
    let headers = response.headers_mut();
    headers.insert("x-ojs-queue-depth", HeaderValue::from(depth));
    headers.insert("x-ojs-queue-bound", HeaderValue::from(most));
    // Numbers are valid in a header.
    if let Ok(pressure) = HeaderValue::try_from(pressure) {
        headers.insert("x-ojs-queue-pressure", pressure);
    }
    response
}

/// Writes jobs as `[job,job,…]`.
pub(super) fn jobs(records: &[Record]) -> String {
    let mut out = String::new();
    push_jobs(&mut out, records);
    out
}

/// Appends `[job,job,…]`.
pub(super) fn push_jobs(out: &mut String, records: &[Record]) {
    out.push('[');
    for (index, record) in records.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        record.write(out);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn members_are_repeated_at_top_level_unless_their_name_is_taken() {
        for (object, more, expected) in [
            (r#"{"id":"1","a":[1.0]}"#, &[][..], r#"{"job":{"id":"1","a":[1.0]},"id":"1","a":[1.0]}"#),
            (r#"{"id":"1"}"#, &[("d", Some("true"))], r#"{"job":{"id":"1"},"d":true,"id":"1"}"#),
            (r#"{"id":"1","d":2}"#, &[("d", None)], r#"{"job":{"id":"1","d":2},"id":"1"}"#),
            (r#"{"id":"1","job":2}"#, &[], r#"{"job":{"id":"1","job":2},"id":"1"}"#),
            (r#"{"id":"1","\u006aob":2}"#, &[], r#"{"job":{"id":"1","\u006aob":2},"id":"1"}"#),
            (r#"{"id":"job","d":2}"#, &[("d", Some("true"))], r#"{"job":{"id":"job","d":2},"d":true,"id":"job"}"#),
        ] {
            assert_eq!(wrapped("job", object, more), expected);
        }
    }
}
