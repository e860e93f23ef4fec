//! The entry points by which a job reaches its queue. Every entry point (`prepare`) is tested with everything that may
//! hold a job back, refuse it or report it (`rules`). If a rule is not applied again at an entry point, the test states
//! the reason.

mod prepare;
mod rules;

use crate::support::{Client, NOON, TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::plan::Rule;
use prepare::EntryPoint;
use serde_json::Value;

/// A fairgate with a manual clock and no planner, so staged jobs stay staged.
async fn start() -> TestApp {
    TestApp::start_with(Clock::manual(NOON), |config| {
        config.plan.push(Rule::new("plan", &["planned.*"]));
        config.server.roles = vec![Role::Api, Role::Dispatch];
    })
    .await
}

/// A job of the tenant `t` for the queue `q`.
fn job(kind: &str, options: Value) -> Value {
    let mut job = json!({"type": kind, "args": [], "meta": {"tenant_id": "t"}, "options": {"queue": "q"}});
    job["options"].as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    job
}

/// Puts a job into the queue, so that no planned job passes through.
async fn fill(client: &Client) {
    client.enqueue(json!({"type": "other.job", "args": [], "options": {"queue": "q", "priority": -100}})).await;
}
