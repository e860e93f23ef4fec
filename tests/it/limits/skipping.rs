//! Who waits for a limit is out of everybody's way, and comes back in the right order.

use super::{SECOND, Site, concurrency, job};
use crate::support::json;
use fairgate::store::Layer;
use std::slice::from_ref;

/// A slot is free while the first who waits for it is in a queue that nobody serves.
#[tokio::test]
async fn a_queue_that_nobody_serves_cannot_swallow_a_slot() {
    let site = Site::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let holder = site.push("served", limit.clone()).await;
    let forsaken = site.push_many(3, "forsaken", limit.clone()).await;
    let served = site.push_many(3, "served", limit).await;
    assert_eq!(site.fetch_from(&["served", "forsaken"], 9).await, from_ref(&holder));
    let mut last = holder;
    for id in &served {
        site.ack(&last).await;
        assert_eq!(site.fetch("served", 9).await, from_ref(id));
        site.audit().await;
        last = id.clone();
    }
    assert!(site.fetch("forsaken", 9).await.is_empty());
    site.ack(&last).await;
    assert_eq!(site.fetch("forsaken", 9).await, forsaken[..1], "it is still there");
    site.audit().await;
}

/// Of those who wait, the highest priority goes first; the oldest of it.
#[tokio::test]
async fn of_those_who_wait_the_highest_priority_goes_first() {
    let site = Site::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let holder = site.push("q", limit.clone()).await;
    assert_eq!(site.fetch("q", 1).await, from_ref(&holder));
    let mut waiting = Vec::new();
    for priority in [0, 5, -5, 5, 9, 0] {
        waiting.push((priority, site.push_at("q", priority, limit.clone()).await));
        assert!(site.fetch("q", 1).await.is_empty());
    }
    waiting.sort_by_key(|(priority, _)| -priority); // stable
    let mut last = holder;
    for (priority, id) in waiting {
        site.ack(&last).await;
        assert_eq!(site.fetch("q", 9).await, from_ref(&id), "priority {priority}");
        last = id;
    }
    site.audit().await;
}

/// A lane of lower priority that nobody has looked at yet is no reason to leave a higher one waiting.
#[tokio::test]
async fn a_lane_that_nobody_has_looked_at_does_not_go_before_a_higher_one_that_waits() {
    let site = Site::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let holder = site.push("q", limit.clone()).await;
    assert_eq!(site.fetch("q", 1).await, from_ref(&holder));
    let high = site.push_at("q", 5, limit.clone()).await;
    let low = site.push_at("q", 0, limit).await;
    let between = site.push_many(2, "q", json!(null)).await;
    let middle = site.push_at("q", 3, json!(null)).await;
    // Finds the high one blocked, and enough before it comes to the low one.
    assert_eq!(site.fetch("q", 1).await, [middle]);
    site.ack(&holder).await;
    assert_eq!(site.fetch("q", 1).await, from_ref(&high));
    assert_eq!(site.fetch("q", 9).await, between);
    site.ack(&high).await;
    assert_eq!(site.fetch("q", 9).await, [low]);
    site.audit().await;
}

/// Seed 8.2: a limited job of high priority is no obstacle to one of low priority, and does not lose its place to it.
#[tokio::test]
async fn while_the_high_priority_is_limited_the_low_one_runs() {
    let site = Site::open().await;
    let high = [
        site.push_at("q", 9, json!({"key": "k", "concurrency": 1})).await,
        site.push_at("q", 9, json!({"key": "k", "concurrency": 1})).await,
    ];
    let low = site.push_many(3, "q", json!(null)).await;
    assert_eq!(site.fetch("q", 2).await, [high[0].clone(), low[0].clone()]);
    assert_eq!(site.fetch("q", 1).await, low[1..2]);
    site.ack(&high[0]).await;
    assert_eq!(site.fetch("q", 2).await, [high[1].clone(), low[2].clone()]);
    site.audit().await;
}

/// What comes to a lane that waits joins it, and a better job moves it forward among those who wait.
#[tokio::test]
async fn who_joins_a_waiting_lane_waits_with_it() {
    let site = Site::open().await;
    let limit = json!({"key": "k", "concurrency": 1});
    let first = site.push("q", limit.clone()).await;
    assert_eq!(site.fetch("q", 1).await, from_ref(&first));
    let second = site.push("q", limit.clone()).await;
    assert!(site.fetch("q", 1).await.is_empty());
    let third = site.push("q", limit.clone()).await;
    site.audit().await;
    assert_eq!(site.limit("k").await.waiting(), 2);
    // Handed back, it is the oldest again: in front of those who wait, in a lane that waits.
    let body = json!({"job_id": first, "requeue": true, "error": {"message": "bye"}});
    site.app.client.post("/v1/workers/nack", body).await.expect(200);
    site.audit().await;
    assert_eq!(site.fetch("q", 9).await, from_ref(&first));
    site.ack(&first).await;
    site.store().cancel(&second).await.unwrap();
    assert_eq!(site.fetch("q", 9).await, [third]);
    site.audit().await;
}

/// Many keys, each with one slot and several jobs: always one of each, the oldest.
#[tokio::test]
async fn many_keys_take_turns_in_the_order_of_arrival() {
    let site = Site::open().await;
    const KEYS: usize = 200;
    let jobs = (0..3 * KEYS).map(|n| job("q", 0, json!({"key": format!("k{}", n % KEYS), "concurrency": 1})));
    let jobs = site.push_all(jobs.collect()).await;
    let mut open = Vec::new();
    for round in 0..3 {
        let got = site.fetch("q", 1000).await;
        assert_eq!(got, jobs[round * KEYS..(round + 1) * KEYS], "round {round}");
        assert!(site.fetch("q", 1000).await.is_empty());
        site.audit().await;
        open = got;
        if round < 2 {
            site.ack_all(&open).await;
        }
    }
    site.ack_all(&open).await;
    assert!(site.fetch("q", 1000).await.is_empty());
    site.audit().await;
}

/// A limit that is reached over and over lets as many go as it has room for, not one more.
#[tokio::test]
async fn several_slots_free_at_once_wake_several() {
    let site = Site::open().await;
    site.set("k", Layer::Override, concurrency(3), None).await;
    let mut jobs = Vec::new();
    for priority in 0..9 {
        jobs.push(site.push_at("q", -priority, json!({"key": "k"})).await);
    }
    for portion in jobs.chunks(3) {
        let got = site.fetch("q", 9).await;
        assert_eq!(got, portion);
        assert!(site.fetch("q", 9).await.is_empty());
        site.audit().await;
        site.ack_all(&got).await;
    }
}

/// A job that is given up while it waits for a limit leaves nothing behind.
#[tokio::test]
async fn who_expires_while_it_waits_is_gone() {
    let site = Site::open().await;
    let holder = site.push("q", json!({"key": "k", "concurrency": 1})).await;
    let mut expiring = job("q", 0, json!({"key": "k", "concurrency": 1}));
    expiring["expires_at"] = json!("2027-01-15T08:00:05Z");
    let expiring = site.app.client.enqueue(expiring).await;
    assert_eq!(site.fetch("q", 9).await, from_ref(&holder));
    site.advance(5 * SECOND).await;
    assert_eq!(site.state(&expiring).await, "discarded");
    site.audit().await;
    site.ack(&holder).await;
    assert!(site.fetch("q", 9).await.is_empty());
    site.audit().await;
}
