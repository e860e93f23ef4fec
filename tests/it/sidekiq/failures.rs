//! The Sidekiq's Redis is down, locked, full or read-only: the failure is reported and no job is lost.

use super::*;
use crate::support::ChaosProxy;
use fairgate::config::Secret;

fn often() -> Rule {
    rule(|rule| (rule.batch, rule.pace) = (Batch::Jobs(100), Pace::Every(50)))
}

/// The events about main queues, oldest first: type and the most significant member.
async fn events(app: &TestApp, member: &str) -> Vec<(String, Value)> {
    let answer = app.client.get("/v1/events?types=main_queue.*&limit=100").await.expect(200);
    let events = answer.at("/events").as_array().expect("events").clone();
    events.iter().map(|one| (one["type"].as_str().expect("a type").to_owned(), one["data"][member].clone())).collect()
}

/// Waits until a failure of the main queue is reported with a cause, in an event and in the rule's stats.
async fn announced(app: &TestApp, cause: &str) {
    let failed = ("main_queue.failed".to_owned(), json!(cause));
    eventually("it is announced", async || events(app, "cause").await.contains(&failed)).await;
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert!(stats.at("/main_queue/trouble").is_string(), "{}", stats.text);
}

/// Waits until the recovery of the main queue is reported.
async fn well_again(app: &TestApp) {
    let recovered = |events: Vec<(String, Value)>| events.iter().any(|(kind, _)| kind == "main_queue.recovered");
    eventually("the recovery is announced", async || recovered(events(app, "cause").await)).await;
    eventually("and reported", async || {
        app.client.get("/v1/admin/planner/r").await.expect(200).at("/main_queue/trouble").is_null()
    })
    .await;
}

/// Waits until a round that failed because of the main queue is among the recorded ones.
async fn wait_for_report(app: &TestApp) {
    eventually("a failed round is recorded", async || {
        let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
        // It need not be the last one: rounds during the wait for the next delivery attempt only queue jobs behind it.
        let rounds = stats.at("/last_rounds").as_array().cloned().unwrap_or_default();
        let failed = |round: &Value| round["outcome"] == "failed" && round["reason"] == "main_queue";
        rounds.iter().any(|round| failed(round) && round["error"].is_string())
    })
    .await;
}

async fn arrived(redis: &TestRedis, jobs: usize) {
    eventually("all have arrived", async || waiting(redis, "queue:heavy").await.len() >= jobs).await;
    assert_eq!(waiting(redis, "queue:heavy").await.len(), jobs);
}

#[tokio::test]
async fn down_at_the_start() {
    let theirs = TestRedis::start();
    let proxy = ChaosProxy::start(&theirs).await;
    proxy.close();
    let app = beside(
        &[often()],
        legacy(|sidekiq| {
            sidekiq.access.url = Some(StoreUrl::parse(&proxy.url()).expect("a url"));
            sidekiq.staging_queue = Some("stage".to_owned());
        }),
    )
    .await;
    push(&app.client, "a", 5).await;
    wait_for_report(&app).await;
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!((stats.at("/gate/open"), stats.at("/gate/reason")), (&json!(false), &json!("unreachable")));
    announced(&app, "unreachable").await;
    proxy.open();
    arrived(&theirs, 5).await;
    well_again(&app).await;
}

#[tokio::test]
async fn down_in_the_middle_of_a_round() {
    let theirs = TestRedis::start();
    let proxy = ChaosProxy::start(&theirs).await;
    let url = Some(StoreUrl::parse(&proxy.url()).expect("a url"));
    let app = beside(&[often()], legacy(|sidekiq| sidekiq.access.url = url)).await;
    push(&app.client, "a", 2).await;
    arrived(&theirs, 2).await;
    proxy.arm(":delivered");
    push(&app.client, "a", 5).await;
    proxy.struck().await;
    push(&app.client, "b", 5).await;
    announced(&app, "unreachable").await;
    proxy.open();
    // The delivery whose reply was lost is not made twice.
    arrived(&theirs, 12).await;
    well_again(&app).await;
}

#[tokio::test]
async fn a_queue_without_workers_and_an_untested_version() {
    let app = beside(&[often()], legacy(|_| {})).await;
    push(&app.client, "a", 1).await;
    let has = async |kind: &str, member: &str, value: Value| {
        eventually(kind, async || events(&app, member).await.contains(&(kind.to_owned(), value.clone()))).await;
    };
    has("main_queue.unserved", "queue", json!("heavy")).await;
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!(stats.at("/main_queue/queues/0/processes"), &json!(0));
    arrived(&app.redis, 1).await;
    let info = json!({"queues": ["heavy"], "concurrency": 1, "version": "9.0.0"}).to_string();
    app.redis.command::<i64>(&["SADD", "processes", "p"]).await;
    app.redis.command::<i64>(&["HSET", "p", "info", &info, "busy", "0", "quiet", "false"]).await;
    push(&app.client, "a", 1).await;
    eventually("its process is seen", async || {
        let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
        stats.at("/main_queue/queues/0/processes") == &json!(1) && stats.at("/main_queue/versions") == &json!(["9.0.0"])
    })
    .await;
    has("main_queue.served", "queue", json!("heavy")).await;
    has("main_queue.untried_version", "version", json!("9.0.0")).await;
}

