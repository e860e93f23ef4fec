//! `on_limit: reschedule`: each job is rescheduled to the time of its own turn.

use super::{LimitsEnv, MINUTE, NOON, SECOND, concurrency, job, rate, throttle};
use crate::support::json;
use fairgate::domain::limit::Quota;
use fairgate::domain::plan::Rule;
use fairgate::domain::time::At;
use fairgate::store::LimitLayer;
use serde_json::Value;

/// The scheduled time of a job, in ms since noon.
async fn slot(env: &LimitsEnv, id: &str) -> i64 {
    let job = env.client.job(id).await;
    assert_eq!(job["state"], "scheduled", "{job}");
    match At::parse(job["scheduled_at"].as_str().unwrap()) {
        Some(At::Absolute(at)) => at - NOON,
        other => panic!("{other:?}"),
    }
}

async fn slots(env: &LimitsEnv, ids: &[String]) -> Vec<i64> {
    let mut slots = Vec::new();
    for id in ids {
        slots.push(slot(env, id).await);
    }
    slots
}

fn limited(more: Value) -> Value {
    let mut limit = json!({"key": "k", "on_limit": "reschedule"});
    limit.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    limit
}

#[tokio::test]
async fn a_window_gives_each_its_exact_slot() {
    let env = LimitsEnv::open().await;
    let limit = limited(json!({"rate": {"limit": 2, "period": "PT10S"}}));
    let jobs = env.push_many(7, "q", limit.clone()).await;
    assert_eq!(env.fetch("q", 1).await, jobs[..1]);
    env.advance(4 * SECOND).await;
    assert_eq!(env.fetch("q", 3).await, jobs[1..2]);
    assert_eq!(slots(&env, &jobs[2..]).await, [10_000, 14_000, 20_000, 24_000, 30_000]);
    env.audit().await;
    // A later job gets the slot after theirs, and none starts earlier.
    let late = env.push("q", limit).await;
    assert!(env.fetch("q", 9).await.is_empty());
    assert_eq!(slot(&env, &late).await, 34_000);
    let mut starts = Vec::new();
    while starts.len() < 6 {
        let now = env.clock.now_ms() - NOON;
        starts.extend(env.fetch("q", 9).await.into_iter().map(|id| (now, id)));
        env.advance(500).await;
    }
    let expected = jobs[2..].iter().chain([&late]).cloned();
    let expected: Vec<_> = [10_000, 14_000, 20_000, 24_000, 30_000, 34_000].into_iter().zip(expected).collect();
    assert_eq!(starts, expected, "and each starts then, in order");
    env.audit().await;
}

#[tokio::test]
async fn a_throttle_gives_each_its_exact_slot() {
    let env = LimitsEnv::open().await;
    let limit = limited(json!({"throttle": {"limit": 3, "period": "PT1S"}}));
    let jobs = env.push_many(5, "q", limit.clone()).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..1]);
    assert_eq!(slots(&env, &jobs[1..]).await, [333, 666, 1000, 1333]);
    env.advance(500).await;
    assert_eq!(env.fetch("q", 9).await, jobs[1..2], "it was due");
    let late = env.push("q", limit).await;
    assert!(env.fetch("q", 9).await.is_empty());
    assert_eq!(slot(&env, &late).await, 1666, "after those that were rescheduled before");
    env.audit().await;
}

/// Under steady load, slots are consecutive and do not drift.
#[tokio::test]
async fn slots_do_not_drift_under_steady_load() {
    let env = LimitsEnv::open().await;
    let limit = limited(json!({"rate": {"limit": 1, "period": "PT1S"}}));
    for second in 0..30 {
        let now = second * SECOND;
        env.push("q", limit.clone()).await;
        assert!(env.fetch("q", 9).await.len() <= 1);
        if second % 3 == 0 {
            // A second job within the same second uses exactly one slot.
            let more = env.push("q", limit.clone()).await;
            assert!(env.fetch("q", 9).await.is_empty());
            let backlog = second / 3 + 1;
            assert_eq!(slot(&env, &more).await, now + backlog * SECOND, "at {now}");
        }
        env.advance(SECOND).await;
    }
    env.audit().await;
}

/// For a concurrency limit the time is unknown, so each turn is one second later.
#[tokio::test]
async fn concurrency_is_estimated() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(7, "q", limited(json!({"concurrency": 2}))).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..2]);
    assert_eq!(slots(&env, &jobs[2..]).await, [1000, 1000, 2000, 2000, 3000]);
    env.ack(&jobs[0]).await;
    env.advance(SECOND).await;
    assert_eq!(env.fetch("q", 9).await, jobs[2..3]);
    assert_eq!(slot(&env, &jobs[3]).await, 3000, "rescheduled again, after the others");
    env.audit().await;
    let paused = env.push("other", json!({"key": "p", "concurrency": 0, "on_limit": "reschedule"})).await;
    assert!(env.fetch("other", 9).await.is_empty());
    assert_eq!(slot(&env, &paused).await, 1000 + 60 * SECOND, "a pause is checked once per minute");
}

#[tokio::test]
async fn a_hold_gives_the_time_of_its_end() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(2, "q", limited(json!({}))).await;
    env.fetch("q", 1).await;
    let error = json!({"message": "429", "rate_limit_until": "2027-01-15T08:05:00Z"});
    env.client.post("/v1/workers/nack", json!({"job_id": jobs[0], "error": error})).await.expect(200);
    assert!(env.fetch("q", 1).await.is_empty());
    assert_eq!(slot(&env, &jobs[1]).await, 300_000);
}

