//! Jobs that wait for a limit do not block others and return in the right order.

use super::{LimitsEnv, SECOND, concurrency, job};
use crate::support::json;
use fairgate::store::LimitLayer;
use std::slice::from_ref;

/// A slot is free although the first waiting job is in a queue without workers.
#[tokio::test]
async fn a_queue_without_workers_cannot_occupy_a_slot() {
    let env = LimitsEnv::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let holder = env.push("served", limit.clone()).await;
    let forsaken = env.push_many(3, "forsaken", limit.clone()).await;
    let served = env.push_many(3, "served", limit).await;
    assert_eq!(env.fetch_from(&["served", "forsaken"], 9).await, from_ref(&holder));
    let mut last = holder;
    for id in &served {
        env.ack(&last).await;
        assert_eq!(env.fetch("served", 9).await, from_ref(id));
        env.audit().await;
        last = id.clone();
    }
    assert!(env.fetch("forsaken", 9).await.is_empty());
    env.ack(&last).await;
    assert_eq!(env.fetch("forsaken", 9).await, forsaken[..1], "it is still there");
    env.audit().await;
}

/// Of the waiting jobs, the oldest of the highest priority goes first.
#[tokio::test]
async fn of_waiting_jobs_the_highest_priority_goes_first() {
    let env = LimitsEnv::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let holder = env.push("q", limit.clone()).await;
    assert_eq!(env.fetch("q", 1).await, from_ref(&holder));
    let mut waiting = Vec::new();
    for priority in [0, 5, -5, 5, 9, 0] {
        waiting.push((priority, env.push_at("q", priority, limit.clone()).await));
        assert!(env.fetch("q", 1).await.is_empty());
    }
    waiting.sort_by_key(|(priority, _)| -priority); // stable
    let mut last = holder;
    for (priority, id) in waiting {
        env.ack(&last).await;
        assert_eq!(env.fetch("q", 9).await, from_ref(&id), "priority {priority}");
        last = id;
    }
    env.audit().await;
}

/// A lane of lower priority that was not read yet does not delay a higher one.
#[tokio::test]
async fn an_unread_lane_does_not_go_before_a_higher_one_that_waits() {
    let env = LimitsEnv::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let holder = env.push("q", limit.clone()).await;
    assert_eq!(env.fetch("q", 1).await, from_ref(&holder));
    let high = env.push_at("q", 5, limit.clone()).await;
    let low = env.push_at("q", 0, limit).await;
    let between = env.push_many(2, "q", json!(null)).await;
    let middle = env.push_at("q", 3, json!(null)).await;
    // Finds the high lane blocked, and fills the batch before it reaches the low one.
    assert_eq!(env.fetch("q", 1).await, [middle]);
    env.ack(&holder).await;
    assert_eq!(env.fetch("q", 1).await, from_ref(&high));
    assert_eq!(env.fetch("q", 9).await, between);
    env.ack(&high).await;
    assert_eq!(env.fetch("q", 9).await, [low]);
    env.audit().await;
}

/// Specification 8.2: a limited job of high priority
#[tokio::test]
async fn while_the_high_priority_is_limited_the_low_one_runs() {
    let env = LimitsEnv::open().await;
    let high = [
        env.push_at("q", 9, json!({"key": "k", "concurrency": 1})).await,
        env.push_at("q", 9, json!({"key": "k", "concurrency": 1})).await,
    ];
    let low = env.push_many(3, "q", json!(null)).await;
    assert_eq!(env.fetch("q", 2).await, [high[0].clone(), low[0].clone()]);
    assert_eq!(env.fetch("q", 1).await, low[1..2]);
    env.ack(&high[0]).await;
    assert_eq!(env.fetch("q", 2).await, [high[1].clone(), low[2].clone()]);
    env.audit().await;
}

/// A job that arrives at a waiting lane joins it, and a job of higher priority moves the lane forward.
#[tokio::test]
async fn a_job_that_joins_a_waiting_lane_waits_with_it() {
    let env = LimitsEnv::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let first = env.push("q", limit.clone()).await;
    assert_eq!(env.fetch("q", 1).await, from_ref(&first));
    let second = env.push("q", limit.clone()).await;
    assert!(env.fetch("q", 1).await.is_empty());
    let third = env.push("q", limit.clone()).await;
    env.audit().await;
    assert_eq!(env.limit("k").await.waiting(), 2);
    // A returned job is the oldest again: at the head of its waiting lane.
    let body = json!({"job_id": first, "requeue": true, "error": {"message": "bye"}});
    env.client.post("/v1/workers/nack", body).await.expect(200);
    env.audit().await;
    assert_eq!(env.fetch("q", 9).await, from_ref(&first));
    env.ack(&first).await;
    env.store().cancel(&second).await.unwrap();
    assert_eq!(env.fetch("q", 9).await, [third]);
    env.audit().await;
}

/// Many keys, each with one slot and several jobs: always one of each, the oldest.
#[tokio::test]
async fn many_keys_take_turns_in_the_order_of_arrival() {
    let env = LimitsEnv::open().await;
    const KEYS: usize = 200;
    let jobs = (0..3 * KEYS).map(|n| job("q", 0, json!({"key": format!("k{}", n % KEYS), "concurrency": 1})));
    let jobs = env.enqueue_all(jobs.collect()).await;
    let mut open = Vec::new();
    for round in 0..3 {
        let got = env.fetch("q", 1000).await;
        assert_eq!(got, jobs[round * KEYS..(round + 1) * KEYS], "round {round}");
        assert!(env.fetch("q", 1000).await.is_empty());
        env.audit().await;
        open = got;
        if round < 2 {
            env.ack_all(&open).await;
        }
    }
    env.ack_all(&open).await;
    assert!(env.fetch("q", 1000).await.is_empty());
    env.audit().await;
}

/// A limit that is reached repeatedly lets exactly as many jobs start as it has slots.
#[tokio::test]
async fn several_slots_free_at_once_wake_several() {
    let env = LimitsEnv::open().await;
    env.set("k", LimitLayer::Override, concurrency(3), None).await;
    let mut jobs = Vec::new();
    for priority in 0..9 {
        jobs.push(env.push_at("q", -priority, json!({"key": "k"})).await);
    }
    for portion in jobs.chunks(3) {
        let got = env.fetch("q", 9).await;
        assert_eq!(got, portion);
        assert!(env.fetch("q", 9).await.is_empty());
        env.audit().await;
        env.ack_all(&got).await;
    }
}

/// A job that is cancelled while it waits for a limit leaves nothing behind.
#[tokio::test]
async fn a_job_that_expires_while_it_waits_is_removed() {
    let env = LimitsEnv::open().await;
    let holder = env.push("q", json!({"key": "k", "concurrency": 1})).await;
    let mut expiring = job("q", 0, json!({"key": "k", "concurrency": 1}));
    expiring["expires_at"] = json!("2027-01-15T08:00:05Z");
    let expiring = env.client.enqueue(expiring).await;
    assert_eq!(env.fetch("q", 9).await, from_ref(&holder));
    env.advance(5 * SECOND).await;
    assert_eq!(env.state(&expiring).await, "discarded");
    env.audit().await;
    env.ack(&holder).await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.audit().await;
}
