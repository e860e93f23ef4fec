//! The error responses of all routes, by status: one schema, and the codes of each status.

use super::schema::{any_object, boolean, enumeration, object, open, string};
use serde_json::{Map, Value, json};

/// Status, description and codes.
const ERRORS: &[(u16, &str, &[&str])] = &[
    (
        400,
        "The request is malformed, or a value in it is not valid.",
        &["invalid_payload", "invalid_request", "invalid_workflow"],
    ),
    (401, "The API key is missing or not valid.", &["unauthorized"]),
    (
        403,
        "The role of the API key does not permit the request, or the request names another tenant than the key, or it comes from a web page of another origin.",
        &["forbidden"],
    ),
    (404, "The resource does not exist, or belongs to another tenant.", &["not_found"]),
    (408, "The request body did not arrive in time, or the job has no result yet.", &["request_timeout", "timeout"]),
    (409, "The resource is not in the required state, or already exists.", &["conflict", "duplicate"]),
    (
        413,
        "The request body, or a part of it, is too large.",
        &["envelope_too_large", "metadata_too_large", "RESULT_TOO_LARGE", "BATCH_SIZE_EXCEEDED"],
    ),
    (415, "The request body is compressed, which is not supported.", &["unsupported"]),
    (
        422,
        "A value of a policy is not valid, or the server does not support what the request asks for.",
        &["validation_error", "unsupported", "EXTENSION_NOT_SUPPORTED"],
    ),
    (
        429,
        "A queue is full or a limit is reached. Retry later.",
        &["QUEUE_FULL", "TENANT_LIMIT_EXCEEDED", "rate_limited"],
    ),
    (500, "An unexpected error of the server or its store.", &["internal_error", "backend_error"]),
    (503, "The store is unavailable. Retry later.", &["backend_unavailable"]),
    (504, "The store did not respond in time.", &["backend_timeout"]),
    (
        508,
        "Forwarding loop: the server that `server.pass_through` names sends requests back to this server.",
        &["internal_error"],
    ),
];

/// The name of an error response in `components`.
pub fn name(status: u16) -> String {
    format!("Error{status}")
}

/// A reference to the response of a status. A test finds references to statuses that are not in `ERRORS`.
pub fn reference(status: u16) -> Value {
    json!({"$ref": format!("#/components/responses/{}", name(status))})
}

/// All error responses, for `components`.
pub fn responses() -> Map<String, Value> {
    ERRORS.iter().map(|(status, description, codes)| (name(*status), response(*status, description, codes))).collect()
}

fn response(status: u16, description: &str, codes: &[&str]) -> Value {
    let more_headers = match status {
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
    let codes = object([("error", open(object([("code", enumeration(codes))])))]);
    let schema = json!({"allOf": [{"$ref": "#/components/schemas/Error"}, open(codes)]});
    json!({
        "description": description,
        "headers": super::headers(more_headers),
        "content": {crate::api::response::MEDIA_TYPE: {"schema": schema}},
    })
}

/// The schema of all errors.
pub fn schema() -> Value {
    let error = object([
        ("code", string()),
        ("message", string()),
        ("retryable", boolean()),
        ("request_id", string()),
        ("docs_url", string()),
        ("details?", any_object()),
        ("hint?", string()),
        ("type?", string()),
    ]);
    // Some errors repeat details next to the code, as their specifications require.
    object([("error", open(error))])
}
