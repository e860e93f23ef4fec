//! Starvation protection: rotation, a bound on consecutive turns, and priorities that rise with age.

use super::{DispatchEnv, NOON, SECOND, from, job, of_pool};
use crate::support::{TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use serde_json::Value;
use std::sync::Arc;

const MINUTE: i64 = 60 * SECOND;

/// Starts a strict pool with starvation protection.
async fn env(prevention: Value) -> DispatchEnv {
    let mut own = json!({"enabled": true, "min_dispatch_ratio": 0});
    prevention.as_object().unwrap().iter().for_each(|(key, value)| own[key] = value.clone());
    let pool = json!({"name": "p", "queues": ["a", "b", "c"], "strategy": "strict", "starvation_prevention": own});
    let env = DispatchEnv::open(json!({"pool": [pool]})).await;
    for queue in ["a", "b", "c"] {
        env.push(queue, 40).await;
    }
    env
}

#[tokio::test]
async fn a_queue_that_was_not_served_for_too_long_is_next() {
    let env = env(json!({"rotation_interval": "PT30S"})).await;
    assert_eq!(env.order(of_pool("p", "", 3)).await, "aaa");
    env.clock.advance(20 * SECOND);
    assert_eq!(env.order(of_pool("p", "", 2)).await, "aa");
    env.clock.advance(10 * SECOND + 1);
    assert_eq!(env.order(of_pool("p", "", 5)).await, "bcaaa", "once each, the longest quiet first");
    env.clock.advance(15 * SECOND);
    env.push("b", 1).await;
    assert_eq!(env.order(from(&["b"], 1)).await, "b", "for workers of any pool");
    env.clock.advance(15 * SECOND + 1);
    assert_eq!(env.order(of_pool("p", "", 4)).await, "acaa", "the pool's order, where two were quiet as long");
}

/// Time without jobs is not waiting time.
#[tokio::test]
async fn an_empty_queue_does_not_starve() {
    let env = DispatchEnv::open(json!({"starvation_prevention": {"enabled": true, "min_dispatch_ratio": 0}})).await;
    env.push("a", 9).await;
    env.push("b", 1).await;
    assert_eq!(env.order(from(&["b"], 2)).await, "b");
    env.clock.advance(MINUTE);
    env.order(from(&["a", "b"], 1)).await;
    env.push("b", 1).await;
    assert_eq!(env.order(from(&["a", "b"], 2)).await, "aa");
    env.clock.advance(MINUTE);
    assert_eq!(env.order(from(&["a", "b"], 2)).await, "ab", "without a pool too: the longest quiet first");
}

#[tokio::test]
async fn after_the_maximum_of_consecutive_jobs_another_queue_is_served() {
    let env = env(json!({"max_consecutive": 3})).await;
    let mut order = env.order(of_pool("p", "", 5)).await;
    for count in [1, 1, 1, 2] {
        order += &env.order(of_pool("p", "w", count)).await;
    }
    assert_eq!(order, "aaabaaabaa");
    assert_eq!(env.order(from(&["c"], 40)).await.len(), 40);
    assert_eq!(env.order(from(&["b"], 40)).await.len(), 38);
    assert_eq!(env.order(of_pool("p", "", 5)).await, "aaaaa", "if no other queue has jobs");
}

#[tokio::test]
async fn starvation_protection_of_a_pool_replaces_the_global_one() {
    let pool = |name: &str, own: Value| json!({"name": name, "queues": ["a", "b"], "strategy": "strict", "starvation_prevention": own});
    let enabled = |most: u32| json!({"enabled": true, "min_dispatch_ratio": 0, "max_consecutive": most});
    let pools = [pool("own", enabled(1)), pool("off", json!({"enabled": false})), pool("all", Value::Null)];
    let env = DispatchEnv::open(json!({"starvation_prevention": enabled(2), "pool": pools})).await;
    for queue in ["a", "b"] {
        env.push(queue, 40).await;
    }
    for (name, expected) in [("own", "ababab"), ("off", "aaaaaa"), ("all", "aabaab")] {
        assert_eq!(env.order(of_pool(name, "", 6)).await, expected, "{name}");
    }
    assert_eq!(env.order(from(&["a", "b"], 6)).await, "aabaab", "without a pool");
    env.put_scheduling(json!({"starvation_prevention": {"enabled": false}})).await;
    for (name, expected) in [("own", "abab"), ("off", "aaaa"), ("all", "aaaa")] {
        assert_eq!(env.order(of_pool(name, "", 4)).await, expected, "{name}");
    }
}

/// The priorities and the waits of the jobs fetched from queue `q`, in order.
async fn leaving(env: &DispatchEnv, count: usize) -> Vec<(i64, i64)> {
    let records = env.fetch(from(&["q"], count)).await;
    let mut left = Vec::new();
    for record in records {
        let waited = (env.clock.now_ms() - record.enqueued().unwrap()) / MINUTE;
        let priority = env.client.job(&record.id).await["priority"].as_i64().unwrap_or(0);
        left.push((priority, waited));
    }
    left
}

#[tokio::test]
async fn priorities_rise_with_age() {
    let aging = json!({"every": "PT1M", "step": 10, "max": 25});
    let prevention =
        json!({"enabled": true, "min_dispatch_ratio": 0, "rotation_interval": "PT24H", "priority_aging": aging});
    let env = DispatchEnv::open(json!({"starvation_prevention": prevention})).await;
    let push = async |priority: i64| drop(env.enqueue_all(vec![job("q", None, priority); 2]).await);
    push(0).await;
    push(-50).await;
    env.clock.advance(MINUTE);
    push(10).await;
    push(11).await;
    assert_eq!(
        leaving(&env, 4).await,
        [(11, 0), (11, 0), (0, 1), (0, 1)],
        "0 has risen to 10 and is older than the other 10"
    );
    env.clock.advance(9 * MINUTE);
    push(-25).await;
    push(0).await;
    // −50 has risen by 25 to the level of the new −25 and is older; 10 has risen by 25 as well.
    assert_eq!(leaving(&env, 9).await, [(10, 9), (10, 9), (0, 0), (0, 0), (-50, 10), (-50, 10), (-25, 0), (-25, 0)]);
}

#[tokio::test]
async fn tenants_take_turns_inside_a_priority_that_rises() {
    let prevention = json!({"enabled": true, "min_dispatch_ratio": 0, "rotation_interval": "PT24H",
        "priority_aging": {"every": "PT1M", "step": 1, "max": 50}});
    let env =
        DispatchEnv::open(json!({"starvation_prevention": prevention, "tenant_fairness": {"enabled": true}})).await;
    let push = async |tenant: &str, priority: i64, jobs| {
        drop(env.enqueue_all(vec![job("q", Some(tenant), priority); jobs]).await)
    };
    push("a", 0, 3).await;
    push("b", 0, 2).await;
    env.clock.advance(6 * MINUTE);
    push("c", 5, 2).await;
    push("d", 7, 1).await;
    assert_eq!(env.turns(9).await, ["d", "a", "b", "a", "b", "a", "c", "c"]);
}

#[tokio::test]
async fn the_tick_reports_starving_queues() {
    let env = env(json!({"rotation_interval": "PT30S"})).await;
    let kind = "scheduling.queue_starved";
    env.push("d", 3).await; // of no pool, for which nothing holds
    env.clock.advance(30 * SECOND);
    env.tick().await;
    assert_eq!(env.event_data(kind).await, [] as [Value; 0]);
    env.clock.advance(1500);
    for _ in 0..3 {
        env.tick().await;
    }
    let reported =
        |queue: &str, seconds: &str, jobs: u64| json!({"queue": queue, "duration": seconds, "available_count": jobs});
    let first: Vec<Value> = ["a", "b", "c"].iter().map(|queue| reported(queue, "PT31.500S", 40)).collect();
    assert_eq!(env.event_data(kind).await, first);
    // After being served it starves again: a new episode. The others are still in their first.
    assert_eq!(env.order(from(&["b"], 1)).await, "b");
    env.tick().await;
    env.clock.advance(31 * SECOND);
    env.tick().await;
    env.tick().await;
    assert_eq!(env.event_data(kind).await[3..], [reported("b", "PT31.000S", 39)]);
    // A queue that was emptied and filled again is not starved.
    assert_eq!(env.order(from(&["c"], 50)).await.len(), 40);
    env.push("c", 1).await;
    env.tick().await;
    assert_eq!(env.event_data(kind).await.len(), 4);
}

#[tokio::test]
async fn many_starving_queues_are_all_reported() {
    let policy = json!({"starvation_prevention": {"enabled": true, "rotation_interval": "PT30S"}});
    let env = DispatchEnv::open(policy).await;
    let names: Vec<String> = (0..150).map(|number| format!("q{number}")).collect();
    env.enqueue_all(names.iter().map(|name| job(name, None, 0)).collect()).await;
    env.clock.advance(31 * SECOND);
    for _ in 0..4 {
        env.tick().await;
    }
    assert_eq!(env.event_data("scheduling.queue_starved").await.len(), 150);
    // The last queues are served and starve again.
    for name in &names[140..] {
        env.fetch(from(&[name], 1)).await;
        env.push(name, 1).await;
    }
    env.tick().await;
    env.clock.advance(31 * SECOND);
    env.tick().await;
    assert_eq!(env.event_data("scheduling.queue_starved").await.len(), 160);
}

/// Queues that waited before starvation was tracked start to starve when tracking begins.
#[tokio::test]
async fn prevention_begins_when_it_is_switched_on() {
    let env = DispatchEnv::open(json!({})).await;
    env.push("a", 5).await;
    env.push("b", 5).await;
    env.clock.advance(MINUTE);
    env.fetch(from(&["a"], 1)).await;
    let on = json!({"starvation_prevention": {"enabled": true, "min_dispatch_ratio": 0, "rotation_interval": "PT30S"}});
    env.put_scheduling(on).await;
    env.tick().await;
    assert_eq!(env.event_data("scheduling.queue_starved").await, [] as [Value; 0]);
    env.clock.advance(SECOND);
    assert_eq!(env.order(from(&["a", "b"], 2)).await, "aa");
    env.clock.advance(30 * SECOND);
    assert_eq!(env.order(from(&["a", "b"], 2)).await, "ba");
}

#[tokio::test]
async fn starving_queues_are_reported_without_any_fetch() {
    let policy = json!({"starvation_prevention": {"enabled": true, "rotation_interval": "100ms"}});
    let env = DispatchEnv::open_on(&Arc::new(TestRedis::start()), Clock::manual(NOON), policy.clone()).await;
    env.push("a", 1).await;
    env.clock.advance(101);
    let ticking = crate::support::TestApp::start_on(Arc::clone(&env.redis), env.clock.clone(), |config| {
        config.server.roles = vec![Role::Dispatch];
        config.policy = fairgate::config::policy_from_json(policy).unwrap();
    });
    let _ticking = ticking.await;
    eventually("the starved queue is reported", async || env.event_data("scheduling.queue_starved").await.len() == 1)
        .await;
}