#[tokio::test]
async fn a_wrong_password() {
    let theirs = TestRedis::start();
    theirs.command::<String>(&["ACL", "SETUSER", "app", "on", ">right", "~*", "&*", "+@all"]).await;
    let app = beside(
        &[often()],
        legacy(|sidekiq| {
            sidekiq.access = at(&theirs);
            (sidekiq.access.username, sidekiq.access.password) = (Some("app".to_owned()), Some(Secret::new("wrong")));
        }),
    )
    .await;
    push(&app.client, "a", 5).await;
    wait_for_report(&app).await;
    announced(&app, "password").await;
    theirs.command::<String>(&["ACL", "SETUSER", "app", ">wrong"]).await;
    arrived(&theirs, 5).await;
    well_again(&app).await;
}

#[tokio::test]
async fn full() {
    let theirs = TestRedis::start();
    let app = beside(&[often()], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    theirs.command::<String>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    // Jobs promoted first wait in the outbox; a round that has further jobs fails.
    push(&app.client, "a", 5).await;
    announced(&app, "full").await;
    push(&app.client, "b", 5).await;
    wait_for_report(&app).await;
    theirs.command::<String>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    arrived(&theirs, 10).await;
    well_again(&app).await;
}

#[tokio::test]
async fn read_only() {
    let theirs = TestRedis::start();
    let app = beside(&[often()], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    theirs.command::<String>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    push(&app.client, "a", 5).await;
    eventually("the jobs are reported as undelivered", async || {
        app.client.get("/v1/admin/planner/r").await.expect(200).at("/main_queue/undelivered") == &json!(5)
    })
    .await;
    announced(&app, "read_only").await;
    theirs.command::<String>(&["REPLICAOF", "NO", "ONE"]).await;
    arrived(&theirs, 5).await;
    eventually("the recovery is reported as well", async || {
        app.client.get("/v1/admin/planner/r").await.expect(200).at("/main_queue/undelivered") == &json!(0)
    })
    .await;
}

#[tokio::test]
async fn an_emptied_store_continues_with_higher_sequences() {
    let theirs = TestRedis::start();
    let app = beside(
        &[often()],
        legacy(|sidekiq| {
            (sidekiq.access, sidekiq.staging_queue) = (at(&theirs), Some("stage".to_owned()));
        }),
    )
    .await;
    push(&app.client, "a", 3).await;
    arrived(&theirs, 3).await;
    app.redis.command::<String>(&["FLUSHALL"]).await;
    eventually("jobs are accepted again", async || {
        let job = json!({"type": "t.job", "args": ["a"]}).to_string();
        app.client.try_send("POST", "/v1/jobs", &[], Some(job)).await.is_ok_and(|answer| answer.status == 201)
    })
    .await;
    arrived(&theirs, 4).await;
    let staged = json!({"class": "HeavyJob", "args": ["b"]}).to_string();
    theirs.command::<i64>(&["LPUSH", "queue:stage", &staged]).await;
    arrived(&theirs, 5).await;
}

#[tokio::test]
async fn a_main_queue_unknown_to_this_process() {
    let redis = Arc::new(TestRedis::start());
    let knows = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        configure(config, &[by_hand(10)], legacy(|_| {}));
    })
    .await;
    push(&knows.client, "a", 3).await;
    let does_not = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| config.plan = vec![by_hand(10)]).await;
    let refused = does_not.client.post("/v1/admin/planner/r/run", json!({})).await;
    assert!(refused.status >= 500 && !refused.text.contains("panicked"), "{}", refused.text);
    let stats = does_not.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!((stats.at("/staged/jobs"), stats.at("/gate/reason")), (&json!(3), &json!("unreachable")));
    assert_eq!(run(&knows.client).await["promoted"], 3);
}

#[tokio::test]
async fn a_rule_deleted_during_an_outage_delivers_its_promoted_jobs() {
    let theirs = TestRedis::start();
    let proxy = ChaosProxy::start(&theirs).await;
    let app = beside(
        &[],
        legacy(|sidekiq| {
            sidekiq.access.url = Some(StoreUrl::parse(&proxy.url()).expect("a url"));
        }),
    )
    .await;
    let body = often().to_json().to_string();
    app.client.send("PUT", "/v1/admin/planner/r", Some(body)).await.expect(201);
    proxy.arm(":delivered");
    push(&app.client, "a", 1).await;
    proxy.struck().await;
    assert_eq!(app.redis.keys_with("outbox").await.len(), 1);
    app.client.delete("/v1/admin/planner/r").await.expect(200);
    // The delivery whose reply was lost is repeated; the target recognises it.
    proxy.open();
    eventually("it is known to be there", async || app.redis.keys_with("outbox").await.is_empty()).await;
    arrived(&theirs, 1).await;
    eventually("the rule is gone", async || app.redis.keys_with("plan:r").await.is_empty()).await;
}
