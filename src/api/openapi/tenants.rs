//! Tenants: list, terms, limits, and how many jobs they have.

use super::Shapes;
use super::operation::{Operation, op};
use super::pools::weight;
use super::schema::*;
use crate::fairness::TenantLimits;
use crate::job::quota::MOST_CONCURRENCY;
use serde_json::{Value, json};

pub fn shapes() -> Shapes {
    vec![
        ("TenantLimits", limits()),
        ("TenantJobs", jobs()),
        ("Tenant", tenant()),
        ("TenantAnswer", with(tenant(), object([("tenant", refer("Tenant")), ("changes", list(anything_named()))]))),
    ]
}

fn id() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"})
}

fn limits() -> Value {
    let jobs = || or_null(integer(0, TenantLimits::MOST_JOBS as i64));
    closed(object([
        ("max_concurrency?", or_null(integer(0, MOST_CONCURRENCY.into()))),
        ("max_enqueue_rate?", or_null(refer("Window"))),
        ("max_queue_depth?", jobs()),
        ("max_scheduled?", jobs()),
        ("enforcement?", one_of(&["hard", "soft"])),
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
        ("tenant_id", text()),
        ("source", text()),
        ("tier", or_null(text())),
        ("created_at", or_null(time())),
        ("fairness_weight", number()),
        ("priority_boost", integer(-100, 100)),
        ("limits", refer("TenantLimits")),
        ("total_jobs", count()),
        ("jobs", refer("TenantJobs")),
    ])
}

pub fn list_all() -> Operation {
    let orders: Vec<&str> = crate::planner::RollOrder::NAMES.iter().map(|(name, _)| *name).collect();
    op("Tenants that have terms or jobs")
        .query("prefix", text(), "Only those whose id begins so.")
        .query("configured", flag(), "Only those that have terms of their own, or have none.")
        .query("sort", one_of(&orders), "What they are sorted by.")
        .paged()
        .gives(200, "Tenants.", page_of(&[], refer("Tenant")))
}

pub fn show() -> Operation {
    op("Show a tenant").variable(id()).gives(200, "Its terms and jobs.", refer("TenantAnswer"))
}

pub fn put() -> Operation {
    let body = object([
        ("tenant_id?", or_null(id())),
        ("fairness_weight?", or_null(weight())),
        ("priority_boost?", or_null(integer(-100, 100))),
        ("limits?", or_null(refer("TenantLimits"))),
        ("reason?", or_null(short(0, 1000))),
        ("tenant?", any()),
        ("source?", any()),
        ("tier?", any()),
        ("jobs?", any()),
        ("total_jobs?", any()),
        ("changes?", any()),
        ("created_at?", any()),
    ]);
    op("Set a tenant's terms as a whole")
        .about("What is not there has its default; an answer about a tenant is a request as well.")
        .variable(id())
        .takes(closed(body))
        .gives(200, "They are replaced.", refer("TenantAnswer"))
        .gives(201, "The tenant had none.", refer("TenantAnswer"))
}

pub fn put_limits() -> Operation {
    op("Change the limits of a tenant that a request names")
        .about("`null` takes a limit away.")
        .variable(id())
        .takes(closed(with(limits(), object([("reason?", or_null(short(0, 1000)))]))))
        .gives(200, "What holds now.", refer("TenantAnswer"))
}

pub fn remove() -> Operation {
    let answer = object([
        ("tenant_id", text()),
        ("removed", flag()),
        ("holds", text()),
        ("total_jobs", count()),
        ("jobs", or_null(text())),
    ]);
    op("Take a tenant's own terms away")
        .variable(id())
        .query("force", text(), "`true` or `1`: even if it has jobs, which are kept.")
        .gives(200, "They are gone.", answer)
        .fails(&[409])
}

pub fn jobs_of() -> Operation {
    super::jobs::found(op("Jobs of a tenant")).variable(id())
}

fn neighbor() -> Value {
    object([
        ("tenant_id", text()),
        ("enabled", flag()),
        ("noisy", flag()),
        ("throttled", flag()),
        ("noisy_since", or_null(time())),
        ("spared_until", or_null(time())),
        ("verdict", any()),
        ("throttle", any()),
        ("figures", map(or_null(number()))),
        ("thresholds", map(or_null(number()))),
    ])
}

pub fn noise() -> Operation {
    op("How a tenant is as a neighbour").variable(id()).gives(200, "What is known.", neighbor())
}

pub fn reset_noise() -> Operation {
    op("Let a tenant go that is throttled as a noisy neighbour").variable(id()).gives(
        200,
        "What is known now.",
        with(neighbor(), object([("released", flag())])),
    )
}

pub fn stats() -> Operation {
    let used = object([("limit", count()), ("current", count()), ("period?", text())]);
    let limits = object([
        ("max_concurrency?", used.clone()),
        ("max_queue_depth?", used.clone()),
        ("max_scheduled?", used.clone()),
        ("max_enqueue_rate?", used),
    ]);
    let rate = || or_null(number());
    let throughput = object([("processed_per_minute", rate()), ("enqueued_per_minute", rate())]);
    let fairness = object([("weight", number()), ("effective_share", rate()), ("actual_share", rate())]);
    let answer = object([
        ("tenant_id", text()),
        ("total_jobs", count()),
        ("jobs", with(jobs(), object([("completed_24h", or_null(count())), ("failed_24h", or_null(count()))]))),
        ("throughput", throughput),
        ("limits", limits),
        ("fairness", fairness),
        ("counted", described(flag(), "Whether anybody counted; what nobody did is `null`.")),
        ("computed_at", time()),
    ]);
    op("How many jobs a tenant has, and what is left of its limits").variable(id()).gives(200, "Counts.", answer)
}
