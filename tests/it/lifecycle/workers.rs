//! Workers that go silent, deregister or go quiet, and the effect on their jobs.

use super::{MINUTE, NOON, SECOND};
use crate::support::{TestApp, json};

#[tokio::test]
async fn a_silent_worker_is_dead_and_its_jobs_are_retried() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.post("/v1/workers/register", json!({"worker": {"worker_id": "w1", "concurrency": 2}})).await.expect(200);
    app.client.fetch("q", 1).await;
    app.clock.advance(29 * SECOND);
    app.store().tick().await.unwrap();
    assert_eq!(app.client.state(&id).await, "active");
    app.clock.advance(2 * SECOND);
    app.store().tick().await.unwrap();
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["error"]["type"]), (&json!("available"), &json!("worker_death")));
    assert_eq!(app.redis.keys_with("worker").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_worker_that_only_fetches_is_not_watched() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    app.clock.advance(20 * MINUTE);
    app.store().tick().await.unwrap();
    assert_eq!(app.client.state(&id).await, "active");
}

#[tokio::test]
async fn a_worker_that_deregisters_returns_its_jobs() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w1"})).await.expect(200);
    app.client.fetch("q", 1).await;
    let answer = app.client.delete("/v1/workers/w1").await.expect(200);
    assert_eq!(answer.at("/jobs_requeued"), &json!(1));
    assert_eq!(app.client.state(&id).await, "available");
    app.client.delete("/v1/workers/w1").await.expect(404);
}

#[tokio::test]
async fn a_worker_that_is_not_running_gets_nothing() {
    let app = TestApp::start_at(NOON).await;
    app.client.enqueue_into("q").await;
    let beat = json!({"worker_id": "w1", "state": "quiet"});
    app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
    assert!(app.client.fetch("q", 1).await.job_ids().is_empty());
    app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w1", "state": "running"})).await.expect(200);
    assert_eq!(app.client.fetch("q", 1).await.job_ids().len(), 1);
}

/// More jobs than one call extends.
#[tokio::test]
async fn a_heartbeat_extends_all_jobs_that_it_names() {
    let app = TestApp::start_at(NOON).await;
    let job = json!({"type": "test.job", "args": [], "options": {"queue": "q"}});
    app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 450]})).await.expect(201);
    let ids = app.client.fetch("q", 450).await.job_ids();
    app.client.delete(&format!("/v1/jobs/{}", ids[449])).await.expect(200);
    app.clock.advance(20 * MINUTE);
    let beat = json!({"worker_id": "w1", "active_jobs": ids});
    let answer = app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
    assert_eq!(answer.at("/jobs_extended").as_array().map(Vec::len), Some(449), "{}", answer.text);
    assert_eq!(answer.at("/cancelled_jobs"), &json!([ids[449]]), "{}", answer.text);
}
