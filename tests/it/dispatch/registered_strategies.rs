//! Strategies that workers register, and workers without a pool that name queues of pools.

use super::{DispatchEnv, as_worker, by, from, of_pool};
use crate::support::json;
use fairgate::domain::pool::Strategy;
use serde_json::Value;

async fn filled(policy: Value) -> DispatchEnv {
    let env = DispatchEnv::open(policy).await;
    for queue in ["a", "b", "c", "x"] {
        env.push(queue, 60).await;
    }
    env
}

async fn register(env: &DispatchEnv, worker: Value) {
    env.client.post("/v1/workers/register", json!({"worker": worker})).await.expect(200);
}

/// Fetches jobs one by one over HTTP with further members in the request; returns their queues.
async fn taken(env: &DispatchEnv, request: Value, times: usize) -> String {
    let mut order = String::new();
    for _ in 0..times {
        let answer = env.client.post("/v1/workers/fetch", request.clone()).await.expect(200);
        order += answer.at("/jobs/0/queue").as_str().expect("a job");
    }
    order
}

/// The example of the specification:
#[tokio::test]
async fn a_worker_s_registered_strategy_and_weights_are_used() {
    let env = filled(json!({})).await;
    let worker = json!({"id": "w", "queues": ["a", "b", "c"], "strategy": "weighted", "weights": {"a": 5, "b": 3, "c": 1},
        "concurrency": 100});
    register(&env, worker).await;
    let asked = json!({"worker_id": "w", "queues": ["a", "b", "c"]});
    assert_eq!(taken(&env, asked.clone(), 9).await, "abacababa", "one by one");
    let order = env.order(as_worker("w", from(&["a", "b", "c"], 18))).await;
    assert_eq!(order, "abacababa".repeat(2), "many at once");
    // A strategy in the request takes precedence, for that request only.
    let strict = json!({"worker_id": "w", "queues": ["c", "a"], "strategy": "strict"});
    assert_eq!(taken(&env, strict, 4).await, "cccc");
    assert_eq!(taken(&env, json!({"worker_id": "v", "queues": ["c", "a"]}), 3).await, "ccc");
    // A queue without a weight has weight 1.
    assert_eq!(taken(&env, json!({"worker_id": "w", "queues": ["x", "c"]}), 4).await, "xcxc");
    // A heartbeat leaves the strategy unchanged, another registration replaces it.
    env.client.post("/v1/workers/heartbeat", json!({"worker_id": "w"})).await.expect(200);
    assert_eq!(taken(&env, asked.clone(), 9).await, "abacababa");
    register(&env, json!({"id": "w", "strategy": "round_robin"})).await;
    assert_eq!(taken(&env, asked.clone(), 6).await, "abcabc");
    register(&env, json!({"id": "w"})).await;
    assert_eq!(taken(&env, asked, 3).await, "aaa");
}

#[tokio::test]
async fn a_registered_strategy_is_checked_and_shown() {
    let env = DispatchEnv::open(json!({})).await;
    let client = &env.client;
    for (wrong, field) in [
        (json!({"id": "w", "strategy": "random"}), "worker.strategy"),
        (json!({"id": "w", "weights": {"a": 0}}), "worker.weights.a"),
        (json!({"id": "w", "weights": [1]}), "worker.weights"),
        (json!({"id": "w", "queues": ["a"], "weights": {"b": 1}}), "worker.weights.b"),
        (json!({"id": "w", "weights": {"no queue": 1}}), "worker.weights.no queue"),
    ] {
        let answer = client.post("/v1/workers/register", json!({"worker": wrong})).await;
        assert!(matches!(answer.status, 400 | 422), "{field}: {} {}", answer.status, answer.text);
        assert!(answer.text.contains(field), "{field}: {}", answer.text);
    }
    register(&env, json!({"id": "w", "strategy": "weighted", "weights": {"a": 2.5}})).await;
    let shown = client.get("/v1/admin/workers/w").await.expect(200);
    assert_eq!(
        (shown.at("/strategy"), shown.at("/weights")),
        (&json!("weighted"), &json!({"a": 2.5})),
        "{}",
        shown.text
    );
    assert!(!shown.text.contains("2500"), "{}", shown.text);
}

fn general(strategy: &str) -> Value {
    json!({"pool": [{"name": "general", "queues": ["a", "b", "c"], "strategy": strategy, "weights": {"a": 2, "b": 1, "c": 1}}]})
}

/// The server's configuration of queues takes precedence over the worker's, for members of a pool and others.
#[tokio::test]
async fn a_worker_without_a_pool_does_not_override_the_strategy_of_a_pool() {
    let env = filled(general("round-robin")).await;
    let mine = by(Strategy::Strict, &[("c", 1.0), ("b", 1.0), ("a", 1.0)], 6);
    assert_eq!(env.order(mine).await, "abcabc");
    assert_eq!(env.order(from(&["c", "b", "a"], 6)).await, "abcabc", "without a strategy as well");
    assert_eq!(env.order(from(&["c", "a"], 4)).await, "acac", "some of its queues");
    register(&env, json!({"id": "w", "strategy": "strict"})).await;
    assert_eq!(env.order(as_worker("w", from(&["c", "b", "a"], 6))).await, "abcabc");
    let weighted = filled(general("weighted")).await;
    let mine = by(Strategy::Weighted, &[("c", 9.0), ("b", 1.0), ("a", 1.0)], 8);
    assert_eq!(weighted.order(mine).await, "abcaabca");
    let strict = filled(general("strict")).await;
    assert_eq!(strict.order(by(Strategy::RoundRobin, &[("c", 1.0), ("b", 1.0)], 3)).await, "bbb");
}

/// With a further queue in the request, the request's strategy decides between the pool and that queue, and the pool's
/// decides among its own queues.
#[tokio::test]
async fn queues_beside_those_of_a_pool_do_not_change_their_order() {
    let env = filled(general("round-robin")).await;
    let mine = by(Strategy::Strict, &[("c", 1.0), ("b", 1.0), ("x", 1.0), ("a", 1.0)], 6);
    assert_eq!(env.order(mine).await, "abcabc");
    let mine = by(Strategy::Weighted, &[("c", 1.0), ("b", 1.0), ("x", 2.0)], 8);
    let order = env.order(mine).await;
    let count = |queue: char| order.matches(queue).count();
    assert_eq!((count('b'), count('c'), count('x')), (2, 2, 4), "{order}");
    // If one queue is short of jobs, the others fill the batch.
    let rest = env.order(from(&["c", "a", "nothing"], 200)).await;
    assert_eq!(rest.len(), 120 - 2 - 2 - 2, "{rest}");
    assert_eq!(env.order(from(&["c", "b", "x"], 200)).await.len(), 60 - 4 + 60 - 4);
}

/// Such a worker neither counts against the pool's capacity nor takes its turns.
#[tokio::test]
async fn a_worker_without_a_pool_is_not_bound_by_its_capacity() {
    let mut policy = general("round-robin");
    policy["pool"][0]["concurrency"] = json!(2);
    let env = filled(policy).await;
    assert_eq!(env.order(of_pool("general", "m", 5)).await, "ab");
    assert_eq!(env.order(from(&["a", "b", "c"], 3)).await, "abc");
    assert_eq!(env.pool("general").await.1, 2);
}
