//! Keys of tenants: data of other tenants does not exist for them.

use super::{caller, guarded, guarded_on};
use crate::support::{TestApp, TestRedis, json};
use fairgate::domain::plan::{Rule, TenantKey};
use fairgate::domain::tenant::Isolation;
use serde_json::Value;
use std::sync::Arc;

fn job(tenant: Option<&str>) -> Value {
    let meta = tenant.map(|tenant| json!({"tenant_id": tenant})).unwrap_or(json!({}));
    json!({"type": "t", "args": [], "meta": meta, "options": {"queue": "q"}})
}

/// Starts a server whose tenants share queues, so that a tenant's worker finds its jobs.
async fn shared() -> TestApp {
    guarded_on(Arc::new(TestRedis::start()), |config| config.policy.tenant_fairness.enabled = Some(true)).await
}

#[tokio::test]
async fn jobs_enqueued_with_a_tenants_key_belong_to_the_tenant() {
    let app = guarded().await;
    let (acme, admin) = (caller(&app, "acme-producer"), caller(&app, "admin"));
    for own in [job(None), job(Some("acme"))] {
        let id = acme.enqueue(own).await;
        assert_eq!(admin.get(&format!("/v1/jobs/{id}")).await.at("/job/meta/tenant_id"), "acme");
        acme.get(&format!("/v1/jobs/{id}")).await.expect(200);
        caller(&app, "beta-producer").get(&format!("/v1/jobs/{id}")).await.expect(404);
    }
    let refused = acme.post("/v1/jobs", job(Some("beta"))).await.expect(403);
    assert_eq!(refused.at("/error/details/canonical"), "TENANT_ACCESS_DENIED");
    assert_eq!(refused.at("/error/details/field"), "meta.tenant_id");
    let batch = json!({"jobs": [job(None), job(Some("beta"))]});
    let refused = acme.post("/v1/jobs/batch", batch).await.expect(403);
    assert_eq!(
        (refused.at("/error/details/index"), refused.at("/error/details/field")),
        (&json!(1), &json!("jobs[1].meta.tenant_id"))
    );
    assert_eq!(admin.get("/v1/queues/q/stats").await.at("/queue/available"), 2, "nothing of the batch is stored");
    let stored = acme.post("/v1/jobs/batch", json!({"jobs": [job(None), job(Some("acme"))]})).await.expect(201);
    assert_eq!(stored.at("/jobs/0/meta/tenant_id"), "acme");
}

#[tokio::test]
async fn a_header_that_names_another_tenant_is_refused_everywhere() {
    let app = guarded().await;
    let bearer = format!("Bearer {}", super::secret("acme-admin"));
    for (tenant, status) in [("acme", 200), ("beta", 403), ("", 403)] {
        let headers = [("authorization", bearer.as_str()), ("x-ojs-tenant", tenant)];
        let answer = app.client.try_send("GET", "/v1/dead-letter", &headers, None).await.unwrap();
        assert_eq!(answer.status, status, "{tenant}: {}", answer.text);
        let body = Some(json!({"queues": ["q"]}).to_string());
        let answer = app.client.try_send("POST", "/v1/workers/fetch", &headers, body).await.unwrap();
        assert_eq!(answer.status, status, "{tenant}: {}", answer.text);
    }
}

#[tokio::test]
async fn another_tenants_job_cannot_be_touched() {
    let app = guarded().await;
    let (admin, beta) = (caller(&app, "admin"), caller(&app, "beta-admin"));
    let pending = json!({"type": "t", "args": [], "meta": {"tenant_id": "acme"}, "pending": true});
    let (waits, pending) = (admin.enqueue(job(Some("acme"))).await, admin.enqueue(pending).await);
    let nobodys = admin.enqueue(job(None)).await;
    for id in [&waits, &pending, &nobodys] {
        for (method, path) in [
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/cancel"),
            ("POST", "/activate"),
            ("POST", "/ack"),
            ("POST", "/nack"),
        ] {
            let body = (method == "POST").then(|| json!({}));
            beta.send(method, &format!("/v1/jobs/{id}{path}"), body).await.expect(404);
        }
        beta.get(&format!("/v1/admin/jobs/{id}")).await.expect(404);
    }
    assert_eq!(admin.get(&format!("/v1/jobs/{waits}")).await.at("/job/state"), "available");
    assert_eq!(admin.get(&format!("/v1/jobs/{pending}")).await.at("/job/state"), "pending");
    let acme = caller(&app, "acme-producer");
    acme.post(&format!("/v1/jobs/{pending}/activate"), json!({})).await.expect(200);
    acme.delete(&format!("/v1/jobs/{waits}")).await.expect(200);
    acme.delete(&format!("/v1/jobs/{nobodys}")).await.expect(404);
}

