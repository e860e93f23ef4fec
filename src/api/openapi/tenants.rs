//! Tenants: list, settings, limits, and statistics.

use super::Schemas;
use super::operation::{Operation, operation};
use super::pools::weight;
use super::schema::*;
use crate::api::answers::noise::{Noise, NoiseReset};
use crate::api::answers::tenants::{Tenant, TenantAnswer, TenantRemoved, TenantStats};
use crate::domain::limit::quota::MOST_CONCURRENCY;
use crate::domain::tenant::TenantLimits;
use serde_json::{Value, json};

pub fn schemas() -> Schemas {
    vec![("TenantLimits", limits())]
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

/// The settings of a tenant in a response.
pub fn tenant_settings() -> Value {
    object([
        ("fairness_weight", number()),
        ("priority_boost", integer(-100, 100)),
        ("limits", reference("TenantLimits")),
    ])
}

/// A change of settings.
pub fn change() -> Value {
    any_object()
}

pub fn list_all() -> Operation {
    let orders: Vec<&str> = crate::rules::DirectoryOrder::NAMES.iter().map(|(name, _)| *name).collect();
    operation("List tenants that have settings or jobs")
        .query("prefix", string(), "Only tenants whose id starts with this text.")
        .query("configured", boolean(), "Only tenants with settings of their own, or only those without.")
        .query("sort", enumeration(&orders), "The sort key.")
        .paged()
        .page::<Tenant>(&[], "Tenants.")
}

pub fn show() -> Operation {
    operation("Show a tenant")
        .path_parameter(id())
        .answer::<TenantAnswer>(200, "The settings and the number of jobs of the tenant.")
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
        .answer::<TenantAnswer>(200, "The settings were replaced.")
        .answer::<TenantAnswer>(201, "The tenant had no settings of its own before.")
}

pub fn put_limits() -> Operation {
    operation("Change the given limits of a tenant")
        .description("`null` removes a limit.")
        .path_parameter(id())
        .request_body(closed(merge(limits(), object([("reason?", nullable(string_of_length(0, 1000)))]))))
        .answer::<TenantAnswer>(200, "The settings that apply now.")
}

pub fn remove() -> Operation {
    operation("Remove the settings of a tenant")
        .path_parameter(id())
        .query("force", string(), "`true` or `1` removes the settings even if the tenant has jobs. The jobs remain.")
        .answer::<TenantRemoved>(200, "The settings were removed.")
        .errors(&[409])
}

pub fn jobs_of() -> Operation {
    super::jobs::found(operation("List the jobs of a tenant")).path_parameter(id())
}

pub fn noise() -> Operation {
    operation("Show the noisy-neighbour state of a tenant")
        .path_parameter(id())
        .answer::<Noise>(200, "The state of the tenant.")
}

pub fn reset_noise() -> Operation {
    operation("Release a tenant that is throttled as a noisy neighbour")
        .path_parameter(id())
        .answer::<NoiseReset>(200, "The new state of the tenant.")
}

pub fn stats() -> Operation {
    operation("Show the statistics and the usage of limits of a tenant")
        .path_parameter(id())
        .answer::<TenantStats>(200, "The statistics.")
}
