//! Redis behind TCP with a password and ACL users, TLS, Sentinel and Cluster.

use crate::support::server::{SentinelSetup, Server, free_port, start};
use crate::support::{Client, Cluster, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Access, MainQueue, MainQueueKind, Secret, Sidekiq, StoreUrl};
use fairgate::domain::plan::{Batch, Pace, Rule};
use std::path::Path;

/// Runs a job through its whole life cycle.
async fn works(client: &Client) {
    let id = client.enqueue_into("q").await;
    assert_eq!(client.fetch("q", 1).await.job_ids(), [&*id]);
    client.ack(&id).await.expect(200);
    assert_eq!(client.state(&id).await, "completed");
}

#[tokio::test]
async fn a_password_and_a_database() {
    let server = Server::start(&["--requirepass", "sesame"]).up().await;
    let (_app, client) = start(&format!("redis://127.0.0.1:{}/3", server.port), |config| {
        config.store.password = Some(Secret::new("sesame".to_owned()));
    })
    .await;
    works(&client).await;
    let keyspace = server.cli(&["-a", "sesame", "INFO", "keyspace"]);
    assert!(keyspace.contains("db3:") && !keyspace.contains("db0:"), "{keyspace}");
}

#[tokio::test]
async fn an_acl_user_with_access_to_only_the_keys_of_the_namespace() {
    let server = Server::start(&[]).up().await;
    server.cli(&["ACL", "SETUSER", "fg", "on", ">pw", "~fg:*", "+@all", "-@admin", "+info"]);
    let (_app, client) = start(&format!("redis://127.0.0.1:{}", server.port), |config| {
        config.store.username = Some("fg".to_owned());
        config.store.password = Some(Secret::new("pw".to_owned()));
    })
    .await;
    works(&client).await;
}

/// The number of FCALL and of EVALSHA calls so far.
fn script_calls(server: &Server) -> (usize, usize) {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    (calls("fcall"), calls("evalsha"))
}

#[tokio::test]
async fn a_redis_with_functions_is_sent_no_scripts() {
    let server = Server::start(&[]).up().await;
    let (_app, client) = start(&format!("redis://127.0.0.1:{}", server.port), |_| {}).await;
    works(&client).await;
    let (functions, scripts) = script_calls(&server);
    assert!(functions > 3 && scripts == 0, "{functions} and {scripts}");
}

#[tokio::test]
async fn a_redis_without_functions_is_sent_scripts() {
    let server = Server::start(&["--rename-command", "FCALL", "", "--rename-command", "FUNCTION", ""]).up().await;
    let (_app, client) = start(&format!("redis://127.0.0.1:{}", server.port), |_| {}).await;
    works(&client).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    works(&client).await;
    let (functions, scripts) = script_calls(&server);
    assert!(functions == 0 && scripts > 6, "{functions} and {scripts}");
}

#[tokio::test]
async fn a_user_that_may_not_load_functions_sends_scripts() {
    let server = Server::start(&[]).up().await;
    let rights = ["~fg:*", "&*", "+@all", "-@admin", "+info", "-function", "-fcall"];
    server.cli(&[&["ACL", "SETUSER", "fg", "on", ">pw"], &rights[..]].concat());
    let (_app, client) = start(&format!("redis://127.0.0.1:{}", server.port), |config| {
        config.store.username = Some("fg".to_owned());
        config.store.password = Some(Secret::new("pw".to_owned()));
    })
    .await;
    works(&client).await;
    assert!(script_calls(&server).1 > 3);
}

#[tokio::test]
async fn a_server_that_refuses_scripts_is_not_ready() {
    let server = Server::start(&[]).up().await;
    let rights = ["~fg:*", "&*", "+@all", "-@admin", "+info", "-@scripting"];
    server.cli(&[&["ACL", "SETUSER", "fg", "on", ">pw"], &rights[..]].concat());
    let (_app, client) = start(&format!("redis://127.0.0.1:{}", server.port), |config| {
        config.store.username = Some("fg".to_owned());
        config.store.password = Some(Secret::new("pw".to_owned()));
    })
    .await;
    let answer = client.get("/ready").await.expect(503);
    assert_eq!(answer.text_at("/reason"), "the store does not run scripts");
    server.cli(&["ACL", "SETUSER", "fg", "+@scripting"]);
    client.get("/ready").await.expect(200);
    works(&client).await;
}

#[tokio::test]
async fn redis_takes_every_script_in_both_forms() {
    let redis = TestRedis::start();
    // Lua functions have room for 200 locals and 60 upvalues, which only Redis checks.
    let loaded: String = redis.command(&["FUNCTION", "LOAD", fairgate::store::library_text()]).await;
    assert!(loaded.starts_with("fairgate_"), "{loaded}");
    let mut accepted = 0;
    for (name, text) in fairgate::store::script_texts() {
        let digest: String = redis.command(&["SCRIPT", "LOAD", text]).await;
        assert_eq!(digest.len(), 40, "{name}: {digest}");
        accepted += 1;
    }
    assert!(accepted > 40, "{accepted}");
}

