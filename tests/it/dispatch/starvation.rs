//! What keeps a queue from waiting for ever: rotation, a bound on turns in a row, and priorities that rise with age.

use super::{Ground, NOON, SECOND, from, job, of_pool};
use crate::support::{TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use serde_json::Value;
use std::sync::Arc;

const MINUTE: i64 = 60 * SECOND;

/// A strict pool with what keeps its queues from starving.
async fn ground(prevention: Value) -> Ground {
    let mut own = json!({"enabled": true, "min_dispatch_ratio": 0});
    prevention.as_object().unwrap().iter().for_each(|(key, value)| own[key] = value.clone());
    let pool = json!({"name": "p", "queues": ["a", "b", "c"], "strategy": "strict", "starvation_prevention": own});
    let ground = Ground::open(json!({"pool": [pool]})).await;
    for queue in ["a", "b", "c"] {
        ground.push(queue, 40).await;
    }
    ground
}

#[tokio::test]
async fn a_queue_nobody_took_from_for_too_long_is_next() {
    let ground = ground(json!({"rotation_interval": "PT30S"})).await;
    assert_eq!(ground.order(of_pool("p", "", 3)).await, "aaa");
    ground.app.clock.advance(20 * SECOND);
    assert_eq!(ground.order(of_pool("p", "", 2)).await, "aa");
    ground.app.clock.advance(10 * SECOND + 1);
    assert_eq!(ground.order(of_pool("p", "", 5)).await, "bcaaa", "once each, the longest quiet first");
    ground.app.clock.advance(15 * SECOND);
    ground.push("b", 1).await;
    assert_eq!(ground.order(from(&["b"], 1)).await, "b", "whoever takes from it");
    ground.app.clock.advance(15 * SECOND + 1);
    assert_eq!(ground.order(of_pool("p", "", 4)).await, "acaa", "the pool's order, where two were quiet as long");
}

/// A queue that was empty has not been waiting.
#[tokio::test]
async fn an_empty_queue_does_not_starve() {
    let ground = Ground::open(json!({"starvation_prevention": {"enabled": true, "min_dispatch_ratio": 0}})).await;
    ground.push("a", 9).await;
    ground.push("b", 1).await;
    assert_eq!(ground.order(from(&["b"], 2)).await, "b");
    ground.app.clock.advance(MINUTE);
    ground.order(from(&["a", "b"], 1)).await;
    ground.push("b", 1).await;
    assert_eq!(ground.order(from(&["a", "b"], 2)).await, "aa");
    ground.app.clock.advance(MINUTE);
    assert_eq!(ground.order(from(&["a", "b"], 2)).await, "ab", "without a pool too: the longest quiet first");
}

#[tokio::test]
async fn after_so_many_in_a_row_another_queue_is_served() {
    let ground = ground(json!({"max_consecutive": 3})).await;
    let mut order = ground.order(of_pool("p", "", 5)).await;
    for count in [1, 1, 1, 2] {
        order += &ground.order(of_pool("p", "w", count)).await;
    }
    assert_eq!(order, "aaabaaabaa");
    assert_eq!(ground.order(from(&["c"], 40)).await.len(), 40);
    assert_eq!(ground.order(from(&["b"], 40)).await.len(), 38);
    assert_eq!(ground.order(of_pool("p", "", 5)).await, "aaaaa", "where nobody else has anything");
}

#[tokio::test]
async fn a_pool_has_its_own_or_none() {
    let pool = |name: &str, own: Value| json!({"name": name, "queues": ["a", "b"], "strategy": "strict", "starvation_prevention": own});
    let enabled = |most: u32| json!({"enabled": true, "min_dispatch_ratio": 0, "max_consecutive": most});
    let pools = [pool("own", enabled(1)), pool("off", json!({"enabled": false})), pool("all", Value::Null)];
    let ground = Ground::open(json!({"starvation_prevention": enabled(2), "pool": pools})).await;
    for queue in ["a", "b"] {
        ground.push(queue, 40).await;
    }
    for (name, expected) in [("own", "ababab"), ("off", "aaaaaa"), ("all", "aabaab")] {
        assert_eq!(ground.order(of_pool(name, "", 6)).await, expected, "{name}");
    }
    assert_eq!(ground.order(from(&["a", "b"], 6)).await, "aabaab", "without a pool");
    ground.put_scheduling(json!({"starvation_prevention": {"enabled": false}})).await;
    for (name, expected) in [("own", "abab"), ("off", "aaaa"), ("all", "aaaa")] {
        assert_eq!(ground.order(of_pool(name, "", 4)).await, expected, "{name}");
    }
}

/// Priorities of the jobs that leave queue `q`, and how long each has waited, in order.
async fn leaving(ground: &Ground, count: usize) -> Vec<(i64, i64)> {
    let records = ground.fetch(from(&["q"], count)).await;
    let mut left = Vec::new();
    for record in records {
        let waited = (ground.app.clock.now_ms() - record.enqueued().unwrap()) / MINUTE;
        let priority = ground.app.client.job(&record.id).await["priority"].as_i64().unwrap_or(0);
        left.push((priority, waited));
    }
    left
}

#[tokio::test]
async fn priorities_rise_with_age() {
    let aging = json!({"every": "PT1M", "step": 10, "max": 25});
    let prevention =
        json!({"enabled": true, "min_dispatch_ratio": 0, "rotation_interval": "PT24H", "priority_aging": aging});
    let ground = Ground::open(json!({"starvation_prevention": prevention})).await;
    let push = async |priority: i64| drop(ground.push_all(vec![job("q", None, priority); 2]).await);
    push(0).await;
    push(-50).await;
    ground.app.clock.advance(MINUTE);
    push(10).await;
    push(11).await;
    assert_eq!(
        leaving(&ground, 4).await,
        [(11, 0), (11, 0), (0, 1), (0, 1)],
        "0 is 10 by now, and older than the other 10"
    );
    ground.app.clock.advance(9 * MINUTE);
    push(-25).await;
    push(0).await;
    // −50 has risen by 25 and is as high as the new −25, and older; 10 by 25 too.
    assert_eq!(leaving(&ground, 9).await, [(10, 9), (10, 9), (0, 0), (0, 0), (-50, 10), (-50, 10), (-25, 0), (-25, 0)]);
}

#[tokio::test]
async fn tenants_take_turns_inside_a_priority_that_rises() {
    let prevention = json!({"enabled": true, "min_dispatch_ratio": 0, "rotation_interval": "PT24H",
        "priority_aging": {"every": "PT1M", "step": 1, "max": 50}});
    let ground = Ground::open(json!({"starvation_prevention": prevention, "tenant_fairness": {"enabled": true}})).await;
    let push = async |tenant: &str, priority: i64, jobs| {
        drop(ground.push_all(vec![job("q", Some(tenant), priority); jobs]).await)
    };
    push("a", 0, 3).await;
    push("b", 0, 2).await;
    ground.app.clock.advance(6 * MINUTE);
    push("c", 5, 2).await;
    push("d", 7, 1).await;
    assert_eq!(ground.turns(9).await, ["d", "a", "b", "a", "b", "a", "c", "c"]);
}

#[tokio::test]
async fn starving_queues_are_told_of_by_the_tick() {
    let ground = ground(json!({"rotation_interval": "PT30S"})).await;
    let kind = "scheduling.queue_starved";
    ground.push("d", 3).await; // of no pool, for which nothing holds
    ground.app.clock.advance(30 * SECOND);
    ground.tick().await;
    assert_eq!(ground.events(kind).await, [] as [Value; 0]);
    ground.app.clock.advance(1500);
    for _ in 0..3 {
        ground.tick().await;
    }
    let told =
        |queue: &str, seconds: &str, jobs: u64| json!({"queue": queue, "duration": seconds, "available_count": jobs});
    let first: Vec<Value> = ["a", "b", "c"].iter().map(|queue| told(queue, "PT31.500S", 40)).collect();
    assert_eq!(ground.events(kind).await, first);
    // Served, and starved anew: another episode. The others are still in their first.
    assert_eq!(ground.order(from(&["b"], 1)).await, "b");
    ground.tick().await;
    ground.app.clock.advance(31 * SECOND);
    ground.tick().await;
    ground.tick().await;
    assert_eq!(ground.events(kind).await[3..], [told("b", "PT31.000S", 39)]);
    // Emptied and filled is not starved.
    assert_eq!(ground.order(from(&["c"], 50)).await.len(), 40);
    ground.push("c", 1).await;
    ground.tick().await;
    assert_eq!(ground.events(kind).await.len(), 4);
}

#[tokio::test]
async fn many_starving_queues_are_all_told_of() {
    let policy = json!({"starvation_prevention": {"enabled": true, "rotation_interval": "PT30S"}});
    let ground = Ground::open(policy).await;
    let names: Vec<String> = (0..150).map(|number| format!("q{number}")).collect();
    ground.push_all(names.iter().map(|name| job(name, None, 0)).collect()).await;
    ground.app.clock.advance(31 * SECOND);
    for _ in 0..4 {
        ground.tick().await;
    }
    assert_eq!(ground.events("scheduling.queue_starved").await.len(), 150);
    // The last of them are served and starve again.
    for name in &names[140..] {
        ground.fetch(from(&[name], 1)).await;
        ground.push(name, 1).await;
    }
    ground.tick().await;
    ground.app.clock.advance(31 * SECOND);
    ground.tick().await;
    assert_eq!(ground.events("scheduling.queue_starved").await.len(), 160);
}

/// What waited before starvation was looked at begins to starve when it is.
#[tokio::test]
async fn prevention_begins_when_it_is_switched_on() {
    let ground = Ground::open(json!({})).await;
    ground.push("a", 5).await;
    ground.push("b", 5).await;
    ground.app.clock.advance(MINUTE);
    ground.fetch(from(&["a"], 1)).await;
    let on = json!({"starvation_prevention": {"enabled": true, "min_dispatch_ratio": 0, "rotation_interval": "PT30S"}});
    ground.put_scheduling(on).await;
    ground.tick().await;
    assert_eq!(ground.events("scheduling.queue_starved").await, [] as [Value; 0]);
    ground.app.clock.advance(SECOND);
    assert_eq!(ground.order(from(&["a", "b"], 2)).await, "aa");
    ground.app.clock.advance(30 * SECOND);
    assert_eq!(ground.order(from(&["a", "b"], 2)).await, "ba");
}

#[tokio::test]
async fn the_server_itself_tells_although_nobody_fetches() {
    let policy = json!({"starvation_prevention": {"enabled": true, "rotation_interval": "100ms"}});
    let ground = Ground::open_on(&Arc::new(TestRedis::start()), Clock::manual(NOON), policy.clone()).await;
    ground.push("a", 1).await;
    ground.app.clock.advance(101);
    let ticking =
        crate::support::TestApp::start_on(Arc::clone(&ground.app.redis), ground.app.clock.clone(), |config| {
            config.server.roles = vec![Role::Dispatch];
            config.policy = fairgate::config::policy_from_json(policy).unwrap();
        });
    let _ticking = ticking.await;
    eventually("the queue is told of", async || ground.events("scheduling.queue_starved").await.len() == 1).await;
}
