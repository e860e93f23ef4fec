//! Several limits at once: a job starts when all of them allow it.

use super::{LimitsEnv, SECOND, concurrency, job, rate};
use crate::support::json;
use fairgate::domain::limit::LimitKey;
use fairgate::domain::pool::{LimitRule, LimitTarget};
use fairgate::store::LimitLayer;
use std::slice::from_ref;

/// Example 14.5 of the specification, with small numbers.
#[tokio::test]
async fn concurrency_rate_and_throttle_of_one_key() {
    let env = LimitsEnv::open().await;
    let limit = json!({"key": "k", "concurrency": 2, "rate": {"limit": 4, "period": "PT1M"},
        "throttle": {"limit": 10, "period": "PT1S"}});
    let jobs = env.push_many(8, "q", limit).await;
    let mut got = Vec::new();
    for (wait, expected, finished) in [
        (0, 1, 0),  // the throttle lets one start,
        (99, 0, 0), // and not the next one yet
        (1, 1, 0),
        (100, 0, 1), // two are running; one finishes,
        (0, 1, 1),   // and the time for the next has come
        (100, 1, 2), // four have started
        (100, 0, 0),
        (59_599, 0, 0), // 59,999 ms after the first
        (1, 1, 1),
        (99, 0, 0),
        (1, 1, 0), // 60,100 ms after the first, 60,000 after the second
        (100, 0, 0),
    ] {
        env.advance(wait).await;
        let next = env.fetch("q", 5).await;
        assert_eq!(next, jobs[got.len()..got.len() + expected], "after {wait} ms");
        got.extend(next);
        for id in got.iter().rev().take(finished) {
            env.ack(id).await;
        }
        env.audit().await;
    }
}

fn three_limits(config: &mut fairgate::config::Config) {
    let target = LimitTarget::Type("test.*".to_owned());
    config.policy.limits = vec![LimitRule { target, quota: concurrency(2) }];
}

/// Limits of key, type and queue; each is the tightest one in turn.
#[tokio::test]
async fn a_lane_behind_three_limits() {
    let env = LimitsEnv::with(three_limits).await;
    env.set("queue:q", LimitLayer::Admin, concurrency(3), None).await;
    let jobs = env.push_many(4, "q", json!({"key": "k", "concurrency": 1})).await;
    let typed = env.push_many(3, "q", json!(null)).await;
    let mut free = job("q", 0, json!(null));
    free["type"] = json!("other.job");
    let free = env.enqueue_all(vec![free; 3]).await;
    let first = env.fetch("q", 9).await;
    assert_eq!(first, [&jobs[0], &typed[0], &free[0]].map(Clone::clone), "key, type, queue");
    assert_eq!(env.limit("type:test.*").await.running, 2);
    env.audit().await;
    // The key and the type have free slots again: the oldest job goes.
    env.ack(&jobs[0]).await;
    assert_eq!(env.fetch("q", 9).await, jobs[1..2]);
    env.ack(&typed[0]).await;
    assert_eq!(env.fetch("q", 9).await, typed[1..2], "the key is not free");
    // The type has a free slot, the key has none, and no other job has the type.
    env.ack(&typed[1]).await;
    env.store().cancel(&typed[2]).await.unwrap();
    assert_eq!(env.fetch("q", 9).await, free[1..2]);
    env.ack(&free[0]).await;
    env.ack(&jobs[1]).await;
    assert_eq!(env.fetch("q", 9).await, [&jobs[2], &free[2]].map(Clone::clone));
    env.audit().await;
}

