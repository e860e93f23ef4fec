//! The watcher: one process at a time, one event per change, and no throttle among equal tenants.

use super::*;
use crate::support::eventually;

#[tokio::test]
async fn two_processes_throttle_once_and_one_takes_over() {
    let env = NeighborEnv::open().await;
    let other = NeighborEnv::on(Arc::clone(&env.redis), env.clock.clone(), throttling(), |_| {}).await;
    env.flood().await;
    for _ in 0..8 {
        env.clock.advance(5 * SECOND);
        let (one, two) = tokio::join!(env.neighbors.look("one"), other.neighbors.look("two"));
        assert!(one.unwrap() + two.unwrap() <= 1);
    }
    assert_eq!(env.kinds().await, ["tenant.throttled"]);
    // The process that decided is gone; its lease expires.
    let _: i64 = env.redis.command(&["DEL", "fg:{default}:noise:lock"]).await;
    for _ in 0..60 {
        env.clock.advance(5 * SECOND);
        other.neighbors.look("three").await.unwrap();
    }
    assert_eq!(env.kinds().await[..2], ["tenant.throttled", "tenant.throttle_released"]);
    // A late decision of a former lease holder changes nothing.
    let late = fairgate::store::ThrottleUpdate { id: "a".to_owned(), after: "{}".to_owned(), ..Default::default() };
    assert_eq!(env.store().apply_throttles(Some("one"), std::slice::from_ref(&late)).await.unwrap(), 0);
    assert_eq!(env.store().apply_throttles(None, std::slice::from_ref(&late)).await.unwrap(), 1);
    assert_eq!(env.store().apply_throttles(None, &[late]).await.unwrap(), 0, "the same again");
}

#[tokio::test]
async fn equals_are_never_throttled() {
    let env = NeighborEnv::open().await;
    let names = ["a", "b", "c", "d", "e"];
    for minute in 0..6_usize {
        for (place, tenant) in names.iter().enumerate() {
            env.push(tenant, 10 + (minute * 7 + place * 3) % 10).await;
        }
        env.work(40).await;
        env.look_for(60).await;
    }
    assert_eq!(env.kinds().await, Vec::<String>::new());
    assert_eq!(env.redis.keys_with("noise").await, ["fg:{default}:noise:lock"]);
}

#[tokio::test]
async fn a_lone_tenant_is_never_noisy() {
    let env = NeighborEnv::open().await;
    env.push("loud", 3000).await;
    env.work(50).await;
    env.look_for(60).await;
    assert_eq!(env.kinds().await, Vec::<String>::new());
}

#[tokio::test]
async fn without_an_action_a_noisy_tenant_is_only_reported() {
    let env = NeighborEnv::with(NoisyNeighbors { statistics: true, ..NoisyNeighbors::default() }, |_| {}).await;
    env.flood().await;
    env.look_for(60).await;
    assert_eq!(env.kinds().await, Vec::<String>::new());
    assert!(env.neighbors.report("loud").await.unwrap().verdict.is_some());
    assert_eq!(env.redis.keys_with("throttled").await, Vec::<String>::new());
}

#[tokio::test]
async fn no_more_tenants_are_throttled_than_the_config_allows() {
    let env = NeighborEnv::with(NoisyNeighbors { max_throttled: 1, ..throttling() }, |_| {}).await;
    env.flood().await;
    env.push("louder", 3000).await;
    env.look_for(60).await;
    let reported = env.throttle_events().await;
    assert_eq!((reported.len(), &reported[0].1["tenant_id"]), (1, &json!("louder")));
}

#[tokio::test]
async fn a_throttle_of_an_emptied_redis_is_forgotten() {
    let env = NeighborEnv::open().await;
    env.flood().await;
    env.look_for(20).await;
    let _: String = env.redis.command(&["FLUSHALL"]).await;
    env.look_for(20).await;
    env.push("loud", 1).await;
    assert!(!env.neighbors.report("loud").await.unwrap().standing.is_throttled());
}

#[tokio::test]
async fn the_watcher_runs_automatically() {
    let noisy = NoisyNeighbors { sustain: 0, ..throttling() };
    let app = TestApp::start_with(Clock::System, |config| config.noisy_neighbors = noisy.clone()).await;
    let neighbors = NoisyNeighborWatcher::new(app.store().clone(), noisy.clone(), NoiseMetrics::default());
    let env = NeighborEnv { app, config: noisy, neighbors };
    env.flood().await;
    env.work(10).await;
    eventually("the flood is throttled", async || env.kinds().await == ["tenant.throttled"]).await;
    let metrics = env.client.get("/metrics").await.expect(200).text;
    assert!(metrics.contains("fairgate_noisy_throttles_total{tenant_id=\"loud\"} 1"), "{metrics}");
    assert!(metrics.contains("fairgate_noisy_detected_total{signal=\"queue_depth_ratio\"} 1"), "{metrics}");
    assert_eq!(env.config.sustain, 0);
}
