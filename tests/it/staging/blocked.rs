//! `max_blocked`: a tenant whose promoted jobs wait for a limit of its own stays in staging, and holds up nobody.

use super::{Site, planned};
use crate::support::json;
use fairgate::job::Quota;
use fairgate::store::{Begun, Layer, Why};
use serde_json::Value;

fn limited(tenant: &str) -> Value {
    let mut job = planned(tenant);
    job["rate_limit"] = json!({"key": format!("api:{tenant}"), "concurrency": 0});
    job
}

async fn depth(site: &Site) -> u64 {
    match site.begin(Why::Run).await {
        Begun::Round(round) => {
            let depth = round.queues[0].depth;
            site.fly(round, 0).await;
            depth
        }
        other => panic!("no round: {other:?}"),
    }
}

#[tokio::test]
async fn a_tenant_at_concurrency_0_keeps_its_jobs_in_staging_and_the_others_flow() {
    let site = Site::busy(|rule| rule.max_blocked = 3).await;
    let client = &site.app.client;
    client.fetch("default", 1).await;
    let mut stuck = Vec::new();
    for _ in 0..10 {
        stuck.push(client.enqueue(limited("stuck")).await);
    }
    assert!(!site.is_staged(&stuck[0]).await, "the first passes straight through");
    assert_eq!(site.round(2).await, 2);
    assert_eq!(client.fetch("default", 10).await.job_ids(), Vec::<String>::new());
    for _ in 0..5 {
        site.push("free").await;
    }
    assert_eq!(depth(&site).await, 0, "what is blocked is no depth");
    assert_eq!(site.round(100).await, 5, "none of the tenant that has three blocked already");
    assert_eq!(site.tenants("default").await, ["stuck"], "it is still there");
    let fetched = client.fetch("default", 10).await;
    assert_eq!(fetched.job_ids().len(), 5);
    assert!(!fetched.text.contains("stuck"));
    assert_eq!(site.round(100).await, 0);
    let blocked: i64 = site.app.redis.command(&["HGET", "fg:{default}:blocked:default", "stuck"]).await;
    assert_eq!(blocked, 3);

    let open = Quota { concurrency: Some(100), ..Quota::default() };
    site.app
        .app
        .store
        .set_limit(&fairgate::job::LimitKey::key("api:stuck"), Layer::Override, Some(&open), None)
        .await
        .unwrap();
    let first = client.fetch("default", 10).await.job_ids();
    assert_eq!(first, stuck[..first.len()], "in the old order");
    assert!(site.round(100).await > 0);
    let rest = client.fetch("default", 10).await.job_ids();
    assert_eq!([first, rest].concat(), stuck);
    assert_eq!(site.staged().await, 0);
    let left: Vec<String> = site.app.redis.keys_with("blocked:").await;
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn nothing_passes_for_a_tenant_that_has_too_many_blocked() {
    let site = Site::with(|rule| rule.max_blocked = 1).await;
    let client = &site.app.client;
    let passed = client.enqueue(limited("a")).await;
    assert_eq!(site.state(&passed).await, "available");
    assert_eq!(client.fetch("default", 1).await.job_ids(), Vec::<String>::new());
    let waits = client.enqueue(limited("a")).await;
    assert!(site.is_staged(&waits).await);
    assert_eq!(site.round(10).await, 0);
    client.delete(&format!("/v1/jobs/{passed}")).await.expect(200);
    assert_eq!(site.round(10).await, 1);
}
