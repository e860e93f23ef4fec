//! Twelve reasons why a job is stuck, each found with one request.

use super::*;
use crate::sidekiq::{beside, legacy};
use crate::support::{ChaosProxy, TestRedis, eventually};
use fairgate::config::StoreUrl;
use fairgate::domain::plan::{OnWebhookError, Webhook};
use fairgate::domain::tenant::Weight;
use fairgate::store::{Begun, ThrottleTerms, ThrottleUpdate, Why};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

#[tokio::test]
async fn a_closed_gate_shows_its_latency_and_threshold() {
    let mut rule = Rule::new("r", &["t.*"]);
    (rule.queue, rule.latency_threshold) = (Some("q".to_owned()), 5000);
    let plan = vec![rule.clone()];
    let app = start(|config| config.plan = plan).await;
    app.client.enqueue(plain("q", "other")).await;
    let id = app.client.enqueue(job("acme")).await;
    app.clock.advance(60 * SECOND);
    // A process plans the rule.
    app.store().begin_round(&rule, "planner", Why::Run, None).await.expect("a reply");
    assert_eq!(binding(&app.client, &id).await, "gate");
    let shown = explain(&app.client, &id).await;
    let gate = check(&shown, "gate");
    assert_eq!(gate["figures"]["latency_ms"], 60_000);
    assert_eq!(gate["figures"]["latency_threshold_ms"], 5000);
    assert_eq!(gate["since"], "2027-01-15T08:00:05.000Z");
    assert_eq!(
        shown.text_at("/summary"),
        "The gate is closed: the oldest job of queue q has waited for 60 s, and the threshold is 5 s."
    );
}

#[tokio::test]
async fn a_full_main_queue_closes_the_gate_as_well() {
    let app = planned(|rule| rule.max_depth = 1).await;
    app.client.enqueue(plain("q", "other")).await;
    let id = app.client.enqueue(job("acme")).await;
    let shown = explain(&app.client, &id).await;
    assert_eq!(shown.text_at("/binding"), "gate");
    assert_eq!(shown.text_at("/summary"), "The gate is closed: queue q holds 1 job, and the bound is 1.");
}

#[tokio::test]
async fn weight_0_holds_a_tenant() {
    let app = planned(|rule| _ = rule.weights.fixed.insert("acme".to_owned(), Weight::HELD)).await;
    let id = app.client.enqueue(job("acme")).await;
    assert_eq!(binding(&app.client, &id).await, "tenant_weight");
    let shown = explain(&app.client, &id).await;
    assert_eq!(shown.text_at("/summary"), "Tenant acme has weight 0, which holds its jobs.");
    assert_eq!(shown.at("/eta"), &Value::Null);
}

#[tokio::test]
async fn a_full_limit_names_the_job_that_holds_its_slot() {
    let app = start(|_| {}).await;
    let limited = |queue: &str| json!({"type": "a.b", "args": [], "options": {"queue": queue, "rate_limit": {"key": "stripe", "concurrency": 1}}});
    let holder = app.client.enqueue(limited("q")).await;
    let waits = app.client.enqueue(limited("other")).await;
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), [&*holder]);
    // Before and after a fetch has found that the limit stops the job.
    for _ in 0..2 {
        assert_eq!(binding(&app.client, &waits).await, "limit");
        let shown = explain(&app.client, &waits).await;
        let limit = check(&shown, "limit");
        assert_eq!(limit["holders"], json!([{"job_id": holder, "queue": "q"}]));
        assert_eq!((&limit["key"], &limit["figures"]["concurrency"]), (&json!("stripe"), &json!(1)));
        assert_eq!(shown.text_at("/summary"), "Limit stripe is full: 1 of 1 is active.");
        assert_eq!(app.client.fetch("other", 9).await.job_ids(), Vec::<String>::new());
    }
    app.client.ack(&holder).await.expect(200);
    assert_eq!(binding(&app.client, &waits).await, "");
    assert_eq!(app.client.fetch("other", 9).await.job_ids(), [waits]);
}

#[tokio::test]
async fn a_full_pool_names_what_it_runs() {
    let app = start(|_| {}).await;
    put(&app, "/v1/admin/pools/heavy", json!({"queues": ["q", "p"], "concurrency": 1})).await.expect(201);
    let holder = app.client.enqueue_into("p").await;
    let waits = app.client.enqueue_into("q").await;
    let fetch = async |queue: &str| {
        let body = json!({"queues": [queue], "pool": "heavy", "worker_id": "w"});
        app.client.post("/v1/workers/fetch", body).await.expect(200).job_ids()
    };
    assert_eq!(fetch("p").await, [&*holder]);
    assert_eq!(binding(&app.client, &waits).await, "pool");
    let shown = explain(&app.client, &waits).await;
    let pool = check(&shown, "pool");
    assert_eq!(pool["holders"], json!([{"job_id": holder, "queue": "p"}]));
    assert_eq!((&pool["figures"]["pool"], &pool["figures"]["running"]), (&json!("heavy"), &json!(1)));
    app.client.ack(&holder).await.expect(200);
    assert_eq!(binding(&app.client, &waits).await, "");
    assert_eq!(fetch("q").await, [waits]);
}

