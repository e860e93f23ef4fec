//! Jobs that name their workflow or parent job belong to its tenant.

use super::*;
use crate::auth::{caller, guarded};
use fairgate::clock::Clock;
use fairgate::domain::plan::{Rule, TenantKey};

fn of_tenant(tenant: Option<&str>) -> Value {
    let meta = tenant.map_or(json!({}), |tenant| json!({"tenant_id": tenant}));
    json!({"type": "test.child", "args": [], "queue": "q", "meta": meta})
}

/// The job with an ancestor named at top level, or in `meta`.
fn child_of(field: &str, id: &str, tenant: Option<&str>) -> Value {
    let mut job = of_tenant(tenant);
    match field.strip_prefix("meta.") {
        Some(name) => job["meta"][name] = json!(id),
        None => job[field] = json!(id),
    }
    job
}

const FIELDS: [&str; 4] = ["workflow_id", "parent_id", "meta.workflow_id", "meta.parent_id"];

/// Creates a workflow or a job of a tenant for the field that names it.
async fn ancestor(client: &Client, field: &str, tenant: Option<&str>) -> String {
    if field.ends_with("parent_id") {
        return client.enqueue(of_tenant(tenant)).await;
    }
    begin(client, group(vec![of_tenant(tenant)])).await
}

#[tokio::test]
async fn a_child_without_a_tenant_inherits_it_and_one_of_another_tenant_is_refused() {
    let app = TestApp::start().await;
    for field in FIELDS {
        let acme = ancestor(&app.client, field, Some("acme")).await;
        let nobodys = ancestor(&app.client, field, None).await;
        for (id, tenant, expected) in
            [(&acme, None, Some("acme")), (&acme, Some("acme"), Some("acme")), (&nobodys, None, None)]
        {
            let stored = app.client.post("/v1/jobs", child_of(field, id, tenant)).await.expect(201);
            assert_eq!(stored.at("/job/meta/tenant_id").as_str(), expected, "{field}");
            let shown = app.client.job(stored.text_at("/job/id")).await;
            assert_eq!(shown["meta"]["tenant_id"].as_str(), expected, "{field}");
        }
        for (id, tenant) in [(&acme, "beta"), (&nobodys, "beta")] {
            let refused = app.client.post("/v1/jobs", child_of(field, id, Some(tenant))).await.expect(422);
            assert_eq!(refused.at("/error/details/field"), field, "{}", refused.text);
            assert_eq!(refused.at("/error/code"), "validation_error");
        }
        // The header names the tenant as well.
        for (tenant, status) in [("acme", 201), ("beta", 403)] {
            let body = child_of(field, &acme, None).to_string();
            let headers = [("x-ojs-tenant", tenant)];
            app.client.try_send("POST", "/v1/jobs", &headers, Some(body)).await.unwrap().expect(status);
        }
        let batch = json!({"jobs": [child_of(field, &acme, None), child_of(field, &acme, Some("beta"))]});
        let refused = app.client.post("/v1/jobs/batch", batch).await.expect(422);
        assert_eq!(refused.at("/error/details/field").as_str(), Some(format!("jobs[1].{field}").as_str()));
        let stored =
            app.client.post("/v1/jobs/batch", json!({"jobs": [child_of(field, &acme, None)]})).await.expect(201);
        assert_eq!(stored.at("/jobs/0/meta/tenant_id"), "acme");
    }
    let stats = app.client.get("/v1/admin/tenants/beta/stats").await.expect(200);
    assert_eq!(stats.at("/total_jobs"), 0, "nothing of the refused request is stored");
}

#[tokio::test]
async fn an_unknown_ancestor_does_not_determine_the_tenant() {
    let app = TestApp::start().await;
    for field in FIELDS {
        for id in [fairgate::domain::job::id::generate(), "mine".to_owned()] {
            let stored = app.client.post("/v1/jobs", child_of(field, &id, Some("beta"))).await.expect(201);
            assert_eq!(stored.at("/job/meta/tenant_id"), "beta");
        }
    }
}

#[tokio::test]
async fn a_parent_in_the_same_batch_counts() {
    let app = TestApp::start().await;
    let id = fairgate::domain::job::id::generate();
    let mut parent = of_tenant(Some("acme"));
    parent["id"] = json!(id);
    let batch = |child: Value| json!({"jobs": [parent.clone(), child]});
    let refused = app.client.post("/v1/jobs/batch", batch(child_of("parent_id", &id, Some("beta")))).await.expect(422);
    assert_eq!(refused.at("/error/details/field"), "jobs[1].parent_id");
    let stored = app.client.post("/v1/jobs/batch", batch(child_of("parent_id", &id, None))).await.expect(201);
    assert_eq!(stored.at("/jobs/1/meta/tenant_id"), "acme");
}

#[tokio::test]
async fn a_key_of_another_tenant_is_denied() {
    let app = guarded().await;
    let (admin, beta) = (caller(&app, "admin"), caller(&app, "beta-producer"));
    let parent = admin.enqueue(of_tenant(Some("acme"))).await;
    let refused = beta.post("/v1/jobs", child_of("parent_id", &parent, None)).await.expect(403);
    assert_eq!(refused.at("/error/details/canonical"), "TENANT_ACCESS_DENIED");
    assert_eq!(refused.at("/error/details/field"), "parent_id");
}

#[tokio::test]
async fn the_tenant_found_by_a_plan_rule_counts() {
    let rule = Rule { tenant_key: TenantKey::parse("args.0").unwrap(), ..Rule::new("r", &["planned.*"]) };
    let app = TestApp::start_with(Clock::System, |config| config.plan = vec![rule]).await;
    let planned = |tenant: &str| json!({"type": "planned.job", "args": [tenant]});
    let parent = app.client.enqueue(planned("acme")).await;
    for (tenant, status) in [("acme", 201), ("beta", 422)] {
        let mut child = planned(tenant);
        child["parent_id"] = json!(parent);
        app.client.post("/v1/jobs", child).await.expect(status);
    }
    let stored = app.client.post("/v1/jobs", child_of("parent_id", &parent, None)).await.expect(201);
    assert_eq!(stored.at("/job/meta/tenant_id"), "acme", "of a rule or not");
}

#[tokio::test]
async fn workflows_and_crons_are_checked_as_well() {
    let app = TestApp::start().await;
    let parent = app.client.enqueue(of_tenant(Some("acme"))).await;
    let id = begin(&app.client, group(vec![child_of("parent_id", &parent, None)])).await;
    let stats = app.client.get("/v1/admin/tenants/acme/stats").await.expect(200);
    assert_eq!(stats.at("/total_jobs"), 2, "the workflow {id} is the tenant's");
    let foreign = group(vec![child_of("parent_id", &parent, Some("beta"))]);
    let refused = app.client.post("/v1/workflows", foreign).await.expect(422);
    assert_eq!(refused.at("/error/details/field"), "jobs[0].parent_id");
    let cron =
        json!({"name": "n", "expression": "@daily", "job_template": child_of("parent_id", &parent, Some("beta"))});
    let refused = app.client.post("/v1/cron", cron).await.expect(422);
    assert_eq!(refused.at("/error/details/field"), "job_template.parent_id");
}
