//! `fairgate top`: one screen as text, and the live screen in a pseudo-terminal.

use crate::auth::{guarded, secret};
use crate::support::{ChaosProxy, Terminal, TestApp, eventually, json};
use std::process::Output;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A server that does nothing in the background, with a paused rule that has staged jobs of two tenants, and another rule.
async fn start() -> TestApp {
    let app = TestApp::start_passive(|_| {}).await;
    for rule in ["mail", "reports"] {
        let options =
            json!({"types": [format!("{rule}.*")], "queue": rule, "tenant_key": "meta.tenant_id"}).to_string();
        app.client.send("PUT", &format!("/v1/admin/planner/{rule}"), Some(options)).await.expect(201);
    }
    app.client.post("/v1/admin/planner/reports/pause", json!({})).await.expect(200);
    for tenant in ["acme", "noisy", "noisy"] {
        app.client.enqueue(json!({"type": "reports.daily", "args": [], "meta": {"tenant_id": tenant}})).await;
    }
    app.client.enqueue(json!({"type": "call.api", "args": [], "rate_limit": {"key": "api", "concurrency": 3}})).await;
    app.client.fetch("default", 1).await;
    app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w1", "active_jobs": []})).await.expect(200);
    app
}

async fn run(server: &str, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.args(["top", "--server", server]).args(arguments).env_remove("FAIRGATE_API_KEY");
    command.output().await.expect("it runs")
}

