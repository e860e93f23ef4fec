//! Namespaces: a request that names a tenant sees its queues, pools, limits, workers and crons, and nothing of other
//! tenants.

use super::{job, start_with};
use crate::support::{Answer, TestApp, json};
use fairgate::api::{Access, RouteInfo, routes};
use fairgate::domain::tenant::Isolation;
use serde_json::Value;
use std::collections::BTreeMap;

async fn namespaces() -> TestApp {
    start_with(&[], |config| config.tenancy.isolation = Isolation::Namespace).await
}

async fn of(app: &TestApp, tenant: &str, method: &str, path: &str, body: Value) -> Answer {
    app.with_header(method, path, tenant, Some(body).filter(|body| !body.is_null())).await
}

#[tokio::test]
async fn a_pool_serves_the_queues_of_the_tenant_that_made_it() {
    let app = namespaces().await;
    for (tenant, concurrency) in [("acme", 1), ("beta", 5)] {
        let pool = json!({"queues": ["q", "other"], "strategy": "weighted", "concurrency": concurrency});
        let made = of(&app, tenant, "PUT", "/v1/admin/pools/p", pool).await.expect(201);
        assert_eq!(
            (made.at("/name"), made.at("/queues"), made.at("/tenant")),
            (&json!("p"), &json!(["q", "other"]), &json!(tenant))
        );
        assert_eq!(of(&app, tenant, "PUT", "/v1/admin/pools/p", made.body.clone()).await.expect(200).body, made.body);
        for _ in 0..3 {
            app.push(job(tenant)).await.expect(201);
        }
    }
    let fetch = json!({"pool": "p", "worker_id": "w", "count": 9});
    let got = of(&app, "acme", "POST", "/v1/workers/fetch", fetch.clone()).await.expect(200);
    assert_eq!(
        (got.job_ids().len(), got.at("/jobs/0/meta/tenant_id"), got.at("/jobs/0/queue")),
        (1, &json!("acme"), &json!("q"))
    );
    assert_eq!(
        of(&app, "acme", "POST", "/v1/workers/fetch", fetch.clone()).await.expect(200).job_ids().len(),
        0,
        "it is full"
    );
    let got = of(&app, "beta", "POST", "/v1/workers/fetch", fetch.clone()).await.expect(200);
    assert_eq!((got.job_ids().len(), got.at("/jobs/0/meta/tenant_id")), (3, &json!("beta")));
    app.client.post("/v1/workers/fetch", fetch.clone()).await.expect(404);
    of(&app, "gamma", "POST", "/v1/workers/fetch", fetch).await.expect(404);
    let beat = json!({"worker_id": "w", "pool": "p"});
    of(&app, "beta", "POST", "/v1/workers/heartbeat", beat).await.expect(200);
    assert_eq!(of(&app, "beta", "GET", "/v1/admin/workers/w", Value::Null).await.expect(200).at("/pool"), "p");
    assert_eq!(of(&app, "beta", "GET", "/v1/admin/pools/p", Value::Null).await.at("/active_workers"), 1);
    assert_eq!(of(&app, "acme", "GET", "/v1/admin/pools/p", Value::Null).await.at("/active_jobs"), 1);
    for (tenant, pools) in [("acme", 1), ("gamma", 0), ("_default", 0)] {
        let list = of(&app, tenant, "GET", "/v1/admin/pools", Value::Null).await.expect(200);
        assert_eq!(list.at("/pagination/total"), pools, "{tenant}");
    }
    assert_eq!(
        app.client.get("/v1/admin/pools").await.at("/pagination/total"),
        2,
        "a request without a tenant sees all of them"
    );
    of(&app, "beta", "DELETE", "/v1/admin/pools/p", Value::Null).await.expect(200);
    of(&app, "acme", "GET", "/v1/admin/pools/p", Value::Null).await.expect(200);
    // A long poll in a pool is woken by the tenant's jobs.
    of(&app, "acme", "PUT", "/v1/admin/pools/p", json!({"queues": ["late"]})).await.expect(200);
    let wait = json!({"pool": "p", "worker_id": "w2", "wait_ms": 20_000});
    let (waits, _) = tokio::join!(of(&app, "acme", "POST", "/v1/workers/fetch", wait), async {
        crate::support::eventually("it waits", async || app.app.metrics.http.long_polls().count() == 1).await;
        let mut late = job("acme");
        late["queue"] = json!("late");
        app.push(late).await.expect(201)
    });
    assert_eq!(waits.expect(200).job_ids().len(), 1);
    app.assert_consistent().await;
}

