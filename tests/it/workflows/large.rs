//! Workflows with more jobs than one script call starts or cancels: this is not visible to clients.

use super::*;
use crate::support::{ChaosProxy, TestRedis, eventually};
use fairgate::clock::Clock;
use fairgate::config::{Role, StoreUrl};
use std::sync::Arc;
use std::time::Duration;

fn many(count: usize) -> Vec<Value> {
    vec![job("many"); count]
}

async fn available(client: &Client) -> i64 {
    client.get("/v1/queues/q/stats").await.at("/queue/available").as_i64().unwrap_or(0)
}

#[tokio::test]
async fn all_jobs_of_a_large_group_are_available_with_the_response() {
    let app = app().await;
    begin(&app.client, group(many(950))).await;
    assert_eq!(available(&app.client).await, 950);
    let fetched = taken(&app.client).await;
    assert_eq!(fetched.len(), 950);
}

#[tokio::test]
async fn a_large_group_that_is_cancelled_leaves_nothing_to_fetch() {
    let app = app().await;
    let id = begin(&app.client, group(many(950))).await;
    let active = app.client.fetch("q", 3).await.job_ids();
    let answer = app.client.delete(&format!("/v1/workflows/{id}")).await.expect(200);
    let states = states(answer.at("/workflow"));
    let count = |wanted: &str| states.iter().filter(|state| **state == wanted).count();
    assert_eq!((count("active"), count("cancelled")), (active.len(), 950 - active.len()));
    assert_eq!((available(&app.client).await, taken(&app.client).await.len()), (0, 0));
}

#[tokio::test]
async fn a_step_of_many_jobs_follows_a_step_of_one() {
    let app = app().await;
    let id = begin(&app.client, chain(vec![job("first"), group(many(700)), job("last")])).await;
    let first = take(&app.client, "first").await;
    finish(&app.client, &first, json!(1)).await;
    eventually("all of them are started", async || available(&app.client).await == 700).await;
    for job in taken(&app.client).await {
        finish(&app.client, &job, json!(1)).await;
    }
    let last = take(&app.client, "last").await;
    finish(&app.client, &last, json!(1)).await;
    assert_eq!(state(&app.client, &id).await, "completed");
}

/// The process that stored the workflow dies before it starts the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_work_of_a_process_is_done_by_another() {
    let redis = Arc::new(TestRedis::start());
    let proxy = ChaosProxy::start(&redis).await;
    let cut_off = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        config.server.roles = vec![Role::Api];
        config.store.url = Some(StoreUrl::parse(&proxy.url()).unwrap());
        config.store.call_timeout = Duration::from_millis(500);
    })
    .await;
    begin(&cut_off.client, group(many(1))).await; // the script is known from now on
    proxy.arm("_workflow_start\r\n");
    cut_off.client.post("/v1/workflows", group(many(950))).await.expect(503);
    let other = TestApp::start_on(redis, Clock::System, |_| {}).await;
    eventually("all of them are started", async || available(&other.client).await == 951).await;
}
