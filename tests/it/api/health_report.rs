//! The health report: what needs attention, by which figures, and what to do.

use crate::support::{NOON, TestApp, TestRedis, eventually, json};
use serde_json::Value;

const MINUTE: i64 = 60_000;

/// Adds a rule for types that begin with `report.`, whose rounds only the test runs.
async fn put_rule(app: &TestApp, more: Value) {
    let mut rule = json!({"types": ["report.*"], "queue": "reports", "enqueue_jobs": 5, "enqueue_interval": "1h",
        "strict_interval": true, "tenant_key": "meta.tenant_id"});
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    app.client.send("PUT", "/v1/admin/planner/reports", Some(rule.to_string())).await.expect(201);
}

async fn enqueue_reports(app: &TestApp, jobs: usize) {
    let job = |n| json!({"type": "report.daily", "args": [n], "meta": {"tenant_id": format!("t{}", n % 3)}});
    app.enqueue_all((0..jobs).map(job).collect()).await;
}

async fn run_round(app: &TestApp) {
    app.client.post("/v1/admin/planner/reports/run", json!({})).await.expect(200);
}

async fn report(app: &TestApp) -> Value {
    app.client.get("/v1/admin/health-report").await.expect(200).body
}

/// Codes and subjects of all findings.
async fn codes(app: &TestApp) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let report = report(app).await;
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| (text(&finding["code"]), text(&finding["subject"]["name"]))).collect()
}

fn pair(code: &str, name: &str) -> (String, String) {
    (code.to_owned(), name.to_owned())
}