#[tokio::test]
async fn functions_of_other_versions_are_removed_at_start() {
    let server = Server::start(&[]).up().await;
    for name in ["fairgate_enqueue_000000000000", "somebody_elses"] {
        let library = format!("#!lua name={name}\nredis.register_function('{name}', function() return 1 end)");
        assert_eq!(server.cli(&["FUNCTION", "LOAD", &library]).trim(), name);
    }
    let (_app, client) = start(&format!("redis://127.0.0.1:{}", server.port), |_| {}).await;
    let libraries = || server.cli(&["FUNCTION", "LIST"]);
    eventually("the old library is gone", async || !libraries().contains("_000000000000")).await;
    works(&client).await;
    assert!(libraries().contains("somebody_elses") && libraries().contains("_enqueue"), "{}", libraries());
}

#[tokio::test]
async fn a_wrong_password_is_a_503_and_never_in_the_response() {
    let server = Server::start(&["--requirepass", "sesame"]).up().await;
    let (_app, client) = start(&format!("redis://127.0.0.1:{}", server.port), |config| {
        config.store.password = Some(Secret::new("wrong-secret".to_owned()));
    })
    .await;
    let answer = client.post("/v1/jobs", json!({"type": "test.job", "args": []})).await.expect(503);
    assert!(!answer.text.contains("wrong-secret"), "{}", answer.text);
}

/// Creates a self-signed certificate for 127.0.0.1 as files for redis-server.
fn certificate(directory: &Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.key_pair.serialize_pem()).unwrap();
    (certificate.display().to_string(), key.display().to_string())
}

#[tokio::test]
async fn tls_with_a_self_signed_certificate() {
    _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(directory.path());
    let tls_port = free_port().to_string();
    let arguments = ["--tls-port", &tls_port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let tls = [&arguments[..], &["--tls-ca-cert-file", &certificate, "--tls-auth-clients", "no"]].concat();
    let _server = Server::start(&tls).up().await;
    let url = format!("rediss://localhost:{tls_port}");
    let (_app, client) = start(&url, |config| config.store.ca_file = Some(certificate.clone().into())).await;
    works(&client).await;

    let (_distrusting, client) = start(&url, |_| {}).await;
    client.post("/v1/jobs", json!({"type": "test.job", "args": []})).await.expect(503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidekiq_behind_a_sentinel_gets_its_jobs_also_after_a_failover() {
    let SentinelSetup { primary, replica, sentinel } = SentinelSetup::start(&[]).await;
    let url = sentinel.sentinel_url();
    let app = TestApp::start_with(Clock::System, |config| {
        let access = Access { url: Some(StoreUrl::parse(&url).unwrap()), ..Access::default() };
        let kind = MainQueueKind::Sidekiq(Box::new(Sidekiq { access, ..Sidekiq::default() }));
        config.main_queues = vec![MainQueue { name: "legacy".to_owned(), kind }];
        let mut rule = Rule::new("r", &["t.*"]);
        (rule.main_queue, rule.queue, rule.class) =
            ("legacy".to_owned(), Some("heavy".to_owned()), Some("HeavyJob".to_owned()));
        (rule.batch, rule.pace) = (Batch::Jobs(100), Pace::Every(50));
        config.plan = vec![rule];
    })
    .await;
    let push = async || {
        let job = json!({"type": "t.job", "args": [], "meta": {"tenant_id": "a"}});
        app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 5]})).await.expect(201);
    };
    let waiting = |server: &Server| -> Vec<String> {
        let texts = server.cli(&["LRANGE", "queue:heavy", "0", "-1"]);
        let job = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
        texts.lines().filter_map(job).map(|job| job["jid"].as_str().unwrap().to_owned()).collect()
    };
    push().await;
    eventually("they are there, and copied", async || waiting(&replica).len() == 5).await;
    drop(primary);
    push().await;
    eventually("the new primary has the others too", async || waiting(&replica).len() >= 10).await;
    let jids: std::collections::HashSet<String> = waiting(&replica).into_iter().collect();
    assert_eq!((waiting(&replica).len(), jids.len()), (10, 10), "each once");
    assert!(replica.cli(&["INFO", "replication"]).contains("role:master"));
    eventually("the recovery is reported", async || {
        let events = app.client.get("/v1/events?types=main_queue.*&limit=100").await.expect(200);
        let kinds: Vec<&str> =
            events.at("/events").as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
        !kinds.contains(&"main_queue.failed") || kinds.contains(&"main_queue.recovered")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_names_the_primary_also_after_a_failover() {
    let SentinelSetup { primary, replica, sentinel } = SentinelSetup::start(&[]).await;
    let (_app, client) = start(&sentinel.sentinel_url(), |_| {}).await;
    works(&client).await;

    drop(primary);
    eventually("jobs are accepted by the new primary", async || {
        client.post("/v1/jobs", json!({"type": "test.job", "args": [], "queue": "after"})).await.status == 201
    })
    .await;
    assert!(replica.cli(&["INFO", "replication"]).contains("role:master"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_takes_all_keys_of_a_namespace_in_one_slot() {
    let cluster = Cluster::start().await;
    let (_app, client) = start(&cluster.url(), |_| {}).await;
    works(&client).await;
    let job = json!({"type": "test.job", "args": [], "queue": "many"});
    client.post("/v1/jobs/batch", json!({"jobs": vec![job; 100]})).await.expect(201);
    assert_eq!(client.fetch("many", 100).await.job_ids().len(), 100);
}
