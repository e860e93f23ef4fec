//! The audit: counts agree with leases during normal operation, and injected differences are found and repaired.

use crate::support::{TestApp, json};
use fairgate::store::{AuditMode, Difference};
use std::process::Command;

async fn with_work() -> TestApp {
    let app = TestApp::start().await;
    for key in ["a", "a", "b", "b", "b"] {
        let limit = json!({"key": key, "concurrency": 1});
        app.client.enqueue(json!({"type": "t", "args": [], "options": {"queue": "q", "rate_limit": limit}})).await;
    }
    app.client.enqueue_into("q").await;
    app
}

async fn differences(app: &TestApp, mode: AuditMode) -> Vec<Difference> {
    app.store().audit(mode, 5000, async || ()).await.unwrap().differences
}

#[tokio::test]
async fn counts_agree_while_jobs_start_wait_and_end() {
    let app = with_work().await;
    assert_eq!(differences(&app, AuditMode::Report).await, []);
    let ids = app.client.fetch("q", 10).await.job_ids();
    assert_eq!(ids.len(), 3, "one of each key, and the one without");
    assert_eq!(differences(&app, AuditMode::Report).await, []);
    app.client.ack(&ids[0]).await.expect(200);
    app.client.nack(&ids[1]).await.expect(200);
    assert_eq!(differences(&app, AuditMode::Report).await, []);
    assert_eq!(app.client.fetch("q", 10).await.job_ids().len(), 2);
    assert_eq!(differences(&app, AuditMode::Report).await, []);
}

#[tokio::test]
async fn differences_are_reported_and_repaired() {
    let app = with_work().await;
    app.client.fetch("q", 10).await;
    let ghost = "018f0000-0000-7000-8000-000000000000";
    let id: Vec<String> = app.redis.command(&["SMEMBERS", "fg:{default}:limit:a:run"]).await;
    for words in [
        &["SREM", "fg:{default}:limit:a:run", &id[0]][..],
        &["SADD", "fg:{default}:limit:b:run", ghost],
        &["HINCRBY", "fg:{default}:counts:q", "active", "2"],
        &["HINCRBY", "fg:{default}:counts:q", "blocked", "-1"],
    ] {
        app.redis.command::<i64>(words).await;
    }
    let mut found: Vec<String> = differences(&app, AuditMode::Report).await.into_iter().map(|one| one.what).collect();
    found.sort();
    assert_eq!(found, ["active", "blocked", "slot", "slot"]);
    let doctor = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_fairgate"))
            .args(["doctor", "--redis", &app.redis.url()])
            .args(arguments)
            .output()
            .expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (fine, said) = doctor(&[]);
    assert!(!fine && said.contains("4 of") && said.contains("doctor --repair"), "{said}");
    let (fine, said) = doctor(&["--repair"]);
    assert!(fine && said.contains("repaired"), "{said}");
    assert_eq!(differences(&app, AuditMode::Report).await, []);
    let (fine, said) = doctor(&[]);
    assert!(fine && said.contains("counts agree"), "{said}");
}
