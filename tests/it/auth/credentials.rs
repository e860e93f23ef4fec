//! How keys are sent, and servers without keys.

use super::{caller, guarded, key, secret};
use crate::support::{Process, TestApp, TestRedis, eventually, json};
use fairgate::auth::{Digest, Role};
use std::process::Command;

#[tokio::test]
async fn without_keys_everything_is_open_and_nothing_changes() {
    let app = TestApp::start().await;
    app.client.get("/v1/queues").await.expect(200);
    let headers = [("authorization", "Bearer whatever")];
    app.client.try_send("GET", "/v1/queues", &headers, None).await.unwrap().expect(200);
}

#[tokio::test]
async fn a_key_is_accepted_in_either_header() {
    let app = guarded().await;
    let good = secret("operator");
    for (name, value, status) in [
        ("authorization", format!("Bearer {good}"), 200),
        ("authorization", format!("bearer  {good} "), 200),
        ("x-api-key", good.clone(), 200),
        ("authorization", good.clone(), 401),
        ("authorization", format!("Basic {good}"), 401),
        ("authorization", "Bearer ".to_owned(), 401),
        ("authorization", format!("Bearer {}", &good[..good.len() - 1]), 401),
        ("authorization", format!("Bearer {good}x"), 401),
        ("authorization", format!("Bearer {}", good.to_uppercase()), 401),
        ("authorization", format!("Bearer {}", Digest::of(&good).text()), 401),
        ("authorization", format!("Bearer {}", "x".repeat(20_000)), 401),
        ("x-api-key", String::new(), 401),
    ] {
        let answer = app.client.try_send("GET", "/v1/queues", &[(name, &value)], None).await.unwrap();
        assert_eq!(answer.status, status, "{name}: {value}");
    }
    // A proxy may put anything into the other header.
    let both = [("authorization", "Basic dTpw"), ("x-api-key", good.as_str())];
    app.client.try_send("GET", "/v1/queues", &both, None).await.unwrap().expect(200);
}

#[tokio::test]
async fn a_body_is_not_read_before_its_sender_is_known() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let app = guarded().await;
    // Announces a body over the limit and sends none of it; the response is about the key.
    for authorization in [String::new(), format!("authorization: Bearer {}\r\n", secret("worker"))] {
        let mut stream = tokio::net::TcpStream::connect(app.app.address).await.unwrap();
        let head = format!(
            "POST /ojs/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99000000\r\n{authorization}content-type: application/json\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = if authorization.is_empty() { "HTTP/1.1 401" } else { "HTTP/1.1 403" };
        assert!(answer.starts_with(status) && answer.contains("connection: close"), "{answer}");
    }
    let nonsense = app.client.send("POST", "/v1/jobs", Some("\u{0}{[".repeat(1000))).await;
    assert_eq!((nonsense.status, nonsense.text_at("/error/code")), (401, "unauthorized"));
}

#[tokio::test]
async fn a_refusal_has_a_hint_and_not_the_key() {
    let app = guarded().await;
    let refused = caller(&app, "worker").get("/v1/queues").await.expect(403);
    assert_eq!(refused.at("/error/details/expected"), "operator, admin");
    assert_eq!(refused.at("/error/details/canonical"), "PERMISSION_DENIED");
    let wrong = caller(&app, "wrong").get("/v1/queues").await.expect(401);
    assert!(!wrong.text.contains(&secret("wrong")) && wrong.text.contains("Authorization: Bearer"), "{}", wrong.text);
}

#[tokio::test]
async fn keys_are_in_no_log_and_no_response() {
    let redis = TestRedis::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f.toml");
    let admin = Digest::of(&secret("admin")).text();
    let text = format!(
        "[log]\nlevel = \"trace\"\nformat = \"json\"\n[[api_key]]\nname = \"root\"\nrole = \"admin\"\nhash = \"{admin}\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut process = Process::serve(&["--redis", &redis.url(), "--config", file.to_str().unwrap()]).await;
    let admin = super::Caller::new(&process.client, &secret("admin"));
    let made = admin.post("/v1/admin/keys", json!({"name": "web", "role": "producer"})).await.expect(201);
    let made = made.text_at("/api_key/key").to_owned();
    let web = super::Caller::new(&process.client, &made);
    web.post("/v1/jobs", json!({"type": "t", "args": []})).await.expect(201);
    web.get("/v1/queues").await.expect(403);
    super::Caller::new(&process.client, &secret("wrong")).get("/v1/queues").await.expect(401);
    let list = admin.get("/v1/admin/keys").await.expect(200);
    assert_eq!(list.at("/items/1/name"), "web");
    assert!(!list.text.contains(&made) && !list.text.contains("sha256"), "{}", list.text);
    process.terminate();
    for line in ["every request needs an API key", "API key created", "refused", "stopping"] {
        eventually(line, async || process.logged().contains(line)).await;
    }
    let log = process.logged();
    for key in [&made, &secret("admin"), &secret("wrong")] {
        assert!(!log.contains(key.as_str()), "a key is in the log");
    }
    let kept: Vec<String> = redis.command(&["HVALS", "fg:{default}:keys"]).await;
    assert!(kept.len() == 1 && !kept[0].contains(&made) && kept[0].starts_with("sha256:"), "Redis holds digests only");
}

#[tokio::test]
async fn a_public_address_needs_keys_or_the_flag_and_keys_are_required_with_the_flag() {
    let redis = TestRedis::start();
    let directory = tempfile::tempdir().unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_fairgate"))
        .current_dir(directory.path())
        .args(["serve", "--redis", &redis.url(), "--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(64));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("[[api_key]]") && said.contains("--insecure-no-auth"), "{said}");

    let app = TestApp::start_with(fairgate::clock::Clock::System, |config| {
        config.server.insecure_no_auth = true;
        config.api_keys.push(key("a", Role::Admin, None));
    })
    .await;
    app.client.get("/v1/queues").await.expect(401);
    let process = Process::serve(&["--redis", &redis.url()]).await;
    let warning = r#""message":"no authentication""#;
    eventually("it says so", async || process.logged().contains(warning)).await;
}