#[tokio::test]
async fn a_paused_queue_says_since_when() {
    let app = start(|_| {}).await;
    let id = app.client.enqueue_into("mail").await;
    app.client.post("/v1/queues/mail/pause", json!({})).await.expect(200);
    app.clock.advance(245 * SECOND);
    assert_eq!(binding(&app.client, &id).await, "queue_paused");
    let shown = explain(&app.client, &id).await;
    assert_eq!(shown.text_at("/summary"), "Queue mail has been paused for 4 min 5 s.");
    assert_eq!(check(&shown, "queue_paused")["since"], "2027-01-15T08:00:00.000Z");
}

#[tokio::test]
async fn a_tenant_at_its_concurrency_names_its_jobs() {
    let app = start(|_| {}).await;
    put(&app, "/v1/admin/tenants/acme", json!({"limits": {"max_concurrency": 1}})).await.expect(201);
    let holder = app.client.enqueue(plain("q", "acme")).await;
    let waits = app.client.enqueue(plain("q", "acme")).await;
    app.client.fetch("q", 1).await;
    assert_eq!(binding(&app.client, &waits).await, "tenant_concurrency");
    let shown = explain(&app.client, &waits).await;
    assert_eq!(shown.text_at("/summary"), "Tenant acme has 1 active job, and max_concurrency is 1.");
    assert_eq!(check(&shown, "tenant_concurrency")["holders"], json!([{"job_id": holder, "queue": "q"}]));
}

/// Throttles a tenant for a minute.
async fn throttle(app: &TestApp, tenant: &str, weight_part: u32, max_active: Option<u64>) {
    let throttle = Some(ThrottleTerms { weight_part, until: NOON + 60 * SECOND, max_active });
    let update = ThrottleUpdate { id: tenant.to_owned(), throttle, after: "{}".to_owned(), ..Default::default() };
    assert_eq!(app.store().apply_throttles(None, &[update]).await.expect("a reply"), 1);
}

#[tokio::test]
async fn a_throttled_tenant_says_for_how_long() {
    let app = start(|_| {}).await;
    // Its limit exists before the job, so that the job's lane names its tenant.
    put(&app, "/v1/admin/tenants/loud", json!({"limits": {"max_concurrency": 9}})).await.expect(201);
    let ids = [app.client.enqueue(plain("q", "loud")).await, app.client.enqueue(plain("q", "loud")).await];
    app.client.fetch("q", 1).await;
    throttle(&app, "loud", 1000, Some(1)).await;
    assert_eq!(binding(&app.client, &ids[1]).await, "throttle");
    let shown = explain(&app.client, &ids[1]).await;
    assert_eq!(check(&shown, "throttle")["until"], "2027-01-15T08:01:00.000Z");
    assert_eq!(check(&shown, "throttle")["holders"][0]["job_id"], ids[0]);
}

#[tokio::test]
async fn a_throttle_by_weight_binds_if_it_costs_turns() {
    let app = planned(|rule| by_hand(rule, 1)).await;
    app.client.enqueue(plain("q", "other")).await;
    app.client.enqueue(job("quiet")).await;
    run_round(&app).await; // the batch is spent and renewed by the next interval
    let mut ids = Vec::new();
    for tenant in ["quiet", "quiet", "quiet", "loud", "loud"] {
        ids.push(app.client.enqueue(job(tenant)).await);
    }
    throttle(&app, "loud", 100, None).await;
    app.clock.advance(HOUR - 1);
    // The throttle has ended; another begins.
    let later = Some(ThrottleTerms { weight_part: 100, until: NOON + 2 * HOUR, max_active: None });
    let update = ThrottleUpdate {
        id: "loud".to_owned(),
        before: "{}".to_owned(),
        throttle: later,
        after: "{ }".to_owned(),
        ..Default::default()
    };
    app.store().apply_throttles(None, &[update]).await.expect("a reply");
    let shown = explain(&app.client, &ids[4]).await;
    let throttle = check(&shown, "throttle");
    assert_eq!(throttle["state"], "blocking", "{}", shown.text);
    assert_eq!(throttle["figures"]["weight_factor"], 0.1);
}

