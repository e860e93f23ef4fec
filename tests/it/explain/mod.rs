//! The explanation of a job: one request says why it waits.

mod access;
mod cases;
mod eta;
mod main_queues;
mod past;
mod places;
mod reality;

use crate::support::{Answer, Client, NOON, TestApp, json};
use fairgate::config::Config;
use fairgate::domain::plan::{Batch, Pace, Rule};
use serde_json::Value;

const SECOND: i64 = 1000;
const HOUR: i64 = 3_600_000;

/// Starts a server that does nothing in the background.
async fn start(change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_passive(change).await
}

/// Starts one with a plan rule `r` for jobs `t.*` and queue `q`, whose rounds the test runs.
async fn planned(change: impl FnOnce(&mut Rule)) -> TestApp {
    let mut rule = Rule::new("r", &["t.*"]);
    rule.queue = Some("q".to_owned());
    change(&mut rule);
    start(|config| config.plan = vec![rule]).await
}

/// A rule that promotes a batch when the test asks, and no more in between.
fn by_hand(rule: &mut Rule, jobs: u32) {
    (rule.batch, rule.strict_interval, rule.pace) = (Batch::Jobs(jobs), true, Pace::Every(HOUR as u64));
}

/// The explanation of a job.
async fn explain(client: &Client, id: &str) -> Answer {
    client.get(&format!("/v1/jobs/{id}/explain")).await.expect(200)
}

/// The check that binds, which must be the first one that blocks; empty if none does.
async fn binding(client: &Client, id: &str) -> String {
    let shown = explain(client, id).await;
    let checks = shown.at("/checks").as_array().cloned().unwrap_or_default();
    let first =
        checks.iter().find(|check| check["state"] == "blocking").map_or(Value::Null, |check| check["name"].clone());
    assert_eq!(shown.at("/binding"), &first, "{}", shown.text);
    first.as_str().unwrap_or_default().to_owned()
}

/// A check of an explanation by its name.
#[track_caller]
fn check<'a>(shown: &'a Answer, name: &str) -> &'a Value {
    let checks = shown.at("/checks").as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no check {name}: {}", shown.text))
}

/// A planned job of a tenant.
fn job(tenant: &str) -> Value {
    json!({"type": "t.job", "args": [], "meta": {"tenant_id": tenant}})
}

/// A plain job of a tenant in a queue.
fn plain(queue: &str, tenant: &str) -> Value {
    json!({"type": "plain.job", "args": [], "options": {"queue": queue}, "meta": {"tenant_id": tenant}})
}

async fn put(app: &TestApp, path: &str, body: Value) -> Answer {
    app.client.send("PUT", path, Some(body.to_string())).await
}

async fn run_round(app: &TestApp) {
    app.client.post("/v1/admin/planner/r/run", json!({})).await.expect(200);
}
