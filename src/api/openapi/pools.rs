//! Worker pools, and what holds for the scheduling of all queues.

use super::Shapes;
use super::operation::{Operation, op};
use super::schema::*;
use crate::fairness::{Pool, Strategy};
use crate::job::quota::MOST_CONCURRENCY;
use serde_json::{Value, json};

pub fn shapes() -> Shapes {
    vec![
        ("Starvation", starvation()),
        ("TenantFairness", fairness()),
        ("Pool", pool()),
        ("PoolAnswer", with(pool(), object([("pool", refer("Pool"))]))),
        ("Scheduling", scheduling()),
    ]
}

/// A weight that is not 0.
pub fn weight() -> Value {
    json!({"type": "number", "minimum": 0.05, "maximum": 1000})
}

/// All ways to write a strategy.
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
        ("enabled?", flag()),
        ("rotation_interval?", duration()),
        ("min_dispatch_ratio?", ratio()),
        ("max_consecutive?", count()),
        ("priority_aging?", closed(aging)),
    ]))
}

fn fairness() -> Value {
    let mut enabled = or_null(flag());
    enabled["description"] =
        "True interleaves all jobs of a queue by tenant, false none. Null, or left out, leaves it to the isolation."
            .into();
    closed(request([
        ("enabled?", enabled),
        ("strategy?", one_of(&["fair-share", "fair_share", "fairshare", "round-robin", "round_robin", "strict"])),
        ("weights?", map(weight())),
        ("default_weight?", weight()),
    ]))
}

/// What a request may say of a pool.
fn settings() -> Value {
    let places = by_queue(closed(object([("weight?", weight())])));
    object([
        ("queues", either([list_of(queue(), 1, Pool::MOST_QUEUES), places])),
        ("strategy?", or_null(one_of(&STRATEGIES))),
        ("weights?", or_null(by_queue(weight()))),
        ("concurrency?", or_null(integer(1, MOST_CONCURRENCY.into()))),
        ("isolated?", or_null(flag())),
        ("starvation_prevention?", or_null(refer("Starvation"))),
        ("tenant_fairness?", or_null(refer("TenantFairness"))),
        ("tenant?", described(text(), "As answers have it; in namespaces only.")),
        ("active_workers?", any()),
        ("active_jobs?", any()),
        ("source?", any()),
    ])
}

/// Alone, or inside `pool`; an answer about a pool will do as well.
fn body(named: Value) -> Value {
    let flat = || with(settings(), named.clone());
    let answered = with(flat(), object([("pool", refer("Pool"))]));
    either([closed(flat()), closed(object([("pool", closed(flat()))])), closed(answered)])
}

fn pool() -> Value {
    object([
        ("name", pool_name()),
        ("queues", list(text())),
        ("strategy", one_of(&Strategy::NAMES)),
        ("weights?", map(weight())),
        ("concurrency", or_null(count())),
        ("isolated", flag()),
        ("starvation_prevention", or_null(refer("Starvation"))),
        ("tenant_fairness", or_null(refer("TenantFairness"))),
        ("tenant?", described(text(), "The tenant whose own queues it serves.")),
        ("active_workers", count()),
        ("active_jobs", count()),
        ("source", one_of(&["file", "api"])),
    ])
}

pub fn list_all() -> Operation {
    op("All pools").paged().gives(200, "Pools.", page_of(&[], refer("Pool")))
}

pub fn show() -> Operation {
    op("Show a pool").gives(200, "The pool.", refer("PoolAnswer"))
}

pub fn put() -> Operation {
    op("Add a pool, or replace it as a whole")
        .variable(pool_name())
        .takes(body(object([("name?", pool_name())])))
        .gives(200, "It is replaced.", refer("PoolAnswer"))
        .gives(201, "It is added.", refer("PoolAnswer"))
}

pub fn add() -> Operation {
    op("Add a pool")
        .takes(body(object([("name", pool_name())])))
        .gives(201, "It is added.", refer("PoolAnswer"))
        .with_headers(&["Location"])
        .fails(&[409])
}

pub fn remove() -> Operation {
    let answer = object([("pool", text()), ("removed", flag()), ("holds", or_null(text()))]);
    op("Remove a pool: the file's is back, if there is one").gives(200, "It is gone.", answer).fails(&[409])
}

fn scheduling() -> Value {
    object([
        ("starvation_prevention", refer("Starvation")),
        ("tenant_fairness", refer("TenantFairness")),
        ("queues", map(object([("tenant_fairness", refer("TenantFairness"))]))),
        ("source", one_of(&["file", "api"])),
    ])
}

pub fn scheduling_stats() -> Operation {
    let queue = object([
        ("name", text()),
        ("dispatch_count_1m", count()),
        ("dispatch_ratio_1m", ratio()),
        ("avg_wait_ms", number()),
        ("active_jobs", count()),
    ]);
    let stats = || object([("queues", list(queue.clone())), ("window", text())]);
    op("What queues handed out within the last minute").gives(
        200,
        "Counts.",
        with(stats(), object([("stats", stats())])),
    )
}

pub fn scheduling_config() -> Operation {
    op("What holds for all queues").gives(200, "The policy.", refer("Scheduling"))
}

pub fn put_scheduling_config() -> Operation {
    let queue = object([("tenant_fairness?", or_null(refer("TenantFairness")))]);
    let body = object([
        ("starvation_prevention?", or_null(refer("Starvation"))),
        ("tenant_fairness?", or_null(refer("TenantFairness"))),
        ("queues?", or_null(by_queue(closed(queue)))),
        ("source?", any()),
    ]);
    op("Change what holds for all queues")
        .about(
            "What it does not name stays as it is; a queue's `tenant_fairness` of `null` takes the queue's own away.",
        )
        .takes(closed(body))
        .gives(200, "The policy.", refer("Scheduling"))
}
