//! `fairgate doctor` and `check` on main queues.

use super::*;
use crate::support::TestRedis;
use std::process::Command;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

fn fairgate(arguments: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairgate"));
    let output =
        command.current_dir(directory.path()).args(arguments).envs(env.iter().copied()).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Runs `fairgate doctor` with the test's servers and returns its lines about the main queue.
async fn doctor(redis: &TestRedis, section: String) -> (Option<i32>, String) {
    let file = redis.directory().join("doctor.toml");
    std::fs::write(&file, format!("[[main_queue]]\nname = \"jobs\"\n{section}\n")).expect("a file");
    let (file, url) = (file.display().to_string(), redis.url());
    let run = move || fairgate(&["doctor", "--config", &file, "--redis", &url], &[("TOKEN", "fgk_secret")]);
    tokio::task::spawn_blocking(run).await.expect("it runs")
}

#[tokio::test]
async fn doctor_checks_an_ojs_server() {
    let (redis, remote) = (TestRedis::start(), TestApp::start().await);
    let at = |url: &str| format!("kind = \"ojs\"\nurl = \"{url}\"\ntoken_env = \"TOKEN\"");
    let (status, said) = doctor(&redis, at(&url_of(&remote))).await;
    assert_eq!(status, Some(0), "{said}");
    for part in [
        "main queue jobs, the OJS server at http://",
        "fairgate, OJS 1.0, conformance level 4",
        "the token may post jobs",
        "the token may read its queues",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    remote.client.post("/v1/admin/keys", json!({"name": "x", "role": "admin"})).await.expect(201);
    let (status, said) = doctor(&redis, at(&url_of(&remote))).await;
    assert!(
        status == Some(1) && said.contains("the token may not post jobs") && said.contains("check its token"),
        "{said}"
    );
    assert!(!said.contains("fgk_secret"), "{said}");
    let (status, said) = doctor(&redis, at("http://127.0.0.1:1")).await;
    assert!(status == Some(1) && said.contains(" BAD  GET http://127.0.0.1:1/ojs/manifest"), "{said}");

    let server = MockServer::start().await;
    let manifest = json!({"specversion": "1.0", "conformance_level": 2, "implementation": {"name": "old"}});
    let answer =
        ResponseTemplate::new(200).insert_header("date", "Sun, 06 Nov 1994 08:49:37 GMT").set_body_json(manifest);
    Mock::given(path("/ojs/manifest")).respond_with(answer).mount(&server).await;
    let (status, said) = doctor(&redis, at(&server.uri())).await;
    assert_eq!(status, Some(1));
    for part in ["its conformance level is 2", "its clock differs from the local clock", "cannot read its queues"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
}

#[tokio::test]
async fn doctor_checks_a_sidekiq() {
    let (redis, theirs) = (TestRedis::start(), TestRedis::start());
    theirs.command::<i64>(&["SADD", "queues", "heavy"]).await;
    let (status, said) = doctor(&redis, format!("kind = \"sidekiq\"\nurl = \"{}\"", theirs.url())).await;
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("reachable: 1 queue, 0 processes") && said.contains("no Sidekiq process is running"),
        "{said}"
    );
    let (status, said) = doctor(&redis, "kind = \"sidekiq\"\nurl = \"redis://127.0.0.1:1\"".to_owned()).await;
    assert!(status == Some(1) && said.contains("its Redis cannot be used"), "{said}");
}

#[test]
fn the_example_is_sound() {
    let path = format!("{}/deploy/examples/ojs.toml", env!("CARGO_MANIFEST_DIR"));
    let (status, said) = fairgate(&["check", "--config", &path], &[("JOBS_TOKEN", "secret")]);
    assert_eq!(status, Some(0), "{said}");
    for part in [
        "main queue \"jobs\" is the OJS server at https://jobs.example.com, with a token",
        "pass through to main queue \"jobs\"",
        "rule \"reports\" plans report.* every 1s into main queue \"jobs\"",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert!(!said.contains("\"secret\""), "{said}");
    let types = ["check", "--config", &path, "--type", "report.a", "--type", "mail"];
    let (_, said) = fairgate(&types, &[("JOBS_TOKEN", "secret")]);
    assert!(said.contains("mail      → not planned: passes through to main queue \"jobs\"\n"), "{said}");
}
