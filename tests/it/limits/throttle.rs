//! Throttles: starts are evenly spaced, including fractions of a millisecond.

use super::{LimitsEnv, NOON, SECOND};
use crate::support::json;

/// The start of each job, in ms since the first, with several fetches in every millisecond.
async fn starts(limit: u32, period: &str, jobs: usize, ms: i64) -> Vec<i64> {
    let env = LimitsEnv::open().await;
    env.push_many(jobs, "q", json!({"key": "k", "throttle": {"limit": limit, "period": period}})).await;
    let mut starts = Vec::new();
    for now in 0..ms {
        let got = env.fetch("q", 10).await;
        starts.extend(got.iter().map(|_| now));
        if starts.len() == jobs {
            break;
        }
        env.clock.advance(1);
    }
    env.audit().await;
    starts
}

#[tokio::test]
async fn ten_a_second_start_100_ms_apart() {
    assert_eq!(starts(10, "PT1S", 5, 1000).await, [0, 100, 200, 300, 400]);
}

#[tokio::test]
async fn fractions_of_a_millisecond_are_not_lost() {
    assert_eq!(starts(3, "PT0.1S", 10, 1000).await, [0, 33, 66, 100, 133, 166, 200, 233, 266, 300]);
    assert_eq!(starts(7, "PT0.01S", 15, 1000).await, [0, 1, 2, 4, 5, 7, 8, 10, 11, 12, 14, 15, 17, 18, 20]);
}

#[tokio::test]
async fn more_than_a_thousand_a_second_start_several_in_a_millisecond() {
    assert_eq!(starts(2500, "PT1S", 11, 100).await, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4]);
}

/// Thirds of a second stay exact in the long run.
#[tokio::test]
async fn spacing_does_not_drift() {
    let env = LimitsEnv::open().await;
    env.push_many(301, "q", json!({"key": "k", "throttle": {"limit": 3, "period": "PT1S"}})).await;
    for start in 0..301 {
        let due = NOON + start * 1000 / 3;
        let now = env.clock.now_ms();
        if due > now {
            env.clock.advance(due - now - 1);
            assert!(env.fetch("q", 5).await.is_empty(), "start {start} not before its time");
            env.clock.advance(1);
        }
        assert_eq!(env.fetch("q", 5).await.len(), 1, "start {start}");
    }
    env.audit().await;
}

/// Idle time does not accumulate starts.
#[tokio::test]
async fn idle_time_is_not_caught_up() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(4, "q", json!({"key": "k", "throttle": {"limit": 2, "period": "PT1S"}})).await;
    assert_eq!(env.fetch("q", 4).await, jobs[..1]);
    env.advance(10 * SECOND).await;
    assert_eq!(env.fetch("q", 4).await, jobs[1..2]);
    assert_eq!(env.limit("k").await.next_start, NOON + 10_500);
    env.advance(499).await;
    assert!(env.fetch("q", 4).await.is_empty());
    env.advance(1).await;
    assert_eq!(env.fetch("q", 4).await, jobs[2..3]);
    env.audit().await;
}

/// The tick alone wakes waiting lanes, so that a long poll returns.
#[tokio::test]
async fn waiting_jobs_are_released_in_time() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(2, "q", json!({"key": "k", "throttle": {"limit": 1, "period": "PT1S"}})).await;
    assert_eq!(env.fetch("q", 1).await, jobs[..1]);
    assert!(env.fetch("q", 1).await.is_empty());
    let queues = ["q".to_owned()];
    assert!(!env.store().have_runnable(&queues).await.unwrap());
    env.advance(999).await;
    assert!(!env.store().have_runnable(&queues).await.unwrap());
    env.advance(1).await;
    assert!(env.store().have_runnable(&queues).await.unwrap());
    assert_eq!(env.fetch("q", 1).await, jobs[1..]);
}
