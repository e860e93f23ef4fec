//! Membership of workers in pools, and access to a pool's queues.

use super::{DispatchEnv, as_worker, from, of_pool};
use crate::support::json;
use fairgate::store::{Error, Fetch};

const DEAD_AFTER: i64 = 30_000;

fn two_pools() -> serde_json::Value {
    json!({"pool": [
        {"name": "p", "queues": ["a", "b"], "strategy": "strict"},
        {"name": "other", "queues": ["b", "c"], "strategy": "strict"},
    ]})
}

fn is_conflict<T: std::fmt::Debug>(outcome: Result<T, Error>, pool: &str) {
    assert!(matches!(&outcome, Err(Error::OtherPool(own)) if own == pool), "{outcome:?}");
}

#[tokio::test]
async fn workers_join_by_registration_heartbeat_and_fetch() {
    let env = DispatchEnv::open(two_pools()).await;
    let client = &env.client;
    env.push("a", 9).await;
    client.post("/v1/workers/register", json!({"worker_id": "flat", "pool": "p"})).await.expect(200);
    let wrapped = json!({"worker": {"id": "wrapped", "pool": "p", "queues": ["a"], "concurrency": 2}});
    client.post("/v1/workers/register", wrapped).await.expect(200);
    client.post("/v1/workers/heartbeat", json!({"worker_id": "beats", "pool": "p"})).await.expect(200);
    client.post("/v1/workers/fetch", json!({"worker_id": "fetches", "pool": "p"})).await.expect(200);
    assert_eq!(env.pool("p").await, (4, 1));
    // From here on the workers need not name the pool; their jobs count for it.
    for worker in ["flat", "wrapped", "beats", "fetches"] {
        let jobs =
            client.post("/v1/workers/fetch", json!({"worker_id": worker, "queues": ["c", "a"]})).await.expect(200);
        assert_eq!(jobs.at("/jobs").as_array().map(Vec::len), Some(1), "{worker}");
    }
    assert_eq!(env.pool("p").await, (4, 5));
    client.post("/v1/workers/register", json!({"worker_id": "w", "pool": "nowhere"})).await.expect(404);
    client.post("/v1/workers/fetch", json!({"worker_id": "w", "pool": "nowhere"})).await.expect(404);
    assert_eq!(env.store().worker_count().await.unwrap(), 3);
}

#[tokio::test]
async fn a_worker_belongs_to_exactly_one_pool() {
    let env = DispatchEnv::open(two_pools()).await;
    env.push("a", 5).await;
    env.push("c", 5).await;
    env.beat("w", Some("p"), true).await.unwrap();
    is_conflict(env.try_fetch(of_pool("other", "w", 1)).await, "p");
    is_conflict(env.beat("w", Some("other"), false).await, "p");
    let taken = env.fetch(of_pool("p", "w", 1)).await;
    is_conflict(env.beat("w", Some("other"), true).await, "p");
    assert_eq!((env.pool("p").await, env.pool("other").await), ((1, 1), (0, 0)), "it holds a job");
    env.ack(&taken[0]).await;
    env.beat("w", Some("other"), true).await.unwrap();
    assert_eq!((env.pool("p").await, env.pool("other").await), ((0, 0), (1, 0)));
    assert_eq!(env.order(as_worker("w", from(&["a", "c"], 3))).await, "ccc");
    // The same for one that never registered.
    assert_eq!(env.order(of_pool("p", "fetches", 1)).await, "a");
    is_conflict(env.try_fetch(of_pool("other", "fetches", 1)).await, "p");
    let conflict = json!({"worker_id": "fetches", "pool": "other"});
    let answer = env.client.post("/v1/workers/fetch", conflict).await.expect(409);
    assert_eq!(answer.at("/error/details/pool"), &json!("p"), "{}", answer.text);
}

#[tokio::test]
async fn a_worker_is_active_as_long_as_it_sends_heartbeats() {
    let env = DispatchEnv::open(two_pools()).await;
    env.beat("registered", Some("p"), true).await.unwrap();
    for step in 1..=6 {
        env.clock.advance(DEAD_AFTER / 2);
        env.beat("registered", None, false).await.unwrap();
        env.fetch(of_pool("p", "fetches", 1)).await;
        env.tick().await;
        assert_eq!(env.pool("p").await.0, 2, "after {step} beats");
    }
    env.clock.advance(DEAD_AFTER + 1);
    env.tick().await;
    assert_eq!(env.pool("p").await.0, 0);
    // Names of short-lived workers do not accumulate.
    for worker in 0..50 {
        env.fetch(of_pool("p", &format!("w{worker}"), 1)).await;
        env.clock.advance(DEAD_AFTER / 3);
    }
    let kept: usize = env.redis.command(&["ZCARD", "fg:{default}:pool:p:workers"]).await;
    assert!(kept <= 5, "{kept} workers are kept");
}

#[tokio::test]
async fn isolated_queues_serve_only_their_pool() {
    let env = DispatchEnv::open(json!({"pool": [
        {"name": "pay", "queues": ["a"], "isolated": true},
        {"name": "rest", "queues": ["b", "c"]},
    ]}))
    .await;
    for queue in ["a", "b"] {
        env.push(queue, 9).await;
    }
    assert_eq!(env.order(from(&["a"], 5)).await, "", "nor to one without a pool");
    assert_eq!(env.order(from(&["a", "b"], 2)).await, "bb");
    assert_eq!(env.order(Fetch { pool: Some("rest".to_owned()), ..from(&["a", "b"], 2) }).await, "bb");
    assert_eq!(env.order(of_pool("pay", "w", 2)).await, "aa");
    assert_eq!(env.order(as_worker("w", from(&["a"], 1))).await, "a", "it is of that pool");
    assert_eq!(env.order(Fetch { pool: Some("pay".to_owned()), ..from(&["a"], 1) }).await, "a");
    // Long polls of only such a queue are not woken without need, and all are when the queue is open again.
    env.put_pool("pay", json!({"queues": ["a"], "isolated": false})).await;
    assert_eq!(env.order(from(&["a", "b"], 2)).await, "aa");
}

#[tokio::test]
async fn a_pool_knows_its_queues() {
    let env = DispatchEnv::open(two_pools()).await;
    for queue in ["a", "b", "c"] {
        env.push(queue, 2).await;
    }
    let body = json!({"pool": "p", "count": 10});
    assert_eq!(env.client.post("/v1/workers/fetch", body).await.expect(200).job_ids().len(), 4);
    let asked = Fetch { pool: Some("other".to_owned()), ..from(&["c", "a", "z"], 5) };
    assert_eq!(env.order(asked).await, "cc");
    // A worker that registered with a pool but names none of its queues gets nothing.
    env.push("a", 1).await;
    env.beat("w", Some("other"), true).await.unwrap();
    assert_eq!(env.order(as_worker("w", from(&["a"], 5))).await, "");
}
