//! Calls each route so that it succeeds and so that it fails; the client compares responses with the document.

use crate::support::{Client, NOON, TestApp, contract, eventually, json};
use fairgate::api::{RouteInfo, routes};
use fairgate::clock::Clock;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Streams do not end; only their beginning is read.
const STREAMS: [&str; 3] =
    ["/ojs/v1/admin/planner/events", "/ojs/v1/admin/planner/{name}/events", "/ojs/v1/events/stream"];

/// Routes that need a Sidekiq to succeed: `shadow` and `sidekiq::warnings` call them through the same client.
const ELSEWHERE: [&str; 2] = ["/ojs/v1/admin/planner/{name}/shadow", "/ojs/v1/admin/sidekiq/jobs/{id}"];

struct Caller {
    client: Client,
    queues: AtomicUsize,
}

impl Caller {
    async fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let body = (!body.is_null()).then(|| body.to_string());
        let path = format!("/ojs/v1{path}");
        let answer = self.client.send(method, &path, body).await;
        assert!(answer.status < 300, "{method} {path}: {} {}", answer.status, answer.text);
        answer.body
    }

    async fn get(&self, path: &str) -> Value {
        self.call("GET", path, Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.call("POST", path, body).await
    }

    /// An active job in its own queue.
    async fn active(&self, retry: Value) -> String {
        let queue = format!("busy-{}", self.queues.fetch_add(1, Ordering::Relaxed));
        let id = self.client.enqueue(json!({"type": "work.do", "args": [1], "queue": queue, "retry": retry})).await;
        let fetched = self.post("/workers/fetch", json!({"queues": [queue], "worker_id": "w1", "count": 1})).await;
        assert_eq!(fetched["jobs"][0]["id"], id.as_str());
        id
    }

    /// A job in the dead letter queue.
    async fn dead(&self) -> String {
        let id = self.active(json!({"max_attempts": 1, "on_exhaustion": "dead_letter"})).await;
        self.post("/workers/nack", json!({"job_id": id, "error": {"code": "oops", "message": "it broke"}})).await;
        id
    }
}

#[tokio::test]
async fn each_route_responds_as_documented() {
    let app = TestApp::start_with(Clock::manual(NOON), |config| config.server.private_webhooks = true).await;
    let caller = Caller { client: app.client.clone(), queues: AtomicUsize::new(0) };
    for path in ["/ojs/manifest", "/ojs/v1/health", "/health", "/healthz", "/ready", "/readyz", "/metrics"] {
        app.client.get(path).await.expect(200);
    }
    for path in ["/openapi.json", "/docs", "/docs/errors", "/docs/script.js", "/docs/style.css"] {
        app.client.get(path).await.expect(200);
    }
    let page = app.client.get("/").await.expect(200);
    // A program that was built without the dashboard has no files of it.
    let file = page.text.split_once("dashboard/").and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| name);
    if let Some(name) = file {
        app.client.get(&format!("/dashboard/{name}")).await.expect(200);
    }
    caller.get("/admin/keys/current").await;
    jobs(&caller).await;
    workers(&caller, &app).await;
    queues(&caller).await;
    dead_letters(&caller).await;
    workflows_and_crons(&caller).await;
    planner(&caller).await;
    policies(&caller).await;
    webhooks(&caller, &app).await;
    failures(&caller).await;

    let seen = contract::seen();
    for RouteInfo { method, path, .. } in routes() {
        for (outcome, where_to) in
            [("ok", "a call to tests/it/api/openapi/calls.rs"), ("error", "a failure to its `failures`")]
        {
            let is_absent = path == "/dashboard/{file}" && file.is_none();
            let is_seen = seen.contains(&(method.clone(), path.to_owned(), outcome))
                || is_absent
                || STREAMS.contains(&path)
                || ELSEWHERE.contains(&path);
            assert!(is_seen, "{method} {path} was never seen to be {outcome}: add {where_to}");
        }
    }
}

