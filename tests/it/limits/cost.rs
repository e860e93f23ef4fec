//! Skipping is free: the Redis commands of a FETCH do not depend on the number of jobs that wait for a limit.

use super::{LimitsEnv, concurrency, job};
use crate::support::json;
use fairgate::store::LimitLayer;
use serde_json::Value;

/// The Redis commands, by name, of a FETCH of one job; asserts that the job exists, or does not.
async fn fetch_costs(env: &LimitsEnv, queue: &str, expected: usize) -> Vec<(String, u64)> {
    let mut connection = env.redis.connection().await;
    let _: () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut connection).await.unwrap();
    assert_eq!(env.fetch(queue, 1).await.len(), expected);
    let text: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let is_ours = !["info", "config|resetstat", "ping", "client|setinfo", "publish"].contains(&name);
        is_ours.then(|| Some((name.to_owned(), rest.split(',').next()?.parse().ok()?)))?
    };
    let mut costs: Vec<_> = text.lines().filter_map(line).collect();
    costs.sort();
    costs
}

/// Fetches without result until no lane moves any more.
async fn settle(env: &LimitsEnv, queue: &str) {
    let parked = async || {
        let number: Option<u64> = env.redis.command(&["HGET", "fg:{default}:state", "parked"]).await;
        number.unwrap_or(0)
    };
    loop {
        let before = parked().await;
        assert!(env.fetch(queue, 1).await.is_empty());
        if parked().await == before {
            return;
        }
    }
}

/// Starts an environment in which a number of blocked jobs, spread over keys, lie before one that can run.
async fn blocked(jobs: usize, keys: usize) -> Vec<(String, u64)> {
    let env = LimitsEnv::open().await;
    env.push("elsewhere", json!({"key": "warm", "concurrency": 1})).await;
    env.fetch("elsewhere", 1).await;
    let blocked = |n: usize| job("q", 0, json!({"key": format!("k{}", n % keys), "concurrency": 0}));
    env.enqueue_all((0..jobs).map(blocked).collect::<Vec<Value>>()).await;
    settle(&env, "q").await;
    env.push_many(3, "q", json!(null)).await;
    env.fetch("q", 1).await; // whatever is done once is done now
    let costs = fetch_costs(&env, "q", 1).await;
    env.audit().await;
    costs
}

#[tokio::test]
async fn blocked_jobs_ahead_of_one_that_can_run_cost_its_fetch_nothing() {
    let none = blocked(0, 1).await;
    assert!(none.iter().map(|(_, calls)| calls).sum::<u64>() < 30, "{none:?}");
    assert_eq!(blocked(2000, 1).await, none, "2,000 on one key");
    assert_eq!(blocked(2000, 500).await, none, "2,000 on 500 keys");
}

/// A queue at its limit is skipped as a whole:
#[tokio::test]
async fn a_full_queue_is_skipped_as_a_whole_with_any_number_of_lanes() {
    let mut costs = Vec::new();
    for lanes in [10, 20_000] {
        let env = LimitsEnv::open().await;
        env.set("queue:q", LimitLayer::Admin, concurrency(1), None).await;
        let jobs = (0..lanes).map(|n| job("q", 0, json!({"key": format!("k{n}"), "concurrency": 1})));
        let jobs = env.enqueue_all(jobs.collect()).await;
        assert_eq!(env.fetch("q", 5).await, jobs[..1]);
        assert!(env.fetch("q", 5).await.is_empty());
        costs.push(fetch_costs(&env, "q", 0).await);
        let parked: Option<u64> = env.redis.command(&["HGET", "fg:{default}:state", "parked"]).await;
        assert_eq!(parked.unwrap_or(0), 0, "no lane has moved");
        env.ack(&jobs[0]).await;
        costs.push(fetch_costs(&env, "q", 1).await);
    }
    assert_eq!((&costs[0], &costs[1]), (&costs[2], &costs[3]));
    assert!(costs[0].iter().map(|(_, calls)| calls).sum::<u64>() < 20, "{:?}", costs[0]);
}

/// One free slot wakes one lane, not all that wait for it.
#[tokio::test]
async fn a_free_slot_wakes_one_of_many() {
    let mut costs = Vec::new();
    for lanes in [3, 1000] {
        let env = LimitsEnv::open().await;
        env.set("k", LimitLayer::Override, concurrency(1), None).await;
        // A lane for each of many priorities, and the rest in those.
        let jobs = (0..lanes).map(|n: i32| job("q", -(n % 100), json!({"key": "k"})));
        env.enqueue_all(jobs.collect()).await;
        let held = env.fetch("q", 1).await;
        settle(&env, "q").await;
        env.ack_all(&held).await;
        costs.push(fetch_costs(&env, "q", 1).await);
        env.audit().await;
    }
    let total = |costs: &[(String, u64)]| costs.iter().map(|(_, calls)| calls).sum::<u64>();
    assert!(total(&costs[1]) <= total(&costs[0]) + 2, "{costs:?}");
}

/// An empty fetch writes nothing, even if jobs wait for limits.
#[tokio::test]
async fn an_empty_fetch_writes_nothing() {
    let env = LimitsEnv::open().await;
    env.push_many(5, "q", json!({"key": "k", "concurrency": 0})).await;
    settle(&env, "q").await;
    for (command, calls) in fetch_costs(&env, "q", 0).await {
        let writes = ["set", "hset", "zadd", "xadd", "hincrby", "zrem", "sadd", "srem", "del", "unlink", "hdel"];
        assert!(!writes.contains(&command.as_str()), "{command} {calls}");
    }
}
