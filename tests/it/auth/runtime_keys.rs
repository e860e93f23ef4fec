//! API keys that are created and revoked at run time, for all processes.

use super::{Caller, guarded_on, key, secret};
use crate::support::{Process, TestApp, TestRedis, eventually, json};
use fairgate::auth::{AuthMode, Role};
use fairgate::clock::Clock;
use std::sync::Arc;

async fn on(redis: &Arc<TestRedis>) -> TestApp {
    TestApp::start_on(Arc::clone(redis), Clock::System, |_| {}).await
}

/// Creates a key and returns its id and the key.
async fn make(by: &Caller, name: &str, role: &str) -> (String, String) {
    let made = by.post("/v1/admin/keys", json!({"name": name, "role": role})).await.expect(201);
    assert_eq!(made.header("cache-control"), "no-store");
    (made.text_at("/api_key/id").to_owned(), made.text_at("/api_key/key").to_owned())
}

#[tokio::test]
async fn the_first_key_protects_every_process_also_after_a_restart() {
    let redis = Arc::new(TestRedis::start());
    let (first, second) = (on(&redis).await, on(&redis).await);
    first.client.get("/v1/queues").await.expect(200);
    let refused = first.client.post("/v1/admin/keys", json!({"name": "web", "role": "producer"})).await.expect(409);
    assert!(refused.text.contains("role admin first"), "the last admin key cannot be revoked: {}", refused.text);
    let bound = json!({"name": "web", "role": "admin", "tenant": "acme"});
    first.client.post("/v1/admin/keys", bound).await.expect(409);
    second.client.get("/v1/queues").await.expect(200);

    let made = first.client.post("/v1/admin/keys", json!({"name": "root", "role": "admin"})).await.expect(201);
    let key = made.text_at("/api_key/key").to_owned();
    first.client.get("/v1/queues").await.expect(401);
    eventually("the other process has read the keys", async || second.client.get("/v1/queues").await.status == 401)
        .await;
    Caller::new(&second.client, &key).get("/v1/queues").await.expect(200);
    let reported = Caller::new(&second.client, &key).get("/v1/events?types=auth.*").await.expect(200);
    let events: Vec<_> = reported.at("/events").as_array().unwrap().iter().map(|event| &event["type"]).collect();
    assert_eq!(events, ["auth.key_created", "auth.activated"]);
    assert_eq!(
        (reported.at("/events/0/data/name"), reported.at("/events/0/data/by")),
        (&json!("root"), &json!("anonymous"))
    );
    assert!(!reported.text.contains(&key), "an event holds no key");
    let third = on(&redis).await;
    third.client.get("/v1/queues").await.expect(401);
    Caller::new(&third.client, &key).get("/v1/queues").await.expect(200);
}

#[tokio::test]
async fn a_key_is_rotated_without_a_gap_and_revoked_everywhere() {
    let redis = Arc::new(TestRedis::start());
    let (app, other) = (guarded_on(Arc::clone(&redis), |_| {}).await, on(&redis).await);
    let admin = super::caller(&app, "admin");
    let (old_id, old) = make(&admin, "billing", "operator").await;
    let (_, new) = make(&admin, "billing", "operator").await;
    let third = admin.post("/v1/admin/keys", json!({"name": "billing", "role": "operator"})).await.expect(409);
    assert!(third.text.contains("Two keys named billing already exist"), "{}", third.text);
    admin.post("/v1/admin/keys", json!({"name": "billing", "role": "worker"})).await.expect(409);
    let config_name = json!({"name": "producer", "role": "admin"});
    admin.post("/v1/admin/keys", config_name).await.expect(409);
    for key in [&old, &new] {
        Caller::new(&app.client, key).get("/v1/queues").await.expect(200);
        eventually("the other process knows both", async || {
            Caller::new(&other.client, key).get("/v1/queues").await.status == 200
        })
        .await;
    }
    admin.delete(&format!("/v1/admin/keys/{old_id}")).await.expect(200);
    let told = admin.get("/v1/events?types=auth.key_revoked").await.expect(200);
    let expected = json!({"key_id": old_id, "name": "billing", "role": "operator", "by": "admin"});
    assert_eq!(told.at("/events/0/data"), &expected, "{}", told.text);
    Caller::new(&app.client, &old).get("/v1/queues").await.expect(401);
    Caller::new(&app.client, &new).get("/v1/queues").await.expect(200);
    eventually("the other process has read the keys", async || {
        Caller::new(&other.client, &old).get("/v1/queues").await.status == 401
    })
    .await;
    Caller::new(&other.client, &new).get("/v1/queues").await.expect(200);
    admin.delete(&format!("/v1/admin/keys/{old_id}")).await.expect(404);
}

#[tokio::test]
async fn a_revocation_takes_effect_in_other_processes_by_signal() {
    let redis = Arc::new(TestRedis::start());
    let (app, other) = (on(&redis).await, on(&redis).await);
    app.app.keys.create(&key("root", Role::Admin, None), "test").await.unwrap();
    app.app.keys.create(&key("web", Role::Operator, None), "test").await.unwrap();
    let session = {
        eventually("the key is known", async || other.app.keys.caller(&secret("web")).is_some()).await;
        other.app.keys.session(other.app.keys.caller(&secret("web")))
    };
    let id = key("web", Role::Operator, None).id();
    app.app.keys.revoke(&id, "test").await.unwrap();
    // Sooner than two of the 5 s periods after which it reads the keys anyway.
    tokio::time::timeout(std::time::Duration::from_secs(2), session.ended()).await.expect("a signal arrives");
}

