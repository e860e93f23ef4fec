//! The backlog of a rule whose main queue is a Sidekiq, and the threads of the processes that serve it.

use super::*;

/// Writes the record of a process with ten threads.
async fn report(redis: &TestRedis, identity: &str, busy: &str, queues: &[&str]) {
    let info = json!({"queues": queues, "concurrency": 10}).to_string();
    redis.command::<i64>(&["SADD", "processes", identity]).await;
    redis.command::<i64>(&["HSET", identity, "info", &info, "busy", busy, "quiet", "false"]).await;
}

#[tokio::test]
async fn the_backlog_spans_staging_and_the_queue_of_the_sidekiq() {
    let app = beside(&[by_hand(6)], legacy(|_| {})).await;
    report(&app.redis, "host:1", "7", &["heavy", "light"]).await;
    report(&app.redis, "host:2", "5", &["heavy"]).await;
    report(&app.redis, "host:3", "9", &["light"]).await;
    push(&app.client, "acme", 20).await;
    assert_eq!(run(&app.client).await["promoted"], json!(6));
    let seen = app.client.get("/v1/admin/autoscale/r").await.expect(200);
    let jobs = json!({"staged": 14, "available": 6, "blocked": 0, "undelivered": 0});
    assert_eq!((seen.at("/backlog_jobs"), seen.at("/jobs")), (&json!(20), &jobs), "{}", seen.text);
    let crew = ["/workers", "/inputs/slots", "/inputs/active_jobs", "/load"].map(|pointer| seen.at(pointer).clone());
    assert_eq!(crew, [json!(2), json!(20), json!(12), json!(0.6)]);
}

#[tokio::test]
async fn without_the_sidekiq_only_the_staged_jobs_are_known() {
    let gone = legacy(|sidekiq| sidekiq.access.url = Some(StoreUrl::parse("redis://127.0.0.1:1").expect("a url")));
    let app = beside(&[by_hand(6)], gone).await;
    push(&app.client, "acme", 20).await;
    let seen = app.client.get("/v1/admin/autoscale/r").await.expect(200);
    for pointer in ["/backlog_jobs", "/backlog_seconds", "/load", "/workers", "/workers_wanted", "/oldest_seconds"] {
        assert_eq!(seen.at(pointer), &Value::Null, "{pointer} of {}", seen.text);
    }
    assert_eq!((seen.at("/jobs/staged"), seen.at("/basis/backlog_jobs")), (&json!(20), &json!("no_data")));
    assert_eq!(seen.at("/gate/reason"), "unreachable");
}