#[tokio::test]
async fn a_system_without_problems_is_ok() {
    let app = TestApp::start_passive(|_| {}).await;
    put_rule(&app, json!({})).await;
    enqueue_reports(&app, 3).await;
    app.client.enqueue_into("mail").await;
    let report = report(&app).await;
    assert_eq!((&report["verdict"], &report["findings"]), (&json!("ok"), &json!([])), "{report}");
    assert_eq!(report["checked"], json!({"rules": 1, "queues": 2, "limits": 0, "truncated": false}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_gate_is_explained_by_latency_and_rate() {
    let app = TestApp::start_at(NOON).await;
    put_rule(&app, json!({"latency_threshold": "10s"})).await;
    enqueue_reports(&app, 40).await;
    let depth = async || app.client.get("/v1/queues/reports/stats").await.at("/available").as_u64();
    eventually("the interval's batch is promoted", async || depth().await == Some(5)).await;
    app.clock.advance(45_000);
    run_round(&app).await;
    let report = report(&app).await;
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["urgency"]),
        (&json!("gate_closed_no_workers"), &json!("critical")),
        "{report}"
    );
    let sentence = finding["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("gate closed for 0 ms; latency 45 s exceeds 10 s and workers take no jobs; 35 jobs"),
        "{sentence}"
    );
    assert_eq!((&finding["evidence"]["latency_ms"], &report["verdict"]), (&json!(45_000.0), &json!("critical")));
    assert!(finding["since"].is_string());
}

#[tokio::test]
async fn pauses_count_while_jobs_wait_for_their_end() {
    let app = TestApp::start_passive(|_| {}).await;
    put_rule(&app, json!({})).await;
    app.client.post("/v1/admin/planner/reports/pause", json!({})).await.expect(200);
    app.client.post("/v1/queues/mail/pause", json!({})).await.expect(200);
    assert_eq!(codes(&app).await, []);
    enqueue_reports(&app, 4).await;
    app.client.enqueue_into("mail").await;
    app.clock.advance(5 * MINUTE);
    assert_eq!(codes(&app).await, [pair("rule_paused", "reports"), pair("queue_paused", "mail")]);
    app.client.post("/v1/admin/planner/reports/resume", json!({})).await.expect(200);
    app.client.post("/v1/queues/mail/resume", json!({})).await.expect(200);
    app.client.fetch("mail", 1).await;
    run_round(&app).await;
    app.client.fetch("reports", 10).await;
    assert_eq!(codes(&app).await, []);
}

#[tokio::test]
async fn a_queue_from_which_nobody_fetches_is_critical() {
    let app = TestApp::start_passive(|_| {}).await;
    for _ in 0..3 {
        app.client.enqueue_into("mail").await;
    }
    app.clock.advance(MINUTE - 1);
    assert_eq!(codes(&app).await, []);
    app.clock.advance(1);
    let first = report(&app).await["findings"][0].clone();
    assert_eq!(
        first["sentence"],
        "nobody fetches from it: no job was taken in the last minute, 3 jobs wait, the oldest for 60 s, 0 active"
    );
    app.client.fetch("mail", 1).await;
    assert_eq!(codes(&app).await, [], "a worker takes jobs again");
}

#[tokio::test]
async fn limits_that_hold_jobs_back_are_notices() {
    let app = TestApp::start_passive(|_| {}).await;
    for _ in 0..3 {
        app.client
            .enqueue(json!({"type": "call.api", "args": [], "rate_limit": {"key": "api", "concurrency": 1}}))
            .await;
    }
    app.client.fetch("default", 3).await;
    assert_eq!(codes(&app).await, [pair("limit_full", "api")]);
    app.client.send("PUT", "/v1/rate-limits/api", Some(json!({"concurrency": 0}).to_string())).await.expect(200);
    assert_eq!(codes(&app).await, [pair("limit_zero", "api")]);
}

#[tokio::test]
async fn a_failing_webhook_is_reported_with_the_weights_used_instead() {
    let app = TestApp::start_passive(|_| {}).await;
    // Nothing listens on port 1.
    let weights = json!({"webhook": {"url": "http://127.0.0.1:1/weights", "timeout": "1s"}});
    put_rule(&app, json!({"weights": weights})).await;
    enqueue_reports(&app, 20).await;
    run_round(&app).await;
    let report = report(&app).await;
    let webhook = report["findings"].as_array().unwrap().iter().find(|finding| finding["subject"]["kind"] == "webhook");
    let sentence = webhook.unwrap_or_else(|| panic!("{report}"))["sentence"].as_str().unwrap().to_owned();
    assert!(sentence.starts_with("the weights webhook has failed for"), "{sentence}");
}

#[tokio::test]
async fn staged_jobs_without_a_planner_are_critical() {
    let app = TestApp::start_passive(|_| {}).await;
    put_rule(&app, json!({"strict_interval": false, "enqueue_jobs": 1})).await;
    enqueue_reports(&app, 20).await;
    app.clock.advance(2 * 3600 * 1000);
    let findings = codes(&app).await;
    assert!(findings.contains(&pair("rule_stalled", "reports")), "{findings:?}");
    let step = report(&app).await["findings"][0]["next_step"].as_str().unwrap().to_owned();
    assert!(step.contains("planner_group \"default\""), "{step}");
}

#[tokio::test]
async fn text_and_markdown_have_the_same_findings() {
    let app = TestApp::start_passive(|_| {}).await;
    app.client.enqueue_into("mail").await;
    app.clock.advance(2 * MINUTE);
    let text = app.client.get("/v1/admin/health-report?format=text").await.expect(200);
    assert!(text.text.starts_with(
        "critical: 1 critical problem; 0 rules, 1 queue and 0 limits examined\n\ncritical queue mail: nobody"
    ));
    assert_eq!(text.header("content-type"), "text/plain; charset=utf-8");
    let accept = [("accept", "text/markdown")];
    let markdown = app.client.try_send("GET", "/v1/admin/health-report", &accept, None).await.unwrap().expect(200);
    assert!(
        markdown.text.contains("- **critical: queue `mail`** (for 2 min): nobody fetches from it"),
        "{}",
        markdown.text
    );
    app.client.get("/v1/admin/health-report?format=xml").await.expect(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_the_report_of_a_running_server() {
    let app = TestApp::start_on(TestRedis::start().into(), fairgate::clock::Clock::manual(NOON), |_| {}).await;
    let run = async |format: &str| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
        command.args(["report", "--server", app.client.base(), "--format", format]).output().await.unwrap()
    };
    let calm = run("text").await;
    assert_eq!((calm.status.code(), calm.stdout.starts_with(b"ok: nothing needs attention")), (Some(0), true));
    app.client.enqueue_into("mail").await;
    app.clock.advance(2 * MINUTE);
    for format in ["text", "markdown", "json"] {
        let output = run(format).await;
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("nobody fetches from it"), "{format}");
    }
}

#[test]
fn the_command_names_a_server_that_does_not_answer() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    let output = command.args(["report", "--server", "http://127.0.0.1:1"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.starts_with("error: GET http://127.0.0.1:1/ojs/v1/admin/health-report"), "{error}");
}
