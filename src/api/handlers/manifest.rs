//! The manifest, which lists the capabilities of this server. It lists only what works.

use crate::api::{Api, response};
use crate::domain::fairness::{Interleaved, TenantFairness};
use crate::domain::tenant::Isolation;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

/// The extensions that are implemented in full: name and version of the specification.
const EXTENSIONS: [(&str, &str); 6] = [
    ("fair-scheduling", "1.0.0-rc.1"),
    ("rate-limiting", "1.0.0-rc.1"),
    ("dead-letter", "1.0.0-rc.1"),
    ("backpressure", "1.0.0-rc.1"),
    ("admin-api", "1.0.0-rc.1"),
    ("multi-tenancy", "1.0.0-rc.1"),
];

/// The same extensions under their former experimental names, for clients that know only those.
const EXPERIMENTAL: [(&str, &str); 1] = [("multi-tenancy", "0.1.0")];

fn uri(name: &str) -> String {
    format!("urn:ojs:ext:{name}")
}

fn experimental_uri(name: &str) -> String {
    uri(&format!("experimental:{name}"))
}

/// Returns true if this server implements an extension.
pub(crate) fn has(extension: &str) -> bool {
    EXTENSIONS.iter().any(|(name, _)| uri(name) == extension)
        || EXPERIMENTAL.iter().any(|(name, _)| experimental_uri(name) == extension || uri(name) == extension)
}

/// Describes how fetches interleave the tenants of a queue, and the setting that decides it.
fn dispatch(fairness: &TenantFairness, isolation: Isolation) -> Value {
    let interleaved = fairness.interleaves(isolation);
    json!({
        "interleaved": interleaved.name(),
        "strategy": (interleaved != Interleaved::None).then(|| fairness.strategy.name()),
        "set_by": if fairness.enabled.is_some() { "tenant_fairness" } else { "isolation" },
    })
}

/// `GET /ojs/manifest`.
pub(crate) async fn show(api: Api) -> Response {
    let (limits, tenancy) = (&api.inner.limits, &api.inner.tenancy);
    // The cached rules, because the manifest does not wait for Redis.
    let known = api.registry().rules().now();
    let policy = &known.dispatch.policy;
    let extension = |(name, version)| json!({"name": name, "uri": uri(name), "version": version});
    let experimental = |(name, version)| json!({"name": name, "uri": experimental_uri(name), "version": version});
    let body = json!({
        "specversion": "1.0",
        "ojs_version": "1.0",
        "implementation": {"name": "fairgate", "version": env!("CARGO_PKG_VERSION"), "language": "rust"},
        "conformance_level": 4,
        "conformance_tier": "runtime",
        "protocols": ["http"],
        "backend": "redis",
        "capabilities": {
            "batch_enqueue": true,
            "dead_letter": true,
            "delayed_jobs": true,
            "job_ttl": true,
            "priority_queues": true,
            "cron_jobs": true,
            "pause_resume": true,
            "rate_limiting": true,
            "schema_validation": false,
            "unique_jobs": true,
            "workflows": true,
        },
        "extensions": {
            "official": EXTENSIONS.map(extension),
            "experimental": EXPERIMENTAL.map(experimental),
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
        "tenancy": {
            "isolation": tenancy.isolation.name(),
            "isolation_models": ["sharded", "shared", "namespace"],
            "default_tenant": tenancy.default_tenant,
            "require_tenant": tenancy.require_tenant,
            "dispatch": dispatch(&policy.tenant_fairness, tenancy.isolation),
            "queues": policy.queues.iter().map(|(queue, fairness)| {
                (queue.clone(), json!({"dispatch": dispatch(fairness, tenancy.isolation)}))
            }).collect::<serde_json::Map<_, _>>(),
        },
        "schema_validation": false,
        "unique_job_strength": "strong",
        "delivery": "at_least_once",
        "endpoints": {"base_url": "/ojs/v1", "manifest": "/ojs/manifest", "health": "/ojs/v1/health"},
    });
    response::json(StatusCode::OK, &body)
}
