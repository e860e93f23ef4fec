//! Tenants of one queue take turns.

use super::{DispatchEnv, SECOND, from, ids, invariant, job, tenant_of};
use crate::support::json;
use fairgate::domain::job::State;
use serde_json::Value;
use std::collections::BTreeSet;

fn fairness(more: Value) -> Value {
    let mut fairness = json!({"enabled": true});
    more.as_object().unwrap().iter().for_each(|(key, value)| fairness[key] = value.clone());
    json!({"tenant_fairness": fairness})
}

fn count(turns: &[String], tenant: &str) -> usize {
    turns.iter().filter(|turn| *turn == tenant).count()
}

#[tokio::test]
async fn ten_thousand_jobs_do_not_block_ten() {
    let env = DispatchEnv::open(fairness(json!({}))).await;
    env.push_for(&[("a", 10_000)]).await;
    env.push_for(&[("b", 10)]).await;
    assert_eq!(env.turns(20).await, ["a", "b"].repeat(10));
    let mut left = 0;
    while left < 9990 {
        let turns = env.turns(1000).await;
        assert_eq!(count(&turns, "a"), turns.len());
        assert!(!turns.is_empty());
        left += turns.len();
    }
    invariant::check(&env).await;
}

#[tokio::test]
async fn shares_follow_weights() {
    let weights = json!({"tenant:big": 5, "small": 0.5, "tenant:tenant:odd": 3});
    let env = DispatchEnv::open(fairness(json!({"weights": weights, "default_weight": 2}))).await;
    env.push_for(&[("big", 300), ("small", 300), ("tenant:odd", 300), ("other", 300)]).await;
    let mut turns = Vec::new();
    for size in [1, 2, 7, 50, 45] {
        turns.extend(env.turns(size).await);
    }
    for (tenant, expected) in [("big", 50), ("small", 5), ("tenant:odd", 30), ("other", 20)] {
        assert!(count(&turns, tenant).abs_diff(expected) <= 1, "{tenant}: {}", count(&turns, tenant));
    }
}

#[tokio::test]
async fn round_robin_is_equal_whatever_tenants_weigh() {
    for name in ["round_robin", "round-robin"] {
        let env = DispatchEnv::open(fairness(json!({"strategy": name, "weights": {"a": 50}}))).await;
        env.push_for(&[("a", 5), ("b", 3), ("c", 4)]).await;
        assert_eq!(env.turns(20).await, ["a", "b", "c", "a", "b", "c", "a", "b", "c", "a", "c", "a"]);
    }
}

#[tokio::test]
async fn priorities_come_before_turns_and_turns_before_arrival() {
    let env = DispatchEnv::open(fairness(json!({}))).await;
    let mut jobs = Vec::new();
    for (tenant, priority) in
        [("a", 0), ("a", 0), ("a", 5), ("a", 5), ("b", 0), ("b", 0), ("c", 5), ("a", -1), ("b", 9)]
    {
        jobs.push(job("q", Some(tenant), priority));
    }
    let pushed = env.enqueue_all(jobs).await;
    let expected: Vec<&String> = [8, 2, 6, 3, 0, 4, 1, 5, 7].iter().map(|place| &pushed[*place]).collect();
    let got = ids(&env.fetch(from(&["q"], 20)).await);
    assert_eq!(got.iter().collect::<Vec<_>>(), expected, "and FIFO inside a tenant");
    assert!(env.redis.keys_with("level:").await.is_empty());
    invariant::check(&env).await;
}

#[tokio::test]
async fn jobs_without_a_tenant_are_one_tenant() {
    let env = DispatchEnv::open(fairness(json!({"weights": {"_default": 2}}))).await;
    env.push("q", 6).await;
    env.push_for(&[("a", 3)]).await;
    let turns = env.turns(6).await;
    assert_eq!((count(&turns, "_default"), count(&turns, "a")), (4, 2), "{turns:?}");
}

#[tokio::test]
async fn the_most_specific_setting_applies() {
    let on = json!({"enabled": true});
    let env = DispatchEnv::open(json!({
        "tenant_fairness": on,
        "queues": {"r": {"tenant_fairness": {"enabled": false}}},
        "pool": [{"name": "p", "queues": ["s"], "tenant_fairness": {"enabled": true, "weights": {"a": 3}}}],
    }))
    .await;
    for (queue, expected) in [("q", "ababaa"), ("r", "aaaabb"), ("s", "abaaab")] {
        let jobs = ["a", "a", "a", "a", "b", "b"].map(|tenant| job(queue, Some(tenant), 0));
        env.enqueue_all(jobs.to_vec()).await;
        let turns: String = env.fetch(from(&[queue], 9)).await.iter().map(tenant_of).collect();
        assert_eq!(turns, expected, "{queue}");
    }
}