#[tokio::test]
async fn a_queues_rate_limit_belongs_to_the_callers_namespace() {
    let app = namespaces().await;
    let path = "/v1/admin/queues/q/rate-limit";
    let set = of(&app, "acme", "PUT", path, json!({"concurrency": 1})).await.expect(200);
    assert_eq!((set.at("/queue"), set.at("/concurrency")), (&json!("q"), &json!(1)));
    of(&app, "beta", "GET", path, Value::Null).await.expect(404);
    app.client.get(path).await.expect(404);
    for tenant in ["acme", "beta"] {
        for _ in 0..3 {
            app.push(job(tenant)).await.expect(201);
        }
    }
    assert_eq!((app.fetch_for("acme", 9).await.len(), app.fetch_for("beta", 9).await.len()), (1, 3));
    let limits = of(&app, "acme", "GET", "/v1/rate-limits", Value::Null).await.expect(200);
    assert_eq!((limits.at("/items/0/key"), limits.at("/pagination/total")), (&json!("queue:q"), &json!(1)));
    assert_eq!(of(&app, "beta", "GET", "/v1/rate-limits", Value::Null).await.at("/pagination/total"), 0);
    of(&app, "beta", "DELETE", path, Value::Null).await.expect(404);
    of(&app, "acme", "DELETE", path, Value::Null).await.expect(200);
    assert_eq!(app.fetch_for("acme", 9).await.len(), 2);
    // Limits and unique keys of a job belong to its tenant's namespace, regardless of who enqueues it.
    for tenant in ["acme", "beta"] {
        for _ in 0..2 {
            let mut limited = job(tenant);
            limited["rate_limit"] = json!({"key": "k", "concurrency": 1});
            app.push(limited).await.expect(201);
        }
        assert_eq!(app.fetch_for(tenant, 9).await.len(), 1, "{tenant}");
        let shown = of(&app, tenant, "GET", "/v1/rate-limits/k", Value::Null).await.expect(200);
        assert_eq!(shown.at("/concurrency/active"), 1);
    }
    app.assert_consistent().await;
}

#[tokio::test]
async fn a_cron_belongs_to_the_namespace_it_was_registered_in() {
    let app = namespaces().await;
    for tenant in ["acme", "beta"] {
        let cron = json!({"name": "n", "expression": "@hourly", "type": "t.job", "overlap_policy": "allow"});
        let made = of(&app, tenant, "POST", "/v1/cron", cron).await.expect(201);
        assert_eq!((made.at("/cron/name"), made.at("/cron/tenant_id")), (&json!("n"), &json!(tenant)));
        let run = of(&app, tenant, "POST", "/v1/cron/n/run", json!({})).await.expect(201);
        assert_eq!((run.at("/job/meta/tenant_id"), run.at("/job/meta/cron_name")), (&json!(tenant), &json!("n")));
    }
    assert_eq!(of(&app, "acme", "GET", "/v1/cron", Value::Null).await.at("/pagination/total"), 1);
    of(&app, "beta", "DELETE", "/v1/cron/n", Value::Null).await.expect(200);
    of(&app, "beta", "GET", "/v1/cron/n", Value::Null).await.expect(404);
    let fired = of(&app, "acme", "GET", "/v1/cron/n", Value::Null).await.expect(200);
    assert_eq!(fired.at("/cron/run_count"), 1);
    assert_eq!(app.client.get("/v1/cron").await.at("/pagination/total"), 1);
    app.clock.advance(3_600_000);
    crate::support::eventually("it fires under its own name", async || {
        of(&app, "acme", "GET", "/v1/cron/n", Value::Null).await.at("/cron/run_count") == 2
    })
    .await;
}