/// A slot offered to a lane that another limit blocks goes to the next lane that can use it.
#[tokio::test]
async fn a_slot_skips_lanes_blocked_by_another_limit() {
    let env = LimitsEnv::with(three_limits).await;
    env.set("type:test.*", LimitLayer::Override, concurrency(1), None).await;
    let holder = env.push("other", json!(null)).await;
    // All wait for the type; those of a, b and c are blocked by their key as well.
    let mut stopped = Vec::new();
    for key in ["a", "b", "c"] {
        stopped.push(env.push("q", json!({"key": key})).await);
    }
    let runnable = env.push("q", json!({"key": "d"})).await;
    assert_eq!(env.fetch_from(&["other", "q"], 9).await, from_ref(&holder));
    for key in ["a", "b", "c"] {
        env.set(key, LimitLayer::Override, concurrency(0), None).await;
    }
    env.ack(&holder).await;
    assert_eq!(env.fetch("q", 9).await, from_ref(&runnable));
    env.audit().await;
    env.ack(&runnable).await;
    assert!(env.unset("b", LimitLayer::Override).await);
    assert_eq!(env.fetch("q", 9).await, stopped[1..2]);
    env.audit().await;
}

/// The queue's limit applies besides the job's; the smaller one decides.
#[tokio::test]
async fn of_queue_and_job_the_stricter_counts() {
    for (of_queue, of_job, expected) in [(1, 5, 1), (5, 1, 1), (3, 3, 3)] {
        let env = LimitsEnv::open().await;
        env.set("queue:q", LimitLayer::Admin, concurrency(of_queue), None).await;
        env.push_many(9, "q", json!({"key": "k", "concurrency": of_job})).await;
        assert_eq!(env.fetch("q", 9).await.len(), expected, "queue {of_queue}, job {of_job}");
        env.audit().await;
    }
}

/// Keys that look like those of a queue, a type or a tenant are ordinary keys: they block only the jobs that name them.
#[tokio::test]
async fn keys_of_jobs_are_never_those_of_the_server() {
    let env = LimitsEnv::with(|config| {
        let file = json!({"limit": [{"type": "test.*", "concurrency": 9}],
            "tenant_fairness": {"enabled": true, "strategy": "strict", "default_weight": 9}});
        config.policy = fairgate::config::policy_from_json(file).expect("a policy");
    })
    .await;
    env.set("queue:email", LimitLayer::Admin, concurrency(9), None).await;
    let taken = ["queue:email", "type:test.job", "type:test", "tenant:_default:queue:email", "tenant:_default"];
    for key in taken {
        env.push("email", json!({"key": key, "concurrency": 0})).await;
    }
    let rest = env.push_many(3, "email", json!(null)).await;
    assert_eq!(env.fetch("email", 20).await, rest, "only those that name a paused key wait");
    for key in ["queue:email", "type:test.*"] {
        let limit = env.limit(key).await;
        assert_eq!((limit.quota, limit.running), (concurrency(9), 3), "{key}");
    }
    for key in taken.map(LimitKey::key) {
        let limit = env.store().limit(&key).await.unwrap().unwrap_or_else(|| panic!("no limit {key}"));
        assert_eq!((limit.running, limit.waiting()), (0, 1), "{key}");
    }
    // A hold or an override of one of them affects no other job.
    env.store()
        .set_limit(&LimitKey::key("queue:email"), LimitLayer::Override, Some(&concurrency(1)), None)
        .await
        .unwrap();
    env.push_many(2, "email", json!(null)).await;
    assert_eq!(env.fetch("email", 20).await.len(), 3);
    env.audit().await;
}

/// One limit for several queues: free slots are offered to each, and only free slots are handed out.
#[tokio::test]
async fn one_key_in_several_queues() {
    let env = LimitsEnv::open().await;
    env.set("k", LimitLayer::Override, rate(2, 1000), None).await;
    let mut jobs = Vec::new();
    for queue in ["a", "b", "c"] {
        jobs.extend(env.push_many(2, queue, json!({"key": "k"})).await);
    }
    assert_eq!(env.fetch_from(&["a", "b", "c"], 9).await, jobs[..2]);
    assert!(env.fetch_from(&["c", "b"], 9).await.is_empty());
    env.advance(SECOND).await;
    assert_eq!(env.fetch("c", 9).await, jobs[4..]);
    assert!(env.fetch_from(&["a", "b"], 9).await.is_empty());
    env.advance(SECOND).await;
    assert_eq!(env.fetch_from(&["a", "b"], 9).await, jobs[2..4]);
    env.audit().await;
}
