//! Starting and stopping as a user does: output, the first key, probes, and errors in the environment.

use crate::support::{Client, Process, TestRedis, eventually, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn fairgate(directory: &std::path::Path, arguments: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairgate"));
    command.current_dir(directory).args(arguments).envs(env.iter().copied()).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The messages of a JSON log.
fn messages(process: &Process) -> Vec<String> {
    let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
    let message = |line: serde_json::Value| line["message"].as_str().map(str::to_owned);
    process.logged().lines().filter_map(read).filter_map(message).collect()
}

#[tokio::test]
async fn ready_is_printed_only_when_redis_answers() {
    let redis = TestRedis::start();
    redis.command::<()>(&["CONFIG", "SET", "requirepass", "hunter2"]).await;
    let mut process = Process::spawn(&["--redis", &redis.url()]);
    eventually("the log says what it waits for", async || messages(&process).contains(&"waiting for Redis".to_owned()))
        .await;
    assert!(!messages(&process).contains(&"ready".to_owned()), "{}", process.logged());
    let mut connection = redis.connection_as("hunter2").await;
    redis::cmd("CONFIG").arg(&["SET", "requirepass", ""]).exec_async(&mut connection).await.unwrap();
    eventually("it is ready", async || messages(&process).contains(&"ready".to_owned())).await;
    assert_eq!(process.client.get("/ready").await.status, 200);
    assert_eq!(process.terminate(), Some(0));
    eventually("the log says that it stopped", async || messages(&process).ends_with(&["stopped".to_owned()])).await;
    assert!(
        process.logged().lines().all(|line| line.starts_with('{')),
        "lines follow log.format:\n{}",
        process.logged()
    );
}

#[tokio::test]
async fn an_error_that_repeats_is_logged_once_with_a_count() {
    let redis = TestRedis::start();
    let mut process = Process::serve(&["--redis", &redis.url()]).await;
    redis.command::<()>(&["SET", "fg:{default}:queues", "damaged"]).await;
    for _ in 0..20 {
        process.client.get("/v1/queues").await.expect(500);
    }
    process.terminate();
    eventually("the log says that it stopped", async || messages(&process).ends_with(&["stopped".to_owned()])).await;
    let log = process.logged();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("WRONGTYPE")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[1].contains("\"message\":\"repeated\"") && lines[1].contains("\"repeats\":19"), "{log}");
}

#[tokio::test]
async fn a_pause_is_logged_once() {
    let redis = TestRedis::start();
    let file = redis.directory().join("fairgate.toml");
    std::fs::write(&file, "[[plan]]\nname = \"r\"\ntypes = [\"t.*\"]\n").unwrap();
    let mut process = Process::serve(&["--config", file.to_str().unwrap(), "--redis", &redis.url()]).await;
    for path in ["/v1/queues/q", "/v1/admin/queues/q", "/v1/admin/planner/r"] {
        for action in ["resume", "pause", "pause", "resume", "resume"] {
            process.client.post(&format!("{path}/{action}"), json!({})).await.expect(200);
        }
    }
    process.terminate();
    eventually("it says that it stopped", async || messages(&process).ends_with(&["stopped".to_owned()])).await;
    let logged = messages(&process);
    let changes: Vec<&str> = logged
        .iter()
        .map(String::as_str)
        .filter(|line| line.ends_with("paused") || line.ends_with("resumed"))
        .collect();
    let [queue, rule] = [["queue paused", "queue resumed"], ["plan rule paused", "plan rule resumed"]];
    assert_eq!(changes, [queue, queue, rule].concat());
}

#[tokio::test]
async fn the_ready_command_asks_the_server_of_the_configuration() {
    let redis = TestRedis::start();
    let directory = tempfile::tempdir().unwrap();
    let process = Process::serve(&["--redis", &redis.url()]).await;
    let address = process.client.base().trim_start_matches("http://").to_owned();
    let ask = || fairgate(directory.path(), &["ready"], &[("FAIRGATE_SERVER__LISTEN", &address)]);
    assert_eq!(ask().status.code(), Some(0));
    drop(process);
    let gone = ask();
    assert_eq!(gone.status.code(), Some(1));
    assert!(said(&gone).contains(&format!("not ready: no answer from http://{address}/ready")), "{}", said(&gone));

    let waiting = Process::spawn(&["--redis", "redis://127.0.0.1:1"]);
    let address = waiting.client.base().trim_start_matches("http://").to_owned();
    let ask = || fairgate(directory.path(), &["ready"], &[("FAIRGATE_SERVER__LISTEN", &address)]);
    eventually("the log says why it is not ready", async || said(&ask()).contains("the store is not available")).await;
    assert_eq!(ask().status.code(), Some(1));
    // Kubernetes would restart all replicas in an outage of Redis if liveness depended on it.
    waiting.client.get(&liveness_path()).await.expect(200);
}

/// The path of the liveness probe in the deployment for Kubernetes.
fn liveness_path() -> String {
    let text = deployment("kubernetes/service.yaml");
    let probe = text.lines().find(|line| line.contains("livenessProbe: ")).expect("a liveness probe");
    let path = probe.split_once("httpGet: { path: ").and_then(|(_, rest)| rest.split_once(',')).expect("a path");
    path.0.to_owned()
}

fn deployment(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join("deploy").join(name)).unwrap()
}

