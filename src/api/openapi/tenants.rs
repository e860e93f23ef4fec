//! Tenants: list, settings, limits, and statistics.

use super::Schemas;
use super::operation::{Operation, operation};
use super::pools::weight;
use super::schema::*;
use crate::fairness::TenantLimits;
use crate::job::quota::MOST_CONCURRENCY;
use serde_json::{Value, json};

pub fn schemas() -> Schemas {
    vec![
        ("TenantLimits", limits()),
        ("TenantJobs", jobs()),
        ("Tenant", tenant()),
        ("TenantAnswer", merge(tenant(), object([("tenant", reference("Tenant")), ("changes", array(any_object()))]))),
    ]
}

fn id() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"})
}

fn limits() -> Value {
    let jobs = || nullable(integer(0, TenantLimits::MOST_JOBS as i64));
    closed(object([
        ("max_concurrency?", nullable(integer(0, MOST_CONCURRENCY.into()))),
        ("max_enqueue_rate?", nullable(reference("Window"))),
        ("max_queue_depth?", jobs()),
        ("max_scheduled?", jobs()),
        ("enforcement?", enumeration(&["hard", "soft"])),
    ]))
}

fn jobs() -> Value {
    object([
        ("pending", count()),
        ("available", count()),
        ("scheduled", count()),
        ("retryable", count()),
        ("active", count()),
    ])
}

fn tenant() -> Value {
    object([
        ("tenant_id", string()),
        ("source", string()),
        ("tier", nullable(string())),
        ("created_at", nullable(timestamp())),
        ("fairness_weight", number()),
        ("priority_boost", integer(-100, 100)),
        ("limits", reference("TenantLimits")),
        ("total_jobs", count()),
        ("jobs", reference("TenantJobs")),
    ])
}

pub fn list_all() -> Operation {
    let orders: Vec<&str> = crate::planner::RollOrder::NAMES.iter().map(|(name, _)| *name).collect();
    operation("List tenants that have settings or jobs")
        .query("prefix", string(), "Only tenants whose id starts with this text.")
        .query("configured", boolean(), "Only tenants with settings of their own, or only those without.")
        .query("sort", enumeration(&orders), "The sort key.")
        .paged()
        .page_of::<()>(&[], reference("Tenant"), "Tenants.")
}

pub fn show() -> Operation {
    operation("Show a tenant").path_parameter(id()).response(
        200,
        "The settings and the number of jobs of the tenant.",
        reference("TenantAnswer"),
    )
}

pub fn put() -> Operation {
    let body = object([
        ("tenant_id?", nullable(id())),
        ("fairness_weight?", nullable(weight())),
        ("priority_boost?", nullable(integer(-100, 100))),
        ("limits?", nullable(reference("TenantLimits"))),
        ("reason?", nullable(string_of_length(0, 1000))),
        ("tenant?", any()),
        ("source?", any()),
        ("tier?", any()),
        ("jobs?", any()),
        ("total_jobs?", any()),
        ("changes?", any()),
        ("created_at?", any()),
    ]);
    operation("Replace all settings of a tenant")
        .description("Settings that are left out get their defaults. A response about a tenant is a valid request.")
        .path_parameter(id())
        .request_body(closed(body))
        .response(200, "The settings were replaced.", reference("TenantAnswer"))
        .response(201, "The tenant had no settings of its own before.", reference("TenantAnswer"))
}

pub fn put_limits() -> Operation {
    operation("Change the given limits of a tenant")
        .description("`null` removes a limit.")
        .path_parameter(id())
        .request_body(closed(merge(limits(), object([("reason?", nullable(string_of_length(0, 1000)))]))))
        .response(200, "The settings that apply now.", reference("TenantAnswer"))
}

pub fn remove() -> Operation {
    let response = object([
        ("tenant_id", string()),
        ("removed", boolean()),
        ("holds", string()),
        ("total_jobs", count()),
        ("jobs", nullable(string())),
    ]);
    operation("Remove the settings of a tenant")
        .path_parameter(id())
        .query("force", string(), "`true` or `1` removes the settings even if the tenant has jobs. The jobs remain.")
        .response(200, "The settings were removed.", response)
        .errors(&[409])
}

pub fn jobs_of() -> Operation {
    super::jobs::found(operation("List the jobs of a tenant")).path_parameter(id())
}

fn neighbor() -> Value {
    object([
        ("tenant_id", string()),
        ("enabled", boolean()),
        ("noisy", boolean()),
        ("throttled", boolean()),
        ("noisy_since", nullable(timestamp())),
        ("spared_until", nullable(timestamp())),
        ("verdict", any()),
        ("throttle", any()),
        ("figures", map_of(nullable(number()))),
        ("thresholds", map_of(nullable(number()))),
    ])
}

pub fn noise() -> Operation {
    operation("Show the noisy-neighbour state of a tenant").path_parameter(id()).response(
        200,
        "The state of the tenant.",
        neighbor(),
    )
}

pub fn reset_noise() -> Operation {
    operation("Release a tenant that is throttled as a noisy neighbour").path_parameter(id()).response(
        200,
        "The new state of the tenant.",
        merge(neighbor(), object([("released", boolean())])),
    )
}

pub fn stats() -> Operation {
    let used = object([("limit", count()), ("current", count()), ("period?", string())]);
    let limits = object([
        ("max_concurrency?", used.clone()),
        ("max_queue_depth?", used.clone()),
        ("max_scheduled?", used.clone()),
        ("max_enqueue_rate?", used),
    ]);
    let rate = || nullable(number());
    let throughput = object([("processed_per_minute", rate()), ("enqueued_per_minute", rate())]);
    let fairness = object([("weight", number()), ("effective_share", rate()), ("actual_share", rate())]);
    let response = object([
        ("tenant_id", string()),
        ("total_jobs", count()),
        ("jobs", merge(jobs(), object([("completed_24h", nullable(count())), ("failed_24h", nullable(count()))]))),
        ("throughput", throughput),
        ("limits", limits),
        ("fairness", fairness),
        (
            "counted",
            with_description(boolean(), "False if activity is not counted; values that need it are `null` then."),
        ),
        ("computed_at", timestamp()),
    ]);
    operation("Show the statistics and the usage of limits of a tenant").path_parameter(id()).response(
        200,
        "The statistics.",
        response,
    )
}
