//! Jobs that Sidekiq clients push: through a queue without workers, and through the client middleware.

use super::ruby::{Worker, WorkerOptions, script};
use super::*;
use std::collections::{HashMap, HashSet};

pub(super) fn draining() -> MainQueue {
    legacy(|sidekiq| sidekiq.staging_queue = Some("stage".to_owned()))
}

async fn pause(client: &Client, word: &str) {
    client.post(&format!("/v1/admin/planner/r/{word}"), json!({})).await.expect(200);
}

async fn staged(client: &Client) -> u64 {
    client.get("/v1/admin/planner/r").await.expect(200).at("/staged/jobs").as_u64().expect("a number")
}

pub(super) fn all_at_once() -> Rule {
    rule(|rule| (rule.batch, rule.pace) = (Batch::Jobs(1000), Pace::Every(50)))
}

#[tokio::test]
async fn a_payload_keeps_every_byte_but_queue_and_time() {
    let app = beside(&[all_at_once()], draining()).await;
    let text = r#"{"x":1.0,"queue":"stage","class":"HeavyJob","args":["a",12345678901234567890, "\u00e9é"],"retry":7,"jid":"abc","locale":{"de":[]},"enqueued_at":1690000000.123,"tags":["t"]}"#;
    app.redis.command::<i64>(&["LPUSH", "queue:stage", text]).await;
    eventually("it is promoted", async || app.redis.command::<i64>(&["LLEN", "queue:heavy"]).await == 1).await;
    let promoted: Vec<String> = app.redis.command(&["LRANGE", "queue:heavy", "0", "-1"]).await;
    let time = promoted[0].split("\"enqueued_at\":").nth(1).and_then(|rest| rest.split(',').next()).expect("a time");
    assert!(time.contains('.') && time.parse::<f64>().is_ok_and(|time| time > 1_700_000_000.0), "{time}");
    let expected = text.replace("\"stage\"", "\"heavy\"").replace("1690000000.123", time);
    assert_eq!(promoted[0], expected);
    assert_eq!(
        app.redis.keys_with("job:").await,
        Vec::<String>::new(),
        "no record is kept for a job pushed by a Sidekiq client"
    );
}

#[tokio::test]
async fn a_worker_runs_what_was_pushed_into_the_staging_queue_fairly_and_once() {
    let theirs = TestRedis::start();
    let main_queue = legacy(|sidekiq| {
        (sidekiq.staging_queue, sidekiq.access) = (Some("stage".to_owned()), at(&theirs));
    });
    let app = beside(&[rule(|_| {})], main_queue).await;
    pause(&app.client, "pause").await;
    let pushed = script(
        &theirs,
        r#"30.times { |n| puts StagedJob.perform_async("noisy", n) }
           puts Sidekiq::Client.push_bulk("class" => StagedJob, "args" => (0...10).flat_map { |n| [["b", n], ["c", n]] })"#,
    )
    .await;
    eventually("all jobs are staged", async || staged(&app.client).await == 50).await;
    pause(&app.client, "resume").await;
    let worker = Worker::start(&theirs, &WorkerOptions::default());
    let ran = worker.ran_all(50).await;
    let jids: HashSet<String> = ran.iter().map(|ran| ran.jid.clone()).collect();
    assert_eq!((ran.len(), jids), (50, pushed.lines().map(str::to_owned).collect()));
    let first: Vec<String> = ran[..30].iter().map(|ran| ran.tenant()).collect();
    for turn in first.chunks(3) {
        assert_eq!(turn.iter().collect::<HashSet<_>>().len(), 3, "{first:?}");
    }
}

