//! However a job comes into its queue, it takes the one way in. A table: every way (`ways`) against everything that may keep a job
//! out or tell of it (`table`). Where a way is not measured again, the table has the reason.

mod table;
mod ways;

use crate::support::{Client, TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::fairness::Rule;
use serde_json::Value;
use ways::Way;

const NOON: i64 = 1_800_000_000_000;

/// A fairgate whose clock stands still and whose planner promotes nothing: what is staged stays so.
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

/// Something waits in the queue, so that nothing passes staging.
async fn fill(client: &Client) {
    client.enqueue(json!({"type": "other.job", "args": [], "options": {"queue": "q", "priority": -100}})).await;
}
