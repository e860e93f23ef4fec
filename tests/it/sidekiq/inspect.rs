//! `fairgate sidekiq inspect`: job classes, a missing queue, and a configuration to copy.

use super::ruby::script;
use super::*;
use std::process::Output;

async fn fairgate(arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.args(arguments).output().await.expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts a Redis with Sidekiq jobs of three classes.
async fn sidekiq() -> TestRedis {
    let redis = TestRedis::start();
    script(
        &redis,
        r#"5.times { |n| HeavyJob.perform_async({"account_id" => "acme"}, n) }
           2.times { |n| Billing::InvoiceJob.perform_async({"account_id" => "globex"}, n) }
           LightJob.perform_async("acme", 0)"#,
    )
    .await;
    redis
}

#[tokio::test]
async fn lists_the_job_classes_of_each_queue() {
    let redis = sidekiq().await;
    let output = fairgate(&["sidekiq", "inspect", &redis.url(), "--json"]).await;
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let classes = |name: &str| {
        report["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).unwrap()["classes"].clone()
    };
    let heavy = json!([{"class": "HeavyJob", "jobs": 5}, {"class": "Billing::InvoiceJob", "jobs": 2}]);
    assert_eq!((classes("heavy"), classes("light")), (heavy, json!([{"class": "LightJob", "jobs": 1}])));
    let shown = text(&fairgate(&["sidekiq", "inspect", &redis.url()]).await.stdout);
    assert!(shown.contains("HeavyJob 5, Billing::InvoiceJob 2"), "{shown}");
}

#[tokio::test]
async fn a_missing_queue_exits_1() {
    let redis = sidekiq().await;
    let output = fairgate(&["sidekiq", "inspect", &redis.url(), "--queue", "hevy"]).await;
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("there is no queue \"hevy\"") && said.contains("heavy, light"), "{said}");
    // A queue that a process reads exists, although nothing was pushed into it yet.
    let info = json!({"queues": ["fresh"], "concurrency": 1}).to_string();
    redis.command::<i64>(&["SADD", "processes", "host:1"]).await;
    redis.command::<i64>(&["HSET", "host:1", "info", &info, "busy", "0", "quiet", "false"]).await;
    let output = fairgate(&["sidekiq", "inspect", &redis.url(), "--queue", "fresh"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[tokio::test]
async fn prints_a_configuration_that_can_be_copied() {
    let redis = sidekiq().await;
    let url = redis.url();
    let arguments = ["sidekiq", "inspect", &url, "--queue", "heavy", "--tenant-key", "args.0.account_id"];
    let shown = text(&fairgate(&arguments).await.stdout);
    let from = shown.find("[[main_queue]]").expect("a configuration");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fairgate.toml");
    std::fs::write(&file, &shown[from..]).unwrap();
    let checked = fairgate(&["check", "--config", file.to_str().unwrap()]).await;
    let said = text(&checked.stdout);
    assert!(checked.status.success(), "{}\n{shown}", text(&checked.stderr));
    for part in [
        "rule \"heavy\" plans HeavyJob, Billing::InvoiceJob every 1s into main queue \"sidekiq\", in shadow",
        &format!("main queue \"sidekiq\" is a Sidekiq at {url}"),
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert!(shown[from..].contains("tenant_key = \"args.0.account_id\""), "{shown}");
    let json = fairgate(&[&arguments[..], &["--json"]].concat()).await;
    let report: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["configuration"], shown[from..]);
}

#[tokio::test]
async fn a_configuration_holds_no_password() {
    let redis = sidekiq().await;
    redis.command::<String>(&["ACL", "SETUSER", "app", "on", ">hunter2", "~*", "&*", "+@all"]).await;
    let url = format!("{}?user=app&pass=hunter2", redis.url());
    let output = fairgate(&["sidekiq", "inspect", &url, "--queue", "heavy"]).await;
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        shown.contains("password_env = ") && shown.contains("username = \"app\"") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_tenant_key_that_matches_nothing_shows_the_shape_of_the_arguments() {
    let redis = sidekiq().await;
    let shown = text(&fairgate(&["sidekiq", "inspect", &redis.url(), "--queue", "heavy"]).await.stdout);
    assert!(
        shown.contains("no job has a tenant at args.0; the arguments of HeavyJob are [{account_id: string}, number]"),
        "{shown}"
    );
}
