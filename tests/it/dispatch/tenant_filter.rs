//! FETCH with `X-OJS-Tenant`: only jobs of that tenant, in queues that tenants share.

use crate::support::{TestApp, json};
use fairgate::clock::Clock;
use fairgate::domain::limit::Quota;
use fairgate::store::LimitLayer;
use serde_json::Value;

async fn shared() -> TestApp {
    TestApp::start_with(Clock::System, |config| config.policy.tenant_fairness.enabled = Some(true)).await
}

fn job(tenant: &str, key: Option<&str>) -> Value {
    let limit = key.map(|key| json!({"key": key, "concurrency": 1}));
    json!({"type": "t", "args": [], "meta": {"tenant_id": tenant}, "options": {"queue": "q", "rate_limit": limit}})
}

async fn fetch_for(app: &TestApp, tenant: &str, count: usize) -> Vec<String> {
    let body = json!({"queues": ["q"], "count": count, "worker_id": "w"}).to_string();
    let answer = app.client.try_send("POST", "/v1/workers/fetch", &[("X-OJS-Tenant", tenant)], Some(body)).await;
    answer.unwrap().expect(200).job_ids()
}

#[tokio::test]
async fn a_tenant_gets_its_own_jobs_in_order_and_pays_for_them() {
    let app = shared().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        for tenant in ["a", "b"] {
            ids.push(app.client.enqueue(job(tenant, None)).await);
        }
    }
    assert_eq!(fetch_for(&app, "nobody", 9).await, Vec::<String>::new());
    assert_eq!(fetch_for(&app, "b", 2).await, [ids[1].clone(), ids[3].clone()]);
    // b has had two, so that the next two are a's.
    assert_eq!(app.client.fetch("q", 2).await.job_ids(), [ids[0].clone(), ids[2].clone()]);
    assert_eq!(fetch_for(&app, "b", 9).await, [ids[5].clone()]);
    assert_eq!(fetch_for(&app, "b", 9).await, Vec::<String>::new());
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), [ids[4].clone()]);
    assert_eq!(app.redis.keys_with("level:").await, Vec::<String>::new());
    assert_eq!(app.redis.keys_with("live").await, Vec::<String>::new());
}

#[tokio::test]
async fn jobs_that_wait_for_a_limit_are_found_when_it_has_free_slots() {
    let app = shared().await;
    for tenant in 0..40 {
        app.client.enqueue(job(&format!("t{tenant:02}"), Some("k"))).await;
    }
    assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 1, "the limit is 1, and all others wait for it");
    assert_eq!(fetch_for(&app, "t39", 1).await, Vec::<String>::new());
    let two = Quota { concurrency: Some(2), ..Quota::default() };
    app.store()
        .set_limit(&fairgate::domain::limit::LimitKey::key("k"), LimitLayer::Override, Some(&two), None)
        .await
        .unwrap();
    let found = fetch_for(&app, "t39", 1).await;
    assert_eq!(found.len(), 1, "another lane was released");
    assert_eq!(app.client.job(&found[0]).await["meta"]["tenant_id"], "t39");
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), Vec::<String>::new());
    app.assert_consistent().await;
}

#[tokio::test]
async fn an_invalid_tenant_id_is_refused() {
    let app = shared().await;
    let body = json!({"queues": ["q"]}).to_string();
    let answer = app.client.try_send("POST", "/v1/workers/fetch", &[("X-OJS-Tenant", "")], Some(body)).await.unwrap();
    assert_eq!(answer.expect(422).at("/error/details/field"), "X-OJS-Tenant");
}
