//! Concurrency limits of tenants.

use super::{job, rules, slots, start, start_with};
use crate::support::{TestApp, json};
use fairgate::clock::Clock;
use std::sync::Arc;

#[tokio::test]
async fn a_tenants_concurrency_spans_all_queues_and_others_continue() {
    let app = start(&[("a", slots(2))]).await;
    for queue in ["q", "r"] {
        for tenant in ["a", "a", "b"] {
            let mut job = job(tenant);
            job["queue"] = queue.into();
            app.push(job).await.expect(201);
        }
    }
    let fetch = async |count: usize| {
        let body = json!({"queues": ["q", "r"], "count": count, "worker_id": "w"});
        app.client.post("/v1/workers/fetch", body).await.expect(200).job_ids()
    };
    let first = fetch(9).await;
    assert_eq!((first.len(), app.jobs_of("a").await.active, app.jobs_of("b").await.active), (4, 2, 2));
    assert_eq!(fetch(9).await, Vec::<String>::new());
    app.assert_consistent().await;
    let mine = app.held_by("a", &first).await;
    app.client.ack(&mine[0]).await.expect(200);
    assert_eq!(fetch(9).await.len(), 1, "a free slot is used at once");
    app.client.nack(&mine[1]).await.expect(200);
    assert_eq!(fetch(9).await.len(), 1);
    assert_eq!(app.jobs_of("a").await.active, 2);
    let events = app.events("tenant.limit_exceeded").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["data"]["limit"], &events[0]["data"]["maximum"]), (&json!("max_concurrency"), &json!(2)));
    app.assert_consistent().await;
}

impl TestApp {
    /// The jobs of a tenant among the given ones.
    async fn held_by(&self, tenant: &str, ids: &[String]) -> Vec<String> {
        let mut mine = Vec::new();
        for id in ids {
            if self.client.job(id).await["meta"]["tenant_id"] == tenant {
                mine.push(id.clone());
            }
        }
        mine
    }
}

#[tokio::test]
async fn a_limit_set_at_run_time_applies_to_waiting_jobs() {
    for fair in [false, true] {
        let app = start_with(&[], |config| config.policy.tenant_fairness.enabled = Some(fair)).await;
        for _ in 0..10 {
            app.push(job("a")).await.expect(201);
        }
        assert_eq!(app.client.fetch("q", 3).await.job_ids().len(), 3);
        app.put("/v1/admin/tenants/a/limits", json!({"max_concurrency": 5})).await.expect(200);
        assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 2, "three ran already");
        assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 0);
        app.put("/v1/admin/tenants/a/limits", json!({"max_concurrency": 6})).await.expect(200);
        assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 1);
        assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 0);
        app.put("/v1/admin/tenants/a/limits", json!({"max_concurrency": null})).await.expect(200);
        assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 4);
        app.assert_consistent().await;
    }
}

#[tokio::test]
async fn nothing_runs_with_a_limit_of_none_until_it_is_raised() {
    let app = start(&[("a", slots(0))]).await;
    let id = app.client.enqueue(job("a")).await;
    assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 0);
    assert_eq!(app.fetch_for("a", 9).await.len(), 0);
    app.client.delete("/v1/admin/tenants/a").await.expect(409);
    app.put("/v1/admin/tenants/a/limits", json!({"max_concurrency": 1})).await.expect(200);
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), [id]);
    app.assert_consistent().await;
}

#[tokio::test]
async fn a_tenant_whose_jobs_are_all_cancelled_leaves_nothing_parked() {
    let app = start(&[("a", slots(1))]).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(app.client.enqueue(job("a")).await);
    }
    assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 1);
    for id in &ids[1..] {
        app.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    }
    app.assert_consistent().await;
    app.client.ack(&ids[0]).await.expect(200);
    assert_eq!(app.redis.keys_with("parked:").await, Vec::<String>::new());
    assert_eq!(app.redis.keys_with("lane:").await, Vec::<String>::new());
    let id = app.client.enqueue(job("a")).await;
    assert_eq!(app.client.fetch("q", 9).await.job_ids(), [id]);
}

#[tokio::test]
async fn removing_tiers_releases_their_tenants() {
    let redis = Arc::new(crate::support::TestRedis::start());
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        config.tenant = rules(&[("free-*", slots(1))]);
    })
    .await;
    for _ in 0..3 {
        app.push(job("free-1")).await.expect(201);
    }
    assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 1);
    let other = TestApp::start_on(redis, Clock::System, |_| {}).await;
    other.app.store.tick().await.unwrap();
    assert_eq!(app.client.fetch("q", 9).await.job_ids().len(), 2, "the file that holds now has no tiers");
    app.assert_consistent().await;
}

#[tokio::test]
async fn workers_never_hold_more_than_the_limit() {
    let app = TestApp::start_with(Clock::System, |config| {
        config.tenant = rules(&[("t-*", slots(3))]);
    })
    .await;
    let app = Arc::new(app);
    for number in 0..120 {
        app.push(job(&format!("t-{}", number % 4))).await.expect(201);
    }
    let workers = (0..16).map(|worker| {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let (mut done, mut empty) = (0, 0);
            while empty < 40 {
                let body = json!({"queues": ["q"], "count": 2, "worker_id": format!("w{worker}")});
                let ids = app.client.post("/v1/workers/fetch", body).await.expect(200).job_ids();
                for tenant in 0..4 {
                    let active = app.jobs_of(&format!("t-{tenant}")).await.active;
                    assert!(active <= 3, "t-{tenant} has {active}");
                }
                empty = if ids.is_empty() { empty + 1 } else { 0 };
                for id in ids {
                    app.client.ack(&id).await.expect(200);
                    done += 1;
                }
            }
            done
        })
    });
    let done: usize = futures_util::future::join_all(workers).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(done, 120);
    app.assert_consistent().await;
}

/// Limits in a job concern its own key.
#[tokio::test]
async fn a_job_with_drop_or_reschedule_waits_for_a_slot_of_its_tenant() {
    for (on_limit, fair) in [("drop", false), ("reschedule", false), ("drop", true), ("reschedule", true)] {
        let app = start_with(&[("a", slots(1))], |config| config.policy.tenant_fairness.enabled = Some(fair)).await;
        let mut limited = job("a");
        limited["rate_limit"] = json!({"key": "k", "concurrency": 5, "on_limit": on_limit});
        let ids = [app.client.enqueue(limited.clone()).await, app.client.enqueue(limited).await];
        assert_eq!(app.client.fetch("q", 9).await.job_ids(), ids[..1], "{on_limit} {fair}");
        assert_eq!(app.client.state(&ids[1]).await, "available", "{on_limit} {fair}");
        app.assert_consistent().await;
        app.client.ack(&ids[0]).await.expect(200);
        assert_eq!(app.client.fetch("q", 9).await.job_ids(), ids[1..], "{on_limit} {fair}");
        app.assert_consistent().await;
    }
}
