//! Answers: JSON text under the OJS media type, which must stand without parameters.

use crate::job::Record;
use crate::job::json::Object;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

pub(super) const MEDIA_TYPE: &str = "application/openjobspec+json";

/// When something happened to a job.
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

/// An answer with a JSON body.
pub(super) fn json(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// An answer without a body.
pub(super) fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// An answer built with `serde_json`, for those that are not asked for often.
pub(super) fn value(status: StatusCode, body: &serde_json::Value) -> Response {
    json(status, body.to_string())
}

/// The job itself, as the admin API shows it: its times again in `metadata`, its policy again as `retry_policy`.
pub(super) fn job_for_admin(status: StatusCode, record: &Record) -> Response {
    let mut plain = String::new();
    record.write(&mut plain);
    let mut more = String::from(",\"metadata\":{");
    let mut policy = None;
    // What we wrote is JSON.
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
    json(status, body)
}

/// The job itself, and again inside `job`: the two planes of the API want it differently, and so do clients of the same one.
pub(super) fn job(record: &Record) -> Response {
    job_with(record, "")
}

/// The same with further members of the job.
pub(super) fn job_with(record: &Record, more: &str) -> Response {
    let mut plain = String::new();
    record.write_with(&mut plain, more);
    let mut body = String::new();
    record.write_with(&mut body, &format!("{more},\"job\":{plain}"));
    json(StatusCode::OK, body)
}

/// `{"job":…}` of a job that is there instead of the one that was sent.
pub(super) fn deduplicated(record: &Record) -> Response {
    let mut body = String::from("{\"job\":");
    record.write(&mut body);
    body.push_str(",\"deduplicated\":true}");
    json(StatusCode::OK, body)
}

/// `{"job":…}` of a job that was just stored, with its address.
pub(super) fn created(record: &Record) -> Response {
    let mut body = String::from("{\"job\":");
    record.write(&mut body);
    body.push('}');
    let mut response = json(StatusCode::CREATED, body);
    // An id holds nothing that a header may not.
    if let Ok(location) = HeaderValue::try_from(["/ojs/v1/jobs/", &record.id].concat()) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Tells how full a queue is: jobs in it, and how many those may be.
pub(super) fn with_pressure(mut response: Response, (depth, most): (u64, u64)) -> Response {
    let pressure = format!("{:.2}", depth as f64 / most.max(1) as f64);
    let headers = response.headers_mut();
    headers.insert("x-ojs-queue-depth", HeaderValue::from(depth));
    headers.insert("x-ojs-queue-bound", HeaderValue::from(most));
    // A number holds nothing that a header may not.
    if let Ok(pressure) = HeaderValue::try_from(pressure) {
        headers.insert("x-ojs-queue-pressure", pressure);
    }
    response
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
