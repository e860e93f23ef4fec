//! Overrides, temporary or permanent, take effect at once and end on time.

use super::{LimitsEnv, MINUTE, NOON, SECOND, concurrency, rate, throttle};
use crate::support::json;
use fairgate::domain::limit::Quota;
use fairgate::domain::pool::{LimitRule, LimitTarget};
use fairgate::store::{LimitLayer, Signal};

#[tokio::test]
async fn an_override_changes_only_the_given_limits() {
    let env = LimitsEnv::open().await;
    let limit = json!({"key": "k", "concurrency": 2, "rate": {"limit": 4, "period": "PT1M"}});
    env.push_many(9, "q", limit).await;
    let base = Quota { concurrency: Some(2), ..rate(4, 60_000) };
    assert_eq!(env.limit("k").await.quota, base);
    env.set("k", LimitLayer::Override, concurrency(3), None).await;
    assert_eq!(env.limit("k").await.quota, Quota { concurrency: Some(3), ..base.clone() });
    env.set("k", LimitLayer::Override, throttle(10, 1000), Some(NOON + MINUTE)).await;
    let limit = env.limit("k").await;
    assert_eq!(limit.quota, Quota { throttle: throttle(10, 1000).throttle, ..base.clone() });
    assert_eq!(limit.overridden, Some(Some(NOON + MINUTE)));
    env.advance(MINUTE).await;
    let limit = env.limit("k").await;
    assert_eq!((limit.quota, limit.overridden), (base, None), "it has ended");
    assert!(!env.unset("k", LimitLayer::Override).await, "there is none any more");
    env.set("k", LimitLayer::Override, concurrency(3), None).await;
    assert!(env.unset("k", LimitLayer::Override).await);
    assert!(!env.unset("k", LimitLayer::Override).await, "there was none");
}

/// The limits of a key: the file takes precedence over the last job, an override over both.
#[tokio::test]
async fn each_layer_overrides_the_one_below() {
    let rule = LimitRule { target: LimitTarget::Key("k".to_owned()), quota: concurrency(3) };
    let env = LimitsEnv::with(|config| config.policy.limits = vec![rule]).await;
    env.push_many(9, "q", json!({"key": "k", "concurrency": 1, "rate": {"limit": 8, "period": "PT1S"}})).await;
    let with = |most| Quota { concurrency: Some(most), ..rate(8, 1000) };
    assert_eq!(env.limit("k").await.quota, with(3));
    assert_eq!(env.fetch("q", 9).await.len(), 3);
    env.set("k", LimitLayer::Admin, concurrency(4), None).await;
    assert_eq!((env.limit("k").await.quota, env.fetch("q", 9).await.len()), (with(4), 1));
    env.set("k", LimitLayer::Override, concurrency(6), None).await;
    assert_eq!((env.limit("k").await.quota, env.fetch("q", 9).await.len()), (with(6), 2));
    env.audit().await;
}

/// Setting an override, its end and its removal each wake waiting lanes.
#[tokio::test]
async fn waiting_jobs_run_when_an_override_is_set_ends_or_is_removed() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(6, "q", json!({"key": "k", "concurrency": 1})).await;
    let queues = ["q".to_owned()];
    let is_awake = async || env.store().have_runnable(&queues).await.unwrap();
    assert_eq!(env.fetch("q", 9).await, jobs[..1]);
    assert!(!is_awake().await);
    env.set("k", LimitLayer::Override, concurrency(2), None).await;
    assert!(is_awake().await, "by being set");
    assert_eq!(env.fetch("q", 9).await, jobs[1..2]);
    env.ack_all(&jobs[..2]).await;
    env.set("k", LimitLayer::Override, concurrency(0), Some(NOON + MINUTE)).await;
    assert!(env.fetch("q", 9).await.is_empty());
    // Another change of the key happens meanwhile.
    env.tick().await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.audit().await;
    env.advance(MINUTE).await;
    assert!(is_awake().await, "by its end");
    assert_eq!(env.fetch("q", 9).await, jobs[2..3]);
    env.ack(&jobs[2]).await;
    env.set("k", LimitLayer::Override, concurrency(0), None).await;
    assert!(env.fetch("q", 9).await.is_empty());
    assert!(env.unset("k", LimitLayer::Override).await);
    assert!(is_awake().await, "by being removed");
    assert_eq!(env.fetch("q", 9).await, jobs[3..4]);
    env.audit().await;
}

