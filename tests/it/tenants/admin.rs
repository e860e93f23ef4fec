//! The admin API of tenants.

use super::{job, later, rules, slots, start};
use crate::support::{TestApp, json};
use fairgate::clock::Clock;
use std::sync::Arc;

#[tokio::test]
async fn tenants_exist_once_they_have_jobs_or_settings() {
    let app = start(&[("file", slots(3)), ("free-*", slots(1))]).await;
    assert_eq!(app.client.get("/v1/admin/tenants/unknown").await.expect(200).at("/source"), "default");
    for tenant in ["free-1", "free-1", "seen", "a:b"] {
        app.push(job(tenant)).await.expect(201);
    }
    app.push(later("seen")).await.expect(201);
    app.put("/v1/admin/tenants/made", json!({"fairness_weight": 4})).await.expect(201);
    let list = async |query: &str| {
        let answer = app.client.get(&format!("/v1/admin/tenants{query}")).await.expect(200);
        let ids =
            answer.at("/items").as_array().unwrap().iter().map(|item| item["tenant_id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), answer.at("/pagination/total").as_u64().unwrap())
    };
    assert_eq!(list("").await.0, ["a:b", "file", "free-1", "made", "seen"]);
    assert_eq!(list("?limit=2&offset=1").await, (vec!["file".to_owned(), "free-1".to_owned()], 5));
    assert_eq!(list("?page=3&per_page=2").await.0, ["seen"]);
    assert_eq!(list("?prefix=f").await.0, ["file", "free-1"]);
    assert_eq!(list("?configured=true").await.0, ["file", "made"]);
    assert_eq!(list("?configured=false&sort=jobs").await.0, ["free-1", "seen", "a:b"]);
    assert_eq!(list("?sort=weight&limit=1").await.0, ["made"]);
    for query in ["?sort=size", "?configured=yes", "?limit=0"] {
        app.client.get(&format!("/v1/admin/tenants{query}")).await.expect(400);
    }
    let free = app.client.get("/v1/admin/tenants/free-1").await.expect(200);
    assert_eq!((free.at("/source"), free.at("/tier")), (&json!("tier"), &json!("free-*")));
    assert_eq!(free.at("/limits/max_concurrency"), 1);
    let stats = app.client.get("/v1/admin/tenants/seen/stats").await.expect(200);
    assert_eq!((stats.at("/tenant_id"), stats.at("/total_jobs")), (&json!("seen"), &json!(2)));
    let by_state = json!({"pending": 0, "available": 1, "scheduled": 1, "retryable": 0, "active": 0, "completed_24h": 0,
        "failed_24h": 0});
    assert_eq!(stats.at("/jobs"), &by_state);
    let other = app.client.get("/v1/admin/tenants/a%3Ab/stats").await.expect(200);
    assert_eq!((other.at("/tenant_id"), other.at("/total_jobs")), (&json!("a:b"), &json!(1)));
    app.fetch_for("free-1", 1).await;
    let stats = app.client.get("/v1/admin/tenants/free-1/stats").await.expect(200);
    assert_eq!(stats.at("/limits"), &json!({"max_concurrency": {"limit": 1, "current": 1}}));
    assert_eq!(stats.at("/fairness/weight"), 1);
}

#[tokio::test]
async fn changes_are_recorded_with_author_time_values_and_reason() {
    let app = start(&[("free-*", slots(2))]).await;
    let terms = json!({"tenant_id": "acme", "fairness_weight": 10, "priority_boost": 1,
        "limits": {"max_concurrency": 20, "max_enqueue_rate": {"limit": 1000, "period": "PT1M"}, "max_queue_depth": 50000,
            "max_scheduled": 10000}});
    let made = app.put("/v1/admin/tenants/acme", terms).await.expect(201);
    assert_eq!(made.at("/tenant/limits/max_enqueue_rate"), &json!({"limit": 1000, "period": "PT1M"}));
    let created = app.events("tenant.created").await;
    assert_eq!(created.len(), 1);
    assert_eq!(
        (&created[0]["subject"], &created[0]["data"]["limits"]["max_queue_depth"]),
        (&json!("acme"), &json!(50000))
    );
    app.clock.advance(1000);
    let body = json!({"max_concurrency": 5, "reason": "downstream \"outage\""});
    let changed = app.put("/v1/admin/tenants/acme/limits", body).await.expect(200);
    assert_eq!(
        (changed.at("/limits/max_concurrency"), changed.at("/limits/max_scheduled")),
        (&json!(5), &json!(10000))
    );
    assert_eq!(changed.at("/fairness_weight"), 10);
    let change = changed.at("/changes/0");
    assert_eq!((&change["reason"], &change["by"]), (&json!("downstream \"outage\""), &json!("anonymous")));
    assert_eq!(
        (&change["from"]["limits"]["max_concurrency"], &change["to"]["limits"]["max_concurrency"]),
        (&json!(20), &json!(5))
    );
    assert_eq!(change["at"], "2027-01-15T08:00:01.000Z");
    let reported = app.events("tenant.changed").await;
    assert_eq!((reported.len(), &reported[0]["data"]["reason"]), (1, &json!("downstream \"outage\"")));
    assert_eq!(
        (&reported[0]["data"]["tenant_id"], &reported[0]["data"]["to"]["limits"]["max_concurrency"]),
        (&json!("acme"), &json!(5))
    );
    // Limits of a tier that the request does not set become the tenant's own.
    let free = app.put("/v1/admin/tenants/free-7/limits", json!({"max_queue_depth": 1})).await.expect(200);
    assert_eq!((free.at("/limits/max_concurrency"), free.at("/source")), (&json!(2), &json!("api")));
    // Only a bounded number of changes is kept.
    for most in 0..25 {
        app.put("/v1/admin/tenants/acme/limits", json!({"max_concurrency": most})).await.expect(200);
    }
    let shown = app.client.get("/v1/admin/tenants/acme").await.expect(200);
    assert_eq!(shown.at("/changes").as_array().unwrap().len(), 20);
    assert_eq!(shown.at("/changes/0/to/limits/max_concurrency"), 24);
}

#[tokio::test]
async fn a_tenant_with_jobs_is_removed_only_by_force_and_its_jobs_stay() {
    let app = start(&[("file", slots(3))]).await;
    app.client.delete("/v1/admin/tenants/nobody").await.expect(404);
    app.client.delete("/v1/admin/tenants/file").await.expect(409);
    app.put("/v1/admin/tenants/a", json!({"limits": {"max_queue_depth": 1}})).await.expect(201);
    app.push(job("a")).await.expect(201);
    app.push(job("a")).await.expect(429);
    let refused = app.client.delete("/v1/admin/tenants/a").await.expect(409);
    assert_eq!(refused.at("/error/details/total_jobs"), 1);
    app.push(job("a")).await.expect(429);
    let removed = app.client.delete("/v1/admin/tenants/a?force=true").await.expect(200);
    assert_eq!(
        (removed.at("/removed"), removed.at("/total_jobs"), removed.at("/holds")),
        (&json!(true), &json!(1), &json!("default"))
    );
    assert!(removed.text_at("/jobs").contains("remain"));
    app.push(job("a")).await.expect(201);
    assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 2);
    app.put("/v1/admin/tenants/file", json!({"limits": {"max_concurrency": 1}})).await.expect(200);
    let restored = app.client.delete("/v1/admin/tenants/file").await.expect(200);
    assert_eq!(restored.at("/holds"), "file");
    let shown = app.client.get("/v1/admin/tenants/file").await.expect(200);
    assert_eq!((shown.at("/source"), shown.at("/limits/max_concurrency")), (&json!("file"), &json!(3)));
    app.client.delete("/v1/admin/tenants/a").await.expect(404);
}

#[tokio::test]
async fn errors_name_their_path() {
    let app = start(&[]).await;
    for (path, body, field) in [
        ("/v1/admin/tenants/a", json!({"limits": {"max_concurrency": -1}}), "limits.max_concurrency"),
        (
            "/v1/admin/tenants/a",
            json!({"limits": {"max_enqueue_rate": {"limit": 5}}}),
            "limits.max_enqueue_rate.period",
        ),
        ("/v1/admin/tenants/a", json!({"fairness_weight": 0}), "fairness_weight"),
        ("/v1/admin/tenants/a", json!({"priority_boost": 1.5}), "priority_boost"),
        ("/v1/admin/tenants/a", json!({"tenant_id": "b"}), "tenant_id"),
        ("/v1/admin/tenants/a", json!({"weight": 2}), "weight"),
        ("/v1/admin/tenants/a/limits", json!({"max_queue_depth": "many"}), "max_queue_depth"),
        ("/v1/admin/tenants/a/limits", json!({"enforcement": "firm"}), "enforcement"),
        ("/v1/admin/tenants/a/limits", json!({"reason": "x".repeat(1001)}), "reason"),
    ] {
        let answer = app.put(path, body.clone()).await.expect(422);
        assert_eq!(answer.at("/error/details/field"), field, "{body}");
    }
    assert_eq!(app.put("/v1/admin/tenants/a", json!([])).await.status, 400);
    assert_eq!(app.put("/v1/admin/tenants/%0A", json!({})).await.status, 422);
    assert_eq!(app.client.get("/v1/admin/tenants/a").await.at("/source"), "default");
}

#[tokio::test]
async fn a_change_applies_in_all_processes_at_once_and_persists() {
    let redis = Arc::new(crate::support::TestRedis::start());
    let one = TestApp::start_on(Arc::clone(&redis), Clock::System, |_| {}).await;
    let two = TestApp::start_on(Arc::clone(&redis), Clock::System, |_| {}).await;
    two.push(job("a")).await.expect(201);
    one.put("/v1/admin/tenants/a/limits", json!({"max_queue_depth": 1})).await.expect(200);
    two.push(job("a")).await.expect(429);
    let three = TestApp::start_on(redis, Clock::System, |config| config.tenant = rules(&[("a", slots(7))])).await;
    three.push(job("a")).await.expect(429);
    two.client.delete("/v1/admin/tenants/a?force=true").await.expect(200);
    one.push(job("a")).await.expect(201);
}

#[tokio::test]
async fn concurrent_changes_are_not_lost() {
    let app = Arc::new(start(&[]).await);
    let changes = (0..20).map(|number| {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let name = ["max_concurrency", "max_queue_depth", "max_scheduled"][number % 3];
            app.put("/v1/admin/tenants/a/limits", json!({name: 7})).await.status
        })
    });
    let statuses: Vec<u16> = futures_util::future::join_all(changes).await.into_iter().map(Result::unwrap).collect();
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    let shown = app.client.get("/v1/admin/tenants/a").await.expect(200);
    for name in ["max_concurrency", "max_queue_depth", "max_scheduled"] {
        assert_eq!(shown.at(&format!("/limits/{name}")), 7);
    }
}

