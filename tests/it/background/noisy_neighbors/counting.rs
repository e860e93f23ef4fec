//! Counting of tenant activity, which leaves nothing behind.

use super::*;
use fairgate::store::TenantActivity;

#[tokio::test]
async fn a_day_of_a_tenant_is_counted() {
    let env = NeighborEnv::open().await;
    let ids = env.push("acme", 5).await;
    env.client
        .enqueue(json!({"type": "t.job", "args": [], "meta": {"tenant_id": "acme"},
        "scheduled_at": "2099-01-01T00:00:00Z"}))
        .await;
    assert_eq!(env.jobs("acme").await, [0, 5, 1, 0, 0]);
    let fetched = env.client.fetch("q", 5).await.job_ids();
    assert_eq!(fetched, ids);
    env.push("beta", 1).await;
    assert_eq!(env.jobs("acme").await, [0, 0, 1, 0, 5]);
    env.clock.advance(3 * SECOND);
    env.client.ack(&fetched[0]).await.expect(200);
    env.client.ack(&fetched[1]).await.expect(200);
    let failed = json!({"job_id": fetched[2], "error": {"code": "x", "message": "no", "retryable": true}});
    env.client.post("/v1/workers/nack", failed).await.expect(200);
    env.client.delete(&format!("/v1/jobs/{}", fetched[3])).await.expect(200);
    let requeue = json!({"job_id": fetched[4], "requeue": true, "error": {"code": "x", "message": "later"}});
    env.client.post("/v1/workers/nack", requeue).await.expect(200);

    let statistics = env.store().tenant_statistics("acme").await.unwrap();
    assert_eq!(env.jobs("acme").await, [0, 1, 1, 1, 0]);
    let deeds = TenantActivity { enqueued: 6, pushes: 2, completed: 2, failed: 1, worker_ms: 15_000 };
    assert_eq!(statistics.day, deeds);
    assert_eq!(statistics.worker_share, 1.0);
    assert!(statistics.processed_per_minute > 0.0 && statistics.enqueued_per_minute > statistics.processed_per_minute);

    // In the same window, then in the same day, then never.
    env.clock.advance(4 * 3_600_000);
    let later = env.store().tenant_statistics("acme").await.unwrap();
    assert_eq!((later.day, later.processed_per_minute), (deeds, 0.0));
    env.clock.advance(21 * 3_600_000);
    assert_eq!(env.store().tenant_statistics("acme").await.unwrap().day, TenantActivity::default());
    assert_eq!(env.store().tenant_statistics("nobody").await.unwrap().day, TenantActivity::default());
}

#[tokio::test]
async fn no_key_of_an_idle_tenant_remains() {
    let env = NeighborEnv::open().await;
    env.push("ac:me", 3).await;
    assert_eq!(env.work(10).await, shares(&[("ac:me", 3)]));
    env.neighbors.look("hand").await.unwrap();
    assert_eq!(env.redis.keys_with("tenants").await, Vec::<String>::new());
    let keys = [env.redis.keys_with("activity:").await, env.redis.keys_with("busy:").await].concat();
    assert_eq!(keys.len(), 4, "{keys:?}");
    for key in keys {
        let left: i64 = env.redis.command(&["PTTL", &key]).await;
        assert!((1..=26 * 3_600_000).contains(&left), "{key}: {left}");
    }
}

#[tokio::test]
async fn jobs_without_a_tenant_are_those_of_the_default_one() {
    let env = NeighborEnv::open().await;
    let job = json!({"type": "t.job", "args": [], "options": {"queue": "q"}});
    env.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 7]})).await.expect(201);
    env.client.fetch("q", 4).await;
    env.push("acme", 3).await;
    let figures = env.neighbors.report("_default").await.unwrap().figures;
    assert_eq!((figures.depth, figures.active, figures.runnable, figures.enqueued), (3, 4, 3, 7));
    env.clock.advance(2 * SECOND);
    for id in env.leased().await {
        env.client.ack(&id).await.expect(200);
    }
    let statistics = env.client.get("/v1/admin/tenants/_default/stats").await.expect(200);
    assert_eq!(statistics.at("/counted"), &json!(true), "{}", statistics.text);
    let day = env.store().tenant_statistics("_default").await.unwrap().day;
    assert_eq!(day, TenantActivity { enqueued: 7, pushes: 1, completed: 4, failed: 0, worker_ms: 8000 });
    // For a limited tenant, jobs are counted in the same way and the rest is unchanged.
    let limit = json!({"max_concurrency": 50});
    env.client.send("PUT", "/v1/admin/tenants/_default/limits", Some(limit.to_string())).await.expect(200);
    assert_eq!(env.neighbors.report("_default").await.unwrap().figures.depth, 3);
    env.assert_consistent().await;
}

#[tokio::test]
async fn each_entry_counts_once_in_any_process() {
    let env = NeighborEnv::open().await;
    for _ in 0..20 {
        env.push("acme", 1).await;
    }
    let many = futures_util::future::join_all((0..8).map(|_| env.store().tenant_statistics("acme"))).await;
    many.into_iter().for_each(|statistics| assert!(statistics.unwrap().day.enqueued <= 20));
    assert_eq!(env.store().tenant_statistics("acme").await.unwrap().day.enqueued, 20);
}

#[tokio::test]
async fn activity_is_added_up_before_its_events_are_trimmed() {
    let env = NeighborEnv::with(throttling(), |config| config.retention.max_events = 5).await;
    env.push("acme", 100).await;
    env.push("acme", 50).await;
    while env.store().retain().await.unwrap() {}
    let events: i64 = env.redis.command(&["XLEN", "fg:{default}:events"]).await;
    assert_eq!((events, env.store().tenant_statistics("acme").await.unwrap().day.enqueued), (1, 150));
}

#[tokio::test]
async fn a_request_may_bring_more_tenants_than_lua_has_room_for() {
    let env = NeighborEnv::with(throttling(), |config| config.limits.max_batch = 10_000).await;
    let job = |tenant: usize| json!({"type": "t.job", "args": [], "meta": {"tenant_id": format!("t{tenant}")}});
    let jobs: Vec<Value> = (0..9000).map(job).collect();
    env.client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(201);
    for tenant in ["t0", "t4500", "t8999"] {
        let statistics = env.store().tenant_statistics(tenant).await.unwrap();
        assert_eq!((env.jobs(tenant).await[1], statistics.day.enqueued), (1, 1), "{tenant}");
    }
    let all: String = env.redis.command(&["HGET", "fg:{default}:tenants", "*"]).await;
    assert_eq!(all, "0 9000 0 0 0");
    // One pass reads a bounded number of tenants.
    env.look_for(30).await;
    assert_eq!(env.kinds().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_item_that_fails_counts_for_nothing() {
    let env = NeighborEnv::open().await;
    env.push("acme", 1).await;
    let again = json!({"id": "01890a5d-ac96-774b-bcce-b302099a8057", "type": "t.job", "args": [], "meta": {"tenant_id": "acme"}});
    env.client.post("/v1/jobs", again.clone()).await.expect(201);
    env.client.post("/v1/jobs", again).await.expect(409);
    let statistics = env.store().tenant_statistics("acme").await.unwrap();
    assert_eq!((env.jobs("acme").await[1], statistics.day.enqueued), (2, 2));
}