#[tokio::test]
async fn the_middleware_keeps_the_queue_of_each_class_and_leaves_others_alone() {
    let own_queue = rule(|rule| rule.queue = None);
    let app = beside(&[own_queue], draining()).await;
    pause(&app.client, "pause").await;
    let pushed = script(
        &app.redis,
        r#"require ENV.fetch("MIDDLEWARE")
           fair = {staging_queue: "stage", classes: {"HeavyJob" => ->(t, *) { t }, "Billing::InvoiceJob" => ->(t, *) { t }}}
           Sidekiq.configure_client { |c| c.client_middleware { |chain| chain.add Fairgate::Client, fair } }
           5.times { |n| puts HeavyJob.perform_async("a", n) }
           5.times { |n| puts Billing::InvoiceJob.perform_async("b", n) }
           puts LightJob.perform_async("c", 0)"#,
    )
    .await;
    eventually("the jobs of the gem are staged", async || staged(&app.client).await == 10).await;
    assert_eq!(waiting(&app.redis, "queue:light").await.len(), 1);
    let tenants: Vec<Value> = {
        let list = app.client.get("/v1/admin/planner/r/tenants").await.expect(200);
        list.at("/items").as_array().expect("a list").clone()
    };
    let of_tenants: HashMap<&str, u64> =
        tenants.iter().filter_map(|one| Some((one["tenant_id"].as_str()?, one["pending"].as_u64()?))).collect();
    assert_eq!(of_tenants, HashMap::from([("a", 5), ("b", 5)]));
    pause(&app.client, "resume").await;
    let worker = Worker::start(&app.redis, &WorkerOptions { queues: &["heavy", "light"], ..WorkerOptions::default() });
    let ran = worker.ran_all(11).await;
    let jids: HashSet<String> = ran.iter().map(|ran| ran.jid.clone()).collect();
    assert_eq!((ran.len(), jids), (11, pushed.lines().map(str::to_owned).collect()));
}

#[tokio::test]
async fn unplanned_jobs_pass_through_and_invalid_payloads_go_to_the_dead_set() {
    let app = beside(&[all_at_once()], draining()).await;
    for text in [
        r#"{"class":"Unknown","args":[1],"queue":"stage","fairgate":{"queue":"own"}}"#,
        r#"{"class":"Other","args":[2],"queue":"stage"}"#,
        "not json",
        r#"{"class":"HeavyJob","args":[],"queue":"stage","jid":"last"}"#,
    ] {
        app.redis.command::<i64>(&["LPUSH", "queue:stage", text]).await;
    }
    eventually("the last one is promoted", async || waiting(&app.redis, "queue:heavy").await.len() == 1).await;
    assert_eq!(waiting(&app.redis, "queue:own").await[0]["class"], "Unknown");
    assert_eq!(waiting(&app.redis, "queue:default").await[0]["class"], "Other");
    assert_eq!(app.redis.command::<Vec<String>>(&["ZRANGE", "dead", "0", "-1"]).await, ["not json"]);
    assert_eq!(
        waiting(&app.redis, "queue:heavy").await[0]["jid"],
        "last",
        "without a tenant it belongs to the default tenant"
    );
}

