//! A long poll returns as soon as a limit releases a job.

use super::job;
use crate::support::{Answer, TestApp, json};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Starts a long poll of up to ten seconds.
async fn wait(app: &TestApp) -> JoinHandle<(Answer, Instant)> {
    let client = app.client.clone();
    let waiting = tokio::spawn(async move {
        let answer = client.post("/v1/workers/fetch", json!({"queues": ["q"], "wait_ms": 10_000})).await.expect(200);
        (answer, Instant::now())
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "there is nothing for it yet");
    waiting
}

#[tokio::test]
async fn when_a_slot_is_free() {
    let app = TestApp::start().await;
    let jobs = [
        app.client.enqueue(job("q", 0, json!({"key": "k", "concurrency": 1}))).await,
        app.client.enqueue(job("q", 0, json!({"key": "k", "concurrency": 1}))).await,
    ];
    assert_eq!(app.client.fetch("q", 5).await.job_ids(), jobs[..1]);
    let waiting = wait(&app).await;
    let freed = Instant::now();
    app.client.ack(&jobs[0]).await.expect(200);
    let (answer, at) = waiting.await.unwrap();
    assert_eq!(answer.job_ids(), jobs[1..]);
    assert!(at - freed < Duration::from_secs(2), "{:?}", at - freed);
    super::audit::audit(&app).await;
}

#[tokio::test]
async fn when_its_time_has_come() {
    let app = TestApp::start().await;
    let limit = json!({"key": "k", "throttle": {"limit": 1, "period": "PT1S"}});
    let jobs = [app.client.enqueue(job("q", 0, limit.clone())).await, app.client.enqueue(job("q", 0, limit)).await];
    let before = Instant::now();
    assert_eq!(app.client.fetch("q", 5).await.job_ids(), jobs[..1]);
    let (answer, at) = wait(&app).await.await.unwrap();
    assert_eq!(answer.job_ids(), jobs[1..]);
    assert!(at - before >= Duration::from_millis(999), "{:?}", at - before);
    assert!(at - before < Duration::from_secs(4), "{:?}", at - before);
    super::audit::audit(&app).await;
}

#[tokio::test]
async fn when_its_queue_has_a_slot() {
    let app = TestApp::start().await;
    let quota = super::concurrency(1);
    app.app
        .store
        .set_limit(
            &fairgate::domain::limit::LimitKey::queue("q"),
            fairgate::store::LimitLayer::Admin,
            Some(&quota),
            None,
        )
        .await
        .unwrap();
    let jobs = [app.client.enqueue_into("q").await, app.client.enqueue_into("q").await];
    assert_eq!(app.client.fetch("q", 5).await.job_ids(), jobs[..1]);
    let waiting = wait(&app).await;
    app.client.ack(&jobs[0]).await.expect(200);
    let (answer, _) = waiting.await.unwrap();
    assert_eq!(answer.job_ids(), jobs[1..]);
    super::audit::audit(&app).await;
}
