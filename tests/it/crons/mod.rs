//! Crons: registration, times, jobs, and crashes.

mod jobs;
mod registration;
mod survival;
mod times;

use crate::support::{Answer, Client, TestApp, eventually, json};
use fairgate::domain::time::rfc3339;
use serde_json::Value;

/// 2026-01-01T00:00:00Z, a Thursday.
const NEW_YEAR: i64 = 1_767_225_600_000;
const MINUTE: i64 = 60_000;

fn cron(name: &str, expression: &str, more: Value) -> Value {
    let mut cron = json!({"name": name, "expression": expression,
        "job_template": {"type": "cron.job", "args": [1], "options": {"queue": "q"}}});
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        cron[name] = value;
    }
    cron
}

async fn register(client: &Client, cron: Value) {
    client.post("/v1/cron", cron).await.expect(201);
}

async fn shown(client: &Client, name: &str) -> Value {
    client.get(&format!("/v1/cron/{name}")).await.expect(200).at("/cron").clone()
}

async fn patch(client: &Client, name: &str, change: Value) -> Answer {
    client.send("PATCH", &format!("/v1/cron/{name}"), Some(change.to_string())).await
}

/// The number of jobs that a queue ever got.
async fn made(client: &Client, queue: &str) -> i64 {
    let answer = client.get(&format!("/v1/queues/{queue}/stats")).await;
    if answer.status == 404 {
        return 0;
    }
    let states = ["available", "active", "completed", "cancelled", "discarded", "pending", "scheduled", "retryable"];
    states.iter().filter_map(|state| answer.at(&format!("/queue/{state}")).as_i64()).sum()
}

async fn runs(client: &Client, name: &str) -> i64 {
    shown(client, name).await["run_count"].as_i64().expect("a number")
}

/// Waits until all due crons have been processed, so that the next time of this one is in the future.
async fn looked_at(app: &TestApp, name: &str) {
    eventually("the cron was looked at", async || {
        let cron = shown(&app.client, name).await;
        cron["next_run_at"].as_str().is_some_and(|at| at > rfc3339(app.clock.now_ms()).as_str())
    })
    .await;
}

async fn events(client: &Client, kinds: &str) -> Vec<Value> {
    client
        .get(&format!("/v1/events?types={kinds}&limit=1000"))
        .await
        .at("/events")
        .as_array()
        .cloned()
        .unwrap_or_default()
}
