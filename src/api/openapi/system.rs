//! Health, readiness, metrics, the manifest, and this document itself.

use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::system::{Health, NotReady, Ready};

pub fn manifest() -> Operation {
    let extension = || array(object([("name", string()), ("uri", string()), ("version", string())]));
    let limits = object([
        ("max_envelope_bytes", count()),
        ("max_meta_bytes", count()),
        ("max_queue_name_bytes", count()),
        ("max_job_type_bytes", count()),
        ("max_batch_size", count()),
        ("supported_compression", array(string())),
        ("external_references", boolean()),
        ("chunking", boolean()),
        ("per_queue_limits", boolean()),
    ]);
    let dispatch = object([
        ("interleaved", enumeration(&["all", "with_tenant", "none"])),
        ("strategy", nullable(string())),
        ("set_by", enumeration(&["tenant_fairness", "isolation"])),
    ]);
    let manifest = object([
        ("specversion", string()),
        ("ojs_version", string()),
        ("implementation", object([("name", string()), ("version", string()), ("language", string())])),
        ("conformance_level", count()),
        ("conformance_tier", string()),
        ("protocols", array(string())),
        ("backend", string()),
        ("capabilities", map_of(boolean())),
        ("extensions", object([("official", extension()), ("experimental", extension()), ("payload_limits", limits)])),
        (
            "tenancy",
            object([
                ("isolation", string()),
                ("isolation_models", array(string())),
                ("default_tenant", string()),
                ("require_tenant", boolean()),
                ("dispatch", dispatch.clone()),
                ("queues", map_of(object([("dispatch", dispatch)]))),
            ]),
        ),
        ("schema_validation", boolean()),
        ("unique_job_strength", string()),
        ("delivery", string()),
        ("endpoints", map_of(string())),
    ]);
    operation("Show the capabilities of this server").response(200, "The manifest.", open(manifest))
}

pub fn health() -> Operation {
    operation("Check the health of the server and its store")
        .answer::<Health>(200, "Both are healthy.")
        .answer::<Health>(503, "The store does not respond.")
        .with_headers(&["Retry-After"])
}

pub fn ready() -> Operation {
    operation("Check if the server accepts requests")
        .answer::<Ready>(200, "The server accepts requests.")
        .answer::<NotReady>(503, "The server does not accept requests now.")
        .with_headers(&["Retry-After"])
}

pub fn metrics() -> Operation {
    operation("Show metrics for Prometheus")
        .text_response("text/plain", "The text format, version 0.0.4, or OpenMetrics 1.0.0 if the client accepts it.")
        .also_as("application/openmetrics-text", string())
}

pub fn openapi() -> Operation {
    operation("Show this document")
        .response(200, "The OpenAPI 3.1 document.", any_object())
        .also_as("application/json", any_object())
}

pub fn page() -> Operation {
    operation("Show a page to browse this document").text_response("text/html", "The page.")
}

pub fn errors() -> Operation {
    operation("Show a page that explains the error codes")
        .text_response("text/html", "The page to which the `docs_url` of an error refers.")
}

pub fn script() -> Operation {
    operation("Get the script of the page").text_response("text/javascript", "The script.")
}

pub fn style() -> Operation {
    operation("Get the style sheet of the page").text_response("text/css", "The style sheet.")
}

pub fn dashboard() -> Operation {
    operation("Show the dashboard")
        .description(
            "The page uses only this API, with the key that the visitor enters. `server.dashboard` turns it off.",
        )
        .header("If-None-Match", string(), "The `ETag` of the copy that the client has.")
        .text_response("text/html", "The page.")
        .with_headers(&["Cache-Control", "ETag"])
        .empty_response(304, "The copy of the client is current.")
        .with_headers(&["Cache-Control", "ETag"])
        .errors(&[404])
}

pub fn dashboard_file() -> Operation {
    operation("Get a file of the dashboard")
        .path_parameter(printable(256))
        .text_response("text/javascript", "The file, whose name changes with its content.")
        .also_as("text/css", string())
        .also_as("image/svg+xml", string())
        .with_headers(&["Cache-Control"])
}