/// The end of an override is not missed because the limit was read for another reason before.
#[tokio::test]
async fn the_end_is_kept_while_jobs_come_and_go() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(3, "q", json!({"key": "k", "concurrency": 2})).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..2]);
    env.set("k", LimitLayer::Override, concurrency(0), Some(NOON + MINUTE)).await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.ack(&jobs[0]).await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.audit().await;
    env.advance(MINUTE).await;
    assert_eq!(env.fetch("q", 9).await, jobs[2..]);
    env.audit().await;
}

/// It is not missed because a window frees its slots later either.
#[tokio::test]
async fn the_end_comes_before_the_windows_own_time() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(3, "q", json!({"key": "k"})).await;
    env.set("k", LimitLayer::Override, rate(1, 3_600_000), Some(NOON + 10 * MINUTE)).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..1]);
    assert!(env.fetch("q", 9).await.is_empty());
    env.set("k", LimitLayer::Override, rate(1, 3_600_000), Some(NOON + MINUTE)).await;
    env.audit().await;
    env.advance(MINUTE - 1).await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.advance(1).await;
    assert!(env.store().have_runnable(&["q".to_owned()]).await.unwrap(), "the tick woke it");
    assert_eq!(env.fetch("q", 9).await, jobs[1..]);
    env.audit().await;
}

/// A limit that is reduced below the active jobs stops none of them; no job starts until enough have ended.
#[tokio::test]
async fn a_limit_below_the_active_jobs_starts_none_until_enough_have_ended() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(8, "q", json!({"key": "k", "concurrency": 4})).await;
    assert_eq!(env.fetch("q", 9).await, jobs[..4]);
    env.set("k", LimitLayer::Override, concurrency(2), None).await;
    for id in &jobs[..2] {
        env.ack(id).await;
        assert!(env.fetch("q", 9).await.is_empty());
    }
    env.ack(&jobs[2]).await;
    assert_eq!(env.fetch("q", 9).await, jobs[4..5]);
    env.audit().await;
}

/// More lanes than one call may wake are all woken eventually, without other activity.
#[tokio::test]
async fn many_lanes_are_woken_in_steps() {
    let rule = LimitRule { target: LimitTarget::Type("test.*".to_owned()), quota: concurrency(0) };
    let env = LimitsEnv::with(|config| config.policy.limits = vec![rule]).await;
    let jobs = (0..300).map(|key| super::job("q", 0, json!({"key": format!("k{key}")})));
    let jobs = env.enqueue_all(jobs.collect()).await;
    assert!(env.fetch("q", 9).await.is_empty());
    env.audit().await;
    env.set("type:test.*", LimitLayer::Override, concurrency(200), None).await;
    env.tick().await;
    env.audit().await;
    let got = env.fetch("q", 300).await;
    assert_eq!(got, jobs[..200], "in order");
    env.ack_all(&got).await;
    assert_eq!(env.fetch("q", 300).await, jobs[200..]);
    env.audit().await;
}

/// The same for a queue's own limit.
#[tokio::test]
async fn an_override_of_a_queue_ends_on_time_too() {
    let env = LimitsEnv::open().await;
    let jobs = env.push_many(2, "q", json!(null)).await;
    env.set("queue:q", LimitLayer::Override, concurrency(0), Some(NOON + 10 * SECOND)).await;
    let mut signals = env.store().signals();
    assert!(env.fetch("q", 9).await.is_empty());
    env.tick().await;
    env.advance(10 * SECOND).await;
    let woken = tokio::time::timeout(std::time::Duration::from_secs(5), async {
        while signals.recv().await.unwrap() != (Signal::Ready { queue: "q".to_owned() }) {}
    });
    assert!(woken.await.is_ok(), "long polls are notified");
    assert_eq!(env.fetch("q", 9).await, jobs);
}