/// With every isolation, the header restricts results to the tenant's own jobs.
#[tokio::test]
async fn a_request_with_a_tenant_neither_lists_nor_changes_jobs_of_another() {
    for isolation in [Isolation::Sharded, Isolation::Shared, Isolation::Namespace] {
        let app = start_with(&[], |config| config.tenancy.isolation = isolation).await;
        let (acme, beta) = (app.client.enqueue(job("acme")).await, app.client.enqueue(job("beta")).await);
        assert_eq!(app.fetch_for("acme", 9).await, std::slice::from_ref(&acme), "{isolation:?}");
        assert_eq!(app.fetch_for("beta", 9).await, std::slice::from_ref(&beta));
        for (path, body) in [
            ("/v1/workers/ack", json!({"job_id": acme})),
            ("/v1/workers/ack", json!({"job_id": acme, "worker_id": "w"})),
            ("/v1/workers/nack", json!({"job_id": acme, "error": {"message": "x"}})),
            (&format!("/v1/jobs/{acme}/ack"), json!({})),
            (&format!("/v1/jobs/{acme}/cancel"), json!({})),
            (&format!("/v1/admin/jobs/{acme}/cancel"), json!({})),
        ] {
            of(&app, "beta", "POST", path, body).await.expect(404);
        }
        let many = json!({"acks": [{"job_id": acme}, {"job_id": beta, "worker_id": "w"}]});
        let many = of(&app, "beta", "POST", "/v1/workers/ack", many).await.expect(200);
        assert_eq!(many.at("/results/0/error/code"), "not_found");
        assert_eq!(many.at("/results/1/acknowledged"), &json!(true), "{}", many.text);
        let list = of(&app, "beta", "GET", "/v1/admin/jobs", Value::Null).await.expect(200);
        assert_eq!((list.at("/pagination/total"), list.at("/items/0/id")), (&json!(1), &json!(beta)));
        of(&app, "beta", "GET", "/v1/admin/tenants/acme/jobs", Value::Null).await.expect(404);
        assert_eq!(app.client.state(&acme).await, "active", "{isolation:?}");
        // A worker that names no tenant may use the same worker id as when it fetched for one.
        app.client.post("/v1/workers/ack", json!({"job_id": acme, "worker_id": "w"})).await.expect(200);
        assert_eq!(app.client.get("/v1/admin/jobs").await.at("/pagination/total"), 2);
        app.assert_consistent().await;
    }
}

/// One object of each kind for a tenant, with names that other tenants use as well.
struct TenantData {
    available: String,
    active: String,
    dead: String,
    workflow: String,
}