#[tokio::test]
async fn a_scheduled_job_says_when_it_is_due() {
    let app = start(|_| {}).await;
    let id = app.client.enqueue(json!({"type": "a.b", "args": [], "scheduled_at": "2027-01-15T09:00:00Z"})).await;
    assert_eq!(binding(&app.client, &id).await, "schedule");
    let shown = explain(&app.client, &id).await;
    assert_eq!(shown.text_at("/summary"), "The job is scheduled; it is available in 1 h.");
    assert_eq!((shown.at("/eta/seconds"), shown.text_at("/eta/of")), (&json!(3600.0), "start"));
    assert_eq!(shown.text_at("/eta/basis"), "the time for which it is scheduled");
}

#[tokio::test]
async fn the_planner_lock_of_a_dead_process_names_its_holder() {
    let mut rule = Rule::new("r", &["t.*"]);
    (rule.queue, rule.planner_lock_ttl) = (Some("q".to_owned()), 60_000);
    let plan = vec![rule.clone()];
    let app = start(|config| config.plan = plan).await;
    app.client.enqueue(plain("q", "other")).await;
    let id = app.client.enqueue(job("acme")).await;
    // A process dies in the middle of a round.
    let begun = app.store().begin_round(&rule, "host-7:311", Why::Run, None).await.expect("a reply");
    assert!(matches!(begun, Begun::Round(_)), "{begun:?}");
    assert_eq!(check(&explain(&app.client, &id).await, "planner")["state"], "ok");
    let lock = "fg:{default}:plan:r:lock";
    let _: i64 = app.redis.command(&["PEXPIRE", lock, "20000"]).await;
    assert_eq!(binding(&app.client, &id).await, "planner");
    let shown = explain(&app.client, &id).await;
    let summary = shown.text_at("/summary");
    assert!(
        summary.starts_with("host-7:311 holds the planner lock of rule r and has not renewed it for 40"),
        "{summary}"
    );
    assert_eq!(check(&shown, "planner")["figures"]["lock_holder"], "host-7:311");
    // Nobody holds it any more, and nobody takes over.
    let _: i64 = app.redis.command(&["DEL", lock]).await;
    let shown = explain(&app.client, &id).await;
    assert_eq!(shown.text_at("/summary"), "No process plans rule r, although jobs are staged.");
}

#[tokio::test]
async fn a_sidekiq_that_is_down_is_named() {
    let theirs = TestRedis::start();
    let proxy = ChaosProxy::start(&theirs).await;
    proxy.close();
    let rule = crate::sidekiq::rule(|rule| rule.batch = Batch::Jobs(100));
    let url = StoreUrl::parse(&proxy.url()).expect("a url");
    let app = beside(&[rule], legacy(|sidekiq| sidekiq.access.url = Some(url))).await;
    let id = app.client.enqueue(json!({"type": "t.job", "args": ["acme", 1]})).await;
    assert_eq!(binding(&app.client, &id).await, "main_queue");
    let shown = explain(&app.client, &id).await;
    assert!(shown.text_at("/summary").starts_with("Main queue legacy cannot be reached: "), "{}", shown.text);
    assert_eq!((shown.text_at("/main_queue"), shown.text_at("/tenant_id")), ("legacy", "acme"));
    proxy.open();
    eventually("the job has left", async || explain(&app.client, &id).await.at("/waiting") == false).await;
    assert_eq!(explain(&app.client, &id).await.text_at("/promoted_to"), "legacy");
}

#[tokio::test]
async fn a_weights_webhook_that_fails_is_named_if_it_holds_the_tenant() {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(500)).mount(&server).await;
    let webhook = Webhook { url: server.uri(), timeout: 1000, secret_env: None };
    let app = planned(|rule| {
        by_hand(rule, 5);
        rule.weights.webhook = Some(webhook);
        rule.weights.on_webhook_error = Some(OnWebhookError::Hold);
    })
    .await;
    let id = app.client.enqueue(job("acme")).await;
    run_round(&app).await;
    assert_eq!(binding(&app.client, &id).await, "weights_webhook");
    let shown = explain(&app.client, &id).await;
    let summary = shown.text_at("/summary");
    assert!(summary.starts_with("The weights webhook of rule r fails (") && summary.contains("500"), "{summary}");
    assert!(check(&shown, "weights_webhook")["since"].is_string(), "{}", shown.text);
}

#[tokio::test]
async fn an_unknown_job_is_not_found() {
    let app = start(|_| {}).await;
    for id in ["01890000-0000-7000-8000-000000000000", "none", "a%20b", "%FF", "0123456789abcdef01234567"] {
        let answer = app.client.get(&format!("/v1/jobs/{id}/explain")).await;
        assert!(answer.status == 404 || (id == "%FF" && answer.status == 400), "{id}: {}", answer.text);
    }
    let removed = app.client.get("/v1/jobs/0123456789abcdef01234567/explain").await.expect(404);
    assert!(removed.text.contains("Sidekiq id"), "{}", removed.text);
}