async fn jobs(caller: &Caller) {
    let job = json!({"type": "mail.send", "args": ["a"], "meta": {"tenant_id": "acme"}, "tags": ["t"], "x_own": 1,
        "options": {"queue": "mail", "priority": 5, "timeout_ms": 1000, "scheduled_at": "+PT1H", "expires_at": "+PT2H",
        "unique": {"keys": ["type", "args"], "on_conflict": "ignore"}, "rate_limit": {"key": "k", "concurrency": 3}}});
    let made = caller.post("/jobs", job.clone()).await;
    assert_eq!(caller.post("/jobs", job).await["deduplicated"], true);
    caller.post("/jobs/batch", json!({"jobs": [{"type": "a.b", "args": []}, {"type": "a.b", "args": []}]})).await;
    let id = made["job"]["id"].as_str().unwrap();
    caller.get(&format!("/jobs/{id}")).await;
    caller.get(&format!("/admin/jobs/{id}")).await;
    caller.get(&format!("/jobs/{id}/explain")).await;
    caller.get("/jobs?state=scheduled&queue=mail&type=mail.*&tenant=acme&limit=5").await;
    caller.get("/admin/jobs?state=scheduled,available&sort=priority&order=asc&per_page=1").await;
    caller.get(&format!("/jobs/{id}/progress")).await;
    caller.post("/jobs/results", json!({"ids": [id]})).await;
    caller.call("DELETE", &format!("/jobs/{id}"), Value::Null).await;
    caller.get(&format!("/jobs/{id}/result?wait=true&timeout=1")).await;
    caller.post(&format!("/admin/jobs/{id}/retry"), Value::Null).await;
    caller.post(&format!("/jobs/{id}/cancel"), json!({})).await;
    let pending = caller.client.enqueue(json!({"type": "a.b", "args": [], "options": {"pending": true}})).await;
    caller.post(&format!("/jobs/{pending}/activate"), Value::Null).await;
    caller.post(&format!("/admin/jobs/{pending}/cancel"), Value::Null).await;
    for (action, state) in
        [("cancel", "available"), ("retry", "cancelled"), ("cancel", "available"), ("delete", "cancelled")]
    {
        let body = json!({"confirm": true, "filter": {"queue": "default", "state": state}});
        caller.post(&format!("/admin/jobs/bulk/{action}"), body).await;
    }
    caller.get("/rate-limits").await;
    caller.call("PUT", "/rate-limits/k", json!({"concurrency": 1, "expires_at": "+PT1H"})).await;
    caller.get("/rate-limits/k").await;
    caller.call("DELETE", "/rate-limits/k", Value::Null).await;
    caller.get("/events?limit=5&types=job.enqueued").await;
}

async fn workers(caller: &Caller, app: &TestApp) {
    let worker =
        json!({"worker_id": "w1", "hostname": "h", "pid": 1, "queues": ["busy"], "concurrency": 2, "labels": ["l"]});
    caller.post("/workers/register", worker).await;
    let id = caller.active(json!({})).await;
    caller.post("/workers/heartbeat", json!({"worker_id": "w1", "active_jobs": [id]})).await;
    caller.post("/workers/beat", json!({"worker_id": "w1", "active_jobs": 1})).await;
    caller
        .call("PUT", &format!("/jobs/{id}/progress"), json!({"progress": 0.5, "data": {"n": 1}, "message": "half"}))
        .await;
    caller.post("/workers/progress", json!({"job_id": id, "percentage": 60})).await;
    for method in ["PUT", "POST"] {
        caller.call(method, &format!("/jobs/{id}/checkpoint"), json!({"state": {"at": 1}})).await;
    }
    caller.get(&format!("/jobs/{id}/checkpoint")).await;
    caller.get(&format!("/jobs/{id}")).await;
    caller.call("DELETE", &format!("/jobs/{id}/checkpoint"), Value::Null).await;
    caller.get("/admin/workers").await;
    caller.get("/admin/workers/w1").await;
    caller.get("/workers/w1/health").await;
    caller.post("/workers/ack", json!({"acks": [{"job_id": id, "result": {"x": 1}}, {"job_id": "none"}]})).await;
    let id = caller.active(json!({})).await;
    caller.post("/workers/ack", json!({"job_id": id})).await;
    let id = caller.active(json!({})).await;
    caller
        .post(&format!("/jobs/{id}/nack"), json!({"error": {"type": "T", "message": "m", "details": {"a": 1}}}))
        .await;
    caller.post(&format!("/jobs/{}/ack", caller.active(json!({})).await), Value::Null).await;
    for verb in ["quiet", "resume", "terminate"] {
        caller.post(&format!("/admin/workers/w1/{verb}"), Value::Null).await;
    }
    caller.call("DELETE", "/workers/w1", Value::Null).await;
    caller.post("/workers/register", json!({"worker": {"id": "w2"}})).await;
    app.clock.advance(20_000);
    let stale = caller.client.get("/v1/workers/w2/health").await.expect(503);
    assert_eq!(stale.text_at("/state"), "stale");
    caller.call("DELETE", "/admin/workers/w2", Value::Null).await;
}

