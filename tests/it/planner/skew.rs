//! Processes with wrong clocks: only the store's time matters.

use super::{planning_on, push, registry, rounds, rule, run, stage, status, work};
use crate::support::{TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::plan::{Batch, Pace, Rule, Webhook};
use std::sync::Arc;
use std::time::Duration;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

const TEN_MINUTES: i64 = 600_000;

async fn skewed(redis: &Arc<TestRedis>, by_ms: i64, rule: &Rule) -> TestApp {
    TestApp::start_on(Arc::clone(redis), Clock::skewed(by_ms), |config| config.plan = vec![rule.clone()]).await
}

/// The number of calls of the script that begins a round.
async fn looks(app: &TestApp) -> u64 {
    let metrics = app.client.get("/metrics").await.text;
    let line = metrics.lines().find(|line| line.starts_with("fairgate_store_calls_total{call=\"ROUND_BEGIN\"}"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_keeps_the_stores_time() {
    for by_ms in [-TEN_MINUTES, TEN_MINUTES] {
        let redis = Arc::new(TestRedis::start());
        let rule = rule(|rule| {
            rule.pace = Pace::Cron { expression: "* * * * * *".to_owned(), timezone: "UTC".to_owned() };
            (rule.batch, rule.strict_interval) = (Batch::Jobs(2), true);
        });
        let (wrong, right) =
            (skewed(&redis, by_ms, &rule).await, planning_on(&redis, std::slice::from_ref(&rule)).await);
        push(&wrong.client, "a", 200).await;
        let store = &right.app.store;
        eventually("three times came", async || rounds(store).await.len() >= 3).await;
        let rounds = rounds(store).await;
        let mut seconds: Vec<&str> = rounds.iter().map(|round| &round["at"].as_str().unwrap()[..19]).collect();
        seconds.dedup();
        assert_eq!(seconds.len(), rounds.len(), "one a second: {rounds:?}");
        let spent = looks(&wrong).await + looks(&right).await;
        assert!(spent < 100, "the planner does not poll continuously: {spent} checks");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_ahead_does_not_make_a_planner_poll() {
    for by_ms in [-TEN_MINUTES, TEN_MINUTES] {
        let redis = Arc::new(TestRedis::start());
        let rule = rule(|rule| {
            (rule.pace, rule.batch, rule.strict_interval) = (Pace::Every(700), Batch::Jobs(1), true);
        });
        let app = skewed(&redis, by_ms, &rule).await;
        push(&app.client, "a", 200).await;
        eventually("three rounds were run", async || status(app.store()).await.rounds >= 3).await;
        let looks = looks(&app).await;
        assert!(looks < 60, "{looks} looks");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_are_neither_stale_nor_fresh_because_of_a_clock() {
    for by_ms in [-TEN_MINUTES, TEN_MINUTES] {
        let server = MockServer::start().await;
        let answer = ResponseTemplate::new(200).set_body_json(json!({"weights": {"a": 3, "b": 1}}));
        Mock::given(method("POST")).respond_with(answer).mount(&server).await;
        let rule = super::by_hand(8, |rule| {
            rule.weights.webhook = Some(Webhook { url: server.uri(), timeout: 2000, secret_env: None });
            rule.weights.max_weight_age = 1500;
        });
        let app = TestApp::start_with(Clock::skewed(by_ms), |config| {
            config.plan = vec![rule.clone()];
            config.server.roles = vec![Role::Api, Role::Dispatch];
        })
        .await;
        stage(&app, &[("a", 1000), ("a", 1000), ("b", 1000)]).await;
        let registry = registry(app.store(), &[rule]);
        let share = async || {
            run(&registry).await;
            work(&app.client, 50).await.iter().filter(|tenant| *tenant == "a").count()
        };
        share().await;
        let age = async || run(&registry).await.webhook.and_then(|webhook| webhook.age_ms);
        eventually("its answer is there", async || age().await.is_some()).await;
        let age = age().await;
        assert!(age.is_some_and(|age| age < 60_000), "{by_ms}: {age:?}");
        work(&app.client, 1000).await;
        eventually("it was asked a second time", async || {
            assert_eq!(share().await, 6, "{by_ms}");
            server.received_requests().await.unwrap().len() >= 2
        })
        .await;
        // While the webhook is down, its last weights apply for their lifetime and no longer.
        server.reset().await;
        eventually("they are too old", async || {
            tokio::time::sleep(Duration::from_millis(20)).await;
            share().await == 4
        })
        .await;
    }
}

/// The store's clock may step back, as after a failover; then nothing waits until the old time is reached again.
#[tokio::test]
async fn the_stores_clock_steps_back() {
    let clock = Clock::manual(1_700_000_000_000);
    let rule = super::by_hand(3, |_| {});
    let app = TestApp::start_with(clock.clone(), |config| {
        config.plan = vec![rule.clone()];
        config.server.roles = vec![Role::Api];
    })
    .await;
    stage(&app, &[("a", 30)]).await;
    let store = app.store();
    let tick = async || store.begin_round(&rule, "A", fairgate::store::Why::Tick, None).await.unwrap();
    let end = async |begun| {
        let fairgate::store::Begun::Round(round) = begun else { panic!("{begun:?}") };
        store.end_round("r", &round.token, round.number, &Default::default()).await.unwrap();
    };
    end(tick().await).await;
    assert!(matches!(tick().await, fairgate::store::Begun::Early { .. }));
    clock.advance(-86_400_000);
    end(tick().await).await;
    assert!(matches!(tick().await, fairgate::store::Begun::Early { .. }));
}
