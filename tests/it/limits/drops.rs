//! `on_limit: drop`: a job that cannot start at once is discarded.

use super::LimitsEnv;
use crate::support::json;
use serde_json::Value;
use std::slice::from_ref;

fn limited(most: u32) -> Value {
    json!({"key": "k", "concurrency": most, "on_limit": "drop"})
}

#[tokio::test]
async fn a_job_that_cannot_start_is_discarded_and_reported() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(3, "q", limited(1)).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..1]);
    for id in &jobs[1..] {
        assert_eq!(env.state(id).await, "discarded");
    }
    let dropped = |id: &String| json!({"key": "k", "job_id": id, "job_type": "test.job"});
    assert_eq!(env.event_data("rate_limit.dropped").await, [dropped(&jobs[1]), dropped(&jobs[2])]);
    let discarded = env.event_data("job.discarded").await;
    assert_eq!(discarded.len(), 2);
    assert_eq!(discarded[0]["last_error"]["code"], "rate_limited");
    let exceeded = env.event_data("rate_limit.exceeded").await;
    assert_eq!(exceeded, [json!({"key": "k", "strategy": "concurrency", "limit": 1, "current": 1})]);
    env.audit().await;
    env.ack(&jobs[0]).await;
    let next = env.push("q", limited(1)).await;
    assert_eq!(env.fetch("q", 9).await, [next], "nothing of it remains");
    env.audit().await;
}

/// Each call drops at most 32 jobs; jobs behind them still run, and calls that dropped nothing emit no event.
#[tokio::test]
async fn many_jobs_are_dropped_in_steps() {
    let env = LimitsEnv::open().await;
    env.push_many(100, "q", limited(0)).await;
    let behind = env.push_many(3, "q", json!(null)).await;
    assert_eq!(env.fetch("q", 1).await, behind[..1]);
    assert_eq!(env.event_data("rate_limit.dropped").await.len(), 32);
    env.audit().await;
    assert_eq!(env.fetch("q", 1).await, behind[1..2]);
    assert_eq!(env.event_data("rate_limit.dropped").await.len(), 64);
    let mut calls = 2;
    while env.event_data("rate_limit.dropped").await.len() < 100 {
        env.fetch("q", 1).await;
        calls += 1;
        assert!(calls < 6);
    }
    assert_eq!(env.event_data("rate_limit.exceeded").await.len(), calls, "once for each call that dropped some");
    env.fetch("q", 1).await;
    assert_eq!(env.event_data("rate_limit.exceeded").await.len(), calls);
    env.audit().await;
}

/// Only jobs with `drop` are dropped, even under the same key.
#[tokio::test]
async fn jobs_that_wait_under_the_same_key_are_not_dropped() {
    let env = LimitsEnv::open().await;
    let waits = env.push_many(2, "q", json!({"key": "k", "concurrency": 1})).await;
    let drops = env.push("q", limited(1)).await;
    assert_eq!(env.fetch("q", 9).await, waits[..1]);
    assert_eq!((env.state(&waits[1]).await, env.state(&drops).await), ("available".into(), "discarded".into()));
    env.ack(&waits[0]).await;
    assert_eq!(env.fetch("q", 9).await, waits[1..]);
    env.audit().await;
}

/// A retry that is due while the limit is reached is dropped like a new job.
#[tokio::test]
async fn a_retry_is_dropped_as_well() {
    let env = LimitsEnv::open().await;
    let first = env.push("q", limited(1)).await;
    assert_eq!(env.fetch("q", 9).await, from_ref(&first));
    env.client.nack(&first).await.expect(200);
    let second = env.push("q", limited(1)).await;
    assert_eq!(env.fetch("q", 9).await, [second]);
    env.advance(1000).await;
    assert!(env.fetch("q", 9).await.is_empty());
    assert_eq!(env.state(&first).await, "discarded");
    env.audit().await;
}