#[tokio::test]
async fn a_tenants_worker_fetches_and_acks_only_its_own_jobs() {
    let app = shared().await;
    let (admin, acme, beta) = (caller(&app, "admin"), caller(&app, "acme-worker"), caller(&app, "beta-worker"));
    let mut ids = Vec::new();
    for tenant in ["acme", "beta", "acme", "beta"] {
        ids.push(admin.enqueue(job(Some(tenant))).await);
    }
    let fetch = json!({"queues": ["q"], "count": 9, "worker_id": "w", "fetch_id": "f"});
    let got = acme.post("/v1/workers/fetch", fetch.clone()).await.expect(200);
    assert_eq!(got.job_ids(), [ids[0].clone(), ids[2].clone()]);
    assert_eq!(got.at("/jobs/0/worker_id"), "w", "the worker has the name it registered with");
    assert_eq!(acme.post("/v1/workers/fetch", fetch.clone()).await.job_ids().len(), 2, "the same id, the same jobs");
    // The same names of another tenant denote other workers and other requests.
    let got = beta.post("/v1/workers/fetch", fetch).await.expect(200);
    assert_eq!(got.job_ids(), [ids[1].clone(), ids[3].clone()]);

    for (path, body) in [
        ("/v1/workers/ack", json!({"job_id": ids[0]})),
        ("/v1/workers/ack", json!({"job_id": ids[0], "worker_id": "w"})),
        ("/v1/workers/nack", json!({"job_id": ids[0], "error": {"code": "x", "message": "y"}})),
    ] {
        beta.post(path, body).await.expect(404);
    }
    let many =
        beta.post("/v1/workers/ack", json!({"acks": [{"job_id": ids[0]}, {"job_id": ids[1]}]})).await.expect(200);
    assert_eq!(many.at("/results/0/error/code"), "not_found");
    assert_eq!(many.at("/results/1/acknowledged"), &json!(true));
    let beat = beta.post("/v1/workers/heartbeat", json!({"worker_id": "w", "active_jobs": [ids[2], ids[3]]})).await;
    assert_eq!(beat.expect(200).at("/jobs_extended"), &json!([ids[3]]));
    // A worker that deregisters or goes quiet belongs to its tenant.
    beta.post("/v1/workers/heartbeat", json!({"worker_id": "w", "state": "quiet"})).await.expect(200);
    beta.delete("/v1/workers/w").await.expect(200);
    assert_eq!(admin.get(&format!("/v1/jobs/{}", ids[3])).await.at("/job/state"), "available");
    for id in [&ids[0], &ids[2]] {
        acme.post("/v1/workers/ack", json!({"job_id": id, "worker_id": "w"})).await.expect(200);
    }
}

