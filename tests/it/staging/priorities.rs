//! Priorities of staged jobs: across all tenants, or within each tenant.

use super::{SECOND, StagingEnv, planned};
use crate::support::json;
use fairgate::domain::limit::{LimitKey, Quota};
use fairgate::domain::plan::{OnUnknownWeight, PriorityScope, Rule, Webhook};
use fairgate::domain::tenant::Weight;
use fairgate::rules::Rulebook;
use fairgate::store::{Begun, LimitLayer, StagedTenant, WeightOrigin, Why};
use serde_json::Value;

fn job(tenant: &str, priority: i32) -> Value {
    let mut job = planned(tenant);
    job["options"] = json!({"priority": priority});
    job
}

/// Pushes jobs, given by tenant and priority.
async fn push(env: &StagingEnv, jobs: &[(&str, i32)]) -> Vec<String> {
    let mut ids = Vec::new();
    for (tenant, priority) in jobs {
        ids.push(env.client.enqueue(job(tenant, *priority)).await);
    }
    ids
}

/// Promotes jobs one by one; returns their positions in `ids` in order of promotion.
async fn order(env: &StagingEnv, ids: &[String]) -> Vec<usize> {
    let mut order = Vec::new();
    while env.round(1).await == 1 {
        for (place, id) in ids.iter().enumerate() {
            if !order.contains(&place) && !env.is_staged(id).await {
                order.push(place);
            }
        }
    }
    order
}

/// Changes the rule while the server runs.
async fn put(env: &StagingEnv, change: impl FnOnce(&mut Rule)) {
    let mut rule = env.rule.clone();
    change(&mut rule);
    let book = Rulebook::new(env.store().clone(), vec![], Default::default(), Default::default());
    book.put(rule).await.unwrap();
}

async fn reweigh(env: &StagingEnv, tenant: &str, weight: Weight) {
    let Begun::Round(round) = env.begin(Why::Run).await else { panic!("no round") };
    let weights = [(tenant.to_owned(), weight)];
    env.store().reweigh("plan", &round.token, "default", WeightOrigin::Webhook, &weights).await.unwrap().unwrap();
    env.finish_round(round, 0).await;
}

async fn tenant(env: &StagingEnv, name: &str) -> StagedTenant {
    env.store().tenants("plan", "default", &[name.to_owned()]).await.unwrap().remove(0)
}

/// A tenant with many urgent jobs goes first, and tenants take turns only among jobs of equal priority.
#[tokio::test]
async fn a_higher_priority_goes_before_tenants_take_turns() {
    let env = StagingEnv::busy(|_| {}).await;
    let ids = push(&env, &[("a", 0), ("a", 0), ("b", 0), ("c", 5), ("c", 5), ("c", 5), ("a", 5), ("b", -3)]).await;
    assert_eq!(order(&env, &ids).await, [6, 3, 4, 5, 0, 2, 1, 7]);
    assert_eq!((env.staged().await, env.tenant_keys().await), (0, Vec::new()));
}

#[tokio::test]
async fn within_a_tenant_priorities_order_its_own_jobs_only() {
    let env = StagingEnv::busy(|rule| rule.priority = PriorityScope::WithinTenant).await;
    let ids = push(&env, &[("a", 0), ("a", 5), ("a", 9), ("b", -1), ("b", 0)]).await;
    assert_eq!(order(&env, &ids).await, [2, 4, 1, 3, 0]);
    assert_eq!((env.staged().await, env.tenant_keys().await), (0, Vec::new()));
}

#[tokio::test]
async fn nothing_passes_through_while_a_tenant_waits_at_another_priority() {
    let env = StagingEnv::busy(|_| {}).await;
    let waiting = push(&env, &[("a", -5)]).await;
    env.client.fetch("default", 1).await;
    let later = push(&env, &[("b", 5), ("b", 0)]).await;
    for id in waiting.iter().chain(&later) {
        assert!(env.is_staged(id).await);
    }
    assert_eq!(env.round(9).await, 3);
    env.client.fetch("default", 9).await;
    let passing = push(&env, &[("b", 5)]).await;
    assert!(!env.is_staged(&passing[0]).await, "no tenant waits any more");
}

