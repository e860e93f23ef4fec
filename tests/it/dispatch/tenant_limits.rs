//! Tenants that take turns, with jobs under limits and with concurrency limits of their own.

use super::{DispatchEnv, from, ids, invariant, job, tenant_of};
use crate::support::{Random, json};
use fairgate::domain::job::{Record, State};
use serde_json::Value;

fn limited(tenant: &str, key: &str, concurrency: u32) -> Value {
    let mut job = job("q", Some(tenant), 0);
    job["rate_limit"] = json!({"key": key, "concurrency": concurrency});
    job
}

async fn fair() -> DispatchEnv {
    DispatchEnv::open(json!({"tenant_fairness": {"enabled": true}})).await
}

fn turns(records: &[Record]) -> String {
    records.iter().map(tenant_of).collect()
}

#[tokio::test]
async fn a_tenant_gains_nothing_by_many_keys() {
    let env = fair().await;
    env.push_for(&[("b", 40)]).await;
    let many = (0..40).map(|number| limited("a", &format!("k{}", number % 20), 100));
    let of_a = env.enqueue_all(many.collect()).await;
    let got = env.fetch(from(&["q"], 30)).await;
    assert_eq!(turns(&got), "ab".repeat(15));
    let mut got = ids(&got);
    while got.len() < 80 {
        let more = ids(&env.fetch(from(&["q"], 7)).await);
        assert!(!more.is_empty());
        got.extend(more);
        invariant::check(&env).await;
    }
    got.retain(|id| of_a.contains(id));
    assert_eq!(got, of_a, "FIFO inside a tenant, over all its lanes");
}

/// More lanes than one read returns, each with a job behind those of all others.
#[tokio::test]
async fn one_fetch_takes_from_all_lanes_of_a_tenant_in_their_order() {
    let env = fair().await;
    let jobs = (0..120).map(|number| limited("a", &format!("k{}", number % 40), 100));
    let pushed = env.enqueue_all(jobs.collect()).await;
    let mut got = ids(&env.fetch(from(&["q"], 50)).await);
    got.extend(ids(&env.fetch(from(&["q"], 64)).await));
    got.extend(ids(&env.fetch(from(&["q"], 64)).await));
    assert_eq!(got, pushed);
    invariant::check(&env).await;
}

#[tokio::test]
async fn tenants_behind_one_slot_alternate() {
    let env = fair().await;
    let jobs = (0..60).map(|number| limited(if number < 40 { "a" } else { "b" }, "shared", 1));
    env.enqueue_all(jobs.collect()).await;
    let mut order = String::new();
    for _ in 0..30 {
        let got = env.fetch(from(&["q"], 5)).await;
        assert_eq!(got.len(), 1, "one at a time");
        order += &turns(&got);
        invariant::check(&env).await;
        env.ack(&got[0]).await;
    }
    assert!(
        ["ab".repeat(15), format!("a{}b", "ab".repeat(14))].contains(&order)
            || order.matches('a').count().abs_diff(15) <= 1,
        "{order}"
    );
    assert!(!order.contains("aaa") && !order.contains("bbb"), "{order}");
}

#[tokio::test]
async fn a_tenant_that_is_blocked_leaves_its_turn_to_others() {
    let env = fair().await;
    env.enqueue_all(vec![limited("a", "one", 1); 5]).await;
    env.push_for(&[("b", 3), ("c", 3)]).await;
    let got = env.fetch(from(&["q"], 20)).await;
    assert_eq!(turns(&got), "abcbcbc");
    invariant::check(&env).await;
    env.push_for(&[("b", 2)]).await;
    env.ack(&got[0]).await;
    assert_eq!(turns(&env.fetch(from(&["q"], 20)).await), "abb");
    invariant::check(&env).await;
}

/// A blocked tenant leaves the fair queue and returns, in the same call or a later one, before or after the clock has
/// passed its start.
#[tokio::test]
async fn the_total_weight_stays_correct_while_tenants_are_blocked_and_return() {
    let weights = json!({"a": 3, "b": 2, "c": 0.3, "d": 1.5});
    let env = DispatchEnv::open(json!({"tenant_fairness": {"enabled": true, "weights": weights}})).await;
    let (mut running, mut random) = (Vec::new(), Random(1));
    let mut below = |limit| random.below(limit);
    for _ in 0..150 {
        let tenant = ["a", "b", "c", "d", "e", "f"][below(6)];
        let key = ["one", "two", tenant][below(3)];
        env.enqueue_all(vec![limited(tenant, key, 1 + below(2) as u32); 1 + below(4)]).await;
        let waiting = env.push_for(&[("g", 1)]).await;
        running.extend(env.fetch(from(&["q"], 1 + below(6))).await);
        invariant::check(&env).await;
        if below(4) == 0 {
            env.client.delete(&format!("/v1/jobs/{}", waiting[0])).await;
        }
        for _ in 0..below(5).min(running.len()) {
            env.ack(&running.swap_remove(below(running.len()))).await;
        }
        invariant::check(&env).await;
    }
}

