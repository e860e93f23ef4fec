//! Limits with tenants that take turns: counters stay consistent, no tenant starves, no limit is exceeded.

use super::{LimitsEnv, concurrency};
use crate::support::{Random, json};
use fairgate::domain::fairness::{TenantFairness, TenantStrategy};
use fairgate::domain::pool::{LimitRule, LimitTarget};
use std::collections::BTreeMap;

async fn turmoil(strategy: TenantStrategy, seed: u64) {
    let env = LimitsEnv::with(|config| {
        config.policy.tenant_fairness = TenantFairness { enabled: Some(true), strategy, ..TenantFairness::default() };
        let target = LimitTarget::Type("test.*".to_owned());
        config.policy.limits = vec![LimitRule { target, quota: concurrency(5) }];
    })
    .await;
    let mut random = Random(seed);
    let (mut active, mut keys) = (Vec::new(), BTreeMap::new());
    for step in 0..250 {
        match random.below(10) {
            0..4 => {
                let key = ["a", "b", "c", "d"][random.below(4)];
                let mut job = super::job(
                    ["x", "y"][random.below(2)],
                    random.below(3) as i32,
                    json!({"key": key, "concurrency": 2}),
                );
                job["meta"] = json!({"tenant_id": format!("t{}", random.below(3))});
                keys.insert(env.client.enqueue(job).await, key);
            }
            4..7 => active.extend(env.fetch_from(&["x", "y"], 1 + random.below(4)).await),
            7 if !keys.is_empty() => {
                let id = keys.keys().nth(random.below(keys.len())).unwrap().clone();
                env.store().cancel(&id).await.unwrap();
                active.retain(|other| *other != id);
                keys.remove(&id);
            }
            _ if !active.is_empty() => {
                let id = active.swap_remove(random.below(active.len()));
                keys.remove(&id);
                env.ack(&id).await;
            }
            _ => {}
        }
        let running = |key: &str| active.iter().filter(|id| keys.get(*id) == Some(&key)).count();
        assert!(active.len() <= 5 && ["a", "b", "c", "d"].iter().all(|key| running(key) <= 2), "at step {step}");
        if step % 5 == 0 {
            env.audit().await;
        }
    }
    let mut idle = 0;
    while !keys.is_empty() && idle < 5 {
        active.extend(env.fetch_from(&["x", "y"], 9).await);
        idle = if active.is_empty() { idle + 1 } else { 0 };
        for id in active.drain(..) {
            keys.remove(&id);
            env.ack(&id).await;
        }
    }
    assert!(keys.is_empty(), "{} are left", keys.len());
    env.audit().await;
}

#[tokio::test]
async fn fair_shares_under_limits() {
    turmoil(TenantStrategy::FairShare, 1).await;
}

#[tokio::test]
async fn turns_under_limits() {
    turmoil(TenantStrategy::RoundRobin, 2).await;
}

#[tokio::test]
async fn own_slots_under_limits() {
    turmoil(TenantStrategy::Strict, 2).await;
}

/// Tenants no longer take turns, but lanes that waited before still exist. The last of them is blocked by its key and
/// leaves the slot of its type to a lane that returns in the same call, to a level that this call has seen end.
#[tokio::test]
async fn a_lane_that_returns_to_an_ended_level_is_found() {
    let env = LimitsEnv::with(|config| {
        config.policy.tenant_fairness = TenantFairness { enabled: Some(true), ..TenantFairness::default() };
        let target = LimitTarget::Type("test.*".to_owned());
        config.policy.limits = vec![LimitRule { target, quota: concurrency(1) }];
    })
    .await;
    let mut pushed = Vec::new();
    for tenant in ["a", "b", "c"] {
        let mut job = super::job("q", 0, json!({"key": tenant, "concurrency": 1}));
        job["meta"] = json!({"tenant_id": tenant});
        pushed.push(env.client.enqueue(job).await);
    }
    assert_eq!(env.fetch("q", 3).await, pushed[..1], "the others wait for the type's slot");
    let off = json!({"tenant_fairness": {"enabled": false}});
    for (path, body) in [("/v1/rate-limits/b", json!({"concurrency": 0})), ("/v1/admin/scheduling/config", off)] {
        env.client.send("PUT", path, Some(body.to_string())).await.expect(200);
    }
    env.ack(&pushed[0]).await;
    let mut got = env.fetch("q", 3).await;
    got.extend(env.fetch("q", 3).await);
    assert_eq!(got, pushed[2..], "one is blocked by its key, so the other runs");
    env.audit().await;
}
