//! Jobs that came over HTTP are run by an unmodified Sidekiq.

use super::ruby::{Crew, Worker};
use super::*;
use std::collections::HashSet;

/// Pauses the rule, pushes jobs of tenants, and lets it go on.
async fn stage(app: &TestApp, tenants: &[(&str, usize)]) -> Vec<String> {
    app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    let mut ids = Vec::new();
    for (tenant, jobs) in tenants {
        ids.extend(push(&app.client, tenant, *jobs).await);
    }
    app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    ids
}

/// The last 24 hexadecimal digits of an OJS id.
fn jid(id: &str) -> String {
    let digits = id.replace('-', "");
    digits[digits.len() - 24..].to_owned()
}

#[tokio::test]
async fn a_worker_runs_each_job_once_in_balanced_order_under_its_id() {
    let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
    let ids = stage(&app, &[("noisy", 60), ("b", 10), ("c", 10)]).await;
    let worker = Worker::start(&app.redis, &Crew::default());
    let ran = worker.ran_all(80).await;
    let jids: HashSet<String> = ran.iter().map(|ran| ran.jid.clone()).collect();
    assert_eq!((ran.len(), jids), (80, ids.iter().map(|id| jid(id)).collect()));
    // While all three have jobs, each has every third turn.
    let first: Vec<String> = ran[..30].iter().map(|ran| ran.tenant()).collect();
    for turn in first.chunks(3) {
        assert_eq!(turn.iter().collect::<HashSet<_>>().len(), 3, "{first:?}");
    }
    let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
    assert_eq!(stats.at("/rounds/promoted_total"), &json!(80));
    assert!(stats.at("/main_queue/latency_ms").is_u64());
}

#[tokio::test]
async fn workers_of_another_redis_run_each_job_once() {
    let theirs = TestRedis::start();
    let app = beside(&[rule(|_| {})], legacy(|sidekiq| sidekiq.access = at(&theirs))).await;
    let ids = stage(&app, &[("a", 40), ("b", 40)]).await;
    let worker = Worker::start(&theirs, &Crew { threads: 5, takes: 0.005, ..Crew::default() });
    let ran = worker.ran_all(80).await;
    let jids: HashSet<String> = ran.iter().map(|ran| ran.jid.clone()).collect();
    assert_eq!((ran.len(), jids), (80, ids.iter().map(|id| jid(id)).collect()));
}

#[tokio::test]
async fn what_processes_tell_is_seen_and_a_quiet_one_gets_no_more() {
    let app = beside(&[rule(|_| {})], legacy(|_| {})).await;
    let worker = Worker::start(&app.redis, &Crew { threads: 3, ..Crew::default() });
    eventually("it has told of itself", async || app.redis.command::<i64>(&["SCARD", "processes"]).await == 1).await;
    worker.quiet();
    // A process tells of itself every five seconds.
    let identity: Vec<String> = app.redis.command(&["SMEMBERS", "processes"]).await;
    eventually("it has told that it is quiet", async || {
        app.redis.command::<String>(&["HGET", &identity[0], "quiet"]).await == "true"
    })
    .await;
    stage(&app, &[("a", 5)]).await;
    eventually("a round has seen it", async || {
        let stats = app.client.get("/v1/admin/planner/r").await.expect(200);
        stats.at("/last_rounds/0/reason") == &json!("quiet") && stats.at("/gate/reason") == &json!("quiet")
    })
    .await;
    assert_eq!(waiting(&app.redis, "queue:heavy").await.len(), 0);
    // Another one comes, as in a deployment.
    let next = Worker::start(&app.redis, &Crew { threads: 3, ..Crew::default() });
    next.ran_all(5).await;
}

#[tokio::test]
async fn a_gate_closes_by_latency_by_depth_and_where_the_queue_is_paused() {
    let rule = by_hand(10);
    let rule = Rule { max_depth: 4, latency_threshold: 60_000, ..rule };
    let app = beside(&[rule], legacy(|_| {})).await;
    push(&app.client, "a", 20).await;
    assert_eq!(run(&app.client).await["promoted"], 4, "up to the ceiling");
    assert_eq!(run(&app.client).await["reason"], "depth");
    for (oldest, reason) in [
        ("{\"enqueued_at\":1.5}", Some("latency")),
        ("{\"enqueued_at\":1700000000000}", Some("latency")),
        ("{\"enqueued_at\":99999999999999}", None),
        ("junk", None),
    ] {
        app.redis.command::<i64>(&["DEL", "queue:heavy"]).await;
        app.redis.command::<i64>(&["RPUSH", "queue:heavy", oldest]).await;
        assert_eq!(run(&app.client).await["reason"].as_str(), reason, "{oldest}");
    }
    app.redis.command::<i64>(&["DEL", "queue:heavy"]).await;
    app.redis.command::<i64>(&["SADD", "paused", "heavy"]).await;
    assert_eq!(run(&app.client).await["reason"], "queue_paused");
    app.redis.command::<i64>(&["SREM", "paused", "heavy"]).await;
    assert_eq!(run(&app.client).await["promoted"], 4);
}