#[tokio::test]
async fn returning_tenants_have_no_advantage() {
    let env = DispatchEnv::open(fairness(json!({}))).await;
    env.push_for(&[("a", 200), ("b", 1)]).await;
    env.turns(60).await;
    env.push_for(&[("b", 60)]).await;
    assert_eq!(count(&env.turns(20).await, "b"), 10);
}

#[tokio::test]
async fn switching_on_and_off_loses_nothing() {
    let env = DispatchEnv::open(json!({"tenant_fairness": {"enabled": false}})).await;
    let mut pushed = env.push_for(&[("a", 3), ("b", 2)]).await;
    env.put_scheduling(fairness(json!({}))).await;
    pushed.extend(env.push_for(&[("a", 3), ("b", 2)]).await);
    pushed.extend(env.enqueue_all(vec![job("q", Some("c"), 1)]).await);
    invariant::check(&env).await;
    assert_eq!(env.turns(7).await[0], "c");
    env.put_scheduling(json!({"tenant_fairness": {"enabled": false}})).await;
    pushed.extend(env.push_for(&[("b", 2), ("a", 2)]).await);
    invariant::check(&env).await;
    assert_eq!(env.turns(4).await.len(), 4);
    let cancelled = env.fetch(from(&["q"], 1)).await;
    env.client.nack(&cancelled[0].id).await.expect(200);
    assert_eq!(env.turns(9).await.len(), 3);
    env.clock.advance(600 * SECOND);
    assert_eq!(env.turns(9).await.len(), 1, "a retry");
    invariant::check(&env).await;
    assert_eq!(pushed.len(), 15);
    assert_eq!(env.store().queue_counts("q").await.unwrap()[&State::Available], 0);
}

/// More lanes without a turn of their own than one read returns.
#[tokio::test]
async fn lanes_of_many_keys_take_turns_with_tenants() {
    let env = DispatchEnv::open(json!({})).await;
    let keyed = |number: usize| {
        let mut job = job("q", None, 0);
        job["rate_limit"] = json!({"key": format!("k{number}"), "concurrency": 5});
        job
    };
    let of_keys = env.enqueue_all((0..40).map(keyed).collect()).await;
    let of_tenant = env.push_for(&[("a", 2)]).await;
    let mut got = ids(&env.fetch(from(&["q"], 25)).await);
    got.extend(ids(&env.fetch(from(&["q"], 25)).await));
    let mut expected = of_keys.clone();
    expected.splice(1..1, of_tenant[..1].iter().cloned());
    expected.splice(3..3, of_tenant[1..].iter().cloned());
    assert_eq!(got, expected);
    invariant::check(&env).await;
}

#[tokio::test]
async fn changed_weights_apply_to_waiting_jobs() {
    let env = DispatchEnv::open(fairness(json!({"weights": {"a": 1, "b": 1}}))).await;
    env.push_for(&[("a", 300), ("b", 300)]).await;
    env.turns(10).await;
    env.put_scheduling(fairness(json!({"weights": {"a": 4, "b": 1}}))).await;
    let turns = env.turns(50).await;
    assert!(count(&turns, "a").abs_diff(40) <= 2, "{}", count(&turns, "a"));
    env.put_scheduling(fairness(json!({"strategy": "round_robin"}))).await;
    let turns = env.turns(50).await;
    assert!(count(&turns, "a").abs_diff(25) <= 2, "{}", count(&turns, "a"));
    invariant::check(&env).await;
}

#[tokio::test]
async fn a_thousand_tenants_are_all_served_before_any_is_served_twice() {
    let env = DispatchEnv::open(fairness(json!({}))).await;
    let names: Vec<String> = (0..1000).map(|number| format!("t{number:04}")).collect();
    let jobs = names.iter().flat_map(|name| vec![job("q", Some(name), 0); 2]);
    env.enqueue_all(jobs.collect()).await;
    for _ in 0..2 {
        let turns: BTreeSet<String> = env.turns(1000).await.into_iter().collect();
        assert_eq!(turns.len(), 1000);
    }
    assert!(env.redis.keys_with("level:").await.is_empty());
}
