//! Worker pools, and the scheduling policy of all queues.

use super::Schemas;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::domain::limit::quota::MOST_CONCURRENCY;
use crate::domain::pool::{Pool, Strategy};
use serde_json::{Value, json};

pub fn schemas() -> Schemas {
    vec![
        ("Starvation", starvation()),
        ("TenantFairness", fairness()),
        ("Pool", pool()),
        ("PoolAnswer", merge(pool(), object([("pool", reference("Pool"))]))),
        ("Scheduling", scheduling()),
    ]
}

/// A weight that is not 0.
pub fn weight() -> Value {
    json!({"type": "number", "minimum": 0.05, "maximum": 1000})
}

/// All spellings of the strategies.
pub const STRATEGIES: [&str; 8] = [
    "strict",
    "round-robin",
    "round_robin",
    "weighted",
    "weighted-fair",
    "weighted_fair",
    "least-loaded",
    "least_loaded",
];

fn starvation() -> Value {
    let aging = request([("every?", duration()), ("step?", integer(0, 200)), ("max?", integer(0, 200))]);
    closed(request([
        ("enabled?", boolean()),
        ("rotation_interval?", duration()),
        ("min_dispatch_ratio?", ratio()),
        ("max_consecutive?", count()),
        ("priority_aging?", closed(aging)),
    ]))
}

fn fairness() -> Value {
    let mut enabled = nullable(boolean());
    enabled["description"] =
        "True interleaves all jobs of a queue by tenant, false none. Null or no value means that the tenant isolation decides."
            .into();
    closed(request([
        ("enabled?", enabled),
        ("strategy?", enumeration(&["fair-share", "fair_share", "fairshare", "round-robin", "round_robin", "strict"])),
        ("weights?", map_of(weight())),
        ("default_weight?", weight()),
    ]))
}

/// The members of a pool in a request.
fn settings() -> Value {
    let weighted = by_queue(closed(object([("weight?", weight())])));
    object([
        ("queues", any_of([array_of(queue(), 1, Pool::MOST_QUEUES), weighted])),
        ("strategy?", nullable(enumeration(&STRATEGIES))),
        ("weights?", nullable(by_queue(weight()))),
        ("concurrency?", nullable(integer(1, MOST_CONCURRENCY.into()))),
        ("isolated?", nullable(boolean())),
        ("starvation_prevention?", nullable(reference("Starvation"))),
        ("tenant_fairness?", nullable(reference("TenantFairness"))),
        ("tenant?", with_description(string(), "The tenant of the pool, with isolation by namespace only.")),
        ("active_workers?", any()),
        ("active_jobs?", any()),
        ("source?", any()),
    ])
}

/// A request about a pool: the members at top level or inside `pool`, or a response about a pool.
fn body(named: Value) -> Value {
    let flat = || merge(settings(), named.clone());
    let response = merge(flat(), object([("pool", reference("Pool"))]));
    any_of([closed(flat()), closed(object([("pool", closed(flat()))])), closed(response)])
}

fn pool() -> Value {
    object([
        ("name", pool_name()),
        ("queues", array(string())),
        ("strategy", enumeration(&Strategy::NAMES)),
        ("weights?", map_of(weight())),
        ("concurrency", nullable(count())),
        ("isolated", boolean()),
        ("starvation_prevention", nullable(reference("Starvation"))),
        ("tenant_fairness", nullable(reference("TenantFairness"))),
        ("tenant?", with_description(string(), "The tenant whose queues the pool serves.")),
        ("active_workers", count()),
        ("active_jobs", count()),
        ("source", enumeration(&["file", "api"])),
    ])
}

pub fn list_all() -> Operation {
    operation("List pools").paged().response(200, "Pools.", page_of(&[], reference("Pool")))
}

pub fn show() -> Operation {
    operation("Show a pool").response(200, "The pool.", reference("PoolAnswer"))
}

pub fn put() -> Operation {
    operation("Add a pool, or replace all of its settings")
        .path_parameter(pool_name())
        .request_body(body(object([("name?", pool_name())])))
        .response(200, "The pool was replaced.", reference("PoolAnswer"))
        .response(201, "The pool was added.", reference("PoolAnswer"))
}

pub fn add() -> Operation {
    operation("Add a pool")
        .request_body(body(object([("name", pool_name())])))
        .response(201, "The pool was added.", reference("PoolAnswer"))
        .with_headers(&["Location"])
        .errors(&[409])
}

pub fn remove() -> Operation {
    let response = object([("pool", string()), ("removed", boolean()), ("holds", nullable(string()))]);
    operation("Remove a pool; a pool of that name in the configuration file applies again")
        .response(200, "The pool was removed.", response)
        .errors(&[409])
}

fn scheduling() -> Value {
    object([
        ("starvation_prevention", reference("Starvation")),
        ("tenant_fairness", reference("TenantFairness")),
        ("queues", map_of(object([("tenant_fairness", reference("TenantFairness"))]))),
        ("source", enumeration(&["file", "api"])),
    ])
}

pub fn scheduling_stats() -> Operation {
    let queue = object([
        ("name", string()),
        ("dispatch_count_1m", count()),
        ("dispatch_ratio_1m", ratio()),
        ("avg_wait_ms", number()),
        ("active_jobs", count()),
    ]);
    let stats = || object([("queues", array(queue.clone())), ("window", string())]);
    operation("Count the dispatches of each queue within the last minute").response(
        200,
        "The counts.",
        merge(stats(), object([("stats", stats())])),
    )
}

pub fn scheduling_config() -> Operation {
    operation("Show the scheduling policy of all queues").response(200, "The policy.", reference("Scheduling"))
}

pub fn put_scheduling_config() -> Operation {
    let queue = object([("tenant_fairness?", nullable(reference("TenantFairness")))]);
    let body = object([
        ("starvation_prevention?", nullable(reference("Starvation"))),
        ("tenant_fairness?", nullable(reference("TenantFairness"))),
        ("queues?", nullable(by_queue(closed(queue)))),
        ("source?", any()),
    ]);
    operation("Change the scheduling policy of all queues")
        .description(
            "Settings that are left out do not change. `null` as the `tenant_fairness` of a queue removes that setting.",
        )
        .request_body(closed(body))
        .response(200, "The policy.", reference("Scheduling"))
}
