//! Delivery of jobs: in one script, through another database, and through an outbox.

use super::*;
use crate::support::{ChaosProxy, NOON};
use fairgate::domain::job::State;

#[tokio::test]
async fn jobs_over_http_become_payloads_in_fair_order() {
    let app = beside(&[by_hand(6)], legacy(|_| {})).await;
    let ids = push(&app.client, "a", 5).await;
    push(&app.client, "b", 2).await;
    let staged = app.client.job(&ids[0]).await;
    assert_eq!((&staged["state"], &staged["x_staged"]), (&json!("pending"), &json!(true)));
    let round = run(&app.client).await;
    assert_eq!((&round["outcome"], &round["promoted"]), (&json!("promoted"), &json!(6)));

    let payloads = waiting(&app.redis, "queue:heavy").await;
    assert_eq!(tenants(&payloads), ["a", "b", "a", "b", "a", "a"]);
    let first = &payloads[0];
    assert_eq!(
        (&first["class"], &first["queue"], &first["retry"]),
        (&json!("HeavyJob"), &json!("heavy"), &json!(true))
    );
    assert_eq!((&first["args"], &first["ojs_id"]), (&json!(["a", 0]), &json!(ids[0])));
    assert_eq!(first["jid"].as_str().map(str::len), Some(24));
    assert!(first["enqueued_at"].is_f64() && first["created_at"].is_f64(), "{first}");
    let names: Vec<String> = app.redis.command(&["SMEMBERS", "queues"]).await;
    assert_eq!(names, ["heavy"]);

    // The job has left; only that is known and shown.
    let left = app.client.job(&ids[0]).await;
    assert_eq!((&left["state"], &left["x_promoted_to"]), (&json!("available"), &json!("legacy")));
    assert_eq!((left.get("x_staged"), left["enqueued_at"].is_string()), (None, true));
    app.client.delete(&format!("/v1/jobs/{}", ids[0])).await.expect(409);
    let ttl: i64 = app.redis.command(&["PTTL", &format!("fg:{{default}}:job:{}", ids[0])]).await;
    assert!(ttl > 0, "its record expires");
    let counts = app.store().queue_counts("heavy").await.unwrap();
    assert_eq!((counts[&State::Pending], counts[&State::Available]), (1, 0));

    // A staged job can be cancelled, but not activated into a queue of this server.
    app.client.post(&format!("/v1/jobs/{}/activate", ids[4]), json!({})).await.expect(409);
    app.client.delete(&format!("/v1/jobs/{}", ids[4])).await.expect(200);
    let round = run(&app.client).await;
    assert_eq!((&round["outcome"], &round["reason"]), (&json!("skipped"), &json!("empty")));
}

#[tokio::test]
async fn payloads_are_ordered_by_priority_and_fair_within_each() {
    let app = beside(&[by_hand(6)], legacy(|_| {})).await;
    for (tenant, priority) in [("a", 0), ("a", 0), ("b", 0), ("b", 9), ("b", 9), ("c", 9)] {
        app.client.enqueue(json!({"type": "t.job", "args": [tenant], "options": {"priority": priority}})).await;
    }
    assert_eq!(run(&app.client).await["promoted"], json!(6));
    assert_eq!(tenants(&waiting(&app.redis, "queue:heavy").await), ["b", "c", "b", "a", "b", "a"]);
}

#[tokio::test]
async fn long_jobs_and_those_that_expire_arrive_whole() {
    let app = beside(&[by_hand(100)], legacy(|_| {})).await;
    let long = "é\"\\".repeat(200_000);
    let job = json!({"type": "t.job", "args": ["a", long], "options": {"expires_at": "+PT1H", "enqueue_ttl": 3600}});
    for _ in 0..3 {
        app.client.enqueue(job.clone()).await;
    }
    let promoted = run(&app.client).await["promoted"].as_u64();
    assert_eq!(promoted, Some(3), "in portions that are not too long");
    let payloads = waiting(&app.redis, "queue:heavy").await;
    assert!(payloads.iter().all(|payload| payload["args"] == json!(["a", long])));
    let due: i64 = app.redis.command(&["ZCARD", "fg:{default}:due"]).await;
    assert_eq!(due, 0, "a job that has left cannot be cancelled");
}

#[tokio::test]
async fn scheduled_jobs_are_staged_when_they_come_due_whatever_restage_says() {
    let mut by_hand = by_hand(10);
    by_hand.restage = false;
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        configure(config, &[by_hand], legacy(|_| {}));
    })
    .await;
    let job = json!({"type": "t.job", "args": ["a"], "options": {"scheduled_at": "+PT10S"}});
    let id = app.client.enqueue(job).await;
    assert_eq!(app.client.state(&id).await, "scheduled");
    app.clock.advance(11_000);
    eventually("it is staged", async || app.client.job(&id).await["x_staged"] == true).await;
    run(&app.client).await;
    assert_eq!(waiting(&app.redis, "queue:heavy").await.len(), 1);
}

