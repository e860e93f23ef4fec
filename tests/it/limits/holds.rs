//! A limit reported by another service: `rate_limit_until` in a nack holds that key and nothing else.

use super::{LimitsEnv, MINUTE, NOON, SECOND};
use crate::support::{Answer, json};
use fairgate::domain::time::rfc3339;
use std::slice::from_ref;

/// Nacks a job with a hold until `ms` after noon.
async fn nack(env: &LimitsEnv, id: &str, until: i64) -> Answer {
    let error = json!({"type": "RateLimitExceeded", "message": "429 \"slow down\"",
        "rate_limit_until": rfc3339(NOON + until)});
    env.client.post("/v1/workers/nack", json!({"job_id": id, "error": error})).await.expect(200)
}

#[tokio::test]
async fn a_hold_stops_only_its_key_until_it_ends() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(2, "q", json!({"key": "k", "concurrency": 5})).await;
    let others = env.push_many(1, "q", json!({"key": "other", "concurrency": 5})).await;
    assert_eq!(env.fetch("q", 1).await, jobs[..1]);
    nack(&env, &jobs[0], 5 * MINUTE).await;
    assert_eq!(env.fetch("q", 9).await, others);
    assert_eq!(env.limit("k").await.hold_until, Some(NOON + 5 * MINUTE));
    env.audit().await;
    let until = NOON + 5 * MINUTE;
    let reported = json!({"key": "k", "until": until, "reason": "429 \"slow down\""});
    assert_eq!(env.event_data("rate_limit.dynamic_adjusted").await, [reported]);
    env.advance(5 * MINUTE - 1).await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.advance(1).await;
    let mut next = env.fetch("q", 9).await;
    next.sort();
    assert_eq!(next.len(), 2, "the other one, and the retry");
    env.audit().await;
}

#[tokio::test]
async fn of_two_holds_the_longer_wins_past_ones_are_ignored_and_none_is_longer_than_a_day() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(5, "q", json!({"key": "k", "concurrency": 5})).await;
    assert_eq!(env.fetch("q", 5).await, jobs);
    let held = async || env.limit("k").await.hold_until.map(|at| at - NOON);
    nack(&env, &jobs[0], -1).await;
    assert_eq!(held().await, None);
    nack(&env, &jobs[1], 2 * MINUTE).await;
    nack(&env, &jobs[2], MINUTE).await;
    assert_eq!(held().await, Some(2 * MINUTE));
    nack(&env, &jobs[3], 3 * MINUTE).await;
    assert_eq!(held().await, Some(3 * MINUTE));
    nack(&env, &jobs[4], 100 * 24 * 60 * MINUTE).await;
    assert_eq!(held().await, Some(24 * 60 * MINUTE));
    let reported = env.event_data("rate_limit.dynamic_adjusted").await;
    let untils: Vec<i64> = reported.iter().map(|data| data["until"].as_i64().unwrap() - NOON).collect();
    assert_eq!(untils, [2 * MINUTE, 3 * MINUTE, 24 * 60 * MINUTE]);
    env.audit().await;
}

/// Waiting for a limit is not running time: visibility, timeout and retry delay count from the start.
#[tokio::test]
async fn time_held_is_part_of_no_other_time() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(2, "q", json!({"key": "k", "concurrency": 5})).await;
    assert_eq!(env.fetch("q", 1).await, jobs[..1]);
    let answer = nack(&env, &jobs[0], 60 * MINUTE).await;
    assert_eq!(answer.at("/retry_delay_ms"), &json!(1000), "the retry's own delay");
    assert!(env.fetch("q", 9).await.is_empty());
    env.advance(SECOND).await;
    assert_eq!(env.state(&jobs[0]).await, "available", "its delay is over; it waits for the hold");
    env.advance(60 * MINUTE - SECOND).await;
    assert_eq!(env.fetch("q", 9).await, [jobs[1].clone(), jobs[0].clone()]);
    env.advance(30 * MINUTE - 1).await;
    assert_eq!(env.state(&jobs[1]).await, "active");
    env.advance(1).await;
    assert_eq!(env.state(&jobs[1]).await, "retryable", "its timeout: half an hour from its start");
    env.audit().await;
}

/// A limit without a key is the queue's, and so is the hold.
#[tokio::test]
async fn a_hold_of_a_job_without_a_key_is_its_queues() {
    let env = LimitsEnv::open().await;
    let limited = env.push("q", json!({"max_per_second": 100})).await;
    let behind = env.push("q", json!(null)).await;
    assert_eq!(env.fetch("q", 1).await, from_ref(&limited));
    nack(&env, &limited, MINUTE).await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.advance(MINUTE).await;
    assert_eq!(env.fetch("q", 9).await, [behind, limited]);
}

/// A nack without a limit holds nothing.
#[tokio::test]
async fn a_job_without_a_limit_holds_nothing() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(2, "q", json!(null)).await;
    assert_eq!(env.fetch("q", 1).await, jobs[..1]);
    nack(&env, &jobs[0], MINUTE).await;
    assert_eq!(env.fetch("q", 9).await, jobs[1..]);
    assert!(env.event_data("rate_limit.dynamic_adjusted").await.is_empty());
}
