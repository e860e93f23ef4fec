//! The choice of the next queue: strict, round-robin and least-loaded, for pools and for requests with their own
//! strategy.

use super::{DispatchEnv, as_worker, by, from, of_pool};
use crate::support::{TestApp, json};
use fairgate::domain::pool::Strategy;
use fairgate::store::Fetch;
use std::collections::HashSet;

async fn filled(strategy: &str) -> DispatchEnv {
    let pool = json!({"name": "p", "queues": ["a", "b", "c"], "strategy": strategy});
    let env = DispatchEnv::open(json!({"pool": [pool]})).await;
    for queue in ["a", "b", "c"] {
        env.push(queue, 20).await;
    }
    env
}

#[tokio::test]
async fn strict_empties_queues_in_their_order() {
    let env = filled("strict").await;
    env.push("b", 1).await;
    assert_eq!(env.order(of_pool("p", "", 25)).await, "a".repeat(20) + "bbbbb");
    env.push("a", 2).await;
    assert_eq!(env.order(of_pool("p", "", 3)).await, "aab");
}

#[tokio::test]
async fn round_robin_takes_one_from_each() {
    let env = filled("round-robin").await;
    assert_eq!(env.order(of_pool("p", "", 6)).await, "abcabc");
    // The turn is kept across workers and calls.
    let mut order = String::new();
    for (worker, count) in [("w1", 1), ("w2", 1), ("w1", 2), ("w3", 1), ("w2", 4)] {
        order += &env.order(of_pool("p", worker, count)).await;
    }
    assert_eq!(order, "abcabcabc");
}

#[tokio::test]
async fn round_robin_skips_empty_queues_and_comes_back_to_them() {
    let pool = json!({"name": "p", "queues": ["a", "b", "c", "d"]});
    let env = DispatchEnv::open(json!({"pool": [pool]})).await;
    for (queue, jobs) in [("a", 4), ("c", 2), ("d", 6)] {
        env.push(queue, jobs).await;
    }
    assert_eq!(env.order(of_pool("p", "", 5)).await, "acdac");
    env.push("b", 2).await;
    assert_eq!(env.order(of_pool("p", "", 100)).await, "dabdabddd");
    assert_eq!(env.order(of_pool("p", "", 1)).await, "");
}

#[tokio::test]
async fn workers_of_some_queues_continue_the_turn_in_the_order_of_the_pool() {
    let env = filled("round-robin").await;
    let part = |queues: &[&str], count| Fetch { pool: Some("p".to_owned()), ..from(queues, count) };
    let mut order = env.order(part(&["b"], 1)).await;
    order += &env.order(part(&["a", "c"], 1)).await;
    order += &env.order(part(&["c", "a", "b"], 2)).await;
    assert_eq!(order, "bcab", "the pool's order counts, not the request's");
    assert_eq!(env.order(part(&["z", "c"], 3)).await, "ccc", "and only the pool's queues");
    assert_eq!(env.order(part(&["z"], 3)).await, "");
}

/// Concurrent requests are sent in one script call: they share one turn, even if they differ.
#[tokio::test]
async fn requests_of_one_call_share_the_turn_of_their_pool() {
    let env = filled("round-robin").await;
    let part = |queues: &[&str]| Fetch { pool: Some("p".to_owned()), ..from(queues, 1) };
    let all = [part(&["a", "b"]), part(&["b", "a"]), part(&["a", "b", "c"]), of_pool("p", "", 1), part(&["a", "b"])];
    let answers = futures_util::future::join_all(all.map(|fetch| env.order(fetch))).await;
    assert_eq!(answers, ["a", "b", "c", "a", "b"]);
    assert_eq!(env.order(of_pool("p", "", 3)).await, "cab");
}

#[tokio::test]
async fn least_loaded_takes_from_the_deepest_queue() {
    let pool = json!({"name": "p", "queues": ["a", "b", "c"], "strategy": "least-loaded"});
    let env = DispatchEnv::open(json!({"pool": [pool]})).await;
    for (queue, jobs) in [("a", 2), ("b", 5), ("c", 3)] {
        env.push(queue, jobs).await;
    }
    assert_eq!(env.order(of_pool("p", "", 5)).await, "bbbca", "the first of equals in the pool's order");
    let answers = futures_util::future::join_all((0..4).map(|_| env.order(of_pool("p", "", 1)))).await.concat();
    assert_eq!(answers, "bcab");
    env.push("c", 3).await;
    assert_eq!(env.order(of_pool("p", "", 5)).await, "cccc");
}

