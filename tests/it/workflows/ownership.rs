//! A workflow and all of its jobs belong to one tenant.

use super::*;
use crate::auth::{caller, guarded};

#[tokio::test]
async fn a_workflow_created_with_a_tenants_key_belongs_to_the_tenant() {
    let app = guarded().await;
    let (acme, beta, admin) = (caller(&app, "acme-producer"), caller(&app, "beta-producer"), caller(&app, "admin"));
    let begun = acme.post("/v1/workflows", chain(jobs(&["a", "b"]))).await.expect(201);
    let path = format!("/v1/workflows/{}", begun.text_at("/workflow/id"));
    let first = begun.text_at("/workflow/steps/0/job_id").to_owned();
    assert_eq!(admin.get(&format!("/v1/jobs/{first}")).await.at("/job/meta/tenant_id"), "acme");
    for foreign in [beta.get(&path).await, beta.delete(&path).await, caller(&app, "beta-admin").get(&path).await] {
        assert_eq!(foreign.expect(404).text_at("/error/code"), "not_found");
    }
    for own in [acme.get(&path).await, admin.get(&path).await, caller(&app, "acme-worker").get(&path).await] {
        assert_eq!(own.expect(200).text_at("/workflow/state"), "running", "it was not cancelled");
    }
    // The second step belongs to the tenant as well, although a worker of all tenants completes the first.
    let worker = caller(&app, "worker");
    worker.post("/v1/workers/fetch", json!({"queues": ["q"], "worker_id": "w"})).await.expect(200);
    worker.post("/v1/workers/ack", json!({"job_id": first, "result": 1})).await.expect(200);
    let second = acme.get(&path).await.expect(200).text_at("/workflow/steps/1/job_id").to_owned();
    assert_eq!(acme.get(&format!("/v1/jobs/{second}")).await.expect(200).at("/job/parent_results"), &json!([1]));
    beta.get(&format!("/v1/jobs/{second}")).await.expect(404);
    acme.delete(&path).await.expect(200);
    for (name, expected) in [("acme-operator", 4), ("beta-operator", 0), ("operator", 4)] {
        let events = caller(&app, name).get("/v1/events?types=workflow.*").await.expect(200);
        assert_eq!(events.at("/events").as_array().map(Vec::len), Some(expected), "{name}");
    }
}

#[tokio::test]
async fn a_job_of_another_tenant_is_refused_with_the_whole() {
    let app = guarded().await;
    let acme = caller(&app, "acme-producer");
    let foreign = json!({"type": "test.b", "args": [], "meta": {"tenant_id": "beta"}});
    let refused = acme.post("/v1/workflows", chain(vec![job("a"), group(vec![foreign])])).await.expect(403);
    assert_eq!(refused.at("/error/details/field"), "steps[1].jobs[0].meta.tenant_id");
    let whole = json!({"type": "group", "jobs": jobs(&["a"]), "meta": {"tenant_id": "beta"}});
    acme.post("/v1/workflows", whole).await.expect(403);
    assert_eq!(app.redis.keys_with("workflow").await, Vec::<String>::new());
}

#[tokio::test]
async fn all_jobs_of_a_workflow_belong_to_one_tenant() {
    let app = guarded().await;
    let admin = caller(&app, "admin");
    let of = |tenant: &str| json!({"type": "test.b", "args": [], "meta": {"tenant_id": tenant}});
    for (steps, field) in [
        (vec![of("acme"), of("beta")], "steps[1].meta.tenant_id"),
        (vec![of("acme"), job("a")], "steps[1].meta.tenant_id"),
        (vec![job("a"), group(vec![job("a"), of("acme")])], "steps[1].jobs[1].meta.tenant_id"),
    ] {
        let refused = admin.post("/v1/workflows", chain(steps)).await;
        assert!((400..500).contains(&refused.status), "{}", refused.text);
        assert!(refused.text.contains(field), "{field}: {}", refused.text);
    }
    let mut whole = chain(vec![job("a"), of("beta")]);
    whole["meta"] = json!({"tenant_id": "acme"});
    assert!((400..500).contains(&admin.post("/v1/workflows", whole.clone()).await.status));
    assert_eq!(app.redis.keys_with("workflow").await, Vec::<String>::new());
    whole["steps"] = json!([job("a"), job("a")]);
    let begun = admin.post("/v1/workflows", whole).await.expect(201);
    let stats = admin.get("/v1/admin/tenants/acme/stats").await.expect(200);
    assert_eq!(stats.at("/total_jobs"), 1, "its first job is the workflow's tenant's: {}", begun.text);
    // Its jobs name the workflow, which its tenant can see.
    let begun = admin.post("/v1/workflows", chain(vec![of("beta"), of("beta")])).await.expect(201);
    let path = format!("/v1/workflows/{}", begun.text_at("/workflow/id"));
    caller(&app, "beta-operator").get(&path).await.expect(200);
    caller(&app, "acme-operator").get(&path).await.expect(404);
}
