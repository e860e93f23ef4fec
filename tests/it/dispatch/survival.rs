//! Settings that are restored after Redis or a process has lost its state.

use super::{DispatchEnv, NOON, as_worker, from, job, of_pool};
use crate::support::{TestRedis, json};
use fairgate::clock::Clock;
use serde_json::Value;
use std::sync::Arc;

fn policy() -> Value {
    json!({
        "pool": [{"name": "p", "queues": ["a", "b"], "strategy": "round-robin", "concurrency": 4, "isolated": true}],
        "tenant_fairness": {"enabled": true},
    })
}

async fn check(env: &DispatchEnv) {
    for queue in ["a", "b"] {
        env.push(queue, 5).await;
    }
    assert_eq!(env.order(from(&["a", "b"], 5)).await, "");
    assert_eq!(env.order(of_pool("p", "w", 9)).await, "abab");
    env.push_for(&[("a", 3), ("b", 2)]).await;
    assert_eq!(env.turns(9).await, ["a", "b", "a", "b", "a"]);
}

#[tokio::test]
async fn a_policy_of_the_file_survives_an_emptied_redis() {
    let env = DispatchEnv::open(policy()).await;
    check(&env).await;
    for _ in 0..2 {
        let _: () = env.redis.command(&["FLUSHALL"]).await;
        check(&env).await;
    }
}

#[tokio::test]
async fn scripts_unknown_to_redis_are_loaded_again() {
    let env = DispatchEnv::open(policy()).await;
    let _: () = env.redis.command(&["FUNCTION", "FLUSH"]).await;
    check(&env).await;
    let _: () = env.redis.command(&["FUNCTION", "FLUSH"]).await;
    assert_eq!(env.pool("p").await, (1, 4));
    env.beat("w", Some("p"), true).await.unwrap();
    env.put_pool("p", json!({"queues": ["b", "a"], "concurrency": 5})).await;
    let _: () = env.redis.command(&["FUNCTION", "FLUSH"]).await;
    assert_eq!(env.order(of_pool("p", "w", 9)).await, "b");
    env.tick().await;
}

#[tokio::test]
async fn a_new_process_continues_with_turn_members_and_counts() {
    let redis = Arc::new(TestRedis::start());
    let clock = Clock::manual(NOON);
    let first = DispatchEnv::open_on(&redis, clock.clone(), policy()).await;
    for queue in ["a", "b"] {
        first.push(queue, 9).await;
    }
    first.put_pool("late", json!({"queues": ["c"], "concurrency": 1})).await;
    first.beat("w", Some("p"), true).await.unwrap();
    assert_eq!(first.order(of_pool("p", "w", 1)).await, "a");
    first.app.app.shut_down().await;

    let second = DispatchEnv::open_on(&redis, clock.clone(), policy()).await;
    assert_eq!(second.order(as_worker("w", from(&["a", "b"], 9))).await, "bab");
    assert_eq!(second.pool("p").await, (1, 4));
    second.push("c", 2).await;
    assert_eq!(second.order(of_pool("late", "x", 9)).await, "c", "set at run time");

    // The configuration file of the third process has no such pool: it is removed for all.
    let third = DispatchEnv::open_on(&redis, clock, json!({})).await;
    third.enqueue_all(vec![job("a", Some("z"), 3)]).await;
    assert_eq!(third.order(from(&["a"], 2)).await, "aa");
    assert_eq!(third.order(of_pool("late", "x", 9)).await, "", "which is full");
}
