//! `waiting_for` of a job: the reason why it does not run.

use crate::support::{NOON, TestApp, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, Role};
use fairgate::domain::plan::Rule;
use serde_json::Value;

/// Starts a passive server.
async fn start(change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_with(Clock::manual(NOON), |config| {
        config.server.roles = vec![Role::Api];
        change(config);
    })
    .await
}

/// The member as returned by the job API and by the admin API.
async fn waiting_for(app: &TestApp, id: &str) -> Value {
    let shown = app.client.get(&format!("/v1/jobs/{id}")).await.expect(200);
    let admin = app.client.get(&format!("/v1/admin/jobs/{id}")).await.expect(200);
    assert_eq!(shown.at("/waiting_for"), shown.at("/job/waiting_for"));
    assert_eq!(shown.at("/waiting_for"), admin.at("/waiting_for"));
    shown.at("/waiting_for").clone()
}

#[tokio::test]
async fn a_staged_job_names_its_rule_tenant_and_gate() {
    let app = start(|config| config.plan = vec![Rule::new("reports", &["report.*"])]).await;
    // The main queue is not empty, so planned jobs do not pass through.
    app.client.enqueue(json!({"type": "other.job", "args": []})).await;
    let job = json!({"type": "report.pdf", "args": [], "meta": {"tenant_id": "acme"}});
    let id = app.client.enqueue(job).await;
    let expected = |gate: Value, state: &str| json!({"reason": "staged", "rule": "reports", "tenant": "acme", "queue": "default", "gate": gate, "tenant_state": state});
    assert_eq!(waiting_for(&app, &id).await, expected(json!({"open": true, "reason": null}), "waiting"));
    app.client.post("/v1/admin/planner/reports/pause", json!({})).await.expect(200);
    assert_eq!(waiting_for(&app, &id).await, expected(json!({"open": false, "reason": "paused"}), "waiting"));
    app.client.post("/v1/admin/planner/reports/resume", json!({})).await.expect(200);
    app.clock.advance(3_600_000);
    assert_eq!(waiting_for(&app, &id).await["gate"], json!({"open": false, "reason": "latency"}));
}

#[tokio::test]
async fn a_staged_job_of_a_tenant_of_weight_0_says_that_it_is_held() {
    let mut rule = Rule::new("reports", &["report.*"]);
    rule.weights.fixed.insert("acme".to_owned(), fairgate::domain::tenant::Weight::of(0.0).expect("a weight"));
    let app = start(|config| config.plan = vec![rule]).await;
    app.client.enqueue(json!({"type": "other.job", "args": []})).await;
    let id = app.client.enqueue(json!({"type": "report.pdf", "args": [], "meta": {"tenant_id": "acme"}})).await;
    assert_eq!(waiting_for(&app, &id).await["tenant_state"], "held");
}

#[tokio::test]
async fn a_job_blocked_by_a_limit_names_the_limit() {
    let app = start(|_| {}).await;
    let limited = |limit: Value| json!({"type": "a.b", "args": [], "queue": "q", "meta": {"tenant_id": "acme"}, "rate_limit": limit});
    let limit = json!({"key": "stripe", "concurrency": 1, "scope": "tenant"});
    let first = app.client.enqueue(limited(limit.clone())).await;
    let second = app.client.enqueue(limited(limit)).await;
    assert_eq!(waiting_for(&app, &second).await, Value::Null, "it waits for a worker");
    app.client.fetch("q", 9).await;
    assert_eq!(waiting_for(&app, &first).await, Value::Null, "it is active");
    let expected = json!({"reason": "rate_limit", "key": "stripe|tenant=acme", "scope": "key", "strategy": "concurrency",
        "since": "2027-01-15T08:00:00.000Z"});
    assert_eq!(waiting_for(&app, &second).await, expected);
    app.client.ack(&first).await.expect(200);
    app.client.fetch("q", 9).await;
    assert_eq!(waiting_for(&app, &second).await, Value::Null);

    let put_off = json!({"key": "late", "concurrency": 0, "on_limit": "reschedule"});
    let id = app.client.enqueue(limited(put_off)).await;
    app.client.fetch("q", 9).await;
    let waits = waiting_for(&app, &id).await;
    assert_eq!((&waits["reason"], &waits["key"]), (&json!("rate_limit"), &json!("late")), "{waits}");
    assert!(waits["until"].is_string(), "{waits}");
}

