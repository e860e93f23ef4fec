//! Jobs that return to staging: retries, due schedules, dead letters. Also rules that change the destination.

use super::{SECOND, StagingEnv, planned};
use crate::support::json;

async fn tick(env: &StagingEnv) {
    env.tick().await;
}

/// Retries a job once; returns its place when the retry is due.
async fn state_after_a_retry(restage: bool) -> (bool, String) {
    let env = StagingEnv::with(|rule| rule.restage = restage).await;
    let client = &env.client;
    let mut job = planned("acme");
    job["retry"] = json!({"max_attempts": 3, "initial_interval": "PT2S", "jitter": false});
    let id = client.enqueue(job).await;
    assert_eq!(client.fetch("default", 1).await.job_ids(), [id.as_str()]);
    client.enqueue(json!({"type": "other.job", "args": []})).await; // so that nothing passes
    assert_eq!(client.nack(&id).await.expect(200).text_at("/state"), "retryable");
    env.clock.advance(2 * SECOND);
    tick(&env).await;
    let outcome = (env.is_staged(&id).await, env.state(&id).await);
    assert_eq!(env.staged().await, u64::from(outcome.0));
    env.round(5).await;
    let fetched = client.fetch("default", 5).await;
    assert_eq!(fetched.job_ids().len(), 2);
    let again = fetched.at("/jobs").as_array().unwrap().iter().find(|job| job["id"] == id.as_str()).unwrap().clone();
    assert_eq!((&again["attempt"], again["errors"].as_array().unwrap().len()), (&json!(2), 1));
    let counts = env.counts("default").await;
    assert_eq!((counts.at("/stats/pending"), counts.at("/stats/retryable")), (&json!(0), &json!(0)));
    outcome
}

#[tokio::test]
async fn retries_are_staged_unless_the_rule_says_otherwise() {
    assert_eq!(state_after_a_retry(true).await, (true, "pending".to_owned()));
    assert_eq!(state_after_a_retry(false).await, (false, "available".to_owned()));
}

#[tokio::test]
async fn due_schedules_are_staged_unless_the_rule_says_otherwise() {
    for restage in [true, false] {
        let env = StagingEnv::busy(|rule| rule.restage = restage).await;
        let mut job = planned("acme");
        job["scheduled_at"] = json!("+PT10S");
        let id = env.client.enqueue(job).await;
        assert_eq!((env.state(&id).await.as_str(), env.staged().await), ("scheduled", 0));
        env.clock.advance(10 * SECOND);
        tick(&env).await;
        assert_eq!(env.is_staged(&id).await, restage);
        assert_eq!(env.round(5).await, u64::from(restage));
        assert_eq!(env.state(&id).await, "available");
    }
}

/// A due job goes before the next fetch, with and without staging.
#[tokio::test]
async fn a_fetch_stages_what_is_due() {
    let env = StagingEnv::busy(|_| {}).await;
    let mut job = planned("acme");
    job["scheduled_at"] = json!("+PT10S");
    let id = env.client.enqueue(job).await;
    env.clock.advance(10 * SECOND);
    let fetched = env.client.fetch("default", 5).await.job_ids();
    assert!(fetched.len() == 1 && fetched[0] != id);
    assert!(env.is_staged(&id).await);
}

#[tokio::test]
async fn a_dead_letter_that_is_retried_is_staged() {
    let env = StagingEnv::with(|_| {}).await;
    let client = &env.client;
    let mut job = planned("acme");
    job["retry"] = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let id = client.enqueue(job).await;
    client.fetch("default", 1).await;
    client.enqueue(json!({"type": "other.job", "args": []})).await;
    client.nack(&id).await.expect(200);
    client.post(&format!("/v1/dead-letter/{id}/retry"), json!({})).await.expect(200);
    assert!(env.is_staged(&id).await);
    assert_eq!(env.counts("default").await.at("/stats/pending"), &json!(1));
    assert_eq!(env.round(5).await, 1);
    assert_eq!(client.fetch("default", 5).await.job_ids()[1], id);
}

#[tokio::test]
async fn a_rule_may_send_jobs_to_another_queue() {
    let env = StagingEnv::with(|rule| rule.queue = Some("main".to_owned())).await;
    let client = &env.client;
    let mut job = planned("acme");
    job["options"] = json!({"queue": "own"});
    client.enqueue(json!({"type": "other.job", "args": [], "options": {"queue": "main"}})).await;
    let created = client.post("/v1/jobs", job).await.expect(201);
    assert_eq!((created.text_at("/job/queue"), created.at("/job/x_staged")), ("main", &json!(true)));
    client.get("/v1/queues/own").await.expect(404);
    assert_eq!(env.tenants("main").await, ["acme"]);
    assert_eq!(env.round(5).await, 1);
    let fetched = client.fetch("main", 5).await;
    assert_eq!(fetched.job_ids()[1], created.text_at("/job/id"));
    assert_eq!(fetched.at("/jobs/1/queue"), "main");
}
