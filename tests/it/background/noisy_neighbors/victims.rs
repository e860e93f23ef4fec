//! Throttling needs a victim: a tenant with jobs that could run if a worker were free.

use super::*;
use crate::tenants::{rules, slots};

/// One tenant with many jobs, and four whose jobs wait for the reason under test.
async fn flood(env: &NeighborEnv, others: Value) {
    for tenant in ["a", "b", "c", "d"] {
        let mut job = json!({"type": "t.job", "args": [], "meta": {"tenant_id": tenant}, "options": {"queue": "q"}});
        job["options"].as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
        env.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 2]})).await.expect(201);
    }
    env.push("loud", 600).await;
}

impl NeighborEnv {
    /// Returns two flags: the tenant is considered noisy, and it is throttled.
    async fn judged(&self) -> (bool, bool) {
        self.look_for(60).await;
        let report = self.neighbors.report("loud").await.unwrap();
        (report.verdict.is_some(), report.standing.is_throttled())
    }
}

#[tokio::test]
async fn a_tenant_at_its_own_limit_is_no_victim() {
    let tenants = ["a", "b", "c", "d"].map(|tenant| (tenant, slots(1)));
    let capping = NoisyNeighbors { action: Action::ConcurrencyReduced, ..NoisyNeighbors::default() };
    let env = NeighborEnv::with(capping, |config| config.tenant = rules(&tenants)).await;
    flood(&env, json!({})).await;
    // Each of the others has one active job, its maximum; workers can only run jobs of the noisy tenant.
    while env.client.fetch("q", 100).await.job_ids().len() == 100 {}
    env.push("loud", 600).await;
    assert_eq!(env.judged().await, (true, false));
    // A tenant whose limit is raised waits for a worker again and is a victim.
    let limit = json!({"max_concurrency": 100});
    env.client.send("PUT", "/v1/admin/tenants/a/limits", Some(limit.to_string())).await.expect(200);
    env.store().tick().await.unwrap();
    assert_eq!(env.judged().await, (true, true));
}

#[tokio::test]
async fn a_job_that_waits_for_the_limit_of_its_key_makes_no_victim() {
    let env = NeighborEnv::open().await;
    flood(&env, json!({"rate_limit": {"key": "k", "concurrency": 0}})).await;
    assert_eq!(env.client.fetch("q", 20).await.job_ids().len(), 20, "of the noisy one");
    assert_eq!(env.judged().await, (true, false));
    env.push("a", 5).await;
    assert_eq!(env.judged().await, (true, true));
}

#[tokio::test]
async fn a_paused_queue_makes_no_victim() {
    let env = NeighborEnv::open().await;
    flood(&env, json!({"queue": "paused"})).await;
    env.client.post("/v1/queues/paused/pause", json!({})).await.expect(200);
    assert_eq!(env.judged().await, (true, false));
    env.client.post("/v1/queues/paused/resume", json!({})).await.expect(200);
    assert_eq!(env.judged().await, (true, true));
}

#[tokio::test]
async fn a_queue_that_its_own_limit_stops_makes_no_victim() {
    let env = NeighborEnv::open().await;
    flood(&env, json!({"queue": "limited"})).await;
    let limit = |concurrency: u32| Some(json!({ "concurrency": concurrency }).to_string());
    env.client.send("PUT", "/v1/admin/queues/limited/rate-limit", limit(0)).await.expect(200);
    assert!(env.client.fetch("limited", 1).await.job_ids().is_empty());
    assert_eq!(env.judged().await, (true, false));
    env.client.send("PUT", "/v1/admin/queues/limited/rate-limit", limit(1)).await.expect(200);
    assert_eq!(env.client.fetch("limited", 1).await.job_ids().len(), 1);
    assert_eq!(env.judged().await, (true, true));
}

#[tokio::test]
async fn the_default_tenant_is_a_victim_and_noisy_like_any_other() {
    let capping = NoisyNeighbors { action: Action::ConcurrencyReduced, ..NoisyNeighbors::default() };
    let env = NeighborEnv::with(capping, |_| {}).await;
    let plain = json!({"type": "t.job", "args": [], "options": {"queue": "q"}});
    env.push("loud", 600).await;
    env.client.post("/v1/jobs/batch", json!({"jobs": vec![plain.clone(); 5]})).await.expect(201);
    assert_eq!(env.judged().await, (true, true));
    let hurt = &env.throttle_events().await[0].1["hurt"];
    assert_eq!((hurt[0]["tenant_id"].as_str(), hurt.as_array().map(Vec::len)), (Some("_default"), Some(1)));

    let env = NeighborEnv::with(env.config.clone(), |_| {}).await;
    env.client.post("/v1/jobs/batch", json!({"jobs": vec![plain; 600]})).await.expect(201);
    env.client.fetch("q", 6).await;
    env.push("a", 5).await;
    env.look_for(60).await;
    let reported = env.throttle_events().await;
    assert_eq!(
        (reported.len(), &reported[0].1["tenant_id"], &reported[0].1["effective_concurrency"]),
        (1, &json!("_default"), &json!(3))
    );
    env.assert_consistent().await;
}
