//! A noisy neighbour under a plan rule: its weight is reduced, promotions change, and it is released.

use super::*;
use fairgate::config::PlanDefaults;
use fairgate::domain::plan::{Batch, Pace, Rule};
use fairgate::domain::tenant::Weight;
use fairgate::main_queue::MainQueues;
use fairgate::planner::{RoundAttempt, RunnerRegistry};
use fairgate::rules::Rulebook;
use fairgate::telemetry::Metrics;

/// A rule that promotes only when the test asks.
fn rule(batch: u32, change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::new("r", &["t.*"]);
    (rule.queue, rule.batch, rule.strict_interval) = (Some("q".to_owned()), Batch::Jobs(batch), true);
    rule.pace = Pace::Every(3_600_000);
    change(&mut rule);
    rule
}

async fn planned(noisy: NoisyNeighbors, rule: Rule) -> (NeighborEnv, RunnerRegistry) {
    let env = NeighborEnv::with(noisy, |config| config.plan = vec![rule.clone()]).await;
    let rules = Rulebook::new(env.store().clone(), vec![rule], Default::default(), PlanDefaults::default());
    let main_queues = MainQueues::builtin(env.store().clone());
    let registry = RunnerRegistry::new(env.store().clone(), rules, main_queues, Metrics::default(), "hand");
    env.store().pause_rule("r", true, "test").await.unwrap();
    env.flood().await;
    env.store().pause_rule("r", false, "test").await.unwrap();
    (env, registry)
}

/// Promotes and completes a batch; returns the number of jobs per tenant.
async fn round(env: &NeighborEnv, registry: &RunnerRegistry) -> Vec<(String, usize)> {
    match registry.run("r").await.unwrap().unwrap() {
        RoundAttempt::Ran { .. } => env.work(100).await,
        other => panic!("no round: {other:?}"),
    }
}

async fn weight(env: &NeighborEnv, tenant: &str) -> u32 {
    let tenants = env.store().tenants("r", "q", &[tenant.to_owned()]).await.unwrap();
    tenants[0].weight.thousandths()
}

#[tokio::test]
async fn a_flood_is_detected_its_weight_lowered_and_restored_in_time() {
    let (env, registry) = planned(throttling(), rule(20, |_| {})).await;
    let equal = shares(&[("a", 4), ("b", 4), ("c", 4), ("d", 4), ("loud", 4)]);
    assert_eq!(round(&env, &registry).await, equal);
    env.look_for(15).await;
    assert_eq!(
        (weight(&env, "loud").await, env.kinds().await.len()),
        (1000, 0),
        "only after it has lasted for the configured time"
    );
    env.look_for(5).await;
    assert_eq!((weight(&env, "loud").await, weight(&env, "a").await), (200, 1000));

    let (kind, event) = env.throttle_events().await.remove(0);
    assert_eq!(kind, "tenant.throttled");
    for (field, value) in [
        ("tenant_id", json!("loud")),
        ("reason", json!("queue_depth_ratio_exceeded")),
        ("action", json!("weight_reduced")),
        ("original_weight", json!(1.0)),
        ("effective_weight", json!(0.2)),
        ("until", json!(fairgate::domain::time::rfc3339(NOON + 20 * SECOND + 5 * MINUTE))),
    ] {
        assert_eq!(event[field], value, "{field}");
    }
    assert_eq!(event["hurt"].as_array().map(Vec::len), Some(4));

    // With weights 1 and 0.2: of 21 jobs each other tenant gets 5 and the noisy one 1.
    let mut got = [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("loud", 0)].map(|(name, jobs)| (name.to_owned(), jobs));
    for _ in 0..5 {
        for (tenant, jobs) in round(&env, &registry).await {
            got.iter_mut().filter(|(name, _)| *name == tenant).for_each(|(_, all)| *all += jobs);
        }
    }
    let loud = got[4].1;
    assert!((4..=6).contains(&loud), "{got:?}");
    assert!(got[..4].iter().all(|(_, jobs)| (23..=25).contains(jobs)), "{got:?}");

    env.look_for(5 * 60 - 5).await;
    assert_eq!((weight(&env, "loud").await, env.kinds().await.len()), (200, 1));
    env.look_for(5).await;
    assert_eq!(weight(&env, "loud").await, 1000);
    let released = env.throttle_events().await.remove(1);
    assert_eq!((released.0.as_str(), &released.1["reason"]), ("tenant.throttle_released", &json!("expired")));
    // A tenant keeps its lag when its weight changes, so the first round may differ by one.
    let after = round(&env, &registry).await;
    assert!(after.len() == 5 && after.iter().all(|(_, jobs)| (3..=5).contains(jobs)), "{after:?}");
    assert_eq!(round(&env, &registry).await.iter().map(|(_, jobs)| jobs).sum::<usize>(), 20);
}

