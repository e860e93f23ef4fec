//! `fairgate explain`, which asks a running server.

use crate::auth::{caller, guarded, secret};
use crate::support::{TestApp, json};
use serde_json::Value;
use std::process::Output;

async fn explain(app: &TestApp, arguments: &[&str], key: Option<&str>) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.args(["explain", "--server", app.client.base()]).args(arguments).env_remove("FAIRGATE_API_KEY");
    if let Some(key) = key {
        command.env("FAIRGATE_API_KEY", secret(key));
    }
    command.output().await.expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn explain_shows_the_binding_check_as_text_or_json() {
    let app = TestApp::start().await;
    let id = app.client.enqueue_into("mail").await;
    app.client.post("/v1/queues/mail/pause", json!({})).await.expect(200);
    let shown = explain(&app, &[&id], None).await;
    let lines = text(&shown.stdout);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    for part in
        [&*format!("job       {id}\n"), "waits for queue_paused\n", "\n  BLOCKING  queue_paused        Queue mail has"]
    {
        assert!(lines.contains(part), "{part:?} is missing in {lines}");
    }
    let shown = explain(&app, &[&id, "--json"], None).await;
    let answer: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((&answer["binding"], &answer["job_id"]), (&json!("queue_paused"), &json!(id)));
}

#[tokio::test]
async fn explain_fails_for_unknown_jobs_and_refused_keys() {
    let app = guarded().await;
    let id = caller(&app, "admin").enqueue(json!({"type": "a.b", "args": []})).await;
    for (id, key, error) in [
        (&*id, None, "HTTP 401"),
        (&id, Some("worker"), "HTTP 403"),
        ("a b/../c", Some("operator"), "No job \"a b/../c\" exists"),
    ] {
        let shown = explain(&app, &[id], key).await;
        assert_eq!((shown.status.code(), &*text(&shown.stdout)), (Some(1), ""), "{id}");
        assert!(text(&shown.stderr).contains(error), "{}", text(&shown.stderr));
    }
    assert!(explain(&app, &[&id], Some("operator")).await.status.success());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{}\n", secret("operator"))).unwrap();
    let given = explain(&app, &[&id, "--key-file", file.path().to_str().unwrap()], None).await;
    assert!(given.status.success(), "{}", text(&given.stderr));
}
