//! `fairgate keys`, and the output of `check` about keys.

use super::Caller;
use crate::support::{Process, TestRedis, eventually};
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn fairgate(arguments: &[&str], input: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fairgate"))
        .current_dir(directory.path())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked_without_a_server_and_servers_are_notified() {
    let redis = TestRedis::start();
    let url = redis.url();
    let server = Process::serve(&["--redis", &url]).await;
    let keys = |arguments: &[&str]| fairgate(&[&["keys"], arguments, &["--redis", &url]].concat(), "");
    let refused = keys(&["create", "web", "--role", "producer"]);
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("the first key must be an admin key"),
        "{refused:?}"
    );

    let made = keys(&["create", "root", "--role", "admin"]);
    assert!(made.status.success(), "{made:?}");
    let key = text(&made.stdout).trim().to_owned();
    assert!(key.starts_with("fgk_") && text(&made.stdout).lines().count() == 1 && !text(&made.stderr).contains(&key));
    eventually("the server asks for a key", async || server.client.get("/v1/queues").await.status == 401).await;
    Caller::new(&server.client, &key).get("/v1/queues").await.expect(200);

    let bound = keys(&["create", "web", "--role", "producer", "--tenant", "acme"]);
    let bound = text(&bound.stdout).trim().to_owned();
    let list = text(&keys(&["list"]).stdout);
    assert!(!list.contains(&key) && !list.contains(&bound), "{list}");
    let row = list.lines().find(|line| line.contains("web")).unwrap_or_default().to_owned();
    for part in ["producer", "acme", "redis"] {
        assert!(row.contains(part), "{list}");
    }
    let id = row.split_whitespace().next().unwrap();
    eventually("the server knows it", async || {
        Caller::new(&server.client, &bound).get("/v1/jobs/none").await.status == 404
    })
    .await;
    assert!(keys(&["revoke", id]).status.success());
    eventually("the server has read the keys", async || {
        Caller::new(&server.client, &bound).get("/v1/jobs/none").await.status == 401
    })
    .await;
    let again = keys(&["revoke", id]);
    assert!(!again.status.success() && text(&again.stderr).contains("there is no key"), "{again:?}");
    let root = list.lines().find(|line| line.contains("root")).unwrap().split_whitespace().next().unwrap();
    let last = keys(&["revoke", root]);
    assert!(!last.status.success() && text(&last.stderr).contains("is the last admin key"), "{last:?}");
}

#[tokio::test]
async fn a_key_for_the_configuration_needs_no_redis() {
    let made = fairgate(&["keys", "create", "web", "--role", "operator", "--tenant", "a\"b", "--offline"], "");
    assert!(made.status.success(), "{made:?}");
    let (key, lines) = (text(&made.stdout), text(&made.stderr));
    assert!(!lines.contains(key.trim()), "{lines}");
    let hash = fairgate(&["keys", "hash"], &key);
    assert!(lines.contains(&format!("hash = \"{}\"", text(&hash.stdout).trim())), "{lines}");

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f.toml");
    std::fs::write(&file, &lines).unwrap();
    let path = file.to_str().unwrap();
    let check = fairgate(&["check", "--config", path], "");
    assert!(check.status.success(), "{check:?}");
    let said = text(&check.stdout);
    assert!(said.contains("operator \"web\" has the key key_") && said.contains("with API keys"), "{said}");
    assert!(!said.contains(key.trim()));
    let redis = TestRedis::start();
    let server = Process::serve(&["--redis", &redis.url(), "--config", path]).await;
    server.client.get("/v1/events").await.expect(401);
    Caller::new(&server.client, key.trim()).get("/v1/events").await.expect(200);
}

#[test]
fn a_value_that_is_not_a_key_is_not_hashed() {
    for weak in ["", "password\n", "two words that are long enough to be a key\n"] {
        let refused = fairgate(&["keys", "hash"], weak);
        assert!(!refused.status.success() && text(&refused.stderr).contains("cannot be guessed"), "{refused:?}");
    }
    for (arguments, part) in [
        (["create", "a b", "--role", "admin"], "1 to 63 characters"),
        (["create", "a", "--role", "root"], "one of producer, worker, operator, admin"),
    ] {
        let refused = fairgate(&[&["keys"][..], &arguments].concat(), "");
        assert!(!refused.status.success() && text(&refused.stderr).contains(part), "{refused:?}");
    }
    let help = text(&fairgate(&["keys", "--help"], "").stdout);
    for part in ["create", "list", "revoke", "hash"] {
        assert!(help.contains(part), "{help}");
    }
}
