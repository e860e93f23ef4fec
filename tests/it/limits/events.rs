//! RL-006: events about limits, one per lane and change.

use super::{LimitsEnv, NOON, SECOND, concurrency};
use crate::support::json;
use fairgate::domain::limit::LimitKey;
use fairgate::store::LimitLayer;
use std::slice::from_ref;

#[tokio::test]
async fn blocking_and_releasing_a_lane_are_reported_once_each() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(4, "q", json!({"key": "k", "concurrency": 1})).await;
    assert_eq!(env.fetch("q", 2).await, jobs[..1]);
    for _ in 0..5 {
        assert!(env.fetch("q", 2).await.is_empty());
        env.tick().await;
    }
    let exceeded = json!({"key": "k", "strategy": "concurrency", "limit": 1, "current": 1});
    assert_eq!(env.event_data("rate_limit.exceeded").await, from_ref(&exceeded));
    assert!(env.event_data("rate_limit.released").await.is_empty());
    env.clock.advance(1500);
    env.ack(&jobs[0]).await;
    assert_eq!(env.fetch("q", 2).await, jobs[1..2]);
    let released = json!({"key": "k", "strategy": "concurrency", "job_id": jobs[1], "waited_ms": 1500});
    assert_eq!(env.event_data("rate_limit.released").await, [released]);
    assert_eq!(env.event_data("rate_limit.exceeded").await, [exceeded.clone(), exceeded], "it waits again");
    env.audit().await;
}

#[tokio::test]
async fn each_strategy_reports_its_figures() {
    let env = LimitsEnv::open().await;
    for (queue, limit) in [
        ("a", json!({"key": "a", "rate": {"limit": 2, "period": "PT1S"}})),
        ("b", json!({"key": "b", "throttle": {"limit": 10, "period": "PT1S"}})),
        ("c", json!({"key": "c", "concurrency": 0})),
        ("d", json!({"key": "d", "concurrency": 9})),
    ] {
        env.push_many(3, queue, limit).await;
    }
    env.fetch_from(&["a", "b", "c"], 9).await;
    let d = env.fetch("d", 1).await;
    let error = json!({"message": "429", "rate_limit_until": "2027-01-15T08:00:10Z"});
    env.client.post("/v1/workers/nack", json!({"job_id": d[0], "error": error})).await.expect(200);
    assert!(env.fetch("d", 1).await.is_empty());
    let reported = env.event_data("rate_limit.exceeded").await;
    let rows: Vec<_> =
        reported.iter().map(|data| [&data["key"], &data["strategy"], &data["limit"], &data["current"]]).collect();
    assert_eq!(
        json!(rows),
        json!([["a", "rate", 2, 2], ["b", "throttle", 10, 1], ["c", "concurrency", 0, 0], ["d", "hold", 0, 0]])
    );
    env.advance(10 * SECOND).await;
    assert!(env.event_data("rate_limit.released").await.is_empty(), "a job is released when it starts");
    env.fetch_from(&["a", "b", "c", "d"], 3).await;
    let reported = env.event_data("rate_limit.released").await;
    let mut rows: Vec<_> =
        reported.iter().map(|data| (data["key"].as_str().unwrap(), data["strategy"].as_str().unwrap())).collect();
    rows.sort_unstable();
    assert_eq!(rows, [("a", "rate"), ("b", "throttle"), ("d", "hold")]);
    env.audit().await;
}

/// A queue's own limit is reported for the queue, not for each of its lanes.
#[tokio::test]
async fn a_full_queue_is_reported_once() {
    let env = LimitsEnv::open().await;
    env.set("queue:q", LimitLayer::Admin, concurrency(1), None).await;
    let mut jobs = Vec::new();
    for key in ["a", "b", "c"] {
        jobs.push(env.push("q", json!({"key": key, "concurrency": 5})).await);
    }
    for _ in 0..3 {
        env.fetch("q", 5).await;
    }
    let exceeded = json!({"key": "queue:q", "strategy": "concurrency", "limit": 1, "current": 1});
    assert_eq!(env.event_data("rate_limit.exceeded").await, [exceeded]);
    env.clock.advance(700);
    env.ack(&jobs[0]).await;
    assert_eq!(env.fetch("q", 1).await, jobs[1..2]);
    let released = json!({"key": "queue:q", "strategy": "concurrency", "job_id": jobs[1], "waited_ms": 700});
    assert_eq!(env.event_data("rate_limit.released").await, [released]);
    assert!(env.fetch("q", 1).await.is_empty());
    assert_eq!(env.event_data("rate_limit.exceeded").await.len(), 2, "another change");
    env.audit().await;
}

/// If no job is left to delay, no limit was exceeded.
#[tokio::test]
async fn a_limit_that_is_used_up_by_the_last_job_is_not_exceeded() {
    let env = LimitsEnv::open().await;
    env.push_many(2, "q", json!({"key": "k", "rate": {"limit": 2, "period": "PT1S"}})).await;
    assert_eq!(env.fetch("q", 9).await.len(), 2);
    assert!(env.fetch("q", 9).await.is_empty());
    assert!(env.event_data("rate_limit.exceeded").await.is_empty());
    assert_eq!(env.limit("k").await.resets_at, Some(NOON + SECOND));
}

/// The list of limits, and each of them.
#[tokio::test]
async fn limits_are_listed_with_waiting_jobs() {
    let env = LimitsEnv::open().await;
    for key in ["a", "b", "c"] {
        env.push_many(3, "q", json!({"key": key, "concurrency": 1})).await;
        env.clock.advance(1);
    }
    env.fetch("q", 9).await;
    let (total, limits) = env.store().limits(0, 2).await.unwrap();
    let shown: Vec<_> = limits.iter().map(|limit| (limit.key.name.as_str(), limit.running, limit.waiting())).collect();
    assert_eq!((total, shown), (3, vec![("c", 1, 2), ("b", 1, 2)]));
    let (_, limits) = env.store().limits(2, 2).await.unwrap();
    assert_eq!(limits.iter().map(|limit| limit.key.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(env.store().limit(&LimitKey::key("nobody")).await.unwrap(), None);
}
