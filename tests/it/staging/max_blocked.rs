//! `max_blocked`: a tenant whose promoted jobs wait for its own limit stays in staging and delays no other tenant.

use super::{StagingEnv, planned};
use crate::support::json;
use fairgate::domain::limit::Quota;
use fairgate::store::{Begun, LimitLayer, Why};
use serde_json::Value;

fn limited(tenant: &str) -> Value {
    let mut job = planned(tenant);
    job["rate_limit"] = json!({"key": format!("api:{tenant}"), "concurrency": 0});
    job
}

async fn depth(env: &StagingEnv) -> u64 {
    match env.begin(Why::Run).await {
        Begun::Round(round) => {
            let depth = round.queues[0].depth;
            env.finish_round(round, 0).await;
            depth
        }
        other => panic!("no round: {other:?}"),
    }
}

#[tokio::test]
async fn a_tenant_at_concurrency_0_keeps_its_jobs_in_staging_and_others_continue() {
    let env = StagingEnv::busy(|rule| rule.max_blocked = 3).await;
    let client = &env.client;
    client.fetch("default", 1).await;
    let mut stuck = Vec::new();
    for _ in 0..10 {
        stuck.push(client.enqueue(limited("stuck")).await);
    }
    assert!(!env.is_staged(&stuck[0]).await, "the first passes straight through");
    assert_eq!(env.round(2).await, 2);
    assert_eq!(client.fetch("default", 10).await.job_ids(), Vec::<String>::new());
    for _ in 0..5 {
        env.push("free").await;
    }
    assert_eq!(depth(&env).await, 0, "blocked jobs do not count as depth");
    assert_eq!(env.round(100).await, 5, "none of the tenant that has three blocked already");
    assert_eq!(env.tenants("default").await, ["stuck"], "it is still there");
    let fetched = client.fetch("default", 10).await;
    assert_eq!(fetched.job_ids().len(), 5);
    assert!(!fetched.text.contains("stuck"));
    assert_eq!(env.round(100).await, 0);
    let blocked: i64 = env.redis.command(&["HGET", "fg:{default}:blocked:default", "stuck"]).await;
    assert_eq!(blocked, 3);

    let open = Quota { concurrency: Some(100), ..Quota::default() };
    env.app
        .app
        .store
        .set_limit(&fairgate::domain::limit::LimitKey::key("api:stuck"), LimitLayer::Override, Some(&open), None)
        .await
        .unwrap();
    let first = client.fetch("default", 10).await.job_ids();
    assert_eq!(first, stuck[..first.len()], "in the old order");
    assert!(env.round(100).await > 0);
    let rest = client.fetch("default", 10).await.job_ids();
    assert_eq!([first, rest].concat(), stuck);
    assert_eq!(env.staged().await, 0);
    let left: Vec<String> = env.redis.keys_with("blocked:").await;
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn no_job_passes_through_for_a_tenant_with_too_many_blocked_jobs() {
    let env = StagingEnv::with(|rule| rule.max_blocked = 1).await;
    let client = &env.client;
    let passed = client.enqueue(limited("a")).await;
    assert_eq!(env.state(&passed).await, "available");
    assert_eq!(client.fetch("default", 1).await.job_ids(), Vec::<String>::new());
    let waits = client.enqueue(limited("a")).await;
    assert!(env.is_staged(&waits).await);
    assert_eq!(env.round(10).await, 0);
    client.delete(&format!("/v1/jobs/{passed}")).await.expect(200);
    assert_eq!(env.round(10).await, 1);
}