#[tokio::test]
async fn limits_of_queues_and_tenants_are_named_as_well() {
    let app = start(|_| {}).await;
    let put = async |path: &str, body: Value| app.client.send("PUT", path, Some(body.to_string())).await;
    put("/v1/admin/queues/slow/rate-limit", json!({"concurrency": 1})).await.expect(200);
    let ids = [app.client.enqueue_into("slow").await, app.client.enqueue_into("slow").await];
    app.client.fetch("slow", 9).await;
    let waits = waiting_for(&app, &ids[1]).await;
    assert_eq!((&waits["key"], &waits["scope"]), (&json!("queue:slow"), &json!("queue")), "{waits}");

    put("/v1/admin/tenants/acme", json!({"limits": {"max_concurrency": 1}})).await.expect(201);
    let job = json!({"type": "a.b", "args": [], "queue": "q", "meta": {"tenant_id": "acme"}});
    let ids = [app.client.enqueue(job.clone()).await, app.client.enqueue(job).await];
    app.client.fetch("q", 9).await;
    let expected =
        |since: &str| json!({"reason": "tenant_limit", "tenant": "acme", "limit": "max_concurrency", "since": since});
    let noon = "2027-01-15T08:00:00.000Z";
    assert_eq!(waiting_for(&app, &ids[1]).await, expected(noon));

    // A second lane that stops at the limit does not change since when it holds jobs back.
    app.clock.advance(1000);
    let job = json!({"type": "a.b", "args": [], "queue": "other", "meta": {"tenant_id": "acme"}});
    let other = app.client.enqueue(job).await;
    app.client.fetch("other", 9).await;
    for id in [&ids[1], &other] {
        assert_eq!(waiting_for(&app, id).await, expected(noon));
    }
    // The next job held back alone begins a new time.
    app.client.ack(&ids[0]).await.expect(200);
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), [&*ids[1]]);
    app.client.fetch("other", 9).await;
    assert_eq!(waiting_for(&app, &other).await, expected("2027-01-15T08:00:01.000Z"));
}

#[tokio::test]
async fn times_pauses_and_activation_are_named() {
    let app = start(|_| {}).await;
    let client = &app.client;
    let later = client.enqueue(json!({"type": "a.b", "args": [], "scheduled_at": "2027-01-15T09:00:00Z"})).await;
    let scheduled = json!({"reason": "scheduled", "until": "2027-01-15T09:00:00.000Z"});
    assert_eq!(waiting_for(&app, &later).await, scheduled);
    let pending = client.enqueue(json!({"type": "a.b", "args": [], "options": {"pending": true}})).await;
    assert_eq!(waiting_for(&app, &pending).await, json!({"reason": "activation"}));
    let retry = json!({"initial_interval": "PT10S", "jitter": false});
    let failed = client.enqueue(json!({"type": "a.b", "args": [], "queue": "f", "retry": retry})).await;
    client.fetch("f", 1).await;
    client.nack(&failed).await.expect(200);
    assert_eq!(waiting_for(&app, &failed).await, json!({"reason": "retry", "until": "2027-01-15T08:00:10.000Z"}));
    client.post("/v1/queues/p/pause", json!({})).await.expect(200);
    let paused = client.enqueue_into("p").await;
    let expected = json!({"reason": "queue_paused", "queue": "p", "since": "2027-01-15T08:00:00.000Z"});
    assert_eq!(waiting_for(&app, &paused).await, expected);
    client.delete(&format!("/v1/jobs/{paused}")).await.expect(200);
    assert_eq!(waiting_for(&app, &paused).await, Value::Null);
    // A member of that name sent by a client is not stored.
    let own = client.enqueue(json!({"type": "a.b", "args": [], "waiting_for": "godot"})).await;
    assert_eq!(waiting_for(&app, &own).await, Value::Null);
}