/// The lines of one screen.
async fn once(app: &TestApp, arguments: &[&str]) -> Vec<String> {
    let output = run(app.client.base(), &[&["--once"], arguments].concat()).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

/// Runs the command, which must fail with an exit status, and returns its message.
async fn refused(server: &str, arguments: &[&str], status: i32) -> String {
    let output = run(server, arguments).await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// Starts the live screen in a terminal of this size.
fn live(columns: u16, rows: u16, server: &str, arguments: &[&str]) -> Terminal {
    let arguments = [&["top", "--interval", "200ms", "--server", server], arguments].concat();
    Terminal::start(columns, rows, &arguments)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_view_is_printed_once_with_the_figures_of_the_server() {
    let app = start().await;
    let rules = once(&app, &[]).await;
    assert_eq!(rules[0], format!("08:00:00 UTC  {}", app.client.base()));
    assert!(rules[1].contains("2 rules, 2 queues and 1 limit examined"), "{rules:?}");
    assert_eq!(words(&rules[3])[..4], ["RULE", "STATE", "STAGED", "TENANTS"]);
    assert_eq!(words(&rules[4])[..4], ["mail", "running", "0", "0"]);
    assert_eq!(words(&rules[5])[..4], ["reports", "paused", "3", "2"]);
    assert_eq!(rules.len(), 6, "{rules:?}");
    let tenants = once(&app, &["--view", "tenants", "--rule", "reports"]).await;
    assert!(tenants[2].contains("Tenants of reports"), "{tenants:?}");
    assert_eq!(words(&tenants[4])[..3], ["noisy", "reports", "2"]);
    assert_eq!(words(&tenants[5])[..3], ["acme", "reports", "1"]);
    let first = once(&app, &["--view", "tenants"]).await;
    assert_eq!(first[3], "no tenant has staged jobs of rule \"mail\"");
    let queues = once(&app, &["--view", "queues"]).await;
    assert!(queues.iter().any(|line| words(line).starts_with(&["default", "active", "0", "0", "1"])), "{queues:?}");
    assert_eq!(words(&once(&app, &["--view", "limits"]).await[4])[..3], ["api", "1", "3"]);
    assert_eq!(words(&once(&app, &["--view", "workers"]).await[4])[0], "w1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_server_has_empty_views() {
    let app = TestApp::start_passive(|_| {}).await;
    for (view, text) in [
        ("rules", "there is no plan rule"),
        ("tenants", "there is no plan rule"),
        ("queues", "there is no queue"),
        ("limits", "there is no limit"),
        ("workers", "there is no worker"),
    ] {
        let lines = once(&app, &["--view", view]).await;
        assert_eq!(lines[3..], [text], "{lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_cannot_control_the_terminal() {
    // fairgate refuses such names; another server may not.
    let server = MockServer::start().await;
    let answer = json!({"summary": "\u{7}", "items": [{"rule": "a\u{1b}[2J\u{9b}1mb", "state": "\n"}]});
    Mock::given(method("GET")).respond_with(ResponseTemplate::new(200).set_body_json(answer)).mount(&server).await;
    let output = run(&server.uri(), &["--once"]).await;
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("\na\u{fffd}[2J\u{fffd}1mb  \u{fffd} "), "{text:?}");
    assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_shown_is_an_error_with_a_way_out() {
    let app = guarded().await;
    let server = app.client.base();
    let error = refused(server, &[], 1).await;
    assert!(error.contains("not a terminal; use `fairgate top --once`") && error.contains("planner --json"), "{error}");
    for interval in ["199ms", "61s", "fast"] {
        let error = refused(server, &["--once", "--interval", interval], 64).await;
        assert!(error.contains("expected a time from 200ms to 1m"), "{error}");
    }
    let error = refused(server, &["--once"], 1).await;
    assert!(error.contains("HTTP 401") && error.contains("FAIRGATE_API_KEY or --key-file"), "{error}");
    let key = tempfile::NamedTempFile::new().unwrap();
    let file = key.path().to_str().unwrap();
    std::fs::write(key.path(), secret("worker")).unwrap();
    let error = refused(server, &["--once", "--key-file", file], 1).await;
    assert!(error.contains("HTTP 403") && error.contains("role operator or admin"), "{error}");
    std::fs::write(key.path(), secret("operator")).unwrap();
    assert_eq!(once(&app, &["--key-file", file]).await[3], "there is no plan rule");
    let error = refused(server, &["--once", "--key-file", file, "--rule", "nothing"], 1).await;
    assert_eq!(error, "error: there is no plan rule \"nothing\"\n");
    let error = refused("http://127.0.0.1:1", &["--once"], 1).await;
    assert!(error.starts_with("error: no answer from the server"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_screen_follows_keys_and_leaves_the_terminal_as_it_was() {
    let app = start().await;
    let mut terminal = live(120, 24, app.client.base(), &[]);
    terminal.shows("reports").await;
    assert!(!terminal.is_restored());
    // To the second rule, and to its tenants.
    terminal.press("j\r");
    terminal.shows("noisy").await;
    terminal.press("/acm\r");
    terminal.hides("noisy").await;
    terminal.press("?");
    terminal.shows("filter by text").await;
    terminal.press("x5");
    terminal.shows("w1").await;
    app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w2", "active_jobs": []})).await.expect(200);
    terminal.shows("w2").await;
    terminal.press("q");
    assert_eq!((terminal.ends().await, terminal.is_restored()), (Some(0), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_paused_and_resumed_after_a_yes() {
    let app = start().await;
    let state = async || app.client.get("/v1/admin/planner/mail").await.text_at("/state").to_owned();
    let mut terminal = live(120, 24, app.client.base(), &[]);
    terminal.shows("mail").await;
    terminal.press("p");
    terminal.shows("pause rule \"mail\"? y/n").await;
    assert_eq!(state().await, "running");
    terminal.press("y");
    terminal.shows("paused rule \"mail\"").await;
    assert_eq!(state().await, "paused");
    eventually("the row shows it", async || {
        terminal.lines().iter().any(|line| words(line).starts_with(&["mail", "paused"]))
    })
    .await;
    terminal.press("py");
    terminal.shows("resumed rule \"mail\"").await;
    assert_eq!(state().await, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_after_a_yes() {
    let app = start().await;
    let mut terminal = live(120, 24, app.client.base(), &["--view", "queues"]);
    terminal.shows("default").await;
    terminal.press("py");
    terminal.shows("paused queue \"default\"").await;
    let queue = app.client.get("/v1/admin/queues/default").await;
    assert_eq!(queue.at("/paused"), true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_shown_until_it_comes_back() {
    let app = start().await;
    let proxy = ChaosProxy::before(app.app.address).await;
    let terminal = live(120, 24, &proxy.http_url(), &[]);
    terminal.shows("reports").await;
    proxy.arm("GET");
    terminal.shows("trying again: no answer from the server").await;
    terminal.shows(" old ").await;
    assert!(terminal.lines().iter().any(|line| line.starts_with("reports")), "the rows stay");
    proxy.open();
    terminal.hides("trying again").await;
    terminal.shows("examined").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_is_shown_on_a_small_screen() {
    let app = guarded().await;
    let mut terminal = live(40, 10, app.client.base(), &[]);
    terminal.shows("API key refused; use").await;
    terminal.shows("--key-file").await;
    // Ctrl-C is a key here.
    terminal.press("\u{3}");
    assert_eq!((terminal.ends().await, terminal.is_restored()), (Some(0), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_and_leaves_the_terminal_as_it_was() {
    let app = start().await;
    let mut terminal = live(80, 24, app.client.base(), &[]);
    terminal.shows("reports").await;
    terminal.terminate();
    assert_eq!((terminal.ends().await, terminal.is_restored()), (Some(0), true));
}
