//! A job that enters staging gets the weight that the rule has then, regardless of its age.

use super::{NOON, SECOND, StagingEnv, planned};
use crate::support::json;
use fairgate::domain::plan::{OnWebhookError, Pace, Webhook};
use fairgate::domain::tenant::Weight;
use fairgate::rules::Rulebook;
use fairgate::store::{Begun, Next, Why};

async fn set_weight(env: &StagingEnv, tenant: &str, weight: f64) {
    let mut rule = env.rule.clone();
    rule.weights.fixed.insert(tenant.to_owned(), Weight::of(weight).unwrap());
    let book = Rulebook::new(env.store().clone(), vec![], Default::default(), Default::default());
    book.put(rule).await.unwrap();
}

async fn scheduled(env: &StagingEnv, tenant: &str) -> String {
    let mut job = planned(tenant);
    job["scheduled_at"] = json!("+PT5S");
    env.client.enqueue(job).await
}

async fn come_due(env: &StagingEnv) {
    env.clock.advance(5 * SECOND);
    env.tick().await;
}

#[tokio::test]
async fn jobs_sent_during_a_hold_are_free_after_it() {
    let held = [("a".to_owned(), Weight::HELD)];
    let env = StagingEnv::with(|rule| rule.weights.fixed = held.into()).await;
    let id = scheduled(&env, "a").await;
    set_weight(&env, "a", 1.0).await;
    come_due(&env).await;
    assert_eq!(env.state(&id).await, "available");
}

#[tokio::test]
async fn a_hold_applies_to_jobs_sent_before_it() {
    let env = StagingEnv::open().await;
    let id = scheduled(&env, "a").await;
    set_weight(&env, "a", 0.0).await;
    come_due(&env).await;
    assert!(env.is_staged(&id).await);
    assert_eq!(env.round(9).await, 0);
}

#[tokio::test]
async fn with_hold_no_tenant_passes_through_without_a_webhook_weight() {
    let env = StagingEnv::with(|rule| {
        rule.weights.webhook = Some(Webhook { url: "http://127.0.0.1:9/".to_owned(), timeout: 100, secret_env: None });
        rule.weights.on_webhook_error = Some(OnWebhookError::Hold);
    })
    .await;
    let id = env.push("a").await;
    assert!(env.is_staged(&id).await);
}

/// No job was staged at 03:00; jobs of the afternoon wait for the next night.
#[tokio::test]
async fn a_schedule_is_not_caught_up_if_nothing_was_staged_at_its_time() {
    const DAY: i64 = 86_400_000;
    let env = StagingEnv::busy(|rule| {
        rule.pace = Pace::Cron { expression: "0 3 * * *".to_owned(), timezone: "UTC".to_owned() };
        rule.strict_interval = true;
    })
    .await;
    let begin = async |since: i64, at: i64| {
        let next = Some(Next { since, at });
        env.store().begin_round(&env.rule, "test", Why::Tick, next).await.unwrap()
    };
    env.push("a").await;
    let due = NOON + DAY / 2;
    assert_eq!(begin(NOON, due).await, Begun::Early { due, now: NOON });
    env.clock.advance(DAY / 2);
    let Begun::Round(round) = begin(due, due + DAY).await else { panic!("it is due") };
    assert!(round.scheduled);
    assert_eq!(env.finish_round(round, 9).await, 1);

    env.clock.advance(DAY + DAY / 2);
    let afternoon = due + DAY + DAY / 2;
    env.push("a").await;
    let due = due + 2 * DAY;
    assert_eq!(begin(afternoon, due).await, Begun::Early { due, now: afternoon });
}

#[tokio::test]
async fn an_idle_fair_queue_expires_and_a_busy_one_does_not() {
    let env = StagingEnv::busy(|_| {}).await;
    env.push("a").await;
    let key = "fg:{default}:fair:plan:default";
    for (jobs, kept) in [(9, false), (0, true), (9, false)] {
        if kept {
            env.push("a").await;
        }
        env.round(jobs).await;
        let ttl: i64 = env.redis.command(&["PTTL", key]).await;
        assert_eq!(ttl == -1, kept, "{ttl}");
    }
}