async fn create_data(app: &TestApp, tenant: &str) -> TenantData {
    let send = async |method: &str, path: &str, body: Value| of(app, tenant, method, path, body).await;
    let pushed = async |kind: &str, more: Value| {
        let mut job = json!({"type": kind, "args": [tenant], "queue": "q"});
        more.as_object().unwrap().iter().for_each(|(name, value)| job[name] = value.clone());
        send("POST", "/v1/jobs", job).await.expect(201).text_at("/job/id").to_owned()
    };
    let dies = json!({"retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
    let dead = pushed("t.dies", dies).await;
    let fetch = json!({"queues": ["q"], "worker_id": "w", "count": 1});
    send("POST", "/v1/workers/fetch", fetch.clone()).await.expect(200);
    let nack = json!({"job_id": dead, "error": {"code": "x", "message": tenant}});
    send("POST", "/v1/workers/nack", nack).await.expect(200);
    let active = pushed("t.active", json!({"rate_limit": {"key": "k", "concurrency": 3}})).await;
    assert_eq!(send("POST", "/v1/workers/fetch", fetch).await.job_ids(), std::slice::from_ref(&active));
    let available = pushed("t.available", json!({})).await;
    let workflow = json!({"type": "chain", "name": tenant, "steps": [{"type": "t.step", "args": [], "queue": "q"}, {"type": "t.step", "args": []}]});
    let workflow = send("POST", "/v1/workflows", workflow).await.expect(201).text_at("/workflow/id").to_owned();
    for (method, path, body) in [
        ("POST", "/v1/workers/heartbeat", json!({"worker_id": "w", "hostname": tenant})),
        ("PUT", "/v1/admin/pools/p", json!({"queues": ["q"], "concurrency": 77})),
        ("POST", "/v1/cron", json!({"name": "n", "expression": "@yearly", "type": "t.cron", "description": tenant})),
        ("PUT", "/v1/rate-limits/k", json!({"concurrency": 4})),
        ("PUT", "/v1/admin/queues/q/rate-limit", json!({"concurrency": 66})),
        ("PUT", "/v1/queues/q/config", json!({"max_size": 555, "overflow_policy": "reject"})),
        ("POST", "/v1/queues/idle/pause", json!({})),
        ("PUT", &format!("/v1/jobs/{active}/progress"), json!({"progress": 0.5})),
        ("PUT", &format!("/v1/jobs/{active}/checkpoint"), json!({"state": {"of": tenant}})),
    ] {
        let answer = send(method, path, body).await;
        assert!(answer.status < 300, "{method} {path}: {}", answer.text);
    }
    TenantData { available, active, dead, workflow }
}

/// All responses about a tenant's own data, for comparison.
async fn seen_by(app: &TestApp, tenant: &str, own: &TenantData) -> BTreeMap<String, Value> {
    let mut seen = BTreeMap::new();
    for path in [
        "/v1/queues",
        "/v1/queues/q",
        "/v1/queues/idle",
        "/v1/queues/q/config",
        "/v1/admin/queues",
        "/v1/admin/queues/q",
        "/v1/admin/queues/q/rate-limit",
        "/v1/admin/pools",
        "/v1/admin/workers",
        "/v1/admin/workers/w",
        "/v1/admin/jobs",
        "/v1/admin/scheduling/stats",
        "/v1/cron",
        "/v1/dead-letter",
        "/v1/dead-letter/stats",
        "/v1/rate-limits",
        "/v1/rate-limits/k",
        "/v1/events?limit=1000",
        &format!("/v1/admin/tenants/{tenant}/jobs"),
        &format!("/v1/jobs/{}", own.available),
        &format!("/v1/jobs/{}", own.active),
        &format!("/v1/jobs/{}/progress", own.active),
        &format!("/v1/jobs/{}/checkpoint", own.active),
        &format!("/v1/jobs/{}", own.dead),
        &format!("/v1/workflows/{}", own.workflow),
    ] {
        let answer = of(app, tenant, "GET", path, Value::Null).await;
        assert!(answer.status < 300, "{path}: {}", answer.text);
        // The events cursor advances with the events of all tenants.
        let body = if path.starts_with("/v1/events") { answer.at("/events").clone() } else { answer.body };
        seen.insert(path.to_owned(), body);
    }
    seen
}

/// A valid body for a route; job ids in it are those of the other tenant.
fn body_for(path: &str, foreign: &TenantData) -> Value {
    let every = json!(["available", "completed", "discarded", "cancelled", "scheduled", "retryable", "pending"]);
    match path.trim_start_matches("/ojs/v1") {
        "/jobs" => json!({"type": "t.x", "args": []}),
        "/jobs/batch" => json!({"jobs": [{"type": "t.x", "args": []}]}),
        "/jobs/results" => json!({"job_ids": [foreign.active, foreign.dead]}),
        "/workflows" => json!({"type": "group", "jobs": [{"type": "t.x", "args": []}]}),
        "/workers/fetch" => json!({"queues": ["q", "idle"], "worker_id": "w", "count": 100}),
        "/workers/ack" => json!({"job_id": foreign.active, "worker_id": "w"}),
        "/workers/nack" => json!({"job_id": foreign.active, "worker_id": "w", "error": {"message": "x"}}),
        "/workers/heartbeat" | "/workers/beat" => {
            json!({"worker_id": "w", "active_jobs": [foreign.active], "state": "quiet"})
        }
        "/workers/register" => json!({"worker_id": "w", "hostname": "h"}),
        "/cron" => json!({"name": "n", "expression": "@daily", "type": "t.x"}),
        "/cron-preview" => json!({"expression": "@daily"}),
        "/cron/{name}" => json!({"enabled": false}),
        "/admin/pools" => json!({"name": "p", "queues": ["q"]}),
        "/admin/pools/{name}" => json!({"queues": ["q"], "strategy": "strict"}),
        "/rate-limits/{key}" | "/admin/queues/{name}/rate-limit" => json!({"concurrency": 0}),
        "/queues/{name}/config" | "/admin/queues/{name}/config" => json!({"max_size": 1, "overflow_policy": "reject"}),
        "/admin/queues/{name}/jobs" => json!({"states": every, "confirm": true}),
        path if path.contains("/bulk/") || path.ends_with("dead-letter") || path.ends_with("dead-letter/retry") => {
            json!({"filter": {}, "confirm": true})
        }
        path if path.ends_with("/progress") => json!({"progress": 0.9}),
        path if path.ends_with("/checkpoint") => json!({"state": {}}),
        _ => json!({}),
    }
}

/// Calls every route with the other tenant's names and ids: none shows or changes data of the other tenant.
#[tokio::test]
async fn no_route_shows_or_changes_data_of_another_tenant() {
    let app = namespaces().await;
    let acme = create_data(&app, "acme").await;
    let before = seen_by(&app, "acme", &acme).await;
    let ids = [&acme.available, &acme.active, &acme.dead, &acme.workflow];
    let mut tried = 0;
    for RouteInfo { method, path, access } in routes() {
        if access == Access::Public || path.ends_with("/stream") {
            continue;
        }
        let name = match path {
            path if path.contains("/cron/{name}") => "n",
            path if path.contains("/pools/{name}") => "p",
            _ => "q",
        };
        for id in ids {
            let id = if path.contains("/workers/{id}") {
                "w"
            } else if path.contains("/tenants/{id}") {
                "acme"
            } else {
                id
            };
            let target = path.replace("{name}", name).replace("{key}", "k").replace("{id}", id);
            let body = if method == "GET" { Value::Null } else { body_for(path, &acme) };
            let answer = of(&app, "beta", &method, &target, body).await;
            tried += 1;
            let what = format!("{method} {target}: {} {}", answer.status, answer.text);
            assert!(answer.status < 500, "{what}");
            if answer.status < 400 {
                assert!(!answer.text.contains("acme"), "{what}");
                assert!(
                    !ids.iter().any(|id| answer.text.contains(id.as_str()) && !target.contains(id.as_str())),
                    "{what}"
                );
                assert!(!matches!(access, Access::Global(_)), "it spans all tenants: {what}");
            }
            if path.contains("/{id}") && !path.contains("/workers/") {
                assert_eq!(answer.status, 404, "{what}");
            }
            if !path.contains("{id}") {
                break;
            }
        }
    }
    assert!(tried > 100, "{tried}");
    for (path, body) in seen_by(&app, "acme", &acme).await {
        assert_eq!(body, before[&path], "{path}");
    }
    app.assert_consistent().await;
}

#[tokio::test]
async fn names_in_other_namespaces_are_not_found() {
    let app = namespaces().await;
    create_data(&app, "acme").await;
    for tenant in ["beta", "_default"] {
        for path in [
            "/v1/queues/acme%2Fq",
            "/v1/queues/acme%2Fq/config",
            "/v1/admin/queues/acme%2Fq",
            "/v1/admin/queues/acme%2Fq/rate-limit",
            "/v1/admin/pools/acme%2Fp",
            "/v1/cron/acme%2Fn",
            "/v1/rate-limits/@acme%2Fk",
            "/v1/rate-limits/queue:acme%2Fq",
            "/v1/admin/workers/acme%1Cw",
        ] {
            of(&app, tenant, "GET", path, Value::Null).await.expect(404);
        }
    }
    assert_eq!(
        app.client.get("/v1/queues/acme%2Fq").await.expect(200).at("/queue/active"),
        1,
        "a request without a tenant sees everything"
    );
}
