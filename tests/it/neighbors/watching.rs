//! Who looks: one process at a time, once per change, and never at equals.

use super::*;
use crate::support::eventually;

#[tokio::test]
async fn two_processes_throttle_once_and_one_takes_over() {
    let street = Street::open().await;
    let other = Street::on(Arc::clone(&street.app.redis), street.app.clock.clone(), throttling(), |_| {}).await;
    street.flood().await;
    for _ in 0..8 {
        street.app.clock.advance(5 * SECOND);
        let (one, two) = tokio::join!(street.neighbors.look("one"), other.neighbors.look("two"));
        assert!(one.unwrap() + two.unwrap() <= 1);
    }
    assert_eq!(street.kinds().await, ["tenant.throttled"]);
    // Whoever decided is gone; its lease ends.
    let _: i64 = street.app.redis.command(&["DEL", "fg:{default}:noise:lock"]).await;
    for _ in 0..60 {
        street.app.clock.advance(5 * SECOND);
        other.neighbors.look("three").await.unwrap();
    }
    assert_eq!(street.kinds().await[..2], ["tenant.throttled", "tenant.throttle_released"]);
    // A decision that comes late, from one that decides no more, changes nothing.
    let late = fairgate::store::ThrottleUpdate { id: "a".to_owned(), after: "{}".to_owned(), ..Default::default() };
    assert_eq!(street.store().apply_throttles(Some("one"), std::slice::from_ref(&late)).await.unwrap(), 0);
    assert_eq!(street.store().apply_throttles(None, std::slice::from_ref(&late)).await.unwrap(), 1);
    assert_eq!(street.store().apply_throttles(None, &[late]).await.unwrap(), 0, "the same again");
}

#[tokio::test]
async fn equals_are_never_throttled() {
    let street = Street::open().await;
    let names = ["a", "b", "c", "d", "e"];
    for minute in 0..6_usize {
        for (place, tenant) in names.iter().enumerate() {
            street.push(tenant, 10 + (minute * 7 + place * 3) % 10).await;
        }
        street.work(40).await;
        street.look_for(60).await;
    }
    assert_eq!(street.kinds().await, Vec::<String>::new());
    assert_eq!(street.app.redis.keys_with("noise").await, ["fg:{default}:noise:lock"]);
}

#[tokio::test]
async fn a_lone_tenant_is_never_noisy() {
    let street = Street::open().await;
    street.push("loud", 3000).await;
    street.work(50).await;
    street.look_for(60).await;
    assert_eq!(street.kinds().await, Vec::<String>::new());
}

#[tokio::test]
async fn without_an_action_it_is_only_told() {
    let street = Street::with(NoisyNeighbors { statistics: true, ..NoisyNeighbors::default() }, |_| {}).await;
    street.flood().await;
    street.look_for(60).await;
    assert_eq!(street.kinds().await, Vec::<String>::new());
    assert!(street.neighbors.report("loud").await.unwrap().verdict.is_some());
    assert_eq!(street.app.redis.keys_with("throttled").await, Vec::<String>::new());
}

#[tokio::test]
async fn no_more_tenants_are_throttled_than_the_config_allows() {
    let street = Street::with(NoisyNeighbors { max_throttled: 1, ..throttling() }, |_| {}).await;
    street.flood().await;
    street.push("louder", 3000).await;
    street.look_for(60).await;
    let told = street.told().await;
    assert_eq!((told.len(), &told[0].1["tenant_id"]), (1, &json!("louder")));
}

#[tokio::test]
async fn a_throttle_of_an_emptied_redis_is_forgotten() {
    let street = Street::open().await;
    street.flood().await;
    street.look_for(20).await;
    let _: String = street.app.redis.command(&["FLUSHALL"]).await;
    street.look_for(20).await;
    street.push("loud", 1).await;
    assert!(!street.neighbors.report("loud").await.unwrap().standing.is_throttled());
}

#[tokio::test]
async fn a_fairgate_looks_by_itself() {
    let noisy = NoisyNeighbors { sustain: 0, ..throttling() };
    let app = TestApp::start_with(Clock::System, |config| config.noisy_neighbors = noisy.clone()).await;
    let neighbors = NoisyNeighborWatcher::new(app.app.store.clone(), noisy.clone(), NoiseMetrics::default());
    let street = Street { app, config: noisy, neighbors };
    street.flood().await;
    street.work(10).await;
    eventually("the flood is throttled", async || street.kinds().await == ["tenant.throttled"]).await;
    let metrics = street.client().get("/metrics").await.expect(200).text;
    assert!(metrics.contains("fairgate_noisy_throttles_total{tenant_id=\"loud\"} 1"), "{metrics}");
    assert!(metrics.contains("fairgate_noisy_detected_total{signal=\"queue_depth_ratio\"} 1"), "{metrics}");
    assert_eq!(street.config.sustain, 0);
}
