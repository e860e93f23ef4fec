//! Answers: JSON text under the OJS media type, which must stand without parameters.

use crate::job::Record;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

pub(super) const MEDIA_TYPE: &str = "application/openjobspec+json";

/// An answer with a JSON body.
pub(super) fn json(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// An answer built with `serde_json`, for those that are not asked for often.
pub(super) fn value(status: StatusCode, body: &serde_json::Value) -> Response {
    json(status, body.to_string())
}

/// `{"job":…}`.
pub(super) fn job(status: StatusCode, record: &Record) -> Response {
    job_with(status, record, "")
}

/// `{"job":…}` with further members inside the job.
pub(super) fn job_with(status: StatusCode, record: &Record, more: &str) -> Response {
    let mut body = String::from("{\"job\":");
    record.write_with(&mut body, more);
    body.push('}');
    json(status, body)
}

/// `{"job":…}` of a job that was just stored, with its address.
pub(super) fn created(record: &Record) -> Response {
    let mut response = job(StatusCode::CREATED, record);
    // An id holds nothing that a header may not.
    if let Ok(location) = HeaderValue::try_from(format!("/ojs/v1/jobs/{}", record.id)) {
        response.headers_mut().insert(LOCATION, location);
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
