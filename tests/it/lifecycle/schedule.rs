//! Scheduled start and expiry of jobs.

use super::{NOON, SECOND};
use crate::support::{TestApp, json};

#[tokio::test]
async fn a_scheduled_job_becomes_available_in_its_time_and_not_before() {
    let app = TestApp::start_at(NOON).await;
    let at = "2027-01-15T09:00:10+01:00"; // ten seconds after noon of this clock
    let absolute = app.client.enqueue(json!({"type": "test.job", "args": [], "scheduled_at": at})).await;
    let options = json!({"delay_until": "+PT10S"});
    let relative = app.client.enqueue(json!({"type": "test.job", "args": [], "options": options})).await;
    let job = app.client.job(&absolute).await;
    assert_eq!((&job["state"], &job["scheduled_at"]), (&json!("scheduled"), &json!(at)), "echoed as it was sent");
    assert_eq!(app.client.job(&relative).await["scheduled_at"], "2027-01-15T08:00:10.000Z");
    app.clock.advance(10 * SECOND - 1);
    assert!(app.client.fetch("default", 9).await.job_ids().is_empty());
    app.clock.advance(1);
    app.store().tick().await.unwrap();
    assert_eq!(app.client.job(&absolute).await["enqueued_at"], "2027-01-15T08:00:10.000Z");
    assert_eq!(app.client.fetch("default", 9).await.job_ids().len(), 2);
}

#[tokio::test]
async fn a_job_that_was_not_started_in_time_is_discarded() {
    let app = TestApp::start_at(NOON).await;
    let expiring = app.client.enqueue(json!({"type": "test.job", "args": [], "expires_at": "+PT5S"})).await;
    let by_ttl = app.client.enqueue(json!({"type": "test.job", "args": [], "enqueue_ttl": 5})).await;
    let scheduled = json!({"type": "test.job", "args": [], "expires_at": "+PT5S", "scheduled_at": "+PT1H"});
    let scheduled = app.client.enqueue(scheduled).await;
    let fresh = app.client.enqueue_into("default").await;
    app.clock.advance(5 * SECOND);
    assert_eq!(app.client.fetch("default", 1).await.job_ids(), [fresh], "the same fetch continues with the next job");
    for (id, kind) in [(expiring, "expired"), (by_ttl, "enqueue_ttl_expired"), (scheduled, "expired")] {
        let job = app.client.job(&id).await;
        assert_eq!((&job["state"], &job["error"]["type"]), (&json!("discarded"), &json!(kind)), "{job}");
        assert!(job.get("completed_at").is_none() && job.get("discarded_at").is_some(), "{job}");
    }
}

#[tokio::test]
async fn a_started_job_outlives_its_enqueue_ttl_but_not_its_total_timeout() {
    let app = TestApp::start_at(NOON).await;
    let body = json!({"type": "test.job", "args": [], "enqueue_ttl": 5, "total_timeout": 60,
        "retry": {"initial_interval": "PT10S", "jitter": false, "max_attempts": 99}});
    let id = app.client.enqueue(body).await;
    app.client.fetch("default", 1).await;
    app.client.nack(&id).await.expect(200);
    app.clock.advance(10 * SECOND);
    assert_eq!(app.client.fetch("default", 1).await.job_ids(), [&*id], "the ttl was for the first start");
    app.clock.advance(50 * SECOND);
    app.store().tick().await.unwrap();
    let job = app.client.job(&id).await;
    assert_eq!((&job["state"], &job["error"]["type"]), (&json!("discarded"), &json!("total_timeout")));
}

#[tokio::test]
async fn a_pending_job_waits_for_its_activation() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "options": {"pending": true}})).await;
    assert_eq!(app.client.state(&id).await, "pending");
    assert!(app.client.fetch("default", 1).await.job_ids().is_empty());
    let activated = app.client.post(&format!("/v1/jobs/{id}/activate"), json!({})).await.expect(200);
    assert_eq!((activated.text_at("/job/state"), activated.text_at("/job/previous_state")), ("available", "pending"));
    app.client.post(&format!("/v1/jobs/{id}/activate"), json!({})).await.expect(409);
    assert_eq!(app.client.fetch("default", 1).await.job_ids(), [id]);
}
