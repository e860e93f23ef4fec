//! `fairgate queues`, `jobs`, `tenants`, `limits`, `workers` and `planner`, completions and manual pages.

use crate::support::{NOON, TestApp, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use serde_json::Value;
use std::process::Output;

async fn run(app: &TestApp, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.args(arguments).args(["--server", app.client.base()]);
    command.output().await.expect("it runs")
}

/// The words of each line of standard output.
fn rows(output: &Output) -> Vec<Vec<String>> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// A server that does nothing in the background, with jobs of two tenants.
async fn start() -> TestApp {
    let app = TestApp::start_with(Clock::manual(NOON), |config| config.server.roles = vec![Role::Api]).await;
    let rule = json!({"types": ["report.*"], "queue": "reports", "tenant_key": "meta.tenant_id"}).to_string();
    app.client.send("PUT", "/v1/admin/planner/reports", Some(rule)).await.expect(201);
    app.client.post("/v1/admin/planner/reports/pause", json!({})).await.expect(200);
    for tenant in ["acme", "noisy", "noisy"] {
        app.client.enqueue(json!({"type": "report.daily", "args": [], "meta": {"tenant_id": tenant}})).await;
    }
    app.client.enqueue(json!({"type": "call.api", "args": [], "rate_limit": {"key": "api", "concurrency": 3}})).await;
    app.client.fetch("default", 1).await;
    app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w1"})).await.expect(200);
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn each_list_has_the_figures_of_the_server() {
    let app = start().await;
    let planner = rows(&run(&app, &["planner"]).await);
    assert_eq!(planner[0][..4], ["RULE", "STATE", "STAGED", "TENANTS"]);
    assert_eq!(planner[1][..4], ["reports", "paused", "3", "2"]);
    let tenants = rows(&run(&app, &["planner", "reports", "--sort", "pending"]).await);
    assert_eq!((tenants[1][0].as_str(), tenants[1][2].as_str()), ("noisy", "2"));
    let queues = rows(&run(&app, &["queues"]).await);
    assert_eq!(queues[1][..5], ["default", "active", "0", "0", "1"], "{queues:?}");
    assert_eq!(rows(&run(&app, &["limits"]).await)[1][..3], ["api", "1", "3"]);
    assert_eq!(rows(&run(&app, &["workers"]).await)[1][..2], ["w1", "running"]);
    assert_eq!(rows(&run(&app, &["tenants"]).await).len(), 3, "a header and two tenants");
    let active = rows(&run(&app, &["jobs", "--state", "active"]).await);
    assert_eq!(active.len(), 2);
    assert_eq!(active[1][1..4], ["active", "call.api", "default"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_also_json_and_can_be_paged() {
    let app = start().await;
    let output = run(&app, &["queues", "--json", "--limit", "1"]).await;
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((answer["items"].as_array().unwrap().len(), &answer["pagination"]["total"]), (1, &json!(2)));
    let second = run(&app, &["queues", "--limit", "1", "--offset", "1"]).await;
    assert_eq!(rows(&second)[1][0], "reports");
    assert_eq!(String::from_utf8_lossy(&second.stderr).trim(), "entries 2 to 2 of 2; see --limit and --offset");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_server_are_shown() {
    let app = start().await;
    let output = run(&app, &["planner", "nothing/here"]).await;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("/planner/nothing%2Fhere/tenants?") && error.contains("HTTP 404: No plan rule"), "{error}");
    assert_eq!(run(&app, &["queues", "--limit", "0"]).await.status.code(), Some(64));
}

#[test]
fn the_url_of_the_server_must_be_one() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    let output = command.args(["queues", "--server", "localhost:8080"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("must begin with http:// or https://, and \"localhost:8080\" does not"), "{error}");
}

#[test]
fn completions_and_manual_pages_know_each_command() {
    let directory = tempfile::tempdir().unwrap();
    let fairgate = || std::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    for shell in ["bash", "zsh", "fish"] {
        let output = fairgate().args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("doctor") && script.contains("key-file"), "{shell}");
    }
    assert!(fairgate().arg("man").arg(directory.path()).status().unwrap().success());
    let page = std::fs::read_to_string(directory.path().join("fairgate-doctor.1")).unwrap();
    assert!(page.contains("fairgate"), "{page}");
    assert!(std::fs::read_dir(directory.path()).unwrap().count() > 20);
}