async fn queues(caller: &Caller) {
    caller.client.enqueue_into("mail").await;
    for path in [
        "/queues",
        "/queues/mail",
        "/queues/mail/stats",
        "/admin/stats",
        "/admin/health-report",
        "/admin/history",
        "/admin/queues",
        "/admin/queues/mail",
    ] {
        caller.get(path).await;
    }
    for plane in ["", "/admin"] {
        for verb in ["pause", "resume"] {
            caller.post(&format!("{plane}/queues/mail/{verb}"), Value::Null).await;
        }
        let config =
            json!({"backpressure": {"max_depth": 100, "strategy": "reject"}, "rate_limit": {"concurrency": 9}});
        caller.call("PUT", &format!("{plane}/queues/mail/config"), config).await;
        caller.get(&format!("{plane}/queues/mail/config")).await;
    }
    let limit = json!({"rate": {"limit": 5, "period": "PT1M"}});
    caller.call("PUT", "/admin/queues/mail/rate-limit", limit).await;
    caller.get("/admin/queues/mail/rate-limit").await;
    caller.call("DELETE", "/admin/queues/mail/rate-limit", Value::Null).await;
    let purge = json!({"states": ["available"], "confirm": true});
    caller.call("DELETE", "/admin/queues/mail/jobs", purge).await;
}

async fn dead_letters(caller: &Caller) {
    for plane in ["/dead-letter", "/admin/dead-letter"] {
        let id = caller.dead().await;
        caller.get(plane).await;
        caller.get(&format!("{plane}/stats")).await;
        caller.get(&format!("{plane}/{id}")).await;
        caller.call("DELETE", &format!("{plane}/{id}"), Value::Null).await;
        let id = caller.dead().await;
        caller.post(&format!("{plane}/{id}/retry"), Value::Null).await;
        caller.post(&format!("{plane}/retry"), json!({"dry_run": true, "filter": {"queue": "busy"}})).await;
        caller.call("DELETE", plane, json!({"confirm": true, "limit": 5})).await;
    }
}

async fn workflows_and_crons(caller: &Caller) {
    let job = || json!({"type": "a.b", "args": []});
    let nested = json!({"type": "chain", "name": "n", "steps": [job(), {"type": "group", "jobs": [job(), job()]}]});
    let batch = json!({"type": "batch", "jobs": [job()], "callbacks": {"on_complete": job()}, "meta": {"a": 1}});
    for workflow in [nested, batch] {
        let begun = caller.post("/workflows", workflow).await;
        let path = format!("/workflows/{}", begun["workflow"]["id"].as_str().unwrap());
        caller.get(&path).await;
        caller.get(&format!("{path}/progress")).await;
        caller.get("/workflows?state=running,failed&type=chain&limit=5").await;
        caller.call("DELETE", &path, Value::Null).await;
    }
    let cron = json!({"name": "nightly", "expression": "@daily", "job_template": {"type": "a.b", "args": []}});
    for _ in 0..2 {
        caller.post("/cron", cron.clone()).await;
    }
    caller.call("PATCH", "/cron/nightly", json!({"description": "d", "overlap_policy": "allow"})).await;
    for path in ["/cron?enabled=true", "/cron/nightly", "/cron/nightly/next?count=3"] {
        caller.get(path).await;
    }
    caller.post("/cron/nightly/run", Value::Null).await;
    caller.post("/cron-preview", json!({"expression": "*/5 * * * *", "timezone": "Europe/Berlin", "count": 2})).await;
    caller.call("DELETE", "/cron/nightly", Value::Null).await;
}

