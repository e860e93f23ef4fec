//! Statistics of a tenant: jobs, activity and share.

use super::{job, later, slots, start, start_with};
use crate::support::{TestApp, eventually, json};
use serde_json::Value;

/// Starts a fairgate that counts tenant activity, as by default.
async fn counting() -> TestApp {
    let app = start(&[("a", slots(5))]).await;
    eventually("it counts", async || {
        app.redis.command::<Option<String>>(&["HGET", "fg:{default}:state", "throttled"]).await.is_some()
    })
    .await;
    app
}

#[tokio::test]
async fn statistics_report_the_day_throughput_and_shares() {
    let app = counting().await;
    for tenant in ["a", "a", "a", "b"] {
        app.push(job(tenant)).await.expect(201);
    }
    app.push(later("a")).await.expect(201);
    let held = app.fetch_for("a", 3).await;
    let others = app.fetch_for("b", 1).await;
    app.clock.advance(3000);
    app.client.ack(&held[0]).await.expect(200);
    app.client.nack(&held[1]).await.expect(200);
    app.client.ack(&others[0]).await.expect(200);
    let stats = app.client.get("/v1/admin/tenants/a/stats").await.expect(200);
    for (pointer, value) in [
        ("/tenant_id", json!("a")),
        ("/total_jobs", json!(3)),
        ("/jobs/active", json!(1)),
        ("/jobs/scheduled", json!(1)),
        ("/jobs/retryable", json!(1)),
        ("/jobs/completed_24h", json!(1)),
        ("/jobs/failed_24h", json!(1)),
        ("/limits/max_concurrency", json!({"limit": 5, "current": 1})),
        ("/fairness/weight", json!(1)),
        ("/fairness/effective_share", json!(1.0)),
        ("/fairness/actual_share", json!(0.6667)),
        ("/counted", json!(true)),
    ] {
        assert_eq!(*stats.at(pointer), value, "{pointer} of {}", stats.text);
    }
    let rate = |name: &str| stats.at(&format!("/throughput/{name}_per_minute")).as_f64().unwrap();
    assert!(rate("processed") > 0.0 && rate("enqueued") > rate("processed"), "{}", stats.text);
    // With another waiting tenant, it would have half.
    app.push(job("b")).await.expect(201);
    let stats = app.client.get("/v1/admin/tenants/a/stats").await.expect(200);
    assert_eq!(stats.at("/fairness/effective_share"), 0.5);
    app.client.ack(&held[2]).await.expect(200); // or its lease would lapse
    app.clock.advance(25 * 3_600_000);
    let stats = app.client.get("/v1/admin/tenants/a/stats").await.expect(200);
    assert_eq!((stats.at("/jobs/completed_24h"), stats.at("/jobs/failed_24h")), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn without_activity_counting_past_figures_are_null() {
    let app = start_with(&[("a", slots(5))], |config| config.noisy_neighbors.statistics = false).await;
    app.push(job("a")).await.expect(201);
    let held = app.fetch_for("a", 1).await;
    app.client.ack(&held[0]).await.expect(200);
    for part in ["activity:", "busy:", "noise"] {
        assert_eq!(app.redis.keys_with(part).await, Vec::<String>::new(), "{part}");
    }
    let stats = app.client.get("/v1/admin/tenants/a/stats").await.expect(200);
    assert_eq!((stats.at("/counted"), stats.at("/total_jobs")), (&json!(false), &json!(0)));
    for pointer in ["/jobs/completed_24h", "/throughput/processed_per_minute", "/fairness/actual_share"] {
        assert_eq!(*stats.at(pointer), Value::Null, "{pointer}: nobody knows");
    }
}

#[tokio::test]
async fn jobs_of_a_tenant_are_listed_by_state() {
    let app = start(&[]).await;
    for tenant in ["a", "b", "a", "a:1"] {
        app.push(job(tenant)).await.expect(201);
    }
    app.push(json!({"type": "t.job", "args": [], "queue": "q"})).await.expect(201);
    let held = app.fetch_for("a", 1).await;
    let of = async |path: &str| app.client.get(&format!("/v1/admin/tenants/{path}")).await.expect(200);
    let all = of("a/jobs?page=1&per_page=1").await;
    assert_eq!((all.at("/pagination/total"), all.at("/items").as_array().map(Vec::len)), (&json!(2), Some(1)));
    let active = of("a/jobs?state=active").await;
    assert_eq!((active.at("/pagination/total"), active.at("/items/0/id")), (&json!(1), &json!(held[0])));
    assert_eq!(of("a%3A1/jobs").await.at("/items/0/meta/tenant_id"), "a:1");
    assert_eq!(of("_default/jobs").await.at("/pagination/total"), 1);
    assert_eq!(of("nobody/jobs").await.at("/pagination/total"), 0);
    app.client.get("/v1/admin/tenants/a/jobs?state=gone").await.expect(400);
    app.client.get("/v1/admin/tenants/a%0Ab/jobs").await.expect(422);
}

#[tokio::test]
async fn queue_statistics_are_those_of_the_requested_tenant() {
    let app = start(&[]).await;
    for tenant in ["a", "a", "b"] {
        app.push(job(tenant)).await.expect(201);
    }
    app.fetch_for("a", 1).await;
    let stats = app.with_header("GET", "/v1/queues/q/stats", "a", None).await.expect(200);
    assert_eq!((stats.at("/queue/name"), stats.at("/queue/depth")), (&json!("q"), &json!(1)));
    assert_eq!((stats.at("/queue/available"), stats.at("/queue/active")), (&json!(1), &json!(1)));
    let stats = app.with_header("GET", "/v1/queues/q/stats", "nobody", None).await.expect(200);
    assert_eq!(stats.at("/queue/available"), 0);
    assert_eq!(app.client.get("/v1/queues/q/stats").await.at("/queue/available"), 2);
}
