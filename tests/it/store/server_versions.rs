//! The same scenarios on the oldest and the newest supported server. All other tests use the installed one.

use crate::support::{Client, NOON, ServerVersion, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Config;
use fairgate::domain::plan::{Batch, Pace, Rule};
use fairgate::domain::tenant::{TenantLimits, TenantRule, TenantSettings};
use std::sync::Arc;

const MINUTE: i64 = 60_000;

/// Defines a test of both versions for each scenario.
macro_rules! on_both_servers {
    ($($story:ident),+ $(,)?) => {
        mod redis_6_2 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() { super::$story(super::ServerVersion::Redis6).await; })+
        }
        mod valkey_9_1 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() { super::$story(super::ServerVersion::Valkey9).await; })+
        }
    };
}

on_both_servers! {
    the_server_has_the_version,
    every_script_is_accepted,
    jobs_are_enqueued_fetched_and_acknowledged,
    retries_schedules_and_leases_come_due,
    limits_hold,
    tenants_take_turns_within_their_limits,
    planned_jobs_are_promoted_by_weight,
    crons_workflows_and_unique_jobs_work,
    jobs_survive_a_restart_of_the_server,
    a_full_server_is_a_503,
    an_enqueue_is_stored_once_although_its_connections_break,
    doctor_names_the_server,
}

async fn app(version: ServerVersion, clock: Clock, change: impl FnOnce(&mut Config)) -> TestApp {
    let redis = tokio::task::spawn_blocking(move || TestRedis::of_version(version)).await.unwrap();
    TestApp::start_on(Arc::new(redis), clock, change).await
}

async fn at_noon(version: ServerVersion) -> TestApp {
    app(version, Clock::manual(NOON), |_| {}).await
}

async fn agrees(app: &TestApp) {
    app.assert_consistent().await;
}

