//! Isolation of tenants: lanes per tenant, one lane for all, and separate queues.

use super::{job, start_with};
use crate::support::json;
use fairgate::domain::plan::Rule;
use fairgate::domain::tenant::Isolation;

#[tokio::test]
async fn a_tenant_finds_its_jobs_in_every_queue_and_in_order() {
    for isolation in [Isolation::Sharded, Isolation::Shared] {
        for fair in [false, true] {
            let app = start_with(&[], |config| {
                config.tenancy.isolation = isolation;
                config.policy.tenant_fairness.enabled = Some(fair);
            })
            .await;
            let mut ids = Vec::new();
            for (tenant, priority, key) in
                [("a", 0, false), ("b", 0, false), ("a", 5, false), ("b", 9, true), ("a", 5, true), ("a", -3, false)]
            {
                let mut job = job(tenant);
                job["priority"] = priority.into();
                if key {
                    job["options"] = json!({"rate_limit": {"key": "k", "concurrency": 5}});
                }
                ids.push(app.client.enqueue(job).await);
            }
            let bare = app.client.enqueue(json!({"type": "t.job", "args": [], "queue": "q"})).await;
            let case = format!("{isolation:?} {fair}");
            assert_eq!(app.fetch_for("nobody", 9).await, Vec::<String>::new(), "{case}");
            let of_a = [ids[2].clone(), ids[4].clone(), ids[0].clone(), ids[5].clone()];
            assert_eq!(app.fetch_for("a", 2).await, of_a[..2], "{case}");
            assert_eq!(app.fetch_for("a", 9).await, of_a[2..], "{case}");
            assert_eq!(app.fetch_for("_default", 9).await, [bare], "{case}");
            assert_eq!(app.client.fetch("q", 9).await.job_ids(), [ids[3].clone(), ids[1].clone()], "{case}");
            for prefix in ["lane:", "awake:", "asleep:", "ready:", "live"] {
                assert_eq!(app.redis.keys_with(prefix).await, Vec::<String>::new(), "{case}");
            }
            app.assert_consistent().await;
        }
    }
}

#[tokio::test]
async fn lanes_of_tenants_do_not_change_the_order_of_a_queue_that_is_first_in_first_out() {
    let app = start_with(&[], |config| config.policy.tenant_fairness.enabled = Some(false)).await;
    let mut ids = Vec::new();
    for number in 0..40 {
        let id = app.client.enqueue(job(&format!("t{}", number * 7 % 5))).await;
        ids.push(id);
    }
    let mut got = Vec::new();
    while got.len() < 40 {
        let some = app.client.fetch("q", 7).await.job_ids();
        assert!(!some.is_empty());
        got.extend(some);
    }
    assert_eq!(got, ids, "first come, first served");
}

#[tokio::test]
async fn promoted_jobs_are_found_among_the_first() {
    let app = start_with(&[], |config| config.plan = vec![Rule::new("r", &["t.job"])]).await;
    let first = app.client.enqueue(job("a")).await; // passes
    assert_eq!(app.fetch_for("b", 9).await, Vec::<String>::new());
    assert_eq!(app.fetch_for("a", 9).await, [first]);
    app.assert_consistent().await;
}

#[tokio::test]
async fn namespaces_are_separate() {
    let app = start_with(&[], |config| config.tenancy.isolation = Isolation::Namespace).await;
    let a = app.client.enqueue(job("a:1")).await;
    let b = app.client.enqueue(job("b")).await;
    let bare = app.client.enqueue(json!({"type": "t.job", "args": [], "queue": "q"})).await;
    assert_eq!(app.client.job(&a).await["queue"], "q", "as its client named it");
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), [bare]);
    assert_eq!(app.fetch_for("a:1", 9).await, std::slice::from_ref(&a));
    assert_eq!(app.fetch_for("a:1", 9).await, Vec::<String>::new());
    assert_eq!(app.fetch_for("b", 9).await, [b]);
    let shown = app.with_header("GET", "/v1/queues/q", "a:1", None).await.expect(200);
    assert_eq!((shown.at("/queue/name"), shown.at("/queue/active")), (&json!("q"), &json!(1)));
    let queues = app.with_header("GET", "/v1/queues", "a:1", None).await.expect(200);
    assert_eq!(queues.at("/queues/0/name"), "q");
    assert_eq!(queues.at("/pagination/total"), 1);
    app.with_header("GET", "/v1/queues/q", "nobody", None).await.expect(404);
    app.client.ack(&a).await.expect(200);
    app.assert_consistent().await;
    let manifest = app.client.get("/ojs/manifest").await.expect(200);
    assert_eq!(manifest.at("/tenancy/isolation"), "namespace");
}

#[tokio::test]
async fn queues_are_paused_and_bounded_in_their_own_namespace() {
    let app = start_with(&[], |config| config.tenancy.isolation = Isolation::Namespace).await;
    let a = app.client.enqueue(job("a")).await;
    let b = app.client.enqueue(job("b")).await;
    let paused = app.with_header("POST", "/v1/queues/q/pause", "a", Some(json!({}))).await.expect(200);
    assert_eq!(paused.at("/queue/name"), "q");
    assert_eq!(app.fetch_for("a", 1).await, Vec::<String>::new());
    assert_eq!(app.fetch_for("b", 1).await, [b]);
    assert_eq!(app.with_header("GET", "/v1/queues/q/stats", "a", None).await.at("/status"), "paused");
    assert_eq!(app.with_header("GET", "/v1/queues/q/stats", "b", None).await.at("/status"), "active");
    app.with_header("POST", "/v1/queues/q/resume", "a", Some(json!({}))).await.expect(200);
    assert_eq!(app.fetch_for("a", 1).await, [a]);

    let bound = json!({"max_size": 1, "overflow_policy": "reject"});
    let set = app.with_header("PUT", "/v1/queues/q/config", "a", Some(bound)).await.expect(200);
    assert_eq!(set.at("/name"), "q");
    app.push(job("a")).await.expect(201);
    app.push(job("a")).await.expect(429);
    app.push(job("b")).await.expect(201);
    app.push(job("b")).await.expect(201);
    let config = app.with_header("GET", "/v1/queues/q/config", "b", None).await.expect(200);
    assert_eq!(config.at("/backpressure"), &serde_json::Value::Null);
}
