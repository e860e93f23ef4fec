//! `fairgate debug` prints stored state decoded.

use crate::support::{NOON, TestApp, json};
use serde_json::Value;
use std::process::Output;

async fn debug(app: &TestApp, what: &str, name: &str) -> Output {
    let url = app.redis.url();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.args(["debug", what, name, "--redis", &url]).env_remove("FAIRGATE_CONFIG");
    command.output().await.expect("it runs")
}

async fn stored(app: &TestApp, what: &str, name: &str) -> Value {
    let output = debug(app, what, name).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let hidden = ["\\u001a", "\\u001c", "\\u001d", "\\u001e", "\\u001f"];
    assert!(!hidden.iter().any(|separator| text.contains(separator)), "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test]
async fn a_job_is_shown_by_the_names_of_its_fields() {
    let app = TestApp::start_at(NOON).await;
    let job = json!({"type": "email.send", "args": [1], "meta": {"tenant_id": "acme"}, "options": {"priority": 5}});
    let id = app.client.enqueue(job).await;
    let record = stored(&app, "job", &id).await[format!("job:{id}")]["content"].clone();
    assert_eq!(
        (&record["state"], &record["queue"], &record["type"]),
        (&json!("available"), &json!("default"), &json!("email.send"))
    );
    assert_eq!((&record["fields"]["tenant"], &record["fields"]["priority"]), (&json!("acme"), &json!("5")));
    assert_eq!(record["envelope"]["args"], json!([1]));
    app.client.fetch("default", 1).await;
    app.client.nack(&id).await.expect(200);
    let job = stored(&app, "job", &id).await;
    assert_eq!(job[format!("job:{id}")]["content"]["state"], "retryable");
    assert_eq!(
        (&job[format!("err:{id}")]["size"], &job[format!("err:{id}")]["content"][0][0]),
        (&json!(1), &json!("1"))
    );
    assert!(job[format!("due[{id}]")].as_str().is_some_and(|time| time.ends_with('Z')), "{job}");
}

#[tokio::test]
async fn queues_tenants_limits_and_rules_are_shown() {
    let app = TestApp::start_passive(|_| {}).await;
    let rule = json!({"types": ["report.*"], "queue": "reports"}).to_string();
    app.client.send("PUT", "/v1/admin/planner/reports", Some(rule)).await.expect(201);
    let limit = json!({"key": "smtp", "concurrency": 1});
    for _ in 0..2 {
        app.client.enqueue(json!({"type": "a", "args": [], "meta": {"tenant_id": "acme"}, "rate_limit": limit})).await;
    }
    app.client.enqueue(json!({"type": "report.daily", "args": [], "meta": {"tenant_id": "acme"}})).await;
    app.client.fetch("default", 2).await;
    let queue = stored(&app, "queue", "default").await;
    assert_eq!(queue["counts:default"]["content"]["active"], "1");
    assert_eq!(stored(&app, "tenant", "acme").await["tenants[acme]"]["active"], "1");
    assert_eq!(stored(&app, "limit", "smtp").await["limit:smtp:run"]["size"], 1);
    assert!(stored(&app, "rule", "reports").await["plan:reports"]["content"].is_object());
}

#[tokio::test]
async fn nothing_stored_is_an_error() {
    let app = TestApp::start().await;
    let output = debug(&app, "job", "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f").await;
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("nothing is stored of job") && text.contains("\"default\""), "{text}");
}
