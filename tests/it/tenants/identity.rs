//! The tenant of a job: header, body, default.

use super::{job, start, start_with};
use crate::auth::{guarded, secret};
use crate::support::{TestApp, json};
use fairgate::domain::tenant::TenantSource;

fn bare() -> serde_json::Value {
    json!({"type": "t.job", "args": [1.0], "queue": "q"})
}

#[tokio::test]
async fn the_header_is_written_into_meta_and_the_rest_stays_to_the_byte() {
    let app = TestApp::start().await;
    let body = r#"{"type":"t.job","args":[1.0, {"a":[]}],"meta":{"n": 1.50,"n":2}}"#;
    let headers = [("x-ojs-tenant", "acme:1")];
    let answer = app.client.try_send("POST", "/v1/jobs", &headers, Some(body.to_owned())).await.unwrap().expect(201);
    assert!(
        answer.text.contains(r#""args":[1.0, {"a":[]}],"meta":{"tenant_id":"acme:1","n": 1.50,"n":2}"#),
        "{}",
        answer.text
    );
    let id = answer.text_at("/job/id");
    assert_eq!(app.client.job(id).await["meta"]["tenant_id"], "acme:1");
    assert_eq!(app.jobs_of("acme:1").await.available, 1);
    let body = json!({"jobs": [bare(), job("beta"), bare()]});
    let refused = app.with_header("POST", "/v1/jobs/batch", "beta2", Some(body.clone())).await.expect(400);
    assert_eq!(refused.at("/error/details/field"), "jobs[1].meta.tenant_id");
    let stored = app.with_header("POST", "/v1/jobs/batch", "beta", Some(body)).await.expect(201);
    for index in 0..3 {
        assert_eq!(stored.at(&format!("/jobs/{index}/meta/tenant_id")), "beta");
    }
    assert_eq!(app.jobs_of("beta").await.available, 3);
    assert_eq!(app.jobs_of("beta2").await.total(), 0);
    app.assert_consistent().await;
}

#[tokio::test]
async fn two_headers_that_differ_are_refused() {
    let app = TestApp::start().await;
    let body = bare().to_string();
    for (first, second) in [("x-ojs-tenant", "x-ojs-tenant"), ("x-ojs-tenant", "x-ojs-tenant-id")] {
        for (method, path, body) in [("POST", "/v1/jobs", Some(&body)), ("GET", "/v1/queues", None)] {
            let headers = [(first, "acme"), (second, "beta")];
            let refused = app.client.try_send(method, path, &headers, body.cloned()).await.unwrap().expect(400);
            assert!(refused.text_at("/error/details/field").starts_with("X-OJS-Tenant"), "{}", refused.text);
            let status = if body.is_some() { 201 } else { 200 };
            let same = [(first, "acme"), (second, "acme")];
            app.client.try_send(method, path, &same, body.cloned()).await.unwrap().expect(status);
        }
    }
    assert_eq!((app.jobs_of("acme").await.available, app.jobs_of("beta").await.total()), (2, 0));

    let app = guarded().await;
    let key = secret("acme-producer");
    let headers = [("x-api-key", key.as_str()), ("x-ojs-tenant", "acme"), ("x-ojs-tenant-id", "beta")];
    app.client.try_send("POST", "/v1/jobs", &headers, Some(body.clone())).await.unwrap().expect(400);
    let foreign = [("x-api-key", key.as_str()), ("x-ojs-tenant-id", "beta")];
    app.client.try_send("POST", "/v1/jobs", &foreign, Some(body)).await.unwrap().expect(403);
}

#[tokio::test]
async fn header_and_body_that_differ_are_refused() {
    let app = TestApp::start().await;
    let refused = app.with_header("POST", "/v1/jobs", "acme", Some(job("beta"))).await.expect(400);
    assert_eq!(refused.at("/error/code"), "invalid_request");
    app.with_header("POST", "/v1/jobs", "acme", Some(job("acme"))).await.expect(201);
    let mut other = bare();
    other["options"] = json!({"metadata": {"tenant_id": "beta"}});
    app.with_header("POST", "/v1/jobs", "acme", Some(other)).await.expect(400);
}

#[tokio::test]
async fn ids_outside_the_pattern_are_refused_by_their_path() {
    let app = TestApp::start().await;
    let texts = ["", "_default", "a b", ".a", "é"].map(|id| json!(id));
    let others = [json!(true), json!(7), json!(4.5), json!([]), json!({"id": "a"})];
    for id in texts.into_iter().chain(others) {
        let mut bad = bare();
        bad["meta"] = json!({"tenant_id": id});
        let answer = app.push(bad.clone()).await.expect(422);
        assert_eq!(answer.at("/error/details/field"), "meta.tenant_id", "{id}");
        let batch = app.client.post("/v1/jobs/batch", json!({"jobs": [bare(), bad]})).await.expect(422);
        assert_eq!(batch.at("/error/details/field"), "jobs[1].meta.tenant_id", "{id}");
        let workflow = json!({"type": "group", "jobs": [bare()], "tenant_id": id});
        let answer = app.client.post("/v1/workflows", workflow).await.expect(422);
        assert_eq!(answer.at("/error/details/field"), "tenant_id", "{id}");
    }
    for id in [json!(7), json!(true), json!({})] {
        let answer =
            app.put("/v1/admin/tenants/acme", json!({"tenant_id": id, "fairness_weight": 2})).await.expect(422);
        assert_eq!(answer.at("/error/details/field"), "tenant_id", "{id}");
    }
    for id in ["", "a b", "_default", ".a"] {
        let answer = app.with_header("POST", "/v1/jobs", id, Some(bare())).await.expect(422);
        assert_eq!(answer.at("/error/details/field"), "X-OJS-Tenant", "{id}");
    }
    let alias = [("X-OJS-Tenant-Id", "acme")];
    let stored = app.client.try_send("POST", "/v1/jobs", &alias, Some(bare().to_string())).await.unwrap();
    assert_eq!(stored.expect(201).at("/job/meta/tenant_id"), "acme");
}

#[tokio::test]
async fn without_a_tenant_a_job_is_the_default_tenants() {
    let app = start(&[]).await;
    let answer = app.push(bare()).await.expect(201);
    assert_eq!(answer.at("/job/meta"), &json!({}), "nothing is written into it");
    let stats = app.client.get("/v1/admin/tenants/_default/stats").await.expect(200);
    assert_eq!((stats.at("/total_jobs"), stats.at("/jobs/available")), (&json!(1), &json!(1)));
    let named = start_with(&[], |config| config.tenancy.default_tenant = "house".to_owned()).await;
    named.push(bare()).await.expect(201);
    assert_eq!(named.jobs_of("house").await.available, 1);
    assert_eq!(named.fetch_for("house", 5).await.len(), 1);
}

#[tokio::test]
async fn a_tenant_may_be_required() {
    let app = start_with(&[], |config| config.tenancy.require_tenant = true).await;
    let answer = app.push(bare()).await.expect(422);
    assert_eq!(answer.at("/error/details/field"), "meta.tenant_id");
    let batch = app.client.post("/v1/jobs/batch", json!({"jobs": [job("a"), bare()]})).await.expect(422);
    assert_eq!(batch.at("/error/details/field"), "jobs[1].meta.tenant_id");
    app.push(job("a")).await.expect(201);
    app.with_header("POST", "/v1/jobs", "a", Some(bare())).await.expect(201);
    assert_eq!(app.jobs_of("a").await.total(), 2, "and nothing of the batch");
}

#[tokio::test]
async fn only_the_sources_that_are_allowed_count() {
    let app = start_with(&[], |config| config.tenancy.sources = vec![TenantSource::Meta]).await;
    let answer = app.with_header("POST", "/v1/jobs", "acme", Some(bare())).await.expect(201);
    assert_eq!(answer.at("/job/meta"), &json!({}));
    let app = start_with(&[], |config| config.tenancy.sources = vec![TenantSource::Header]).await;
    let mut odd = bare();
    odd["meta"] = json!({"tenant_id": "not an id"});
    app.push(odd).await.expect(201);
    app.with_header("POST", "/v1/jobs", "acme", Some(bare())).await.expect(201);
    assert_eq!((app.jobs_of("acme").await.total(), app.jobs_of("not an id").await.total()), (1, 0));
}

#[tokio::test]
async fn a_request_with_a_tenant_sees_no_jobs_of_others() {
    let app = TestApp::start().await;
    let id = app.client.enqueue(job("a")).await;
    let path = format!("/v1/jobs/{id}");
    for (method, path) in [("GET", path.clone()), ("DELETE", path.clone()), ("POST", format!("{path}/cancel"))] {
        let body = (method == "POST").then(|| json!({}));
        app.with_header(method, &path, "b", body.clone()).await.expect(404);
        app.with_header(method, &path, "_default", body).await.expect(404);
    }
    assert_eq!(app.client.state(&id).await, "available");
    app.with_header("GET", &path, "a", None).await.expect(200);
    app.with_header("DELETE", &path, "a", None).await.expect(200);
    app.assert_consistent().await;
}
