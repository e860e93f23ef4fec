//! Repeated calls take effect once, and failed calls leave no partial changes.

use crate::support::{Answer, ChaosProxy, NOON, TestApp, TestRedis, json};
use fairgate::clock::Clock;
use fairgate::config::{Role, StoreUrl};
use fairgate::store::Fetch;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Starts a fairgate behind a proxy and another directly on the same Redis, both without a tick.
async fn behind_proxy() -> (TestApp, TestApp, ChaosProxy) {
    let redis = Arc::new(TestRedis::start());
    let proxy = ChaosProxy::start(&redis).await;
    let url = proxy.url();
    let app = TestApp::start_on(redis.clone(), Clock::System, |config| {
        config.server.roles = vec![Role::Api];
        config.store.url = Some(StoreUrl::parse(&url).unwrap());
    })
    .await;
    let other = TestApp::start_on(redis, Clock::System, |config| config.server.roles = vec![Role::Api]).await;
    // All scripts are loaded before faults are armed.
    let id = other.client.enqueue_into("warm").await;
    other.client.fetch("warm", 1).await;
    other.client.ack(&id).await.expect(200);
    (app, other, proxy)
}

/// Sends a request whose reply is lost, and returns the response to its repetition.
async fn lost(
    proxy: &ChaosProxy,
    pattern: &str,
    request: impl Future<Output = Answer> + Send + 'static,
) -> JoinHandle<Answer> {
    proxy.arm(pattern);
    let call = tokio::spawn(request);
    proxy.struck().await;
    call
}

async fn lost_enqueue(app: &TestApp, proxy: &ChaosProxy) -> JoinHandle<Answer> {
    let client = app.client.clone();
    let job = json!({"type": "test.twice", "args": [], "queue": "q"});
    lost(proxy, "test.twice", async move { client.post("/v1/jobs", job).await }).await
}

async fn counted(app: &TestApp, queue: &str, state: &str) -> i64 {
    let n: Option<i64> = app.redis.command(&["HGET", &format!("fg:{{default}}:counts:{queue}"), state]).await;
    n.unwrap_or(0)
}

async fn full(app: &TestApp, path: &str, error: serde_json::Value) {
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let answer = app.client.post(path, json!({"job_id": id, "error": error})).await;
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    let leases: i64 = app.redis.command(&["ZCARD", "fg:{default}:leases"]).await;
    let state = app.client.state(&id).await;
    let seen = (
        answer.status,
        state.as_str(),
        leases,
        counted(app, "q", "active").await,
        counted(app, "q", "completed").await,
    );
    assert_eq!(seen, (503, "active", 1, 1, 0), "{}", answer.text);
}

#[tokio::test]
async fn an_ack_that_a_full_redis_refuses_changes_nothing() {
    full(&TestApp::start().await, "/v1/workers/ack", json!({})).await;
}

