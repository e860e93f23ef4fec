//! `fairgate weights test`: calls a rule's webhook and explains its response.

use crate::support::json;
use std::process::Output;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// Runs `fairgate weights test` in a directory whose configuration has rules `reports`, with a webhook, and `plain`.
async fn test(webhook: &str, more: &str, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let file = format!(
        "[[plan]]\nname = \"reports\"\ntypes = [\"report.*\"]\nqueue = \"reports\"\n{more}\n\
         [plan.weights]\nstatic = {{ fixed = 2 }}\n\
         webhook = {{ url = \"{webhook}\", timeout = \"5s\", secret_env = \"WEIGHTS_SECRET\" }}\n\
         [[plan]]\nname = \"plain\"\ntypes = [\"x\"]\n"
    );
    std::fs::write(directory.path().join("fairgate.toml"), file).unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.current_dir(directory.path()).env("WEIGHTS_SECRET", "hunter2");
    command.args(["weights", "test"]).args(arguments).output().await.expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn answering(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    server
}

fn weights(weights: serde_json::Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({"weights": weights}))
}

/// The columns of a tenant's line.
fn verdict(shown: &str, tenant: &str) -> String {
    let line = shown.lines().find(|line| line.trim_start().starts_with(&format!("{tenant} ")));
    line.unwrap_or_else(|| panic!("nothing about {tenant} in\n{shown}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test]
async fn shows_request_response_and_the_weight_of_each_tenant() {
    let server = answering(weights(json!({"acme": 3, "small": 0.001, "late": 0, "stranger": 9}))).await;
    let url = format!("{}/w?token=hunter2", server.uri());
    let tenants =
        ["--tenant", "acme", "--tenant", "small", "--tenant", "late", "--tenant", "fixed", "--tenant", "gone"];
    let output = test(&url, "", &[&["reports"][..], &tenants].concat()).await;
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    for part in [
        &format!("POST {}/w?***", server.uri()),
        "x-ojs-signature: sha256=***",
        "x-ojs-timestamp: ",
        r#"{"rule":"reports","queue":"reports","round":0,"tenants":[{"id":"acme"},"#,
        "200 OK (application/json)",
        r#""stranger":9"#,
        "3 of 5 tenants got a weight",
        "1 id in the answer was not asked for",
    ] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    assert_eq!(verdict(&shown, "acme"), "acme 3 returned by the webhook");
    assert_eq!(
        verdict(&shown, "small"),
        "small 0.05 returned 0.001: weights range from 0.05 to 1000, in steps of 0.001"
    );
    assert_eq!(verdict(&shown, "late"), "late 0 returned 0: held until the webhook returns a higher weight");
    assert_eq!(verdict(&shown, "fixed"), "fixed 2 missing in the answer: weights.static");
    assert_eq!(verdict(&shown, "gone"), "gone 1 missing in the answer: default_weight");
    assert!(!shown.contains("hunter2"), "{shown}");
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].headers["x-ojs-signature"].to_str().unwrap().len() > 70, "it is signed");
}

#[tokio::test]
async fn a_failing_webhook_exits_1_and_names_the_rules_fallback() {
    let page = ResponseTemplate::new(500).set_body_string("no such table: plans");
    let server = answering(page).await;
    for (more, expected) in [
        ("", "acme 1 the webhook failed: default_weight"),
        ("on_webhook_error = \"hold\"", "acme 0 the webhook failed: held (on_webhook_error = \"hold\")"),
    ] {
        let output = test(&server.uri(), more, &["reports", "--tenant", "acme"]).await;
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{shown}");
        assert!(shown.contains("FAILED") && shown.contains("returned HTTP 500"), "{shown}");
        assert!(shown.contains("no such table: plans"), "{shown}");
        assert_eq!(verdict(&shown, "acme"), expected);
    }
    let output = test("http://127.0.0.1:1/", "", &["reports"]).await;
    let shown = text(&output.stdout);
    assert!(output.status.code() == Some(1) && shown.contains("Connection refused"), "{shown}");
    assert_eq!(verdict(&shown, "fixed"), "fixed 2 the webhook failed: weights.static", "the tenants of the rule");
}

#[tokio::test]
async fn invalid_values_are_named_and_doubtful_responses_are_reported() {
    let server = answering(weights(json!({"acme": "3", "globex": 2}))).await;
    let output = test(&server.uri(), "", &["reports", "--tenant", "acme", "--tenant", "globex"]).await;
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert_eq!(verdict(&shown, "acme"), "acme 1 invalid, the answer has \"3\": default_weight");
    let server = answering(weights(json!({"ACME": 3}))).await;
    let output = test(&server.uri(), "", &["reports", "--tenant", "acme"]).await;
    let shown = text(&output.stdout);
    assert!(output.status.code() == Some(0) && shown.contains("WARNING: the webhook returned other ids"), "{shown}");
}

#[tokio::test]
async fn rules_without_a_webhook_and_unknown_rules_exit_1() {
    for (rule, part) in [
        ("plain", "plan rule \"plain\" has no weights webhook"),
        ("report", "there is no plan rule \"report\" in the configuration: it has reports, plain"),
    ] {
        let output = test("http://127.0.0.1:1/", "", &[rule]).await;
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(part), "{said}");
    }
    let help = text(&test("http://127.0.0.1:1/", "", &["--help"]).await.stdout);
    for part in ["--tenant <ID>", "Examples:", "{\"weights\": {\"acme\": 3", "Exit status:"] {
        assert!(help.contains(part), "{part} is missing in\n{help}");
    }
}