fn tenants(answer: &crate::support::Answer) -> Vec<String> {
    let jobs = answer.at("/jobs").as_array().cloned().unwrap_or_default();
    jobs.iter().map(|job| job["meta"]["tenant_id"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn push(client: &Client, job: serde_json::Value, count: usize) {
    client.post("/v1/jobs/batch", json!({"jobs": vec![job; count]})).await.expect(201);
}

async fn the_server_has_the_version(version: ServerVersion) {
    let app = at_noon(version).await;
    let info: String = app.redis.command(&["INFO", "server"]).await;
    let expected = match version {
        ServerVersion::Redis6 => "redis_version:6.2.",
        ServerVersion::Valkey9 => "valkey_version:9.1.",
    };
    assert!(info.contains(expected), "{info}");
    app.client.get("/ready").await.expect(200);
}

async fn every_script_is_accepted(version: ServerVersion) {
    let redis = tokio::task::spawn_blocking(move || TestRedis::of_version(version)).await.unwrap();
    for (_, text) in fairgate::store::script_texts() {
        redis.command::<String>(&["SCRIPT", "LOAD", text]).await;
    }
    if version != ServerVersion::Redis6 {
        redis.command::<String>(&["FUNCTION", "LOAD", fairgate::store::library_text()]).await;
    }
}

async fn jobs_are_enqueued_fetched_and_acknowledged(version: ServerVersion) {
    let app = at_noon(version).await;
    let client = &app.client;
    let first = client.enqueue(json!({"type": "test.job", "args": [1.0], "queue": "q"})).await;
    let urgent = client.enqueue(json!({"type": "test.job", "args": [], "queue": "q", "priority": 5})).await;
    assert_eq!(client.fetch("q", 5).await.job_ids(), [&*urgent, &*first]);
    client.post("/v1/workers/heartbeat", json!({"worker_id": "w1", "active_jobs": [first]})).await.expect(200);
    client.post("/v1/workers/ack", json!({"job_id": first, "result": {"n": 1}})).await.expect(200);
    client.delete(&format!("/v1/jobs/{urgent}")).await.expect(200);
    assert_eq!(client.job(&first).await["result"], json!({"n": 1}));
    assert_eq!(client.state(&urgent).await, "cancelled");
    let events = client.get("/v1/events").await.expect(200);
    let kinds: Vec<&str> =
        events.at("/events").as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    let story = [
        "job.enqueued",
        "job.enqueued",
        "job.started",
        "job.started",
        "worker.started",
        "job.heartbeat",
        "job.completed",
        "job.cancelled",
    ];
    assert_eq!(kinds, story);
    client.get("/metrics").await.expect(200);
    agrees(&app).await;
}

async fn retries_schedules_and_leases_come_due(version: ServerVersion) {
    let app = at_noon(version).await;
    let client = &app.client;
    let retry = json!({"max_attempts": 2, "initial_interval": "PT1M", "jitter": false, "on_exhaustion": "dead_letter"});
    let failing = client.enqueue(json!({"type": "test.job", "args": [], "queue": "q", "retry": retry})).await;
    let later = client.enqueue(json!({"type": "test.job", "args": [], "queue": "q", "scheduled_at": "+PT1M"})).await;
    assert_eq!(client.fetch("q", 5).await.job_ids(), [&*failing]);
    assert_eq!(client.nack(&failing).await.expect(200).text_at("/state"), "retryable");
    app.clock.advance(MINUTE);
    let mut ids = client.fetch("q", 5).await.job_ids();
    ids.sort();
    let mut due = [failing.clone(), later.clone()];
    due.sort();
    assert_eq!(ids, due);
    assert_eq!(client.nack(&failing).await.expect(200).text_at("/state"), "discarded");
    client.send("POST", &format!("/v1/dead-letter/{failing}/retry"), None).await.expect(200);
    // The lease of the other job expires.
    app.clock.advance(31 * MINUTE);
    eventually("the lease expired", async || client.state(&later).await != "active").await;
    agrees(&app).await;
}

async fn limits_hold(version: ServerVersion) {
    let app = at_noon(version).await;
    let client = &app.client;
    let job = |queue: &str, limit: serde_json::Value| json!({"type": "test.job", "args": [], "queue": queue, "rate_limit": limit});
    push(client, job("slots", json!({"key": "s", "concurrency": 2})), 3).await;
    push(client, job("rate", json!({"key": "r", "rate": {"limit": 2, "period": "PT1M"}})), 3).await;
    push(client, job("throttle", json!({"key": "t", "throttle": {"limit": 1, "period": "PT1M"}})), 2).await;
    let slots = client.fetch("slots", 5).await.job_ids();
    assert_eq!((slots.len(), client.fetch("slots", 5).await.job_ids().len()), (2, 0));
    client.ack(&slots[0]).await.expect(200);
    assert_eq!(client.fetch("slots", 5).await.job_ids().len(), 1);
    assert_eq!(
        (client.fetch("rate", 5).await.job_ids().len(), client.fetch("throttle", 5).await.job_ids().len()),
        (2, 1)
    );
    app.clock.advance(MINUTE);
    assert_eq!(
        (client.fetch("rate", 5).await.job_ids().len(), client.fetch("throttle", 5).await.job_ids().len()),
        (1, 1)
    );
    agrees(&app).await;
}

async fn tenants_take_turns_within_their_limits(version: ServerVersion) {
    let limits = TenantLimits { max_concurrency: Some(3), ..TenantLimits::default() };
    let app = app(version, Clock::manual(NOON), |config| {
        let terms = TenantSettings { limits, ..TenantSettings::default() };
        config.tenant = vec![TenantRule { id: "b".to_owned(), terms }];
    })
    .await;
    let job = |tenant: &str| json!({"type": "test.job", "args": [], "queue": "q", "meta": {"tenant_id": tenant}});
    push(&app.client, job("a"), 20).await;
    push(&app.client, job("b"), 20).await;
    let got = tenants(&app.client.fetch("q", 6).await);
    assert_eq!(got, ["a", "b", "a", "b", "a", "b"]);
    assert_eq!(tenants(&app.client.fetch("q", 4).await), ["a"; 4], "b has as many jobs as its limit allows");
    let stats = app.client.get("/v1/admin/tenants/b").await;
    assert_eq!(stats.status, 200, "{}", stats.text);
    agrees(&app).await;
}

async fn planned_jobs_are_promoted_by_weight(version: ServerVersion) {
    let mut rule = Rule::new("r", &["t.*"]);
    rule.queue = Some("q".to_owned());
    rule.batch = Batch::Jobs(6);
    rule.pace = Pace::Every(100);
    let app = app(version, Clock::System, |config| config.plan = vec![rule]).await;
    let job = |tenant: &str| json!({"type": "t.job", "args": [], "meta": {"tenant_id": tenant}});
    app.store().pause_rule("r", true, "test").await.unwrap();
    push(&app.client, job("a"), 30).await;
    push(&app.client, job("b"), 30).await;
    app.store().pause_rule("r", false, "test").await.unwrap();
    let mut done: Vec<String> = Vec::new();
    eventually("all jobs are promoted and done", async || {
        let fetched = app.client.fetch("q", 10).await;
        done.extend(tenants(&fetched));
        for id in fetched.job_ids() {
            app.client.ack(&id).await.expect(200);
        }
        done.len() == 60
    })
    .await;
    let of_a = done[..12].iter().filter(|tenant| *tenant == "a").count();
    assert_eq!(of_a, 6, "equal shares: {done:?}");
    assert!(app.store().rule_status("r", None).await.unwrap().rounds >= 1);
    agrees(&app).await;
}

async fn crons_workflows_and_unique_jobs_work(version: ServerVersion) {
    let app = at_noon(version).await;
    let client = &app.client;
    let template = json!({"type": "cron.job", "args": [], "options": {"queue": "crons"}});
    client
        .post("/v1/cron", json!({"name": "c", "expression": "* * * * *", "job_template": template}))
        .await
        .expect(201);
    app.clock.advance(MINUTE);
    eventually("the cron fired", async || client.fetch("crons", 1).await.job_ids().len() == 1).await;

    let step = |name: &str| json!({"name": name, "type": "test.step", "args": [], "options": {"queue": "steps"}});
    let chain = json!({"type": "chain", "name": "two", "steps": [step("a"), step("b")]});
    let workflow = client.post("/v1/workflows", chain).await.expect(201).text_at("/workflow/id").to_owned();
    for _ in 0..2 {
        let ids = client.fetch("steps", 5).await.job_ids();
        assert_eq!(ids.len(), 1);
        client.ack(&ids[0]).await.expect(200);
    }
    let ended = client.get(&format!("/v1/workflows/{workflow}")).await.expect(200);
    assert_eq!(ended.text_at("/workflow/state"), "completed");

    let unique = json!({"type": "test.unique", "args": [], "queue": "u", "unique": {"keys": ["type"]}});
    client.post("/v1/jobs", unique.clone()).await.expect(201);
    client.post("/v1/jobs", unique).await.expect(409);
    agrees(&app).await;
}

async fn jobs_survive_a_restart_of_the_server(version: ServerVersion) {
    let app = app(version, Clock::System, |_| {}).await;
    let client = &app.client;
    app.redis.command::<()>(&["CONFIG", "SET", "appendfsync", "always"]).await;
    let (leased, waiting) = (client.enqueue_into("q").await, client.enqueue_into("q").await);
    assert_eq!(client.fetch("q", 1).await.job_ids(), [&*leased]);
    let pid = app.redis.pid();
    app.redis.kill();
    eventually("the server is there again", async || {
        app.redis.pid() != pid && client.get("/ready").await.status == 200
    })
    .await;
    client.ack(&leased).await.expect(200);
    assert_eq!(client.fetch("q", 5).await.job_ids(), [&*waiting]);
    agrees(&app).await;
}

async fn a_full_server_is_a_503(version: ServerVersion) {
    let app = app(version, Clock::System, |_| {}).await;
    let id = app.client.enqueue_into("q").await;
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    app.client.post("/v1/jobs", json!({"type": "test.job", "args": []})).await.expect(503);
    assert_eq!(app.client.state(&id).await, "available", "reading goes on");
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    app.client.enqueue_into("q").await;
    agrees(&app).await;
}

async fn an_enqueue_is_stored_once_although_its_connections_break(version: ServerVersion) {
    let app = app(version, Clock::System, |_| {}).await;
    for _ in 0..20 {
        let call = app.client.post("/v1/jobs", json!({"type": "test.job", "args": [], "queue": "q"}));
        let kill = app.redis.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        tokio::join!(call, kill).0.expect(201);
        app.redis.command::<()>(&["SCRIPT", "FLUSH"]).await;
    }
    let stats = app.client.get("/v1/queues/q/stats").await.expect(200);
    assert_eq!(stats.at("/queue/available"), &json!(20));
}

async fn doctor_names_the_server(version: ServerVersion) {
    let redis = tokio::task::spawn_blocking(move || TestRedis::of_version(version)).await.unwrap();
    let arguments = ["doctor", "--redis", &redis.url()];
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate")).args(arguments).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = match version {
        ServerVersion::Redis6 => "  ok  Redis 6.2.",
        ServerVersion::Valkey9 => "  ok  Valkey 9.1.",
    };
    assert!(said.lines().any(|line| line.starts_with(expected)), "{said}");
}
