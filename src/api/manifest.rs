//! The manifest: what this server can do. Nothing is listed here that does not work.

use super::{Api, answer};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

/// Extensions that are there as a whole, by name, and the version of the text that they follow.
const EXTENSIONS: [(&str, &str); 2] = [("fair-scheduling", "1.0.0-rc.1"), ("rate-limiting", "1.0.0-rc.1")];

fn uri(name: &str) -> String {
    format!("urn:ojs:ext:{name}")
}

/// Whether this server has an extension.
pub(super) fn has(extension: &str) -> bool {
    EXTENSIONS.iter().any(|(name, _)| uri(name) == extension)
}

/// `GET /ojs/manifest`.
pub(super) async fn show(api: Api) -> Response {
    let limits = &api.inner.limits;
    let extension = |(name, version)| json!({"name": name, "uri": uri(name), "version": version});
    let body = json!({
        "specversion": "1.0",
        "ojs_version": "1.0",
        "implementation": {"name": "fairgate", "version": env!("CARGO_PKG_VERSION"), "language": "rust"},
        "conformance_level": 1,
        "conformance_tier": "runtime",
        "protocols": ["http"],
        "backend": "redis",
        "capabilities": {
            "batch_enqueue": true,
            "dead_letter": true,
            "delayed_jobs": true,
            "job_ttl": true,
            "priority_queues": true,
            "cron_jobs": false,
            "pause_resume": false,
            "rate_limiting": true,
            "schema_validation": false,
            "unique_jobs": false,
            "workflows": false,
        },
        "extensions": {
            "official": EXTENSIONS.map(extension),
            "experimental": [],
            "payload_limits": {
                "max_envelope_bytes": limits.max_envelope,
                "max_meta_bytes": limits.max_meta,
                "max_queue_name_bytes": 128,
                "max_job_type_bytes": 255,
                "max_batch_size": limits.max_batch,
                "supported_compression": [],
                "external_references": true,
                "chunking": false,
                "per_queue_limits": false,
            },
        },
        "schema_validation": false,
        "delivery": "at_least_once",
        "endpoints": {"base_url": "/ojs/v1", "manifest": "/ojs/manifest", "health": "/ojs/v1/health"},
    });
    answer::value(StatusCode::OK, &body)
}