#[tokio::test]
async fn a_weight_is_the_tenants_at_every_priority() {
    let env = StagingEnv::busy(|rule| {
        rule.weights.webhook = Some(Webhook { url: "http://127.0.0.1:9/".to_owned(), timeout: 100, secret_env: None });
        rule.weights.on_unknown_weight = OnUnknownWeight::DefaultWeight;
    })
    .await;
    let held = push(&env, &[("a", 0), ("a", 5)]).await;
    reweigh(&env, "a", Weight::HELD).await;
    let asked = tenant(&env, "a").await.asked;
    assert!(asked > 1);
    let more = push(&env, &[("a", 9), ("b", 0)]).await;
    let of_a = tenant(&env, "a").await;
    assert_eq!((of_a.weight, of_a.staged, of_a.asked), (Weight::HELD, 3, asked));
    assert_eq!(env.round(9).await, 1);
    assert!(!env.is_staged(&more[1]).await, "only the other tenant's");
    let queue = env.store().rule_status("plan", None).await.unwrap().queues.remove(0);
    assert_eq!((queue.staged, queue.staged_tenants, queue.waiting_tenants), (3, 1, 0));
    let named = env.store().held_tenants("plan", "default", 9).await.unwrap();
    assert!(named.len() == 3 && named.iter().all(|name| name == "a"), "{named:?}");

    let seven = Weight::of(7.0).unwrap();
    reweigh(&env, "a", seven).await;
    let ids = [&held[..], &more[..1]].concat();
    assert_eq!(order(&env, &ids).await, [2, 1, 0]);
    // A webhook weight applies to jobs of every priority.
    push(&env, &[("a", 1)]).await;
    let remembered = tenant(&env, "a").await;
    assert_eq!((remembered.weight, remembered.promoted), (seven, 0));
}

#[tokio::test]
async fn jobs_leave_staging_at_any_priority() {
    let env = StagingEnv::busy(|_| {}).await;
    let ids = push(&env, &[("a", 5), ("a", 5), ("b", -5), ("b", 0)]).await;
    env.client.delete(&format!("/v1/jobs/{}", ids[0])).await.expect(200);
    env.client.post(&format!("/v1/jobs/{}/activate", ids[2]), json!({})).await.expect(200);
    let mut expires = job("c", 7);
    expires["options"]["expires_at"] = json!("+PT5S");
    env.client.enqueue(expires).await;
    env.clock.advance(5 * SECOND);
    env.tick().await;
    assert_eq!((env.staged().await, env.tenants("default").await), (2, vec!["a".to_owned(), "b".to_owned()]));
    let left = env.redis.keys_with("fair:plan:default:p").await;
    assert!(left.iter().all(|key| key.contains(":p5")), "the others have ended: {left:?}");
    assert_eq!(env.round(9).await, 2);
    assert_eq!(env.tenant_keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn jobs_staged_by_priority_go_first_after_the_rule_changes() {
    let env = StagingEnv::busy(|_| {}).await;
    let mut ids = push(&env, &[("a", 5), ("a", 5), ("b", 0), ("b", -5)]).await;
    put(&env, |rule| rule.priority = PriorityScope::WithinTenant).await;
    ids.extend(push(&env, &[("c", 9), ("a", 0)]).await);
    // A job is cancelled where it is, regardless of the current rule.
    env.client.delete(&format!("/v1/jobs/{}", ids[1])).await.expect(200);
    let cancelled = 1;
    let order = order(&env, &ids).await;
    let left: Vec<usize> = order.into_iter().filter(|place| *place != cancelled).collect();
    assert_eq!(left, [0, 3, 5, 2, 4]);
    assert_eq!((env.staged().await, env.tenant_keys().await), (0, Vec::new()));
}

#[tokio::test]
async fn jobs_staged_within_tenants_count_as_priority_0_after_the_rule_changes() {
    let env = StagingEnv::busy(|rule| rule.priority = PriorityScope::WithinTenant).await;
    let mut ids = push(&env, &[("a", 0), ("a", 5), ("b", -9), ("b", 7)]).await;
    put(&env, |rule| rule.priority = PriorityScope::Global).await;
    ids.extend(push(&env, &[("b", 5), ("a", -1)]).await);
    env.client.delete(&format!("/v1/jobs/{}", ids[3])).await.expect(200);
    let cancelled = 3;
    let order = order(&env, &ids).await;
    let left: Vec<usize> = order.into_iter().filter(|place| *place != cancelled).collect();
    assert_eq!(left, [4, 1, 2, 0, 5]);
    assert_eq!((env.staged().await, env.tenant_keys().await), (0, Vec::new()));
}

#[tokio::test]
async fn a_tenant_with_blocked_jobs_delays_no_priority() {
    let env = StagingEnv::busy(|rule| rule.max_blocked = 1).await;
    let client = &env.client;
    let limited = |priority| {
        let mut job = job("stuck", priority);
        job["rate_limit"] = json!({"key": "api", "concurrency": 0});
        job
    };
    for priority in [9, 9, 5, 0] {
        client.enqueue(limited(priority)).await;
    }
    assert_eq!(env.round(1).await, 1);
    client.fetch("default", 9).await; // finds it blocked
    let free = push(&env, &[("free", 5), ("free", -5)]).await;
    assert_eq!(order(&env, &free).await, [0, 1]);
    assert_eq!((env.staged().await, env.tenants("default").await), (3, vec!["stuck".to_owned()]));
    let open = Quota { concurrency: Some(100), ..Quota::default() };
    env.store().set_limit(&LimitKey::key("api"), LimitLayer::Override, Some(&open), None).await.unwrap();
    client.fetch("default", 9).await;
    assert_eq!(env.round(9).await, 3);
    assert_eq!((env.staged().await, env.tenant_keys().await), (0, Vec::new()));
}