#[tokio::test]
async fn another_database_is_reached_by_the_same_script() {
    let app = beside(
        &[by_hand(6)],
        legacy(|sidekiq| {
            (sidekiq.database, sidekiq.namespace) = (Some(3), Some("shop".to_owned()));
        }),
    )
    .await;
    push(&app.client, "a", 3).await;
    assert_eq!(run(&app.client).await["promoted"], 3);
    assert_eq!(app.redis.command::<i64>(&["EXISTS", "shop:queue:heavy", "queue:heavy"]).await, 0);
    assert_eq!(app.redis.command::<Vec<String>>(&["KEYS", "fg:{default}:outbox*"]).await, Vec::<String>::new());
    let there = "redis.call('SELECT', 3) return redis.call('LLEN', 'shop:queue:heavy')";
    assert_eq!(app.redis.command::<i64>(&["EVAL", there, "0"]).await, 3);
    // Calls after the script use the store's database again.
    push(&app.client, "a", 1).await;
    assert_eq!(app.client.get("/v1/admin/planner/r").await.expect(200).at("/staged/jobs"), &json!(1));
}

#[tokio::test]
async fn a_user_of_its_own_is_reached_through_an_outbox() {
    let redis = Arc::new(TestRedis::start());
    redis.command::<String>(&["ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-select"]).await;
    redis.command::<String>(&["ACL", "SETUSER", "sidekiq", "on", "nopass", "~*", "&*", "+@all"]).await;
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        config.store.username = Some("app".to_owned());
        config.store.password = Some(fairgate::config::Secret::new("x"));
        configure(
            config,
            &[by_hand(6)],
            legacy(|sidekiq| {
                sidekiq.access = at(&redis);
                sidekiq.access.url = Some(StoreUrl::parse(&format!("{}?db=3", redis.url())).expect("a url"));
                sidekiq.access.username = Some("sidekiq".to_owned());
                sidekiq.access.password = Some(fairgate::config::Secret::new("x"));
            }),
        );
    })
    .await;
    push(&app.client, "a", 3).await;
    assert_eq!(run(&app.client).await["promoted"], 3);
    let there = "redis.call('SELECT', 3) return redis.call('LLEN', 'queue:heavy')";
    assert_eq!(redis.command::<i64>(&["EVAL", there, "0"]).await, 3);
}

#[tokio::test]
async fn another_server_gets_missed_jobs_once() {
    let theirs = TestRedis::start();
    let proxy = ChaosProxy::start(&theirs).await;
    let app = beside(
        &[by_hand(200)],
        legacy(|sidekiq| {
            sidekiq.access.url = Some(StoreUrl::parse(&proxy.url()).expect("a url"));
        }),
    )
    .await;
    push(&app.client, "a", 5).await;
    push(&app.client, "b", 5).await;
    assert_eq!(run(&app.client).await["promoted"], 10);
    assert_eq!(tenants(&waiting(&theirs, "queue:heavy").await).join(""), "ababababab");

    // The reply to a delivery is lost: the job has arrived, but that is unknown.
    push(&app.client, "a", 3).await;
    proxy.arm("delivered");
    let (round, ()) = tokio::join!(run(&app.client), async {
        proxy.struck().await;
        proxy.open();
    });
    assert_eq!(round["promoted"], 3);
    eventually("it is known", async || {
        run(&app.client).await;
        app.redis.keys_with("outbox").await.is_empty()
    })
    .await;
    assert_eq!(waiting(&theirs, "queue:heavy").await.len(), 13);
    assert_eq!(app.redis.command::<i64>(&["EXISTS", "queue:heavy"]).await, 0);
}

#[tokio::test]
async fn jobs_behind_an_unreachable_redis_are_delivered_when_it_returns() {
    let theirs = TestRedis::start();
    let proxy = ChaosProxy::start(&theirs).await;
    let rule = rule(|rule| rule.pace = Pace::Every(50));
    let app = beside(
        &[rule],
        legacy(|sidekiq| {
            sidekiq.access.url = Some(StoreUrl::parse(&proxy.url()).expect("a url"));
        }),
    )
    .await;
    proxy.arm("delivered");
    push(&app.client, "a", 1).await;
    proxy.struck().await;
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!(stats.at("/gate/reason"), &json!("unreachable"), "{}", stats.text);
    assert_eq!(stats.at("/main_queue/kind"), &json!("sidekiq"));
    proxy.open();
    eventually("it has arrived", async || app.redis.keys_with("outbox").await.is_empty()).await;
    assert_eq!(waiting(&theirs, "queue:heavy").await.len(), 1);
}

