//! Reservations: a job belongs to its worker until it is returned or the worker is silent for too long.

use super::{MINUTE, NOON, SECOND};
use crate::support::{TestApp, json};

#[tokio::test]
async fn a_returned_job_keeps_its_place_and_its_attempts() {
    let app = TestApp::start_at(NOON).await;
    let (first, second) = (app.client.enqueue_into("q").await, app.client.enqueue_into("q").await);
    app.client.fetch("q", 1).await;
    let body = json!({"job_id": first, "requeue": true, "error": {"message": "bye", "retryable": false}});
    let nack = app.client.post("/v1/workers/nack", body).await.expect(200);
    assert_eq!((nack.text_at("/state"), nack.at("/attempt")), ("available", &json!(1)));
    assert_eq!(app.client.fetch("q", 5).await.job_ids(), [first, second]);
}

#[tokio::test]
async fn an_expired_reservation_makes_the_job_available_at_once() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    let body = json!({"queues": ["q"], "worker_id": "w1", "visibility_timeout_ms": 5000});
    app.client.post("/v1/workers/fetch", body).await.expect(200);
    app.clock.advance(5 * SECOND - 1);
    assert!(app.client.fetch("q", 1).await.job_ids().is_empty());
    app.clock.advance(1);
    let again = app.client.fetch("q", 1).await;
    assert_eq!(again.job_ids(), [&*id]);
    assert_eq!((again.at("/jobs/0/attempt"), again.text_at("/jobs/0/error/type")), (&json!(2), "visibility_timeout"));
    let late = app.client.post("/v1/workers/ack", json!({"job_id": id, "worker_id": "w0"})).await;
    assert_eq!(late.expect(409).text_at("/error/code"), "conflict");
}

#[tokio::test]
async fn a_job_without_attempts_left_is_discarded_when_its_reservation_expires() {
    let app = TestApp::start_at(NOON).await;
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "retry": retry})).await;
    app.client.fetch("default", 1).await;
    app.clock.advance(31 * MINUTE);
    assert!(app.client.fetch("default", 1).await.job_ids().is_empty());
    assert_eq!(app.client.state(&id).await, "discarded");
    app.client.get(&format!("/v1/dead-letter/{id}")).await.expect(200);
}

#[tokio::test]
async fn heartbeats_extend_reservations_but_not_the_execution_timeout() {
    let app = TestApp::start_at(NOON).await;
    let options = json!({"timeout_ms": 9000, "visibility_timeout_ms": 4000, "queue": "q"});
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "options": options})).await;
    app.client.fetch("q", 1).await;
    for _ in 0..2 {
        app.clock.advance(3 * SECOND);
        let beat = json!({"worker_id": "w1", "active_jobs": [id]});
        let answer = app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
        assert_eq!(answer.at("/jobs_extended"), &json!([id]));
    }
    assert!(app.client.fetch("q", 1).await.job_ids().is_empty(), "still held at 6 s");
    app.clock.advance(3 * SECOND);
    app.client.fetch("q", 1).await; // due things are handled by any fetch
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["error"]["type"]), (&json!("retryable"), &json!("timeout")));
    assert_eq!(job["error"]["limit_seconds"], json!(9.0));
}

#[tokio::test]
async fn a_stalled_job_fails_after_its_own_heartbeat_timeout() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "heartbeat_timeout": 10})).await;
    app.client.fetch("default", 1).await;
    let beat = json!({"worker_id": "w1", "active_jobs": [id]});
    app.client.post("/v1/workers/heartbeat", beat).await.expect(200);
    app.clock.advance(11 * SECOND);
    app.store().tick().await.unwrap();
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["error"]["type"]), (&json!("retryable"), &json!("stalled")));
}