#[tokio::test]
async fn a_lease_without_a_worker_belongs_to_its_tenant() {
    let app = guarded().await;
    let (admin, beta) = (caller(&app, "admin"), caller(&app, "beta-worker"));
    let id = admin.enqueue(job(Some("acme"))).await;
    assert_eq!(admin.post("/v1/workers/fetch", json!({"queues": ["q"]})).await.job_ids(), std::slice::from_ref(&id));
    let beat = beta.post("/v1/workers/heartbeat", json!({"worker_id": "w", "active_jobs": [id]})).await.expect(200);
    assert_eq!(beat.at("/jobs_extended"), &json!([]));
    admin.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    let beat = beta.post("/v1/workers/heartbeat", json!({"worker_id": "w", "active_jobs": [id]})).await.expect(200);
    assert_eq!(beat.at("/cancelled_jobs"), &json!([]), "its cancellation is not reported either");
    assert_eq!(
        beta.post("/v1/workers/fetch", json!({"queues": ["q"]})).await.expect(200).job_ids(),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn dead_letters_are_each_tenants_own() {
    let app = guarded().await;
    let (admin, acme, beta) = (caller(&app, "admin"), caller(&app, "acme-admin"), caller(&app, "beta-admin"));
    let mut ids = Vec::new();
    for tenant in ["acme", "beta", "acme"] {
        let mut dying = job(Some(tenant));
        dying["options"]["retry"] = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
        let id = admin.enqueue(dying).await;
        admin.post("/v1/workers/fetch", json!({"queues": ["q"]})).await.expect(200);
        admin.post("/v1/workers/nack", json!({"job_id": id, "error": {"code": "x", "message": "y"}})).await.expect(200);
        ids.push(id);
    }
    let list = acme.get("/v1/dead-letter?limit=1").await.expect(200);
    assert_eq!((list.job_ids(), list.at("/pagination/total")), (vec![ids[2].clone()], &json!(2)));
    assert_eq!(beta.get("/v1/dead-letter/stats").await.at("/total"), 1);
    assert_eq!(beta.get("/v1/dead-letter/stats").await.at("/by_queue/q"), 1);
    let path = format!("/v1/dead-letter/{}", ids[0]);
    beta.get(&path).await.expect(404);
    beta.post(&format!("{path}/retry"), json!({})).await.expect(404);
    beta.delete(&path).await.expect(404);
    acme.get(&path).await.expect(200);
    acme.post(&format!("{path}/retry"), json!({})).await.expect(200);
    acme.delete(&format!("/v1/dead-letter/{}", ids[2])).await.expect(200);
    assert_eq!(acme.get("/v1/dead-letter").await.at("/pagination/total"), 0);
    assert_eq!(admin.get("/v1/dead-letter").await.at("/pagination/total"), 1);
}

#[tokio::test]
async fn rate_keys_are_each_tenants_own() {
    let app = shared().await;
    let (admin, acme, beta) = (caller(&app, "admin"), caller(&app, "acme-admin"), caller(&app, "beta-admin"));
    let limited = |concurrency: u32| json!({"type": "t", "args": [], "options": {"queue": "q", "rate_limit": {"key": "stripe", "concurrency": concurrency}}});
    let first = acme.post("/v1/jobs", limited(1)).await.expect(201);
    assert_eq!(first.header("x-ratelimit-limit"), "1");
    // A tenant's job cannot change the limit of another tenant or of the queue.
    admin.enqueue(limited(7)).await;
    beta.enqueue(limited(3)).await;
    let per_queue = json!({"type": "t", "args": [], "options": {"queue": "q", "rate_limit": {"max_per_second": 1}}});
    beta.enqueue(per_queue).await;
    for (who, most) in [(&acme, 1), (&beta, 3), (&admin, 7)] {
        assert_eq!(who.get("/v1/rate-limits/stripe").await.expect(200).at("/concurrency/limit"), most);
    }
    admin.get("/v1/rate-limits/queue:q").await.expect(404);
    let keys = |answer: &crate::support::Answer| {
        let items = answer.at("/items").as_array().cloned().unwrap_or_default();
        let mut keys: Vec<String> =
            items.iter().map(|item| item["key"].as_str().unwrap_or_default().to_owned()).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&acme.get("/v1/rate-limits").await.expect(200)), ["stripe"]);
    assert_eq!(keys(&beta.get("/v1/rate-limits").await.expect(200)), ["queue:q", "stripe"]);
    assert_eq!(beta.get("/v1/rate-limits?limit=1&offset=1").await.at("/pagination/total"), 2);
    assert_eq!(keys(&admin.get("/v1/rate-limits").await), ["@acme/stripe", "@beta/queue:q", "@beta/stripe", "stripe"]);
    acme.send("PUT", "/v1/rate-limits/stripe", Some(json!({"concurrency": 0}))).await.expect(200);
    assert_eq!(acme.get("/v1/rate-limits/stripe").await.at("/concurrency/limit"), 0);
    assert_eq!(admin.get("/v1/rate-limits/stripe").await.at("/concurrency/limit"), 7);
    acme.delete("/v1/rate-limits/stripe").await.expect(200);
    beta.delete("/v1/rate-limits/stripe").await.expect(404);
    // A limit that a tenant set applies to the jobs it limits.
    let got = caller(&app, "acme-worker").post("/v1/workers/fetch", json!({"queues": ["q"], "count": 9})).await;
    assert_eq!(got.expect(200).job_ids().len(), 1);
    assert_eq!(acme.get("/v1/rate-limits/stripe").await.at("/concurrency/active"), 1);
    app.assert_consistent().await;
}

#[tokio::test]
async fn plan_rules_find_the_tenant_in_the_key() {
    let app = guarded_on(Arc::new(TestRedis::start()), |config| {
        let by_key = Rule { tenant_key: TenantKey::ApiKey, ..Rule::new("keyed", &["keyed.*"]) };
        let by_args = Rule { tenant_key: TenantKey::parse("args.0").unwrap(), ..Rule::new("args", &["args.*"]) };
        config.plan = vec![by_key, by_args];
    })
    .await;
    let (admin, acme) = (caller(&app, "admin"), caller(&app, "acme-producer"));
    // Paused, so that staged jobs stay staged.
    for rule in ["keyed", "args"] {
        admin.post(&format!("/v1/admin/planner/{rule}/pause"), json!({})).await.expect(200);
    }
    for who in [&acme, &acme, &caller(&app, "beta-producer"), &admin] {
        who.enqueue(json!({"type": "keyed.job", "args": []})).await;
    }
    let tenants = admin.get("/v1/admin/planner/keyed/tenants?sort=name").await.expect(200);
    let waiting: std::collections::BTreeMap<String, u64> = tenants
        .at("/items")
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["tenant_id"].as_str().unwrap().to_owned(), item["pending"].as_u64().unwrap()))
        .collect();
    assert_eq!(waiting.len(), 3, "{waiting:?}");
    assert!(["acme", "beta", "_default"].iter().all(|tenant| waiting.contains_key(*tenant)), "{waiting:?}");

    // A rule that reads the tenant from another place must find the same tenant there, or none.
    acme.enqueue(json!({"type": "args.job", "args": ["acme"]})).await;
    let refused = acme.post("/v1/jobs", json!({"type": "args.job", "args": ["beta"]})).await.expect(403);
    assert_eq!(refused.at("/error/details/field"), "args.0");
    let id = acme.enqueue(json!({"type": "args.job", "args": []})).await;
    acme.get(&format!("/v1/jobs/{id}")).await.expect(200);
}

