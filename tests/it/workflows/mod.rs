//! Workflows: chains, groups and batches, nested, with every final state of jobs.

mod batches;
mod cancelling;
mod chains;
mod children;
mod dependencies;
mod entry_points;
mod events;
mod groups;
mod large;
mod limits;
mod nesting;
mod ownership;
mod progress;
mod survival;

use crate::support::{Answer, Client, TestApp, json};
use serde_json::Value;

/// A workflow job in queue `q` with its own type.
fn job(name: &str) -> Value {
    json!({"type": format!("test.{name}"), "args": [name], "options": {"queue": "q"}})
}

/// A job that is discarded at its first failure.
fn fragile(name: &str) -> Value {
    json!({"type": format!("test.{name}"), "args": [], "options": {"queue": "q", "retry": {"max_attempts": 1}}})
}

fn jobs(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| job(name)).collect()
}

fn chain(steps: Vec<Value>) -> Value {
    json!({"type": "chain", "name": "a chain", "steps": steps})
}

fn group(jobs: Vec<Value>) -> Value {
    json!({"type": "group", "jobs": jobs})
}

fn batch(jobs: Vec<Value>, callbacks: Value) -> Value {
    json!({"type": "batch", "jobs": jobs, "callbacks": callbacks})
}

async fn begin(client: &Client, workflow: Value) -> String {
    client.post("/v1/workflows", workflow).await.expect(201).text_at("/workflow/id").to_owned()
}

async fn show(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/workflows/{id}")).await.expect(200).at("/workflow").clone()
}

async fn state(client: &Client, id: &str) -> String {
    show(client, id).await["state"].as_str().unwrap_or_default().to_owned()
}

/// Fetches all available jobs of queue `q`.
async fn taken(client: &Client) -> Vec<Value> {
    client.fetch("q", 1000).await.at("/jobs").as_array().cloned().unwrap_or_default()
}

fn name(job: &Value) -> &str {
    job["type"].as_str().unwrap_or_default().trim_start_matches("test.")
}

fn names(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().map(name).collect()
}

fn id(job: &Value) -> &str {
    job["id"].as_str().unwrap_or_default()
}

/// Fetches the only available job, which must have this name.
async fn take(client: &Client, expected: &str) -> Value {
    let mut jobs = taken(client).await;
    assert_eq!(names(&jobs), [expected]);
    jobs.remove(0)
}

async fn finish(client: &Client, job: &Value, result: Value) -> Answer {
    client.post("/v1/workers/ack", json!({"job_id": id(job), "result": result})).await.expect(200)
}

/// Fetches a job and acks it with its name as the result.
async fn pass(client: &Client, expected: &str) -> Value {
    let job = take(client, expected).await;
    finish(client, &job, json!(expected)).await;
    job
}

/// States of the steps or jobs of a workflow, or of a part of one.
fn states(part: &Value) -> Vec<&str> {
    let parts = part["steps"].as_array().or(part["jobs"].as_array()).expect("steps or jobs");
    parts.iter().map(|part| part["state"].as_str().unwrap_or_default()).collect()
}

async fn app() -> TestApp {
    TestApp::start().await
}
