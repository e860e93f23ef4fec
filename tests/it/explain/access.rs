//! Access: operators and admins may ask; a key that is bound to a tenant sees its own jobs and nothing of others.

use super::*;
use crate::auth::{caller, guarded};

#[tokio::test]
async fn a_key_of_a_tenant_sees_no_job_and_no_name_of_another_tenant() {
    let app = guarded().await;
    let admin = caller(&app, "admin");
    let limited = |tenant: &str| {
        json!({"type": "a.b", "args": [], "options": {"queue": "q", "rate_limit": {"key": "stripe", "concurrency": 2}},
            "meta": {"tenant_id": tenant}})
    };
    let mut holders = Vec::new();
    for tenant in ["beta", "acme"] {
        holders.push(admin.enqueue(limited(tenant)).await);
        let body = json!({"queues": ["q"], "count": 1, "worker_id": "w"});
        let fetched = admin.send("POST", "/v1/workers/fetch", Some(body)).await.expect(200);
        assert_eq!(fetched.job_ids(), holders[holders.len() - 1..]);
    }
    let (own, foreign) = (admin.enqueue(limited("acme")).await, admin.enqueue(limited("beta")).await);
    let path = |id: &str| format!("/v1/jobs/{id}/explain");

    let seen = caller(&app, "acme-operator").get(&path(&own)).await.expect(200);
    assert_eq!(seen.text_at("/binding"), "limit", "{}", seen.text);
    assert_eq!(check(&seen, "limit")["holders"], json!([{"job_id": holders[1], "queue": "q"}]));
    assert_eq!(check(&seen, "limit")["figures"]["running"], 2, "it is only a number");
    for hidden in [&*holders[0], &*foreign, "beta", "stripe"] {
        assert!(!seen.text.contains(hidden), "{hidden}: {}", seen.text);
    }
    caller(&app, "acme-operator").get(&path(&foreign)).await.expect(404);
    for role in ["producer", "worker", "acme-producer", "acme-worker"] {
        caller(&app, role).get(&path(&own)).await.expect(403);
    }
    app.client.get(&path(&own)).await.expect(401);
    let all = caller(&app, "operator").get(&path(&own)).await.expect(200);
    assert_eq!(check(&all, "limit")["key"], "stripe");
    assert_eq!(check(&all, "limit")["holders"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn the_header_of_a_tenant_restricts_an_explanation_as_well() {
    let app = start(|_| {}).await;
    let id = app.client.enqueue(plain("q", "acme")).await;
    let ask = async |tenant: &str| {
        let path = format!("/v1/jobs/{id}/explain");
        app.client.try_send("GET", &path, &[("x-ojs-tenant", tenant)], None).await.expect("an answer").status
    };
    assert_eq!((ask("acme").await, ask("beta").await), (200, 404));
}