#[tokio::test]
async fn a_store_that_is_emptied_gets_the_files_tenants_again() {
    let app = start(&[("free-*", slots(1))]).await;
    app.push(job("free-1")).await.expect(201);
    app.redis.command::<()>(&["FLUSHALL"]).await;
    for _ in 0..2 {
        app.push(job("free-1")).await.expect(201);
    }
    assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 1);
    app.assert_consistent().await;
}

#[tokio::test]
async fn metrics_have_the_tenants_label() {
    let app = start(&[]).await;
    let ids = [
        app.client.enqueue(job("acme")).await,
        app.client.enqueue(job("acme")).await,
        app.client.enqueue(job("acme")).await,
    ];
    app.client.enqueue(json!({"type": "t.job", "args": [], "queue": "q"})).await;
    app.fetch_for("acme", 2).await;
    app.client.ack(&ids[0]).await.expect(200);
    let metrics = app.client.get("/metrics").await.expect(200).text;
    for line in [
        r#"ojs_tenant_jobs_enqueued_total{tenant_id="acme",queue="q"} 3"#,
        r#"ojs_tenant_jobs_processed_total{tenant_id="acme",queue="q"} 1"#,
        r#"ojs_tenant_jobs_active{tenant_id="acme"} 1"#,
        r#"ojs_tenant_queue_depth{tenant_id="acme"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    app.client.nack(&ids[1]).await.expect(200);
    let metrics = app.client.get("/metrics").await.expect(200).text;
    assert!(metrics.contains(r#"ojs_tenant_jobs_failed_total{tenant_id="acme",queue="q"} 1"#), "{metrics}");
    assert!(!metrics.contains(r#"tenant_id="_default""#));
}