#[test]
fn deployments_ask_for_readiness_with_the_command() {
    for name in ["kubernetes/service.yaml", "kubernetes/sidecar.yaml"] {
        let text = deployment(name);
        let probes: Vec<&str> = text.lines().filter(|line| line.contains("readinessProbe: ")).collect();
        assert_eq!(probes.len(), 1, "{name}");
        assert!(probes[0].contains("exec: { command: [fairgate, ready] }"), "{name}: {}", probes[0]);
    }
}

/// Reads the standard output of a server that creates the first key.
#[tokio::test]
async fn the_first_key_is_made_and_printed_once() {
    let redis = TestRedis::start();
    let start = || {
        let address = crate::support::free_address();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fairgate"))
            .args(["serve", "--redis", &redis.url(), "--generate-key", "--listen", &address])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        (child, lines, Client::new(format!("http://{address}")))
    };
    let (mut child, mut lines, client) = start();
    let key = tokio::task::spawn_blocking(move || lines.next().expect("a line").expect("text")).await.unwrap();
    client.get("/v1/queues").await.expect(401);
    let bearer = format!("Bearer {key}");
    let sent = client.try_send("GET", "/v1/admin/keys", &[("authorization", &bearer)], None).await.unwrap().expect(200);
    assert_eq!((sent.at("/items/0/name"), sent.at("/items/0/role")), (&json!("admin"), &json!("admin")));
    child.kill().unwrap();
    child.wait().unwrap();

    let (mut child, lines, client) = start();
    eventually("it is there again", async || {
        client.try_send("GET", "/ready", &[], None).await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    client.try_send("GET", "/v1/queues", &[("authorization", &bearer)], None).await.unwrap().expect(200);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lines.count(), 0, "no second key");
}

#[test]
fn an_address_may_be_localhost_or_a_port() {
    let directory = tempfile::tempdir().unwrap();
    let check = |listen: &str| fairgate(directory.path(), &["check", "--listen", listen], &[]);
    let shown = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown(&check("localhost:9000")).contains("serves 127.0.0.1:9000"), "{}", shown(&check("localhost:9000")));
    let open = check(":9000");
    assert_eq!(open.status.code(), Some(64));
    assert!(said(&open).contains("serving 0.0.0.0:9000 without authentication"), "{}", said(&open));
    assert!(said(&check("9000")).contains("did you mean \"127.0.0.1:9000\"?"));
}

#[test]
fn an_unknown_environment_variable_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let output = fairgate(directory.path(), &["check"], &[("FAIRGATE_LISTEN", "127.0.0.1:1")]);
    assert_eq!(output.status.code(), Some(64));
    for part in ["FAIRGATE_LISTEN", "unknown variable", "did you mean FAIRGATE_SERVER__LISTEN?"] {
        assert!(said(&output).contains(part), "{}", said(&output));
    }
}

#[test]
fn an_unusable_directory_is_named_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let output = fairgate(directory.path(), &["serve", "--listen", "127.0.0.1:0", "--data-dir", "file/data"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let path = directory.path().canonicalize().unwrap().join("file/data");
    for part in ["cannot use the data directory", path.to_str().unwrap(), "--data-dir", "store.url"] {
        assert!(said(&output).contains(part), "{}", said(&output));
    }
    assert_eq!(said(&output).matches("os error").count(), 1, "{}", said(&output));
}

#[test]
fn a_command_says_that_it_waits_for_redis() {
    let directory = tempfile::tempdir().unwrap();
    let env = [("FAIRGATE_STORE__URL", "redis://:hunter2@127.0.0.1:1"), ("FAIRGATE_STORE__CALL_TIMEOUT", "1s")];
    let output = fairgate(directory.path(), &["keys", "list"], &env);
    let said = said(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((output.status.code(), lines.len()), (Some(1), 2), "{said}");
    assert_eq!(lines[0], "waiting up to 1s for Redis at redis://:***@127.0.0.1:1", "{said}");
    assert!(lines[1].starts_with("error: "), "{said}");
}

#[tokio::test]
async fn keys_create_reports_where_the_key_is() {
    let redis = TestRedis::start();
    let directory = tempfile::tempdir().unwrap();
    let url = redis.url();
    let output = fairgate(directory.path(), &["keys", "create", "ops", "--role", "admin", "--redis", &url], &[]);
    assert!(output.status.success() && said(&output).contains(&format!(" in {url};")), "{}", said(&output));
}

/// Files meant for copying are safe: no open server, and no image tag that moves.
#[test]
fn deployments_have_keys_and_pinned_images() {
    for name in ["Dockerfile", "compose.yaml", "kubernetes/service.yaml", "kubernetes/sidecar.yaml"] {
        let text = deployment(name);
        assert!(!text.contains("insecure") && !text.contains(":latest"), "{name}");
        for image in text.lines().filter_map(|line| line.trim().strip_prefix("image: ").or(line.strip_prefix("FROM ")))
        {
            assert!(image.contains(':') && image.chars().any(|letter| letter.is_ascii_digit()), "{name}: {image}");
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus/prometheus.yml");
    let checked = Command::new("promtool").args(["check", "config", "--syntax-only"]).arg(path).output();
    let checked = checked.expect("promtool runs; scripts/test installs it");
    assert!(checked.status.success(), "{}", said(&checked));
}