async fn planner(caller: &Caller) {
    let rule = json!({"types": ["plan.*"], "weights": {"static": {"acme": 3}}, "enqueue_interval": "1h"});
    for _ in 0..2 {
        caller.call("PUT", "/admin/planner/fair", rule.clone()).await;
    }
    let job = |tenant: &str| json!({"type": "plan.it", "args": [], "meta": {"tenant_id": tenant}});
    caller.post("/jobs/batch", json!({"jobs": [job("acme"), job("beta"), job("acme")]})).await;
    caller.get("/admin/autoscale?limit=5&target_seconds=30").await;
    caller.get("/admin/autoscale/fair?kind=rule&slots_per_worker=10").await;
    for path in ["", "/fair", "/fair/tenants?sort=weight", "/fair/preview?jobs=2"] {
        caller.get(&format!("/admin/planner{path}")).await;
    }
    for path in STREAMS {
        let url = format!("{}{}", caller.client.base(), path.replace("{name}", "fair"));
        let response = fairgate::weights::client_builder().build().unwrap().get(url).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        let described = &contract::DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"];
        assert!(described.get("text/event-stream").is_some());
    }
    for verb in ["run", "pause", "resume"] {
        caller.post(&format!("/admin/planner/fair/{verb}"), Value::Null).await;
    }
    caller.get("/admin/planner/fair/rounds").await;
    caller.get("/admin/planner/fair").await;
    caller.call("DELETE", "/admin/planner/fair", Value::Null).await;
}

async fn policies(caller: &Caller) {
    let pool =
        json!({"name": "heavy", "queues": ["a", "b"], "strategy": "weighted", "weights": {"a": 2}, "concurrency": 5});
    let made = caller.post("/admin/pools", pool).await;
    caller.call("PUT", "/admin/pools/heavy", made).await;
    caller.call("PUT", "/admin/pools/light", json!({"queues": ["c"]})).await;
    caller.get("/admin/pools").await;
    caller.get("/admin/pools/heavy").await;
    caller.call("DELETE", "/admin/pools/heavy", Value::Null).await;
    caller.get("/admin/scheduling/stats").await;
    let config = caller.get("/admin/scheduling/config").await;
    caller.call("PUT", "/admin/scheduling/config", config).await;
    let queues =
        json!({"queues": {"a": {"tenant_fairness": {"enabled": true}}}, "tenant_fairness": {"default_weight": 2}});
    caller.call("PUT", "/admin/scheduling/config", queues).await;

    let terms = json!({"fairness_weight": 2, "limits": {"max_concurrency": 5, "max_enqueue_rate": {"limit": 9, "period": "PT1M"}}});
    caller.call("PUT", "/admin/tenants/acme", terms).await;
    let shown = caller.get("/admin/tenants/acme").await;
    caller.call("PUT", "/admin/tenants/acme", shown).await;
    caller.call("PUT", "/admin/tenants/acme/limits", json!({"max_concurrency": null, "max_queue_depth": 9})).await;
    for path in [
        "/admin/tenants?prefix=a&configured=true&sort=name",
        "/admin/tenants/acme/stats",
        "/admin/tenants/acme/jobs",
        "/admin/tenants/acme/noise",
        "/admin/tenants/_default",
    ] {
        caller.get(path).await;
    }
    caller.post("/admin/tenants/acme/noise/reset", Value::Null).await;
    caller.call("DELETE", "/admin/tenants/acme?force=true", Value::Null).await;
}