#[tokio::test]
async fn the_last_admin_cannot_be_revoked_and_keys_of_the_configuration_stay() {
    let redis = Arc::new(TestRedis::start());
    let app = on(&redis).await;
    app.app.keys.create(&key("root", Role::Admin, None), "test").await.unwrap();
    let root = super::caller(&app, "root");
    let id = key("root", Role::Admin, None).id();
    let refused = root.delete(&format!("/v1/admin/keys/{id}")).await.expect(409);
    assert!(refused.text.contains("the last one that can manage keys"), "{}", refused.text);
    let (_, second) = make(&root, "second", "admin").await;
    Caller::new(&app.client, &second).delete(&format!("/v1/admin/keys/{id}")).await.expect(200);
    root.get("/v1/queues").await.expect(401);

    let configured = guarded_on(Arc::clone(&redis), |_| {}).await;
    let id = key("worker", Role::Worker, None).id();
    let refused = super::caller(&configured, "admin").delete(&format!("/v1/admin/keys/{id}")).await.expect(409);
    assert!(refused.text.contains("in the configuration"), "{}", refused.text);
}

#[tokio::test]
async fn an_emptied_redis_grants_no_access() {
    let redis = Arc::new(TestRedis::start());
    let (runtime, configured) = (on(&redis).await, guarded_on(Arc::clone(&redis), |_| {}).await);
    runtime.app.keys.create(&key("root", Role::Admin, None), "test").await.unwrap();
    super::caller(&runtime, "root").get("/v1/queues").await.expect(200);
    eventually("both know", async || configured.app.keys.caller(&secret("root")).is_some()).await;
    redis.command::<()>(&["FLUSHALL"]).await;
    for app in [&runtime, &configured] {
        app.app.keys.reload().await.unwrap();
        assert_eq!(app.app.keys.mode(), AuthMode::Required);
        app.client.get("/v1/queues").await.expect(401);
        super::caller(app, "root").get("/v1/queues").await.expect(401);
    }
    super::caller(&configured, "operator").get("/v1/queues").await.expect(200);
    // With access to Redis, a new key can be created, and the server that refused everybody accepts it.
    configured.app.keys.create(&key("again", Role::Admin, None), "test").await.unwrap();
    eventually("the key is known", async || super::caller(&runtime, "again").get("/v1/queues").await.status == 200)
        .await;
}

#[tokio::test]
async fn requests_are_refused_until_the_keys_are_loaded() {
    let redis = TestRedis::start();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("later.sock");
    // Starts without its Redis, which already holds a key when it comes up.
    let url = format!("unix://{}", socket.display());
    let process = Process::spawn(&["--redis", &url]);
    eventually("it answers", async || process.client.try_send("GET", "/health", &[], None).await.is_ok()).await;
    process.client.get("/v1/admin/pools").await.expect(503);
    process.client.get("/ojs/manifest").await.expect(200);
    let store = TestApp::start_on(Arc::new(redis), Clock::System, |_| {}).await;
    store.app.keys.create(&key("root", Role::Admin, None), "test").await.unwrap();
    std::os::unix::fs::symlink(store.redis.socket(), &socket).unwrap();
    eventually("it is connected", async || process.client.get("/ready").await.status == 200).await;
    process.client.get("/v1/admin/pools").await.expect(401);
    Caller::new(&process.client, &secret("root")).get("/v1/admin/pools").await.expect(200);
}

#[tokio::test]
async fn keys_of_the_configuration_need_no_redis() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f.toml");
    let hash = key("root", Role::Admin, None).digest.text();
    std::fs::write(&file, format!("[[api_key]]\nname = \"root\"\nrole = \"admin\"\nhash = \"{hash}\"\n")).unwrap();
    let url = format!("unix://{}", directory.path().join("none.sock").display());
    let process = Process::spawn(&["--redis", &url, "--config", file.to_str().unwrap()]);
    eventually("it answers", async || process.client.try_send("GET", "/health", &[], None).await.is_ok()).await;
    process.client.get("/v1/queues").await.expect(401);
    Caller::new(&process.client, &secret("wrong")).get("/v1/queues").await.expect(401);
    Caller::new(&process.client, &secret("root")).get("/v1/queues").await.expect(503);
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_field() {
    let app = guarded_on(Arc::new(TestRedis::start()), |_| {}).await;
    let admin = super::caller(&app, "admin");
    for (body, field) in [
        (json!({}), "name"),
        (json!({"name": "a b", "role": "admin"}), "name"),
        (json!({"name": 7, "role": "admin"}), "name"),
        (json!({"name": "a"}), "role"),
        (json!({"name": "a", "role": "root"}), "role"),
        (json!({"name": "a", "role": "admin", "tenant": ""}), "tenant"),
        (json!({"name": "a", "role": "admin", "tenant": "x".repeat(257)}), "tenant"),
    ] {
        let refused = admin.post("/v1/admin/keys", body.clone()).await.expect(400);
        assert_eq!(refused.at("/error/details/field"), field, "{body}");
    }
    admin.send("POST", "/v1/admin/keys", None).await.expect(400);
    admin.delete("/v1/admin/keys/key_none").await.expect(404);
}

#[tokio::test]
async fn a_lost_reply_creates_no_second_key() {
    let redis = Arc::new(TestRedis::start());
    let app = on(&redis).await;
    let root = key("root", Role::Admin, None);
    for _ in 0..3 {
        app.app.keys.create(&root, "test").await.unwrap();
    }
    assert_eq!(app.app.keys.keys().len(), 1);
    // A key entry that cannot be parsed grants nothing and does not affect other keys.
    redis.command::<()>(&["HSET", "fg:{default}:keys", "key_x", "sha256:nonsense"]).await;
    app.app.keys.reload().await.unwrap();
    super::caller(&app, "root").get("/v1/queues").await.expect(200);
    super::caller(&app, "nonsense").get("/v1/queues").await.expect(401);
}
