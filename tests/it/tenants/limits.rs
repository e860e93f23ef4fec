//! Limits on a tenant's waiting jobs: queue depth and scheduled jobs, hard and soft.

use super::{job, later, rules, start, start_with};
use crate::support::{ChaosProxy, TestApp, TestRedis, json};
use fairgate::clock::Clock;
use fairgate::config::StoreUrl;
use fairgate::domain::limit::Window;
use fairgate::domain::tenant::TenantLimits;
use std::sync::Arc;

fn depth(most: u64) -> TenantLimits {
    TenantLimits { max_queue_depth: Some(most), ..TenantLimits::default() }
}

#[tokio::test]
async fn an_enqueue_above_the_depth_is_refused_with_the_reason() {
    let app = start(&[("a", depth(2))]).await;
    app.push(job("a")).await.expect(201);
    app.push(later("a")).await.expect(201);
    let refused = app.push(job("a")).await.expect(429);
    assert_eq!(refused.at("/error/code"), "TENANT_LIMIT_EXCEEDED");
    assert_eq!(refused.at("/error/retryable"), true);
    for (name, value) in
        [("tenant_id", json!("a")), ("limit", json!("max_queue_depth")), ("current", json!(2)), ("maximum", json!(2))]
    {
        assert_eq!(refused.at(&format!("/error/{name}")), &value);
        assert_eq!(refused.at(&format!("/error/details/{name}")), &value);
    }
    assert!(refused.header("retry-after").parse::<u32>().unwrap() >= 1);
    app.push(job("b")).await.expect(201);
    app.push(json!({"type": "t.job", "args": [], "queue": "q"})).await.expect(201);
    // An active job does not count as waiting.
    let id = app.fetch_for("a", 1).await.remove(0);
    app.push(job("a")).await.expect(201);
    app.push(job("a")).await.expect(429);
    app.client.ack(&id).await.expect(200);
    app.push(job("a")).await.expect(429);
    app.assert_consistent().await;
}

#[tokio::test]
async fn workflows_and_crons_are_limited_like_all_jobs() {
    let app = start(&[("a", depth(2))]).await;
    let group = |jobs: usize| json!({"type": "group", "jobs": vec![job("a"); jobs]});
    let refused = app.client.post("/v1/workflows", group(3)).await.expect(429);
    assert_eq!(refused.at("/error/code"), "TENANT_LIMIT_EXCEEDED");
    assert_eq!(app.jobs_of("a").await.depth(), 0);
    app.client.post("/v1/workflows", group(2)).await.expect(201);
    assert_eq!(app.jobs_of("a").await.depth(), 2);
    let cron = json!({"name": "c", "expression": "0 0 1 1 *", "job_template": job("a")});
    app.client.post("/v1/cron", cron).await.expect(201);
    app.client.post("/v1/cron/c/run", json!({})).await;
    let skipped = app.events("cron.skipped").await;
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0]["data"]["reason"], "tenant_limit");
    assert_eq!(app.jobs_of("a").await.depth(), 2);
    app.assert_consistent().await;
}

#[tokio::test]
async fn a_batch_is_taken_whole_or_not_at_all() {
    let app = start(&[("a", depth(3))]).await;
    let batch = |tenants: &[&str]| json!({"jobs": tenants.iter().map(|tenant| job(tenant)).collect::<Vec<_>>()});
    let refused = app.client.post("/v1/jobs/batch", batch(&["a", "b", "a", "a", "b", "a"])).await.expect(429);
    assert_eq!(refused.at("/error/details/index"), 5);
    assert_eq!(refused.at("/error/details/field"), "jobs[5]");
    assert_eq!((refused.at("/error/current"), refused.at("/error/limit")), (&json!(0), &json!("max_queue_depth")));
    assert_eq!((app.jobs_of("a").await.total(), app.jobs_of("b").await.total()), (0, 0));
    app.client.post("/v1/jobs/batch", batch(&["a", "b", "a", "a"])).await.expect(201);
    assert_eq!((app.jobs_of("a").await.available, app.jobs_of("b").await.available), (3, 1));
}

#[tokio::test]
async fn scheduled_jobs_have_their_own_limit() {
    let limits = TenantLimits { max_scheduled: Some(1), ..TenantLimits::default() };
    let app = start(&[("a", limits)]).await;
    app.push(later("a")).await.expect(201);
    let refused = app.push(later("a")).await.expect(429);
    assert_eq!((refused.at("/error/limit"), refused.at("/error/current")), (&json!("max_scheduled"), &json!(1)));
    app.push(job("a")).await.expect(201);
    let mut past = job("a");
    past["scheduled_at"] = "2020-01-01T00:00:00Z".into();
    app.push(past).await.expect(201);
    app.clock.advance(3_600_000);
    assert_eq!(app.fetch_for("a", 9).await.len(), 3, "due jobs are no longer scheduled");
    app.push(later("a")).await.expect(201);
    app.assert_consistent().await;
}