#[tokio::test]
async fn a_delivery_that_comes_too_late_is_refused() {
    use fairgate::store::OutboxEntry;
    let theirs = Arc::new(TestRedis::start());
    let app = TestApp::start().await;
    let tasks = tokio_util::task::TaskTracker::new();
    let address = fairgate::store::Address::unix(theirs.socket());
    let redis = fairgate::store::Sidekiq::open(
        &address,
        "",
        std::time::Duration::from_secs(5),
        app.app.metrics.store.clone(),
        &tasks,
        Default::default(),
    )
    .expect("a Sidekiq");
    let entry = |sequence, payload: &str| OutboxEntry {
        origin: "o".to_owned(),
        sequence,
        queue: "q".to_owned(),
        payloads: vec![payload.to_owned()],
    };
    let mut outcomes = Vec::new();
    for (sequence, payload) in [(5, "five"), (6, "six"), (5, "five"), (6, "six"), (1 << 52, "later")] {
        outcomes.push(redis.deliver("marker", &entry(sequence, payload)).await.unwrap());
    }
    assert_eq!(outcomes, [true, true, false, false, true]);
    let lines: Vec<String> = theirs.command(&["LRANGE", "queue:q", "0", "-1"]).await;
    assert_eq!(lines, ["later", "six", "five"]);
}

#[tokio::test]
async fn a_deleted_rule_drains_into_its_sidekiq() {
    let app = beside(&[], legacy(|_| {})).await;
    let body = json!({"types": ["t.*"], "queue": "heavy", "class": "HeavyJob", "main_queue": "legacy", "tenant_key": "args.0"});
    let put = async |name: &str, body: Value| {
        app.client.send("PUT", &format!("/v1/admin/planner/{name}"), Some(body.to_string())).await
    };
    let refused = put("r", json!({"types": ["t.*"], "class": "HeavyJob", "main_queue": "legaci"})).await.expect(422);
    assert!(refused.text.contains("did you mean \\\"legacy\\\"?"), "{}", refused.text);
    put("r", body).await.expect(201);
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    push(&app.client, "a", 20).await;
    app.client.delete("/v1/admin/planner/r").await.expect(200);
    let mut taken = 0;
    eventually("all jobs are promoted", async || {
        taken += app.redis.command::<Vec<String>>(&["RPOP", "queue:heavy", "10"]).await.len();
        taken == 20
    })
    .await;
    assert_eq!(app.redis.command::<i64>(&["EXISTS", "fg:{default}:ready:heavy"]).await, 0);
}

/// The permissions listed in docs/sidekiq.md.
#[tokio::test]
async fn a_user_needs_no_more_than_a_few_keys_of_sidekiq() {
    let redis = Arc::new(TestRedis::start());
    let rights = "%R~* ~fg:* ~fairgate:* ~queue:* ~queues ~dead ~fairplay:* &fg:* +@all -@admin +info";
    let words: Vec<&str> = ["ACL", "SETUSER", "fair", "on", "nopass"].into_iter().chain(rights.split(' ')).collect();
    redis.command::<String>(&words).await;
    let rule = rule(|rule| (rule.batch, rule.pace) = (Batch::Jobs(100), Pace::Every(50)));
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        config.store.username = Some("fair".to_owned());
        config.store.password = Some(fairgate::config::Secret::new("x"));
        configure(config, &[rule], legacy(|sidekiq| sidekiq.staging_queue = Some("stage".to_owned())));
    })
    .await;
    push(&app.client, "a", 3).await;
    for text in ["junk", r#"{"class":"Other","args":[]}"#, r#"{"class":"HeavyJob","args":["b"]}"#] {
        redis.command::<i64>(&["LPUSH", "queue:stage", text]).await;
    }
    eventually("all have arrived", async || {
        let (heavy, others) = (waiting(&redis, "queue:heavy").await, waiting(&redis, "queue:default").await);
        (heavy.len(), others.len()) == (4, 1) && redis.command::<i64>(&["ZCARD", "dead"]).await == 1
    })
    .await;
}

#[tokio::test]
async fn a_unique_job_blocks_duplicates_until_it_is_delivered() {
    let app = beside(&[by_hand(10)], legacy(|_| {})).await;
    let job = json!({"type": "t.job", "args": ["a", 1], "unique": {"keys": ["type", "args"], "conflict": "reject"}});
    app.client.post("/v1/jobs", job.clone()).await.expect(201);
    app.client.post("/v1/jobs", job.clone()).await.expect(409);
    assert_eq!(run(&app.client).await["promoted"], 1);
    app.client.post("/v1/jobs", job).await.expect(201);
    assert_eq!(run(&app.client).await["promoted"], 1);
    assert_eq!(waiting(&app.redis, "queue:heavy").await.len(), 2);
}