/// Slots in proportion to a tenant's weight, in each queue separately.
#[tokio::test]
async fn slots_of_a_tenant_are_never_used_by_others() {
    let strict = json!({"tenant_fairness": {"enabled": true, "strategy": "strict", "weights": {"a": 3, "b": 0.5}, "default_weight": 2}});
    let env = DispatchEnv::open(strict).await;
    env.push_for(&[("a", 9), ("b", 9), ("c", 9)]).await;
    let mut got = env.fetch(from(&["q"], 50)).await;
    let mut sorted: Vec<char> = turns(&got).chars().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, ['a', 'a', 'a', 'b', 'c', 'c']);
    invariant::check(&env).await;
    assert_eq!(env.fetch(from(&["q"], 50)).await.len(), 0);
    let place = got.iter().position(|record| tenant_of(record) == "c").unwrap();
    env.ack(&got.remove(place)).await;
    assert_eq!(turns(&env.fetch(from(&["q"], 50)).await), "c", "to no other tenant");
    env.enqueue_all(vec![job("r", Some("b"), 0); 3]).await;
    assert_eq!(env.fetch(from(&["r"], 50)).await.len(), 1);
    invariant::check(&env).await;
    // Every end of a lease frees its slot.
    for record in &got {
        env.client.nack(&record.id).await.expect(200);
    }
    assert_eq!(env.fetch(from(&["q"], 50)).await.len(), 5);
    invariant::check(&env).await;
}

#[tokio::test]
async fn slots_are_not_lost_when_the_strategy_changes() {
    let with =
        |strategy: &str| json!({"tenant_fairness": {"enabled": true, "strategy": strategy, "weights": {"a": 2}}});
    let env = DispatchEnv::open(with("strict")).await;
    env.push_for(&[("a", 20)]).await;
    let held = env.fetch(from(&["q"], 9)).await;
    assert_eq!(held.len(), 2);
    env.put_scheduling(with("fair-share")).await;
    for record in &held {
        env.ack(record).await;
    }
    env.put_scheduling(with("strict")).await;
    let got = env.fetch(from(&["q"], 9)).await;
    assert_eq!(got.len(), 2, "all slots are free");
    env.put_scheduling(json!({"tenant_fairness": {"enabled": false}})).await;
    for record in &got {
        env.ack(record).await;
    }
    let mut left = 16;
    while left > 0 {
        let got = env.fetch(from(&["q"], 50)).await;
        assert!(!got.is_empty(), "{left} jobs are stuck");
        left -= got.len();
        for record in &got {
            env.ack(record).await;
        }
        invariant::check(&env).await;
    }
}

#[tokio::test]
async fn additional_slots_apply_at_once() {
    let with =
        |weight: u32| json!({"tenant_fairness": {"enabled": true, "strategy": "strict", "weights": {"a": weight}}});
    let env = DispatchEnv::open(with(1)).await;
    env.push_for(&[("a", 20)]).await;
    assert_eq!(env.fetch(from(&["q"], 9)).await.len(), 1);
    assert_eq!(env.fetch(from(&["q"], 9)).await.len(), 0);
    env.put_scheduling(with(4)).await;
    assert_eq!(env.fetch(from(&["q"], 9)).await.len(), 3);
    invariant::check(&env).await;
}

/// More lanes than one read returns, none of which waits for a limit, and more jobs than one call reschedules.
#[tokio::test]
async fn a_fetch_ends_when_no_lane_can_provide_more_jobs() {
    let env = DispatchEnv::open(json!({})).await;
    let put_off = |number: usize| {
        let mut job = job("q", None, 0);
        job["rate_limit"] = json!({"key": format!("k{}", number % 20), "concurrency": 1, "on_limit": "reschedule"});
        job
    };
    let pushed = env.enqueue_all((0..200).map(put_off).collect()).await;
    assert_eq!(ids(&env.fetch(from(&["q"], 50)).await), pushed[..20]);
    for _ in 0..8 {
        assert_eq!(env.fetch(from(&["q"], 50)).await.len(), 0);
    }
    let counts = env.store().queue_counts("q").await.unwrap();
    assert_eq!((counts[&State::Active], counts[&State::Scheduled], counts[&State::Available]), (20, 180, 0));
    invariant::check(&env).await;
}
