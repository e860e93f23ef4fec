//! The errors of all routes, by status: one shape, and the codes that go with each.

use super::schema::{anything_named, flag, object, one_of, open, text};
use serde_json::{Map, Value, json};

/// Status, what it means, and its codes.
const ERRORS: &[(u16, &str, &[&str])] = &[
    (
        400,
        "The request cannot be read, or a value of it is wrong.",
        &["invalid_payload", "invalid_request", "invalid_workflow"],
    ),
    (401, "The server asks for an API key, and there was none or a wrong one.", &["unauthorized"]),
    (
        403,
        "The key's role may not do this, or the request names another tenant than the key's, or comes from a page of another origin.",
        &["forbidden"],
    ),
    (404, "There is no such thing, or it is another tenant's.", &["not_found"]),
    (408, "The body did not arrive in time, or there is no result yet.", &["request_timeout", "timeout"]),
    (409, "It is not in the state that this needs, or it exists already.", &["conflict", "duplicate"]),
    (
        413,
        "The body, or a part of it, is too large.",
        &["envelope_too_large", "metadata_too_large", "RESULT_TOO_LARGE", "BATCH_SIZE_EXCEEDED"],
    ),
    (415, "The body is compressed.", &["unsupported"]),
    (
        422,
        "A policy's value is refused, or something is asked for that this server does not do.",
        &["validation_error", "unsupported", "EXTENSION_NOT_SUPPORTED"],
    ),
    (429, "There is no room now; try again later.", &["QUEUE_FULL", "TENANT_LIMIT_EXCEEDED", "rate_limited"]),
    (500, "A bug, or an error of the store that nobody expected.", &["internal_error", "backend_error"]),
    (503, "The store is away; try again later.", &["backend_unavailable"]),
    (504, "The store did not answer in time.", &["backend_timeout"]),
    (508, "What `server.pass_through` names sends requests back here.", &["internal_error"]),
];

/// The name of an error's answer in `components`.
pub fn name(status: u16) -> String {
    format!("Error{status}")
}

/// The answer of a status, by reference. A status that no error has is a mistake of whoever describes a route; the tests find it.
pub fn refer(status: u16) -> Value {
    json!({"$ref": format!("#/components/responses/{}", name(status))})
}

/// All answers, for `components`.
pub fn responses() -> Map<String, Value> {
    ERRORS.iter().map(|(status, about, codes)| (name(*status), response(*status, about, codes))).collect()
}

fn response(status: u16, about: &str, codes: &[&str]) -> Value {
    let further = match status {
        401 => &["WWW-Authenticate"][..],
        408 | 503 | 504 => &["Retry-After"],
        429 => &[
            "Retry-After",
            "X-OJS-Queue-Depth",
            "X-OJS-Queue-Bound",
            "X-OJS-Queue-Pressure",
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
        ],
        _ => &[],
    };
    let codes = object([("error", open(object([("code", one_of(codes))])))]);
    let schema = json!({"allOf": [{"$ref": "#/components/schemas/Error"}, open(codes)]});
    json!({
        "description": about,
        "headers": super::headers(further),
        "content": {crate::api::response::MEDIA_TYPE: {"schema": schema}},
    })
}

/// The shape of every error.
pub fn schema() -> Value {
    let error = object([
        ("code", text()),
        ("message", text()),
        ("retryable", flag()),
        ("request_id", text()),
        ("docs_url", text()),
        ("details?", anything_named()),
        ("hint?", text()),
        ("type?", text()),
    ]);
    // Some texts want a few of the details beside the code.
    object([("error", open(error))])
}
