//! Health, readiness, metrics, the manifest, and this document itself.

use super::operation::{Operation, op};
use super::schema::*;

pub fn manifest() -> Operation {
    let extension = || list(object([("name", text()), ("uri", text()), ("version", text())]));
    let limits = object([
        ("max_envelope_bytes", count()),
        ("max_meta_bytes", count()),
        ("max_queue_name_bytes", count()),
        ("max_job_type_bytes", count()),
        ("max_batch_size", count()),
        ("supported_compression", list(text())),
        ("external_references", flag()),
        ("chunking", flag()),
        ("per_queue_limits", flag()),
    ]);
    let dispatch = object([
        ("interleaved", one_of(&["all", "with_tenant", "none"])),
        ("strategy", or_null(text())),
        ("set_by", one_of(&["tenant_fairness", "isolation"])),
    ]);
    let manifest = object([
        ("specversion", text()),
        ("ojs_version", text()),
        ("implementation", object([("name", text()), ("version", text()), ("language", text())])),
        ("conformance_level", count()),
        ("conformance_tier", text()),
        ("protocols", list(text())),
        ("backend", text()),
        ("capabilities", map(flag())),
        ("extensions", object([("official", extension()), ("experimental", extension()), ("payload_limits", limits)])),
        (
            "tenancy",
            object([
                ("isolation", text()),
                ("isolation_models", list(text())),
                ("default_tenant", text()),
                ("require_tenant", flag()),
                ("dispatch", dispatch.clone()),
                ("queues", map(object([("dispatch", dispatch)]))),
            ]),
        ),
        ("schema_validation", flag()),
        ("unique_job_strength", text()),
        ("delivery", text()),
        ("endpoints", map(text())),
    ]);
    op("What this server can do").gives(200, "The manifest.", open(manifest))
}

pub fn health() -> Operation {
    let health = object([
        ("status", one_of(&["ok", "unhealthy"])),
        ("version", text()),
        ("uptime_seconds", count()),
        ("backend", object([("type", text()), ("status", text()), ("latency_ms?", count()), ("error?", text())])),
        ("queues", object([("active", count()), ("paused", count())])),
        ("workers", object([("connected", count()), ("stale", count())])),
    ]);
    op("Whether the server and its store are well")
        .gives(200, "Both are.", health.clone())
        .gives(503, "The store does not answer.", health)
        .with_headers(&["Retry-After"])
}

pub fn ready() -> Operation {
    op("Whether to send requests here")
        .gives(200, "Yes.", object([("status", one_of(&["ready"]))]))
        .gives(503, "Not now.", object([("status", one_of(&["not_ready"])), ("reason", text())]))
        .with_headers(&["Retry-After"])
}

pub fn metrics() -> Operation {
    op("Metrics for Prometheus")
        .gives_text("text/plain", "The text format, version 0.0.4; OpenMetrics 1.0.0 for those who accept it.")
        .or_as("application/openmetrics-text", text())
}

pub fn openapi() -> Operation {
    op("This document").gives(200, "OpenAPI 3.1.", anything_named()).or_as("application/json", anything_named())
}

pub fn page() -> Operation {
    op("A page to browse this document").gives_text("text/html", "The page.")
}

pub fn errors() -> Operation {
    op("What the codes of errors mean").gives_text("text/html", "The page to which `docs_url` of an error leads.")
}

pub fn script() -> Operation {
    op("The page's script").gives_text("text/javascript", "The script.")
}

pub fn style() -> Operation {
    op("The page's style").gives_text("text/css", "The style.")
}