#[tokio::test]
async fn a_throttle_lowers_the_weight_at_every_priority() {
    let (env, _registry) = planned(throttling(), rule(10, |_| {})).await;
    let job =
        json!({"type": "t.job", "args": [], "meta": {"tenant_id": "loud"}, "options": {"queue": "q", "priority": 5}});
    let before = env.client.enqueue(job.clone()).await;
    env.look_for(20).await;
    let levels = env.store().next_tenants("r", "q", 100).await.unwrap().levels;
    let loud = levels.iter().filter_map(|level| level.tenants.iter().find(|tenant| tenant.name == "loud"));
    assert_eq!(loud.map(|tenant| tenant.weight.thousandths()).collect::<Vec<_>>(), [200, 200]);
    // A tenant that leaves a priority and returns is throttled there once, not twice.
    env.client.delete(&format!("/v1/jobs/{before}")).await.expect(200);
    env.client.enqueue(job).await;
    assert_eq!(weight(&env, "loud").await, 200);
    env.neighbors.reset("loud").await.unwrap();
    let levels = env.store().next_tenants("r", "q", 100).await.unwrap().levels;
    let loud = levels.iter().filter_map(|level| level.tenants.iter().find(|tenant| tenant.name == "loud"));
    assert_eq!(loud.map(|tenant| tenant.weight.thousandths()).collect::<Vec<_>>(), [1000, 1000]);
}

#[tokio::test]
async fn a_configured_weight_is_restored_however_small() {
    let own = rule(10, |rule| _ = rule.weights.fixed.insert("loud".to_owned(), Weight::from_thousandths(130)));
    let (env, _registry) = planned(throttling(), own).await;
    env.look_for(20).await;
    // A fifth would be below the smallest weight.
    assert_eq!(weight(&env, "loud").await, 50);
    let event = env.throttle_events().await.remove(0).1;
    assert_eq!((&event["original_weight"], &event["effective_weight"]), (&json!(0.13), &json!(0.05)));
    env.neighbors.reset("loud").await.unwrap();
    assert_eq!(weight(&env, "loud").await, 130);
}

#[tokio::test]
async fn a_tenant_that_returns_during_its_throttle_is_throttled() {
    let (env, registry) = planned(throttling(), rule(10_000, |_| {})).await;
    env.look_for(20).await;
    let mut left = 2160;
    registry.run("r").await.unwrap();
    while left > 0 {
        left -= env.work(100).await.iter().map(|(_, jobs)| jobs).sum::<usize>();
    }
    env.store().pause_rule("r", true, "test").await.unwrap();
    env.push("loud", 10).await;
    env.push("a", 10).await;
    assert_eq!((weight(&env, "loud").await, weight(&env, "a").await), (200, 1000));
    // The tenant is calm for a minute, so it is released before the throttle expires.
    env.look_for(70).await;
    assert_eq!(weight(&env, "loud").await, 1000);
    assert_eq!(env.throttle_events().await.last().unwrap().1["reason"], "calm");
    assert_eq!(env.redis.keys_with("throttled").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_weight_from_the_rule_is_reduced_as_well() {
    let (env, registry) = planned(throttling(), rule(10, |_| {})).await;
    env.look_for(20).await;
    let rule = json!({"types": ["t.*"], "queue": "q", "enqueue_jobs": 10, "strict_interval": true, "enqueue_interval": "1h",
        "weights": {"static": {"loud": 3}}});
    env.client.send("PUT", "/v1/admin/planner/r", Some(rule.to_string())).await.expect(200);
    registry.run("r").await.unwrap();
    assert_eq!(weight(&env, "loud").await, 600);
    env.neighbors.reset("loud").await.unwrap();
    assert_eq!(weight(&env, "loud").await, 3000);
}