#[tokio::test]
async fn a_nack_that_a_full_redis_refuses_changes_nothing() {
    full(&TestApp::start().await, "/v1/workers/nack", json!({"code": "x"})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_whose_reply_and_script_were_lost_is_stored_once() {
    let (app, _other, proxy) = behind_proxy().await;
    let call = lost_enqueue(&app, &proxy).await;
    app.redis.command::<()>(&["FUNCTION", "FLUSH"]).await;
    proxy.open();
    call.await.unwrap().expect(201);
    let waiting: i64 = app.redis.command(&["ZCARD", "fg:{default}:lane:q:p0"]).await;
    assert_eq!((waiting, counted(&app, "q", "available").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_sent_again_after_its_job_was_done_succeeds() {
    let (app, other, proxy) = behind_proxy().await;
    let call = lost_enqueue(&app, &proxy).await;
    let ids = other.client.fetch("q", 1).await.job_ids();
    other.client.ack(&ids[0]).await.expect(200);
    proxy.open();
    call.await.unwrap().expect(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_cancel_succeeds() {
    let (app, _other, proxy) = behind_proxy().await;
    let id = app.client.enqueue_into("q").await;
    let (client, path) = (app.client.clone(), format!("/v1/jobs/{id}"));
    let call = lost(&proxy, &id, async move { client.delete(&path).await }).await;
    proxy.open();
    call.await.unwrap().expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_dead_letter_retry_succeeds() {
    let (app, _other, proxy) = behind_proxy().await;
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "queue": "q", "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}})).await;
    app.client.fetch("q", 1).await;
    app.client.nack(&id).await.expect(200);
    let (client, path) = (app.client.clone(), format!("/v1/dead-letter/{id}/retry"));
    let call = lost(&proxy, &id, async move { client.send("POST", &path, None).await }).await;
    proxy.open();
    call.await.unwrap().expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_deregistration_succeeds() {
    let (app, _other, proxy) = behind_proxy().await;
    app.client.enqueue_into("q").await;
    app.client.post("/v1/workers/heartbeat", json!({"worker_id": "w1"})).await.expect(200);
    app.client.fetch("q", 1).await;
    let client = app.client.clone();
    let call = lost(&proxy, "_deregister\r\n", async move { client.delete("/v1/workers/w1").await }).await;
    proxy.open();
    call.await.unwrap().expect(200);
}

fn wants(fetch_id: Option<&str>, worker: &str) -> Fetch {
    Fetch {
        worker: Some(worker.to_owned()),
        queues: vec!["q".to_owned()],
        count: 1,
        visibility_ms: None,
        fetch_id: fetch_id.map(str::to_owned),
        ..Fetch::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_release_does_not_affect_the_next_worker() {
    let (app, other, proxy) = behind_proxy().await;
    let id = app.client.enqueue_into("q").await;
    let leased = app.store().fetch(wants(None, "a")).await.unwrap();
    proxy.arm(&id);
    drop(leased); // the client is gone
    proxy.struck().await;
    assert_eq!(other.client.fetch("q", 1).await.job_ids(), [&*id], "returned, and now leased to w1");
    proxy.open();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(other.client.state(&id).await, "active", "w1 works on it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_fetch_does_not_take_jobs_from_its_repeat() {
    let app = TestApp::start().await;
    let id = app.client.enqueue_into("q").await;
    let lost = app.store().fetch(wants(Some("f1"), "a")).await.unwrap();
    let repeat = app.store().fetch(wants(Some("f1"), "a")).await.unwrap().deliver();
    assert_eq!(repeat[0].id, id);
    drop(lost); // the first request's connection is found to be closed
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(app.client.state(&id).await, "active", "the repeat was delivered");
    assert!(app.client.fetch("q", 1).await.job_ids().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repeat_of_a_lost_fetch_gets_its_jobs() {
    let app = TestApp::start().await;
    let id = app.client.enqueue_into("q").await;
    drop(app.store().fetch(wants(Some("f1"), "a")).await.unwrap());
    let repeat = app.store().fetch(wants(Some("f1"), "a")).await.unwrap().deliver();
    assert_eq!(repeat.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), [&*id]);
    assert_eq!(app.client.state(&id).await, "active");
}

#[tokio::test]
async fn one_invalid_record_does_not_stop_timers_of_others() {
    let app = TestApp::start_with(Clock::manual(NOON), |config| config.server.roles = vec![Role::Api]).await;
    let mut ids = Vec::new();
    for at in ["2027-01-15T08:00:01Z", "2027-01-15T08:00:02Z"] {
        ids.push(app.client.enqueue(json!({"type": "test.job", "args": [], "queue": "q", "scheduled_at": at})).await);
    }
    app.redis.command::<()>(&["SET", &format!("fg:{{default}}:job:{}", ids[0]), "garbage"]).await;
    app.clock.advance(5000);
    let first = app.store().tick().await;
    let second = app.store().tick().await;
    let due: i64 = app.redis.command(&["ZCARD", "fg:{default}:due"]).await;
    assert_eq!(app.client.state(&ids[1]).await, "available", "due: {due} {first:?} {second:?}");
}

#[tokio::test]
async fn a_reader_of_rare_events_skips_the_others() {
    let app = TestApp::start_with(Clock::System, |config| config.server.roles = vec![Role::Api]).await;
    let fill = "for i = 1, 20100 do redis.call('XADD', KEYS[1], '*', 'n', i, 't', '1', 'e', 'job.enqueued\\31a\\31b\\31q\\31\\31') end redis.call('XADD', KEYS[1], '*', 'n', 20101, 't', '1', 'e', 'job.rare\\31a\\31b\\31q\\31\\31')";
    app.redis.command::<redis::Value>(&["EVAL", fill, "1", "fg:{default}:events"]).await;
    let mut cursor = String::new();
    for _ in 0..5 {
        let answer = app.client.get(&format!("/v1/events?types=job.rare&after={cursor}")).await.expect(200);
        if answer.at("/events").as_array().is_some_and(|events| !events.is_empty()) {
            return;
        }
        assert_eq!(answer.at("/has_more"), &json!(true));
        cursor = answer.text_at("/cursor").to_owned();
    }
    panic!("never found; cursor {cursor:?}");
}

async fn revived(options: serde_json::Value) {
    let app = TestApp::start_with(Clock::manual(NOON), |config| config.server.roles = vec![Role::Api]).await;
    let mut job = json!({"type": "test.job", "args": [], "queue": "q", "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}});
    job.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let id = app.client.enqueue(job).await;
    app.client.fetch("q", 1).await;
    assert_eq!(app.client.nack(&id).await.expect(200).text_at("/state"), "discarded");
    app.clock.advance(3_600_000);
    app.client.send("POST", &format!("/v1/dead-letter/{id}/retry"), None).await.expect(200);
    let got = app.client.fetch("q", 1).await.job_ids();
    assert_eq!(
        got,
        [&*id],
        "{} {}",
        app.client.job(&id).await,
        app.client.get(&format!("/v1/dead-letter/{id}")).await.status
    );
}

#[tokio::test]
async fn a_retried_dead_letter_ignores_its_old_enqueue_ttl() {
    revived(json!({"enqueue_ttl": 60})).await;
}

#[tokio::test]
async fn a_retried_dead_letter_ignores_its_old_total_timeout() {
    revived(json!({"total_timeout": 60})).await;
}

#[tokio::test]
async fn retention_works_on_a_full_redis() {
    let app = TestApp::start().await;
    app.client.enqueue_into("q").await;
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert!(app.store().retain().await.is_ok());
}

#[tokio::test]
async fn a_full_redis_can_still_be_read_over_a_new_connection() {
    let app = TestApp::start().await;
    let id = app.client.enqueue_into("q").await;
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(app.client.state(&id).await, "available");
    app.redis.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    app.client.get(&format!("/v1/jobs/{id}")).await.expect(200);
}

#[tokio::test]
async fn a_pending_job_is_refused_by_a_full_redis() {
    let app = TestApp::start().await;
    app.client.enqueue_into("q").await;
    app.redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    app.client.post("/v1/jobs", json!({"type": "test.job", "args": [], "pending": true})).await.expect(503);
}

#[tokio::test]
async fn one_key_for_a_nack_and_an_ack_is_two_operations() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    let key = [("idempotency-key", id.as_str())];
    let body = json!({"job_id": id, "requeue": true}).to_string();
    app.client.try_send("POST", "/v1/workers/nack", &key, Some(body)).await.unwrap().expect(200);
    app.client.fetch("q", 1).await;
    let answer =
        app.client.try_send("POST", "/v1/workers/ack", &key, Some(json!({"job_id": id}).to_string())).await.unwrap();
    assert!(answer.status != 200 || app.client.state(&id).await == "completed", "{} {}", answer.status, answer.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_sent_again_is_stored_once_even_if_nothing_is_kept() {
    let redis = Arc::new(TestRedis::start());
    let proxy = ChaosProxy::start(&redis).await;
    let url = proxy.url();
    let app = TestApp::start_on(redis.clone(), Clock::System, |config| {
        config.store.url = Some(StoreUrl::parse(&url).unwrap());
        config.server.roles = vec![Role::Api];
    })
    .await;
    let other = TestApp::start_on(redis, Clock::System, |config| {
        config.server.roles = vec![Role::Api];
        config.retention.completed = Duration::ZERO;
    })
    .await;
    other.client.enqueue_into("warm").await;
    let call = lost_enqueue(&app, &proxy).await;
    let ids = other.client.fetch("q", 1).await.job_ids();
    other.client.ack(&ids[0]).await.expect(200);
    tokio::time::sleep(Duration::from_millis(20)).await;
    proxy.open();
    call.await.unwrap();
    assert!(other.client.fetch("q", 1).await.job_ids().is_empty(), "it ran already");
}

#[tokio::test]
async fn a_nack_that_fails_halfway_leaves_the_lease() {
    let app = TestApp::start_at(NOON).await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    app.redis.command::<()>(&["SET", &format!("fg:{{default}}:err:{id}"), "garbage"]).await;
    let answer = app.client.nack(&id).await;
    let leases: i64 = app.redis.command(&["ZCARD", "fg:{default}:leases"]).await;
    assert_eq!((answer.status, app.client.state(&id).await.as_str(), leases), (500, "active", 1));
}

#[tokio::test]
async fn a_unique_job_whose_reply_was_lost_is_not_its_own_duplicate() {
    let (app, other, proxy) = behind_proxy().await;
    other.client.enqueue(json!({"type": "test.warm", "args": [], "unique": {}})).await;
    for (conflict, status) in [("reject", 201), ("replace", 201), ("ignore", 201)] {
        let job = json!({"type": "test.twice", "args": [conflict], "queue": conflict, "options": {"unique": {"keys": ["args"], "on_conflict": conflict}}});
        let client = app.client.clone();
        let call = lost(&proxy, "test.twice", async move { client.post("/v1/jobs", job).await }).await;
        proxy.open();
        let answer = call.await.unwrap();
        assert_eq!(answer.status, status, "{conflict}: {}", answer.text);
        assert_eq!(
            (counted(&app, conflict, "available").await, counted(&app, conflict, "cancelled").await),
            (1, 0),
            "{conflict}"
        );
    }
}

#[tokio::test]
async fn a_cron_run_repeated_after_a_lost_reply_enqueues_one_job() {
    let (app, other, proxy) = behind_proxy().await;
    let cron =
        |name: &str| json!({"name": name, "expression": "@yearly", "type": "test.cron", "options": {"queue": name}});
    for name in ["warm", "c"] {
        other.client.post("/v1/cron", cron(name)).await.expect(201);
    }
    other.client.post("/v1/cron/warm/run", json!({})).await.expect(201);
    let client = app.client.clone();
    let call = lost(&proxy, "test.cron", async move { client.post("/v1/cron/c/run", json!({})).await }).await;
    proxy.open();
    let answer = call.await.unwrap().expect(201);
    assert_eq!(counted(&app, "c", "available").await, 1);
    let shown = other.client.get("/v1/cron/c").await;
    assert_eq!(shown.at("/cron/run_count"), &json!(1));
    assert_eq!(other.client.fetch("c", 9).await.job_ids(), [answer.text_at("/job/id")]);
}
