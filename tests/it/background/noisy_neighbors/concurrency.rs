//! A noisy neighbour whose concurrency is reduced for a time.

use super::*;
use crate::tenants::{rules, slots as at_once};
use fairgate::domain::tenant::Isolation;

fn capping() -> NoisyNeighbors {
    NoisyNeighbors { action: Action::ConcurrencyReduced, duration: 10_000, ..NoisyNeighbors::default() }
}

impl NeighborEnv {
    /// Fetches jobs; returns how many belong to the noisy tenant and how many to others. Acks them if `done`.
    async fn fetch(&self, most: usize, done: bool) -> (usize, usize) {
        let fetched = self.client.fetch("q", most).await;
        let jobs = fetched.at("/jobs").as_array().cloned().unwrap_or_default();
        for id in fetched.job_ids().iter().filter(|_| done) {
            self.client.ack(id).await.expect(200);
        }
        let loud = jobs.iter().filter(|job| job["meta"]["tenant_id"] == "loud").count();
        (loud, jobs.len() - loud)
    }

    async fn active(&self) -> u64 {
        self.store().tenant_jobs(&["loud"]).await.unwrap()[0].active
    }
}

#[tokio::test]
async fn a_flood_has_fewer_jobs_active_until_its_time_is_over() {
    for (fair, isolation) in [(false, Isolation::Sharded), (true, Isolation::Sharded), (false, Isolation::Shared)] {
        let env = NeighborEnv::with(capping(), |config| {
            config.policy.tenant_fairness.enabled = Some(fair);
            config.tenancy.isolation = isolation;
        })
        .await;
        env.flood().await;
        while env.active().await < 16 {
            env.fetch(1, false).await;
        }
        env.look_for(20).await;
        let (kind, event) = env.throttle_events().await.remove(0);
        assert_eq!((kind.as_str(), &event["action"]), ("tenant.throttled", &json!("concurrency_reduced")));
        assert_eq!((&event["original_concurrency"], &event["effective_concurrency"]), (&json!(16), &json!(8)));
        assert_eq!(event["until"], json!(fairgate::domain::time::rfc3339(NOON + 30 * SECOND)));
        assert_eq!(event["evidence"][0]["signal"], "queue_depth_ratio");

        // It had more active jobs when the throttle began: none of its jobs starts until those are done, while others
        // continue.
        let (loud, others) = env.fetch(20, true).await;
        assert_eq!((loud, others), (0, 20), "fair: {fair}");
        for id in env.leased().await {
            env.client.ack(&id).await.expect(200);
        }
        let (loud, others) = env.fetch(60, false).await;
        assert_eq!((loud, others), (8, 52), "fair: {fair}");
        env.look_for(5).await;
        assert_eq!(env.fetch(10, true).await.0, 0);
        assert_eq!(env.active().await, 8);

        env.look_for(5).await;
        let (kind, event) = env.throttle_events().await.pop().unwrap();
        assert_eq!((kind.as_str(), &event["reason"]), ("tenant.throttle_released", &json!("expired")));
        env.fetch(40, false).await;
        assert!(env.active().await > 8, "fair: {fair}");
        assert_eq!(env.redis.keys_with("throttled").await, Vec::<String>::new());
        env.assert_consistent().await;
    }
}

#[tokio::test]
async fn a_throttle_never_exceeds_the_tenants_limit_and_a_release_restores_it() {
    let env = NeighborEnv::with(capping(), |config| {
        config.tenant = rules(&[("loud", at_once(5))]);
        // Only its limit blocks its jobs.
        config.policy.tenant_fairness.enabled = Some(false);
    })
    .await;
    env.flood().await;
    assert_eq!(env.fetch(20, false).await.0, 5);
    env.look_for(20).await;
    let event = env.throttle_events().await.into_iter().find(|(kind, _)| kind == "tenant.throttled").unwrap().1;
    assert_eq!((&event["original_concurrency"], &event["effective_concurrency"]), (&json!(5), &json!(2)));
    for id in env.leased().await {
        env.client.ack(&id).await.expect(200);
    }
    assert_eq!(env.fetch(20, false).await.0, 2);
    let terms = json!({"max_concurrency": 1});
    env.client.send("PUT", "/v1/admin/tenants/loud/limits", Some(terms.to_string())).await.expect(200);
    for id in env.leased().await {
        env.client.ack(&id).await.expect(200);
    }
    assert_eq!(env.fetch(20, false).await.0, 1, "the throttle would leave two");
    let terms = json!({"max_concurrency": 5});
    env.client.send("PUT", "/v1/admin/tenants/loud/limits", Some(terms.to_string())).await.expect(200);
    assert_eq!(env.fetch(20, false).await.0, 1, "two, with the one that runs");

    env.client.post("/v1/admin/tenants/loud/noise/reset", json!({})).await.expect(200);
    assert_eq!(env.fetch(20, false).await.0, 3, "five, with the two that run");
    env.assert_consistent().await;
}

#[tokio::test]
async fn a_lone_worker_still_does_one_job_of_a_throttled_tenant() {
    let env = NeighborEnv::with(capping(), |_| {}).await;
    env.flood().await;
    env.look_for(20).await;
    assert_eq!(env.throttle_events().await[0].1["effective_concurrency"], json!(1));
    assert_eq!(env.fetch(10, false).await, (1, 9));
}