#[tokio::test]
async fn jobs_without_a_tenant_belong_to_the_default_tenant() {
    let app = TestApp::start_with(Clock::System, |config| {
        configure(config, &[all_at_once()], draining());
        config.tenancy.default_tenant = "house".to_owned();
    })
    .await;
    pause(&app.client, "pause").await;
    app.redis.command::<i64>(&["LPUSH", "queue:stage", r#"{"class":"HeavyJob","args":[]}"#]).await;
    eventually("it is staged", async || staged(&app.client).await == 1).await;
    let tenants = app.client.get("/v1/admin/planner/r/tenants").await.expect(200);
    assert_eq!(tenants.at("/items/0/tenant_id"), "house");
}

#[tokio::test]
async fn a_rule_that_is_full_leaves_jobs_where_they_are() {
    let full = Rule { max_staged: Some(10), ..all_at_once() };
    let app = beside(&[full], draining()).await;
    pause(&app.client, "pause").await;
    let text = r#"{"class":"HeavyJob","args":["a"],"queue":"stage"}"#;
    for _ in 0..10 {
        app.redis.command::<i64>(&["LPUSH", "queue:stage", text]).await;
        eventually("the job is accepted", async || app.redis.command::<i64>(&["LLEN", "queue:stage"]).await == 0).await;
    }
    eventually("they are staged", async || staged(&app.client).await == 10).await;
    for _ in 0..100 {
        app.redis.command::<i64>(&["LPUSH", "queue:stage", text]).await;
    }
    pause(&app.client, "resume").await;
    let mut taken = 0;
    eventually("all have arrived", async || {
        taken += app.redis.command::<Vec<String>>(&["RPOP", "queue:heavy", "100"]).await.len();
        taken == 110
    })
    .await;
}

#[tokio::test]
async fn two_importers_import_each_job_once() {
    let redis = Arc::new(TestRedis::start());
    let start = async || {
        TestApp::start_on(Arc::clone(&redis), Clock::System, |config| configure(config, &[all_at_once()], draining()))
            .await
    };
    let (first, _second) = (start().await, start().await);
    for portion in 0..20 {
        let texts: Vec<String> =
            (0..50).map(|n| json!({"class": "HeavyJob", "args": ["a"], "jid": portion * 50 + n}).to_string()).collect();
        let words: Vec<&str> = ["LPUSH", "queue:stage"].into_iter().chain(texts.iter().map(String::as_str)).collect();
        redis.command::<i64>(&words).await;
    }
    eventually("all are promoted", async || waiting(&redis, "queue:heavy").await.len() >= 1000).await;
    eventually("nothing is left", async || staged(&first.client).await == 0).await;
    let payloads = waiting(&redis, "queue:heavy").await;
    let jids: HashSet<u64> = payloads.iter().filter_map(|payload| payload["jid"].as_u64()).collect();
    assert_eq!((payloads.len(), jids.len()), (1000, 1000));
}

#[tokio::test]
async fn the_middleware_passes_its_own_tests() {
    let test = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/sidekiq/fairgate_test.rb");
    let output = tokio::process::Command::new("ruby").arg(test).output().await.expect("ruby starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The periodic work of a Sidekiq process: it pushes due scheduled jobs and retries through the middleware.
const COME_DUE: &str = r#"require "sidekiq/scheduled"; sleep 0.05; Sidekiq::Scheduled::Enq.new.enqueue_jobs"#;

#[tokio::test]
async fn jobs_for_later_are_staged_when_they_come_due() {
    let app = beside(&[all_at_once()], draining()).await;
    let jid = script(&app.redis, &format!(r#"puts StagedJob.perform_in(0.01, "a", 1); {COME_DUE}"#)).await;
    eventually("it is promoted", async || waiting(&app.redis, "queue:heavy").await.len() == 1).await;
    let promoted = &waiting(&app.redis, "queue:heavy").await[0];
    assert_eq!((promoted["jid"].as_str(), &promoted["queue"]), (Some(jid.trim()), &json!("heavy")));
}

#[tokio::test]
async fn retries_are_staged_again_by_the_middleware_alone() {
    let app = beside(&[rule(|rule| rule.queue = None)], draining()).await;
    pause(&app.client, "pause").await;
    let fair = r#"require ENV.fetch("MIDDLEWARE")
        fair = {staging_queue: "stage", classes: {"HeavyJob" => ->(t, *) { t }}}
        Sidekiq.configure_client { |c| c.client_middleware { |chain| chain.add Fairgate::Client, fair } };"#;
    let failed = r#"{"class":"HeavyJob","args":["a"],"queue":"heavy","jid":"j","retry":true,"retry_count":0}"#;
    for (prelude, staged_again) in [("", 0), (fair, 1)] {
        app.redis.command::<i64>(&["ZADD", "retry", "1", failed]).await;
        script(&app.redis, &format!("{prelude} {COME_DUE}")).await;
        let straight = 1 - staged_again;
        eventually("it is in its queue", async || {
            let waits = waiting(&app.redis, "queue:heavy").await.len() as u64;
            (staged(&app.client).await, waits) == (staged_again, straight)
        })
        .await;
        app.redis.command::<i64>(&["DEL", "queue:heavy"]).await;
    }
}
