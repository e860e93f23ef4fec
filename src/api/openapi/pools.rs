//! Worker pools, and the scheduling policy of all queues.

use super::Schemas;
use super::operation::{Operation, operation};
use super::schema::*;
use crate::api::answers::pools::{DispatchesAnswer, Pool, PoolAnswer, PoolRemoved, Scheduling};
use crate::domain::limit::quota::MOST_CONCURRENCY;
use crate::domain::pool::{self, Strategy};
use serde_json::{Value, json};

pub fn schemas() -> Schemas {
    vec![("Starvation", starvation()), ("TenantFairness", fairness())]
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
        ("queues", any_of([array_of(queue(), 1, pool::Pool::MOST_QUEUES), weighted])),
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

/// The settings of a pool in a response.
pub fn pool_settings() -> Value {
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
    ])
}

pub fn list_all() -> Operation {
    operation("List pools").paged().page::<Pool>(&[], "Pools.")
}

pub fn show() -> Operation {
    operation("Show a pool").answer::<PoolAnswer>(200, "The pool.")
}

pub fn put() -> Operation {
    operation("Add a pool, or replace all of its settings")
        .path_parameter(pool_name())
        .request_body(body(object([("name?", pool_name())])))
        .answer::<PoolAnswer>(200, "The pool was replaced.")
        .answer::<PoolAnswer>(201, "The pool was added.")
}

pub fn add() -> Operation {
    operation("Add a pool")
        .request_body(body(object([("name", pool_name())])))
        .answer::<PoolAnswer>(201, "The pool was added.")
        .with_headers(&["Location"])
        .errors(&[409])
}

pub fn remove() -> Operation {
    operation("Remove a pool; a pool of that name in the configuration file applies again")
        .answer::<PoolRemoved>(200, "The pool was removed.")
        .errors(&[409])
}

/// The settings of the scheduling policy in a response.
pub fn scheduling_settings() -> Value {
    object([
        ("starvation_prevention", reference("Starvation")),
        ("tenant_fairness", reference("TenantFairness")),
        ("queues", map_of(object([("tenant_fairness", reference("TenantFairness"))]))),
    ])
}

pub fn scheduling_stats() -> Operation {
    operation("Count the dispatches of each queue within the last minute")
        .answer::<DispatchesAnswer>(200, "The counts.")
}

pub fn scheduling_config() -> Operation {
    operation("Show the scheduling policy of all queues").answer::<Scheduling>(200, "The policy.")
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
        .answer::<Scheduling>(200, "The policy.")
}