#[tokio::test]
async fn a_soft_limit_accepts_and_reports() {
    let soft = TenantLimits { max_queue_depth: Some(1), max_scheduled: Some(0), soft: true, ..TenantLimits::default() };
    let app = start(&[("a:b", soft)]).await;
    for _ in 0..3 {
        app.push(job("a:b")).await.expect(201);
    }
    app.push(later("a:b")).await.expect(201);
    assert_eq!(app.jobs_of("a:b").await.depth(), 4);
    let events = app.events("tenant.limit_exceeded").await;
    assert_eq!(events.len(), 1, "reported once: {events:?}");
    let data = &events[0]["data"];
    assert_eq!(
        (&data["tenant_id"], &data["limit"], &data["action"]),
        (&json!("a:b"), &json!("max_queue_depth"), &json!("accepted"))
    );
    assert_eq!((&data["current"], &data["maximum"]), (&json!(1), &json!(1)));
    let metrics = app.client.get("/metrics").await.text;
    let line = r#"ojs_tenant_limit_exceeded_total{tenant_id="a:b",limit="max_queue_depth",action="accepted"} 3"#;
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_limit_is_reported_once_until_load_drops() {
    let app = start(&[("a", depth(0))]).await;
    for _ in 0..5 {
        app.push(job("a")).await.expect(429);
        app.clock.advance(30_000);
    }
    assert_eq!(app.events("tenant.limit_exceeded").await.len(), 1);
    app.clock.advance(60_000);
    app.push(job("a")).await.expect(429);
    let events = app.events("tenant.limit_exceeded").await;
    assert_eq!(events.len(), 2);
    assert_eq!((&events[0]["subject"], &events[0]["data"]["action"]), (&json!("a"), &json!("rejected")));
    let metrics = app.client.get("/metrics").await.text;
    let line = r#"ojs_tenant_limit_exceeded_total{tenant_id="a",limit="max_queue_depth",action="rejected"} 6"#;
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn two_hundred_producers_fill_a_depth_of_a_thousand_exactly() {
    let app = TestApp::start_with(Clock::System, |config| {
        config.tenant = rules(&[("t-*", depth(1000))]);
    })
    .await;
    let app = Arc::new(app);
    let producers = (0..200).map(|number| {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let (mut accepted, mut refused) = (0, 0);
            for round in 0..8 {
                let answer = match (number + round) % 3 {
                    0 => app.push(later("t-1")).await,
                    1 => app.push(job("t-1")).await,
                    _ => app.client.post("/v1/jobs/batch", json!({"jobs": [job("t-1")]})).await,
                };
                match answer.status {
                    201 => accepted += 1,
                    429 => refused += 1,
                    other => panic!("{other}: {}", answer.text),
                }
            }
            (accepted, refused)
        })
    });
    let (mut accepted, mut refused) = (0, 0);
    for producer in futures_util::future::join_all(producers).await {
        let (some, others) = producer.unwrap();
        accepted += some;
        refused += others;
    }
    assert_eq!((accepted, refused), (1000, 600));
    assert_eq!(app.jobs_of("t-1").await.depth(), 1000);
    app.assert_consistent().await;
}

#[tokio::test]
async fn only_waiting_jobs_count_in_every_transition() {
    let app = start(&[("a", depth(100))]).await;
    let ids: Vec<String> = {
        let mut ids = Vec::new();
        for _ in 0..6 {
            ids.push(app.client.enqueue(job("a")).await);
        }
        ids
    };
    let scheduled = app.client.enqueue(later("a")).await;
    assert_eq!(app.fetch_for("a", 4).await, ids[..4]);
    app.client.ack(&ids[0]).await.expect(200);
    app.client.nack(&ids[1]).await.expect(200);
    let drop = json!({"job_id": ids[2], "error": {"code": "x", "message": "y", "retryable": false}});
    app.client.post("/v1/workers/nack", drop).await.expect(200);
    app.client.delete(&format!("/v1/jobs/{}", ids[4])).await.expect(200);
    let jobs = app.jobs_of("a").await;
    assert_eq!((jobs.available, jobs.active, jobs.scheduled, jobs.retryable), (1, 1, 1, 1));
    app.assert_consistent().await;
    app.client.delete(&format!("/v1/jobs/{scheduled}")).await.expect(200);
    app.client.delete(&format!("/v1/jobs/{}", ids[1])).await.expect(200);
    app.client.ack(&ids[3]).await.expect(200);
    for id in app.fetch_for("a", 4).await {
        app.client.ack(&id).await.expect(200);
    }
    assert_eq!(app.jobs_of("a").await.total(), 0);
    assert_eq!(app.redis.keys_with("tenants").await, Vec::<String>::new(), "tenants without jobs are not kept");
    assert_eq!(app.redis.keys_with("lane:").await, Vec::<String>::new());
    app.assert_consistent().await;
}