#[tokio::test]
async fn unique_jobs_are_compared_within_the_tenant_of_the_key() {
    let app = guarded().await;
    let unique = |tenant: Option<&str>| {
        let mut job = job(tenant);
        job["unique"] = json!({"keys": ["type"]});
        job
    };
    let (acme, beta) = (caller(&app, "acme-producer"), caller(&app, "beta-producer"));
    acme.post("/v1/jobs", unique(None)).await.expect(201);
    acme.post("/v1/jobs", unique(None)).await.expect(409);
    acme.post("/v1/jobs", unique(Some("acme"))).await.expect(409);
    beta.post("/v1/jobs", unique(None)).await.expect(201);
    caller(&app, "admin").post("/v1/jobs", unique(None)).await.expect(201);
    caller(&app, "admin").post("/v1/jobs", unique(Some("beta"))).await.expect(409);
}

#[tokio::test]
async fn queues_and_statistics_are_each_tenants_own() {
    for isolation in [Isolation::Sharded, Isolation::Shared, Isolation::Namespace] {
        let app = guarded_on(Arc::new(TestRedis::start()), |config| config.tenancy.isolation = isolation).await;
        let (admin, acme, beta) = (caller(&app, "admin"), caller(&app, "acme-operator"), caller(&app, "beta-operator"));
        for tenant in [Some("acme"), Some("acme"), Some("beta"), None] {
            admin.enqueue(job(tenant)).await;
        }
        let mut own = job(Some("beta"));
        own["options"]["queue"] = "betas".into();
        admin.enqueue(own).await;
        let stats = acme.get("/v1/queues/q/stats").await.expect(200);
        assert_eq!((stats.at("/queue/name"), stats.at("/queue/available")), (&json!("q"), &json!(2)), "{isolation:?}");
        assert_eq!(beta.get("/v1/queues/q").await.expect(200).at("/stats/available"), 1);
        acme.get("/v1/queues/betas/stats").await.expect(404);
        acme.get("/v1/queues/beta%2Fbetas/stats").await.expect(404);
        let names = |answer: crate::support::Answer| {
            let queues = answer.at("/queues").as_array().cloned().unwrap_or_default();
            queues.iter().map(|queue| queue["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(acme.get("/v1/queues").await.expect(200)), ["q"], "{isolation:?}");
        assert_eq!(names(beta.get("/v1/queues").await.expect(200)), ["betas", "q"], "{isolation:?}");

        assert_eq!(acme.get("/v1/admin/tenants/acme/stats").await.expect(200).at("/total_jobs"), 2);
        assert_eq!(acme.get("/v1/admin/tenants/acme/jobs").await.expect(200).at("/pagination/total"), 2);
        acme.get("/v1/admin/tenants/beta/stats").await.expect(404);
        acme.get("/v1/admin/tenants/beta/jobs").await.expect(404);
    }
}