async fn webhooks(caller: &Caller, app: &TestApp) {
    // Port 1 has no listener.
    let body = json!({"url": "http://127.0.0.1:1/hook", "events": ["job.*"], "metadata": {"a": 1}});
    let made = caller.post("/webhooks/subscriptions", body).await;
    let path = format!("/webhooks/subscriptions/{}", made["subscription"]["id"].as_str().unwrap());
    caller.get(&path).await;
    caller.get("/webhooks/subscriptions").await;
    caller.call("PATCH", &path, json!({"filter": {"queues": ["hooked"]}})).await;
    caller.post(&format!("{path}/rotate-secret"), Value::Null).await;
    caller.client.enqueue_into("hooked").await;
    let deliveries =
        async |status: &str| caller.get(&format!("/webhooks/deliveries?status={status}")).await["deliveries"].clone();
    eventually("it is given up", async || {
        app.clock.advance(86_400_000);
        deliveries("pending").await;
        !deliveries("dead").await[0].is_null()
    })
    .await;
    let id = deliveries("dead").await[0]["id"].as_str().unwrap().to_owned();
    caller.get(&format!("/webhooks/deliveries/{id}")).await;
    caller.post(&format!("/webhooks/deliveries/{id}/retry"), Value::Null).await;
    caller.call("DELETE", &path, Value::Null).await;
}

/// Every route rejects another version; those with a name reject an unknown one; those with a body require an object.
/// Keys come last: after the first key is created, requests without one are refused.
async fn failures(caller: &Caller) {
    let client = &caller.client;
    for RouteInfo { method, path, .. } in routes() {
        let plain =
            path.replace("{id}", "none").replace("{name}", "none").replace("{key}", "none").replace("{file}", "none");
        let refused = client.try_send(&method, &plain, &[("ojs-version", "9")], None).await.unwrap();
        assert_eq!((refused.status, refused.text_at("/error/code")), (422, "unsupported"), "{method} {path}");
        let operation = &contract::DOCUMENT["paths"][path][method.to_ascii_lowercase()];
        let takes = operation.get("requestBody").is_some();
        if takes {
            for body in ["[1", "[]", "", "{\"a\":1"] {
                let answer = client.send(&method, &plain, Some(body.to_owned())).await;
                assert!(answer.status < 500, "{method} {path}: {}", answer.text);
            }
        }
        if plain != path && !path.starts_with("/ojs/v1/admin/tenants") {
            let body = if path.contains("checkpoint") || path.contains("progress") {
                r#"{"progress":0.5,"state":{}}"#
            } else {
                "{}"
            };
            let body = takes.then(|| body.to_owned());
            let answer = client.send(&method, &plain, body).await;
            assert!(answer.status < 500, "{method} {path}: {}", answer.text);
            let undecodable = client.send(&method, &plain.replace("none", "%FF"), None).await;
            assert!((400..500).contains(&undecodable.status), "{method} {path}: {}", undecodable.status);
        }
        let queries =
            operation["parameters"].as_array().into_iter().flatten().filter(|parameter| parameter["in"] == "query");
        for parameter in queries.filter(|parameter| parameter["schema"].get("minimum").is_some()) {
            let name = parameter["name"].as_str().unwrap();
            let answer = client.send(&method, &format!("{plain}?{name}=-1"), None).await;
            assert!((400..500).contains(&answer.status), "{method} {path} {name}: {}", answer.status);
        }
    }
    let made = caller.post("/admin/keys", json!({"name": "root", "role": "admin"})).await;
    let bearer = format!("Bearer {}", made["api_key"]["key"].as_str().unwrap());
    let header = [("authorization", bearer.as_str())];
    client.get("/v1/admin/keys").await.expect(401);
    let made = json!({"name": "w", "role": "worker", "tenant": "acme"}).to_string();
    let made = client.try_send("POST", "/v1/admin/keys", &header, Some(made)).await.unwrap().expect(201);
    client.try_send("GET", "/v1/admin/keys", &header, None).await.unwrap().expect(200);
    let path = format!("/v1/admin/keys/{}", made.text_at("/api_key/id"));
    client.try_send("DELETE", &path, &header, None).await.unwrap().expect(200);
}
