//! Changes of pools while their workers are active.

use super::{DispatchEnv, as_worker, from, ids, of_pool};
use crate::support::{eventually, json};
use serde_json::Value;

const KIND: &str = "scheduling.rebalanced";

async fn env() -> DispatchEnv {
    let env = DispatchEnv::open(json!({})).await;
    for queue in ["a", "b", "c"] {
        env.push(queue, 20).await;
    }
    env.put_pool("p", json!({"queues": ["a", "b"], "strategy": "strict", "concurrency": 3})).await;
    env
}

#[tokio::test]
async fn a_change_acts_at_once() {
    let env = env().await;
    assert_eq!(env.order(of_pool("p", "w", 5)).await, "aaa");
    env.put_pool("p", json!({"queues": ["a", "b"], "strategy": "round-robin", "concurrency": 5})).await;
    assert_eq!(env.order(of_pool("p", "w", 5)).await, "ab");
    env.put_pool("p", json!({"queues": ["c", "b"], "strategy": "round-robin"})).await;
    assert_eq!(env.order(of_pool("p", "w", 3)).await, "cbc");
    env.put_pool("p", json!({"queues": ["c", "b"], "weights": {"c": 3}, "strategy": "weighted"})).await;
    assert_eq!(env.order(of_pool("p", "w", 8)).await, "ccbcccbc");
    env.put_pool("p", json!({"queues": ["c", "b"], "concurrency": 10})).await;
    assert_eq!(env.order(of_pool("p", "w", 8)).await, "", "more run than may from now on");
}

#[tokio::test]
async fn every_change_emits_an_event() {
    let env = env().await;
    let reported =
        |from: Option<&str>, to: Option<&str>| json!({"pool": "p", "previous_strategy": from, "new_strategy": to});
    let mut expected = vec![reported(None, Some("strict"))];
    assert_eq!(env.event_data(KIND).await, expected);
    let full = json!({"queues": ["a", "b"], "strategy": "strict", "concurrency": 3});
    let changed = |key: &str, value: Value| {
        let mut pool = full.clone();
        pool[key] = value;
        pool
    };
    for pool in [
        changed("queues", json!(["a", "c"])),
        full.clone(),
        changed("concurrency", json!(4)),
        full.clone(),
        changed("isolated", json!(true)),
        full.clone(),
        changed("starvation_prevention", json!({"enabled": true})),
        full.clone(),
        changed("tenant_fairness", json!({"enabled": true})),
        full.clone(),
        changed("weights", json!({"a": 5})),
        full.clone(),
    ] {
        env.put_pool("p", pool.clone()).await;
        expected.push(reported(Some("strict"), Some("strict")));
        assert_eq!(env.event_data(KIND).await, expected, "{pool}");
        env.put_pool("p", pool).await;
        assert_eq!(env.event_data(KIND).await.len(), expected.len(), "setting the same value again is not a change");
    }
    env.put_pool("p", changed("strategy", json!("weighted"))).await;
    env.rules.remove_pool("p").await.unwrap();
    expected.extend([reported(Some("strict"), Some("weighted")), reported(Some("weighted"), None)]);
    assert_eq!(env.event_data(KIND).await, expected);
}

#[tokio::test]
async fn changes_of_the_file_emit_no_event() {
    let env = DispatchEnv::open(json!({"pool": [{"name": "p", "queues": ["a"]}]})).await;
    assert_eq!(env.event_data(KIND).await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_pool_is_removed_while_its_jobs_run() {
    let env = env().await;
    env.beat("w", Some("p"), true).await.unwrap();
    let taken = env.fetch(of_pool("p", "w", 3)).await;
    env.fetch(of_pool("p", "fetches", 1)).await;
    env.rules.remove_pool("p").await.unwrap();
    // Its workers now have no pool, and may join another one although they have active jobs.
    assert_eq!(env.order(as_worker("w", from(&["c", "a"], 2))).await, "cc");
    env.put_pool("other", json!({"queues": ["b"]})).await;
    assert_eq!(env.order(of_pool("other", "fetches", 1)).await, "b");
    env.beat("w", Some("other"), true).await.unwrap();
    assert_eq!(env.order(of_pool("other", "w", 1)).await, "b");
    for record in &taken {
        env.ack(record).await;
    }
    let left = env.redis.keys_with(":pool:p").await;
    assert_eq!(left, [] as [String; 0]);
    env.put_pool("p", json!({"queues": ["a"], "concurrency": 2})).await;
    assert_eq!(env.order(of_pool("p", "w3", 5)).await, "aa");
}

#[tokio::test]
async fn jobs_of_a_restored_pool_count_again() {
    let env = env().await;
    let taken = env.fetch(of_pool("p", "w", 2)).await;
    env.rules.remove_pool("p").await.unwrap();
    env.put_pool("p", json!({"queues": ["a"], "concurrency": 3})).await;
    assert_eq!(env.pool("p").await.1, 2);
    assert_eq!(env.order(of_pool("p", "w", 5)).await, "a");
    env.ack(&taken[0]).await;
    assert_eq!(env.order(of_pool("p", "w", 5)).await, "a");
}

#[tokio::test]
async fn a_long_poll_is_woken_by_free_capacity_and_by_changes() {
    let env = env().await;
    let taken = env.fetch(of_pool("p", "", 3)).await;
    let wait = |body: Value| {
        let client = env.client.clone();
        tokio::spawn(async move { client.post("/v1/workers/fetch", body).await.expect(200).job_ids() })
    };
    let known = async || {
        let body = json!({"pool": "p", "queues": ["a"]});
        env.client.post("/v1/workers/fetch", body).await.status == 200
    };
    eventually("the process knows the pool", known).await;
    let waiting = wait(json!({"pool": "p", "queues": ["a"], "wait_ms": 20_000}));
    eventually("it waits", async || env.app.app.metrics.http.long_polls().count() == 1).await;
    env.ack(&taken[0]).await;
    assert_eq!(waiting.await.unwrap().len(), 1, "room");
    let waiting = wait(json!({"pool": "p", "queues": ["a"], "wait_ms": 20_000}));
    eventually("it waits", async || env.app.app.metrics.http.long_polls().count() == 1).await;
    env.put_pool("p", json!({"queues": ["a", "b"], "strategy": "strict", "concurrency": 4})).await;
    assert_eq!(waiting.await.unwrap().len(), 1, "a larger pool");
    assert_eq!(ids(&taken).len(), 3);
}
