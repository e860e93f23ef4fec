//! Finished jobs are retained by age and by count, and then removed completely.

use crate::support::{TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use std::time::Duration;

/// Creates one job per final state: completed with a result, cancelled, discarded with a history.
async fn finish_three(app: &TestApp) -> [String; 3] {
    let completed = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    app.client.post("/v1/workers/ack", json!({"job_id": completed, "result": {"n": 1}})).await.expect(200);
    let cancelled = app.client.enqueue_into("q").await;
    app.client.delete(&format!("/v1/jobs/{cancelled}")).await.expect(200);
    let discarded = app.client.enqueue(json!({"type": "test.job", "args": [], "retry": {"max_attempts": 1}})).await;
    app.client.fetch("default", 1).await;
    app.client.nack(&discarded).await.expect(200);
    [completed, cancelled, discarded]
}

#[tokio::test]
async fn finished_jobs_have_the_ttl_of_their_state_and_waiting_ones_none() {
    let app = TestApp::start().await;
    let ids = finish_three(&app).await;
    let hour = 3_600_000;
    for (id, expected) in ids.iter().zip([24 * hour, 24 * hour, 7 * 24 * hour]) {
        for key in app.redis.keys_with(id).await {
            let ttl: i64 = app.redis.command(&["PTTL", &key]).await;
            assert!((expected - 60_000..=expected).contains(&ttl), "{key} lives for {ttl} ms");
        }
    }
    let waiting = app.client.enqueue_into("q").await;
    for key in app.redis.keys_with(&waiting).await {
        let ttl: i64 = app.redis.command(&["PTTL", &key]).await;
        assert_eq!(ttl, -1, "{key}");
    }
}

#[tokio::test]
async fn after_their_time_no_key_of_them_remains() {
    let app = TestApp::start_with(Clock::System, |config| {
        let short = Duration::from_millis(200);
        (config.retention.completed, config.retention.cancelled, config.retention.discarded) = (short, short, short);
    })
    .await;
    let ids = finish_three(&app).await;
    eventually("all of them are gone", async || {
        let mut left = app.redis.keys_with("finished").await;
        for id in &ids {
            left.extend(app.redis.keys_with(id).await);
        }
        left.is_empty()
    })
    .await;
    for id in &ids {
        app.client.get(&format!("/v1/jobs/{id}")).await.expect(404);
    }
}

#[tokio::test]
async fn a_retention_of_zero_keeps_nothing() {
    let app = TestApp::start_with(Clock::System, |config| config.retention.completed = Duration::ZERO).await;
    let id = app.client.enqueue_into("q").await;
    app.client.fetch("q", 1).await;
    assert_eq!(app.client.ack(&id).await.expect(200).text_at("/job/state"), "completed");
    eventually("it is gone", async || app.redis.keys_with(&id).await.is_empty()).await;
}

#[tokio::test]
async fn beyond_the_maximum_the_oldest_are_removed_first() {
    let app = TestApp::start_with(Clock::System, |config| config.retention.max_completed = 3).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        let id = app.client.enqueue_into("q").await;
        app.client.fetch("q", 1).await;
        app.client.ack(&id).await.expect(200);
        ids.push(id);
    }
    eventually("three remain", async || {
        let mut left = Vec::new();
        for id in &ids {
            left.extend(app.redis.keys_with(&format!("job:{id}")).await);
        }
        left.len() == 3
    })
    .await;
    for (index, id) in ids.iter().enumerate() {
        let expected = if index < 5 { 404 } else { 200 };
        app.client.get(&format!("/v1/jobs/{id}")).await.expect(expected);
    }
}

#[tokio::test]
async fn dead_letters_have_their_own_maximum() {
    let app = TestApp::start_with(Clock::System, |config| config.retention.max_dead_letters = 2).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
        let id = app.client.enqueue(json!({"type": "test.job", "args": [], "retry": retry})).await;
        app.client.fetch("default", 1).await;
        app.client.nack(&id).await.expect(200);
        ids.push(id);
    }
    eventually("two remain", async || app.client.get("/v1/dead-letter").await.at("/pagination/total") == &json!(2))
        .await;
    assert_eq!(app.client.get("/v1/dead-letter").await.job_ids(), [&*ids[3], &*ids[2]]);
    assert_eq!(app.redis.keys_with(&ids[0]).await, Vec::<String>::new());
}