#[tokio::test]
async fn a_worker_never_holds_more_than_it_declared() {
    for strategy in Strategy::NAMES {
        let env = filled(strategy).await;
        env.declare("w", 3).await;
        // Sent concurrently, so that they are one call.
        let fetches = (0..5).map(|_| env.fetch(of_pool("p", "w", 2)));
        let got = futures_util::future::join_all(fetches).await.concat();
        assert_eq!(got.len(), 3, "{strategy}");
        assert_eq!(env.order(as_worker("w", from(&["a", "b"], 5))).await, "", "{strategy}, without its pool");
        env.ack(&got[0]).await;
        env.ack(&got[1]).await;
        assert_eq!(env.order(of_pool("p", "w", 5)).await.len(), 2, "{strategy}");
        assert_eq!(env.order(of_pool("p", "other", 7)).await.len(), 7, "{strategy}: no gate without a declaration");
    }
}

#[tokio::test]
async fn a_request_with_a_strategy_keeps_its_turn() {
    let env = DispatchEnv::open(json!({})).await;
    for queue in ["a", "b", "c"] {
        env.push(queue, 30).await;
    }
    let round = |count| by(Strategy::RoundRobin, &[("a", 1.0), ("b", 1.0), ("c", 1.0)], count);
    let mut order = env.order(round(2)).await;
    order += &env.order(as_worker("w2", round(2))).await;
    // A different order of queues, weights or strategy has its own turn.
    assert_eq!(env.order(by(Strategy::RoundRobin, &[("c", 1.0), ("a", 1.0), ("b", 1.0)], 1)).await, "c");
    assert_eq!(env.order(from(&["b", "a"], 3)).await, "bbb", "strictly left to right without a strategy");
    order += &env.order(round(3)).await;
    assert_eq!(order, "abcabca");
    let keys = env.redis.keys_with("turn:").await;
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in keys {
        let left: i64 = env.redis.command(&["PTTL", &key]).await;
        assert!((590_000..=600_000).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn the_pool_decides_before_the_request_does() {
    let env = filled("strict").await;
    let own = by(Strategy::RoundRobin, &[("c", 1.0), ("b", 1.0), ("a", 1.0)], 4);
    assert_eq!(env.order(Fetch { pool: Some("p".to_owned()), ..own.clone() }).await, "aaaa");
    assert_eq!(env.order(own).await, "aaaa", "also for one without a pool: the queues are the pool's");
}

#[tokio::test]
async fn http_requests_bring_strategies_and_weights() {
    let app = TestApp::start().await;
    for queue in ["a", "b"] {
        for _ in 0..6 {
            app.client.enqueue_into(queue).await;
        }
    }
    let queues = |answer: &serde_json::Value| {
        let jobs = answer["jobs"].as_array().unwrap().clone();
        jobs.iter().map(|job| job["queue"].as_str().unwrap().to_owned()).collect::<String>()
    };
    for (more, expected) in [
        (json!({"strategy": "round_robin", "count": 3}), "aba"),
        (json!({"strategy": "weighted", "weights": {"a": 2, "b": 1}, "count": 3}), "aba"),
        (json!({"strategy": "least-loaded", "count": 2}), "bb"),
        (json!({"count": 3}), "aab"),
    ] {
        let mut body = json!({"queues": ["a", "b"]});
        more.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        let answer = app.client.post("/v1/workers/fetch", body).await.expect(200);
        assert_eq!(queues(&answer.body), expected, "{more}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_callers_get_every_job_once_with_every_strategy() {
    let pool = |strategy: &&str| json!({"name": strategy, "queues": ["a", "b", "c"], "strategy": strategy});
    let pools: Vec<_> = Strategy::NAMES.iter().map(pool).collect();
    let env = DispatchEnv::open(json!({"pool": pools})).await;
    for strategy in Strategy::NAMES {
        let mut pushed = HashSet::new();
        for (queue, jobs) in [("a", 1000), ("b", 500), ("c", 100)] {
            pushed.extend(env.push(queue, jobs).await);
        }
        let callers = (0..32).map(|caller| {
            let store = env.store().clone();
            tokio::spawn(async move {
                let mut got = Vec::new();
                loop {
                    let fetch = of_pool(strategy, &format!("{strategy}{caller}"), 1 + (got.len() + caller) % 50);
                    let records = store.fetch(fetch).await.unwrap().deliver();
                    if records.is_empty() {
                        return got;
                    }
                    got.extend(records.into_iter().map(|record| record.id));
                }
            })
        });
        let mut seen = HashSet::new();
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap().into_iter().for_each(|id| assert!(seen.insert(id), "{strategy}: twice"));
        }
        assert_eq!(seen, pushed, "{strategy}");
        assert_eq!(env.pool(strategy).await, (32, 1600));
    }
}