#[tokio::test]
async fn the_default_tenant_has_limits_like_any_other() {
    let bare = || json!({"type": "t.job", "args": [], "queue": "q"});
    let app = start(&[]).await;
    app.push(bare()).await.expect(201);
    app.push(job("a")).await.expect(201);
    // From now on jobs are counted, including existing ones.
    app.put("/v1/admin/tenants/_default", json!({"limits": {"max_queue_depth": 2}})).await.expect(201);
    app.push(bare()).await.expect(201);
    let refused = app.push(bare()).await.expect(429);
    assert_eq!((refused.at("/error/tenant_id"), refused.at("/error/current")), (&json!("_default"), &json!(2)));
    app.push(job("a")).await.expect(201);
    assert_eq!(app.client.fetch("q", 1).await.job_ids().len(), 1);
    app.push(bare()).await.expect(201);
    app.assert_consistent().await;
}

#[tokio::test]
async fn staged_jobs_count_as_waiting() {
    let app = start_with(&[("a", depth(2))], |config| {
        let mut rule = fairgate::domain::plan::Rule::new("r", &["t.job"]);
        rule.max_depth = 1;
        rule.pace = fairgate::domain::plan::Pace::Every(86_400_000);
        config.plan = vec![rule];
    })
    .await;
    app.push(job("x")).await.expect(201); // passes, and closes the gate
    for _ in 0..2 {
        app.push(job("a")).await.expect(201);
    }
    assert_eq!(app.jobs_of("a").await.pending, 2);
    app.push(job("a")).await.expect(429);
    app.push(job("b")).await.expect(201);
    app.assert_consistent().await;
    // Promotion changes the state of jobs, not their number.
    app.put(
        "/v1/admin/planner/r",
        json!({"types": ["t.job"], "max_depth": 100, "enqueue_jobs": 2, "enqueue_interval": "1d"}),
    )
    .await
    .expect(200);
    app.client.post("/v1/admin/planner/r/run", json!({})).await.expect(200);
    let jobs = app.jobs_of("a").await;
    assert_eq!((jobs.pending, jobs.available, jobs.depth()), (1, 1, 2));
    let listed = app.client.get("/v1/admin/tenants?prefix=a").await.expect(200);
    assert_eq!(listed.at("/items/0/jobs/pending"), &json!(1));
    app.push(job("a")).await.expect(429);
    app.assert_consistent().await;
    // The tenant gets an event about it.
    let own = app.store().within(&fairgate::domain::tenant::Scope::of("a"));
    let reported = own.events(&Default::default(), None, 100).await.unwrap().unwrap();
    assert_eq!(reported.events.iter().filter(|event| event.kind == "job.enqueued").count(), 1);
}

#[tokio::test]
async fn an_enqueue_whose_reply_was_lost_counts_once() {
    let redis = Arc::new(TestRedis::start());
    let proxy = ChaosProxy::start(&redis).await;
    let url = proxy.url();
    let app = TestApp::start_on(redis, Clock::System, |config| {
        config.store.url = Some(StoreUrl::parse(&url).unwrap());
        let rate = Window { limit: 2, period: 3_600_000 };
        config.tenant = rules(&[("a", TenantLimits { max_enqueue_rate: Some(rate), ..depth(2) })]);
    })
    .await;
    app.push(job("a")).await.expect(201);
    proxy.arm("test.lost");
    let mut lost = job("a");
    lost["type"] = "test.lost".into();
    let client = app.client.clone();
    let answer = tokio::spawn(async move { client.post("/v1/jobs", lost).await });
    proxy.struck().await;
    proxy.open();
    answer.await.unwrap().expect(201);
    let stats = app.client.get("/v1/admin/tenants/a/stats").await.expect(200);
    assert_eq!((stats.at("/total_jobs"), stats.at("/limits/max_enqueue_rate/current")), (&json!(2), &json!(2)));
    app.push(job("a")).await.expect(429);
    app.assert_consistent().await;
}