#[tokio::test]
async fn events_are_kept_up_to_their_number() {
    let app = TestApp::start_with(Clock::System, |config| config.retention.max_events = 10).await;
    for _ in 0..60 {
        app.client.enqueue_into("q").await;
    }
    eventually("ten remain", async || {
        let events = app.client.get("/v1/events?limit=1000").await;
        events.at("/events").as_array().is_some_and(|events| events.len() == 10)
    })
    .await;
}

const DAY: i64 = 86_400_000;

/// Runs a job of a tenant through a queue.
async fn pass_through(app: &TestApp, queue: &str) {
    let job = json!({"type": "test.job", "args": [], "queue": queue, "meta": {"tenant_id": "acme"}});
    let id = app.client.enqueue(job).await;
    assert_eq!(app.client.fetch(queue, 1).await.job_ids(), [id.as_str()]);
    app.client.ack(&id).await.expect(200);
}

/// Advances the clock day by day and runs retention for all queues after each day.
async fn let_days_pass(app: &TestApp, days: u32) {
    for _ in 0..days {
        app.clock.advance(DAY);
        app.store().retain().await.expect("Redis answers");
    }
}

async fn queues(app: &TestApp) -> Vec<String> {
    let answer = app.client.get("/v1/queues").await.expect(200);
    let queues = answer.at("/queues").as_array().expect("queues").clone();
    queues.iter().map(|queue| queue["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn unused_queues_are_forgotten_unless_they_are_configured() {
    // Without a ticker: the test decides when retention runs.
    let app = TestApp::start_with(Clock::manual(20_000 * DAY), |config| config.server.roles = vec![Role::Api]).await;
    for queue in ["bounded", "limited", "paused", "pooled", "reused", "shared", "unused"] {
        pass_through(&app, queue).await;
    }
    app.client.enqueue_into("waiting").await;
    app.client.post("/v1/queues/paused/pause", json!({})).await.expect(200);
    for (path, body) in [
        ("/v1/queues/bounded/config", json!({"backpressure": {"max_depth": 10}})),
        ("/v1/admin/queues/limited/rate-limit", json!({"concurrency": 3})),
        ("/v1/admin/scheduling/config", json!({"queues": {"shared": {"tenant_fairness": {"enabled": true}}}})),
    ] {
        app.client.send("PUT", path, Some(body.to_string())).await.expect(200);
    }
    let pool = json!({"queues": ["pooled"]}).to_string();
    app.client.send("PUT", "/v1/admin/pools/p", Some(pool)).await.expect(201);

    let_days_pass(&app, 4).await;
    pass_through(&app, "reused").await;
    let_days_pass(&app, 3).await;
    assert!(queues(&app).await.contains(&"unused".to_owned()), "it was idle for six days");
    let_days_pass(&app, 1).await;
    assert_eq!(queues(&app).await, ["bounded", "limited", "paused", "pooled", "reused", "shared", "waiting"]);
    assert_eq!(app.redis.keys_with(":unused").await, Vec::<String>::new());
    let known: Vec<String> = app.redis.command(&["HKEYS", "fg:{default}:idle"]).await;
    assert!(!known.contains(&"unused".to_owned()), "{known:?}");

    pass_through(&app, "unused").await;
    assert!(queues(&app).await.contains(&"unused".to_owned()), "it is counted again with its next job");
    let_days_pass(&app, 4).await;
    assert!(!queues(&app).await.contains(&"reused".to_owned()));
}

#[tokio::test]
async fn a_dead_letter_brings_its_forgotten_queue_back() {
    let app = TestApp::start_with(Clock::manual(20_000 * DAY), |config| config.server.roles = vec![Role::Api]).await;
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let id = app.client.enqueue(json!({"type": "test.job", "args": [], "queue": "q", "retry": retry})).await;
    app.client.fetch("q", 1).await;
    app.client.nack(&id).await.expect(200);
    let_days_pass(&app, 9).await;
    assert_eq!(queues(&app).await, Vec::<String>::new());
    app.client.post(&format!("/v1/dead-letter/{id}/retry"), json!({})).await.expect(200);
    assert_eq!(queues(&app).await, ["q"]);
    let counts: Vec<String> = app.redis.command(&["HGETALL", "fg:{default}:counts:q"]).await;
    assert_eq!(counts.iter().filter(|word| word.starts_with('-')).count(), 0, "{counts:?}");
    assert_eq!(app.client.fetch("q", 1).await.job_ids(), [id.as_str()]);
}
