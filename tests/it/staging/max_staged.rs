//! `max_staged`: the maximum number of staged jobs of a rule.

use super::{StagingEnv, planned};
use crate::support::json;

#[tokio::test]
async fn a_rule_at_its_maximum_refuses_jobs() {
    let env = StagingEnv::busy(|rule| rule.max_staged = Some(3)).await;
    let client = &env.client;
    env.push("a").await;
    env.push("b").await;
    let batch = json!({"jobs": [planned("a"), {"type": "other.job", "args": [], "queue": "others"}, planned("b")]});
    let refused = client.post("/v1/jobs/batch", batch.clone()).await.expect(429);
    assert_eq!(
        (refused.text_at("/error/code"), refused.header("retry-after")),
        ("QUEUE_FULL", "1"),
        "{}",
        refused.text
    );
    assert_eq!(env.staged().await, 2, "all or nothing");
    client.get("/v1/queues/others").await.expect(404);
    env.push("c").await;
    client.post("/v1/jobs", planned("a")).await.expect(429);
    client.enqueue(json!({"type": "other.job", "args": []})).await;
    assert_eq!(env.counts("default").await.at("/stats/pending"), &json!(3));

    assert_eq!(env.round(2).await, 2);
    client.post("/v1/jobs/batch", batch).await.expect(201);
    assert_eq!(env.staged().await, 3);
    client.post("/v1/jobs", planned("a")).await.expect(429);
}

#[tokio::test]
async fn any_removal_from_staging_frees_space() {
    let env = StagingEnv::busy(|rule| rule.max_staged = Some(1)).await;
    let client = &env.client;
    let cancelled = env.push("a").await;
    client.post("/v1/jobs", planned("a")).await.expect(429);
    client.delete(&format!("/v1/jobs/{cancelled}")).await.expect(200);
    let activated = env.push("a").await;
    client.post("/v1/jobs", planned("a")).await.expect(429);
    client.post(&format!("/v1/jobs/{activated}/activate"), json!({})).await.expect(200);
    let mut expiring = planned("a");
    expiring["expires_at"] = json!("+PT1S");
    client.enqueue(expiring).await;
    client.post("/v1/jobs", planned("a")).await.expect(429);
    env.clock.advance(1000);
    env.tick().await;
    env.push("b").await;
    assert_eq!(env.staged().await, 1);
}

#[tokio::test]
async fn jobs_that_are_not_staged_now_are_not_counted() {
    let env = StagingEnv::busy(|rule| rule.max_staged = Some(1)).await;
    let client = &env.client;
    env.push("a").await;
    for (field, value, state) in [("scheduled_at", json!("+PT1S"), "scheduled"), ("pending", json!(true), "pending")] {
        let mut job = planned("a");
        job[field] = value;
        let id = client.enqueue(job).await;
        assert_eq!((env.state(&id).await.as_str(), env.is_staged(&id).await), (state, false));
    }
    client.post("/v1/jobs", planned("a")).await.expect(429);
    // Neither a name that looks like a field nor a time in the past bypasses it.
    client.post("/v1/jobs", planned("overdue")).await.expect(429);
    client.post("/v1/jobs", planned("due")).await.expect(429);
    let mut late = planned("a");
    late["scheduled_at"] = json!("2020-01-01T00:00:00Z");
    client.post("/v1/jobs", late).await.expect(429);
}