/// Jobs stopped by an override may run when it ends, if not before; limits it does not set are unchanged.
#[tokio::test]
async fn an_override_reschedules_jobs_to_its_end_at_most() {
    let ends = NOON + 10 * MINUTE;
    for (quota, expected) in [
        (concurrency(0), vec![600_000; 4]),
        (rate(1, 3_600_000), vec![600_000; 4]),
        (throttle(1, 3_600_000), vec![600_000; 4]),
        (rate(1, 240_000), vec![240_000, 480_000, 600_000, 600_000]),
        (throttle(1, 240_000), vec![240_000, 480_000, 600_000, 600_000]),
    ] {
        let env = LimitsEnv::open().await;
        let first = env.push("q", limited(json!({}))).await;
        env.set("k", LimitLayer::Override, quota.clone(), Some(ends)).await;
        let starts = usize::from(quota.concurrency.is_none());
        assert_eq!(env.fetch("q", 1).await, vec![first.clone(); starts]);
        let mut jobs = env.push_many(4, "q", limited(json!({}))).await;
        assert!(env.fetch("q", 9).await.is_empty());
        assert_eq!(slots(&env, &jobs).await, expected, "{quota:?}");
        env.audit().await;
        env.advance(10 * MINUTE).await;
        if starts == 0 {
            jobs.insert(0, first);
        }
        assert_eq!(env.fetch("q", 9).await, jobs, "it is over: {quota:?}");
        // No slot is left for later jobs.
        let late = env.push("q", limited(json!({"rate": {"limit": 100, "period": "PT1S"}}))).await;
        assert_eq!(env.fetch("q", 9).await, [late], "{quota:?}");
        env.audit().await;
    }
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(2, "q", limited(json!({"rate": {"limit": 1, "period": "PT1H"}}))).await;
    env.set("k", LimitLayer::Override, Quota { concurrency: Some(5), ..Quota::default() }, Some(ends)).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..1]);
    assert_eq!(slot(&env, &jobs[1]).await, 60 * MINUTE, "the rate is not the override's");
}

/// A job keeps its place: a later job that is due at the same time does not overtake it.
#[tokio::test]
async fn a_rescheduled_job_keeps_its_place() {
    let env = LimitsEnv::open().await;
    let limit = limited(json!({"rate": {"limit": 1, "period": "PT1S"}}));
    let jobs = env.push_many(2, "q", limit.clone()).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..1]);
    env.clock.advance(SECOND);
    let newer = env.push("q", limit).await;
    assert_eq!(env.fetch("q", 9).await, jobs[1..]);
    assert_eq!(slot(&env, &newer).await, 2000);
}

/// Events, and the client's own schedule before it.
#[tokio::test]
async fn rescheduling_is_reported_and_shown() {
    let env = LimitsEnv::open().await;
    let mut scheduled = job("q", 0, limited(json!({"rate": {"limit": 1, "period": "PT10S"}})));
    scheduled["scheduled_at"] = json!("2027-01-15T08:00:01Z");
    let jobs = env.enqueue_all(vec![scheduled; 2]).await;
    env.advance(SECOND).await;
    assert_eq!(env.fetch("q", 9).await.len(), 1);
    assert_eq!(slot(&env, &jobs[1]).await, 11_000);
    let reported = env.event_data("job.scheduled").await;
    let last = reported.last().unwrap();
    assert_eq!((&last["reason"], &last["scheduled_at"]), (&json!("rate_limit"), &json!(NOON + 11_000)));
    // A rescheduled job can be cancelled like any other.
    env.store().cancel(&jobs[1]).await.unwrap();
    env.advance(20 * SECOND).await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.audit().await;
}

/// Each call reschedules a bounded number of jobs, so that no caller waits for many; jobs behind them still run.
#[tokio::test]
async fn many_jobs_are_rescheduled_in_steps() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(100, "q", limited(json!({"concurrency": 0}))).await;
    let behind = env.push_many(2, "q", json!(null)).await;
    assert_eq!(env.fetch("q", 1).await, behind[..1]);
    let scheduled = env.client.get("/v1/queues/q").await.expect(200).text;
    assert!(scheduled.contains("\"scheduled\":32"), "{scheduled}");
    assert_eq!(env.fetch("q", 5).await, behind[1..]);
    for _ in 0..4 {
        assert!(env.fetch("q", 5).await.is_empty());
    }
    slot(&env, &jobs[99]).await;
    env.audit().await;
}

/// It has passed staging before.
#[tokio::test]
async fn a_planned_job_is_not_staged_again() {
    let env = LimitsEnv::with(|config| config.plan = vec![Rule::new("plan", &["test.*"])]).await;
    let jobs = env.push_many(1, "q", limited(json!({"rate": {"limit": 1, "period": "PT1S"}}))).await;
    assert_eq!(env.fetch("q", 9).await, jobs, "passed through, because no job waited");
    let later = env.push("q", limited(json!({"rate": {"limit": 1, "period": "PT1S"}}))).await;
    assert!(env.fetch("q", 9).await.is_empty());
    assert_eq!(slot(&env, &later).await, 1000);
    env.push("q", json!(null)).await; // so that the queue has something to do
    env.advance(SECOND).await;
    assert_eq!(env.state(&later).await, "available");
    assert_eq!(env.event_data("job.staged").await.len(), 0);
}
