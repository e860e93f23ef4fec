//! Redis restarts, is emptied or loses replies in the middle of a round: accepted jobs are promoted once.

use super::{
    HOUR, by_hand, depth, planning, push, registry, rounds, rule, run, serving, stage, status, work, work_off,
};
use crate::support::{ChaosProxy, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Role, StoreUrl};
use fairgate::fairness::{Batch, Pace, Rule, Webhook};
use fairgate::planner::RoundOutcome;
use fairgate::store::{Begun, Promoted, Why};
use std::sync::Arc;
use std::time::Duration;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A rule whose rounds take half a second, and the slow webhook behind it.
async fn slow() -> (MockServer, Rule) {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(200).set_body_json(json!({"weights": {}}));
    Mock::given(method("POST")).respond_with(answer.set_delay(Duration::from_millis(500))).mount(&server).await;
    let webhook = Webhook { url: server.uri(), timeout: 5000, secret_env: None };
    let rule = rule(|rule| {
        (rule.pace, rule.batch, rule.planner_lock_ttl) = (Pace::Every(50), Batch::Jobs(5), 1000);
        rule.weights.webhook = Some(webhook);
    });
    (server, rule)
}

async fn in_mid_round(server: &MockServer) {
    eventually("a round is under way", async || !server.received_requests().await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_killed_in_mid_round() {
    let (server, rule) = slow().await;
    let redis = Arc::new(TestRedis::durable());
    let app = super::planning_on(&redis, &[rule]).await;
    stage(&app, &[("a", 30), ("b", 30)]).await;
    in_mid_round(&server).await;
    let before = redis.pid();
    redis.kill();
    eventually("Redis is back", async || redis.pid() != before).await;
    eventually("fairgate is ready again", async || app.client.get("/ready").await.status == 200).await;
    work_off(&app.client, 60).await;
    assert_eq!(status(app.store()).await.staged, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_emptied_in_mid_round() {
    let (server, rule) = slow().await;
    let app = planning(&[rule]).await;
    stage(&app, &[("a", 30), ("b", 30)]).await;
    in_mid_round(&server).await;
    let _: () = app.redis.command(&["FLUSHALL"]).await;
    assert_eq!(work(&app.client, 100).await.len(), 0, "no removed job returns");
    push(&app.client, "a", 20).await;
    assert!(status(app.store()).await.staged > 0, "the file's rules hold again");
    work_off(&app.client, 20).await;
    assert_eq!(status(app.store()).await.staged, 0);
}

/// The number of script calls in Redis.
async fn script_calls(redis: &TestRedis) -> u64 {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_fcall:calls="));
    calls.and_then(|calls| calls.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_killed_continuously() {
    let app = planning(&[rule(|rule| (rule.pace, rule.batch) = (Pace::Every(10), Batch::Jobs(3)))]).await;
    stage(&app, &[("a", 150), ("b", 150)]).await;
    let redis = Arc::clone(&app.redis);
    let killer = tokio::spawn(async move {
        loop {
            let before = script_calls(&redis).await;
            for kind in ["normal", "pubsub"] {
                let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", kind]).await;
            }
            // On a busy machine, connecting takes longer than the pause: otherwise no call would ever succeed.
            while script_calls(&redis).await == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    });
    let mut done = 0;
    eventually("most jobs are done", async || {
        done += work(&app.client, 10).await.len();
        done >= 200
    })
    .await;
    killer.abort();
    work_off(&app.client, 300 - done).await;
    assert_eq!(status(app.store()).await.staged, 0);
}

/// Starts a fairgate behind a proxy that may lose replies; it does not plan on its own.
async fn behind_proxy(rule: &Rule) -> (TestApp, ChaosProxy) {
    let redis = Arc::new(TestRedis::start());
    let proxy = ChaosProxy::start(&redis).await;
    let app = TestApp::start_on(redis, Clock::System, |config| {
        config.plan = vec![rule.clone()];
        config.server.roles = vec![Role::Api];
        config.store.url = Some(StoreUrl::parse(&proxy.url()).unwrap());
    })
    .await;
    stage(&app, &[("a", 10), ("b", 10)]).await;
    (app, proxy)
}

async fn lose<T>(proxy: &ChaosProxy, pattern: &str, call: impl Future<Output = T>) -> T {
    proxy.arm(pattern);
    let open = async {
        proxy.struck().await;
        proxy.open();
    };
    tokio::join!(call, open).0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_to_a_promotion_is_lost() {
    let rule = by_hand(4, |_| {});
    let (app, proxy) = behind_proxy(&rule).await;
    let registry = registry(app.store(), &[rule]);
    // The main queue followed by the number of jobs, which only a promotion sends.
    let report = lose(&proxy, "\r\nq\r\n$1\r\n4\r\n", run(&registry)).await;
    assert_eq!((report.outcome, report.promoted), (RoundOutcome::Promoted, 4));
    assert_eq!((depth(&app).await, status(app.store()).await.staged), (4, 16));
    let recorded = rounds(app.store()).await;
    assert_eq!((recorded.len(), &recorded[0]["promoted"]), (1, &json!(4)));
    assert_eq!(run(&registry).await.promoted, 4, "the next round is its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_to_the_end_of_a_round_is_lost() {
    let rule = by_hand(4, |_| {});
    let (app, proxy) = behind_proxy(&rule).await;
    let registry = registry(app.store(), &[rule]);
    let report = lose(&proxy, "weights_source", run(&registry)).await;
    assert_eq!((report.outcome, report.promoted), (RoundOutcome::Promoted, 4));
    assert_eq!((rounds(app.store()).await.len(), status(app.store()).await.promoted), (1, 4));
}

/// The first call has advanced the time of the scheduled round; the repeated one must not conclude that it is too
/// early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_to_the_beginning_of_a_round_is_lost() {
    let rule = by_hand(4, |_| {});
    let (app, proxy) = behind_proxy(&rule).await;
    let store = app.store();
    let begun = lose(&proxy, "_round_begin\r\n", store.begin_round(&rule, "A", Why::Tick, None)).await.unwrap();
    let Begun::Round(round) = begun else { panic!("{begun:?}") };
    assert_eq!((round.scheduled, round.number, round.room, round.queues.len()), (true, 1, 4, 1));
    let promoted = store.promote("r", &round.token, "q", 10).await.unwrap();
    assert!(matches!(promoted, Promoted::Jobs { promoted: 4, .. }), "{promoted:?}");
    assert_eq!(status(store).await.rounds, 1);
}

/// Redis is unreachable for a while: the planner reports it, waits and continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promotion_continues_after_an_outage() {
    let redis = Arc::new(TestRedis::start());
    let proxy = ChaosProxy::start(&redis).await;
    let rule = rule(|rule| (rule.pace, rule.batch) = (Pace::Every(HOUR), Batch::Jobs(3)));
    let app = TestApp::start_on(Arc::clone(&redis), Clock::System, |config| {
        config.plan = vec![rule.clone()];
        config.store.url = Some(StoreUrl::parse(&proxy.url()).unwrap());
    })
    .await;
    stage(&app, &[("a", 30)]).await;
    eventually("it has begun", async || depth(&app).await > 0).await;
    // The next call gets no reply, and no connection is accepted for a second.
    proxy.arm("FCALL");
    _ = app.client.try_send("POST", "/v1/workers/fetch", &[], Some(json!({"queues": ["none"]}).to_string())).await;
    proxy.struck().await;
    tokio::time::sleep(Duration::from_millis(1000)).await;
    proxy.open();
    eventually("fairgate is ready again", async || app.client.get("/ready").await.status == 200).await;
    work_off(&app.client, 30).await;
}

#[tokio::test]
async fn nothing_is_written_for_an_unknown_rule() {
    let app = serving(&[]).await;
    assert!(!app.store().end_round("ghost", "1:x", 7, &Default::default()).await.unwrap());
    assert_eq!(app.redis.keys_with("ghost").await, Vec::<String>::new());
}
