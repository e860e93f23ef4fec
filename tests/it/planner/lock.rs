//! The planner lock: one planner at a time, stale holders are refused, dead ones are replaced, and a process that shuts
//! down releases it at once.

use super::{
    HOUR, by_hand, depth, planning, planning_on, processes, push, registry, rounds, rule, run, serving, serving_on,
    stage, status, work, work_off,
};
use crate::support::{NOON, TestApp, TestRedis, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::{Config, Role};
use fairgate::domain::plan::{Batch, OnUnknownWeight, Pace, Webhook};
use fairgate::planner::{RoundAttempt, RoundOutcome};
use fairgate::store::{Begun, Ended, Promoted, Round, WeightOrigin, Why};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

fn round(begun: Begun) -> Round {
    match begun {
        Begun::Round(round) => round,
        other => panic!("no round: {other:?}"),
    }
}

#[tokio::test]
async fn a_process_that_lost_the_lock_promotes_nothing() {
    let rule = by_hand(4, |rule| rule.planner_lock_ttl = 1000);
    let app = serving(std::slice::from_ref(&rule)).await;
    let store = app.store();
    stage(&app, &[("a", 5), ("b", 5)]).await;
    let first = round(store.begin_round(&rule, "A", Why::Run, None).await.unwrap());
    let Begun::Held { by, left_ms } = store.begin_round(&rule, "B", Why::Tick, None).await.unwrap() else {
        panic!("A holds the lock")
    };
    assert!(by == "A" && (1..=1000).contains(&left_ms), "{by} {left_ms}");

    // A is stopped until its lock has expired.
    let mut second = None;
    eventually("the lock expires", async || {
        second = Some(store.begin_round(&rule, "B", Why::Run, None).await.unwrap());
        matches!(second, Some(Begun::Round(_)))
    })
    .await;
    let second = round(second.unwrap());
    assert_ne!(first.token, second.token);
    let Promoted::Jobs { promoted: 4, .. } = store.promote("r", &second.token, "q", 4).await.unwrap() else {
        panic!("B holds the lock")
    };
    assert_eq!(store.promote("r", &first.token, "q", 4).await.unwrap(), Promoted::Lost);
    assert_eq!(store.reweigh("r", &first.token, "q", WeightOrigin::Webhook, &[]).await.unwrap(), None);
    assert!(!store.renew_lock("r", "A", 1000).await.unwrap());
    let ended = Ended { document: json!({"by": "A"}).to_string(), ..Ended::default() };
    assert!(!store.end_round("r", &first.token, first.number, &ended).await.unwrap());
    assert!(store.end_round("r", &second.token, second.number, &ended).await.unwrap());
    assert_eq!((depth(&app).await, status(store).await.staged), (4, 6), "no job was lost or done twice");
}

/// Responds with a delay and without weights.
async fn slow_webhook(ms: u64) -> (MockServer, Webhook) {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(200).set_body_json(json!({"weights": {}})).set_delay(Duration::from_millis(ms));
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    let webhook = Webhook { url: server.uri(), timeout: 10_000, secret_env: None };
    (server, webhook)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_that_lost_its_lock_reports_it() {
    let (server, webhook) = slow_webhook(1500).await;
    let rule = by_hand(4, |rule| {
        rule.planner_lock_ttl = 1000;
        rule.weights.webhook = Some(webhook);
        rule.weights.on_unknown_weight = OnUnknownWeight::DefaultWeight;
    });
    let app = serving(std::slice::from_ref(&rule)).await;
    let store = app.store();
    push(&app.client, "a", 4).await; // pass, so that the round waits for the webhook
    stage(&app, &[("a", 5), ("b", 5)]).await;
    let (registry, other) = (registry(store, std::slice::from_ref(&rule)), store.clone());
    let flight = tokio::spawn(async move { registry.run("r").await });
    eventually("the webhook was asked", async || !server.received_requests().await.unwrap().is_empty()).await;
    // As after a pause longer than the lock's TTL: another process holds it.
    let _: i64 = app.redis.command(&["DEL", "fg:{default}:plan:r:lock"]).await;
    let theirs = round(other.begin_round(&rule, "B", Why::Run, None).await.unwrap());
    let promoted = other.promote("r", &theirs.token, "q", 4).await.unwrap();
    assert!(matches!(promoted, Promoted::Jobs { promoted: 4, .. }), "{promoted:?}");
    let Some(RoundAttempt::Ran { report, .. }) = flight.await.unwrap().unwrap() else { panic!("a round") };
    assert_eq!((report.outcome, report.promoted), (RoundOutcome::LostLock, 0));
    assert_eq!(rounds(store).await.last().unwrap()["outcome"], "lost_lock", "and records it");
    assert_eq!((depth(&app).await, status(store).await.staged), (8, 6), "no job was lost or done twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_longer_than_its_lock_keeps_it() {
    let (_server, webhook) = slow_webhook(2500).await;
    let rule = by_hand(4, |rule| {
        rule.planner_lock_ttl = 1000;
        rule.weights.webhook = Some(webhook);
    });
    let app = serving(std::slice::from_ref(&rule)).await;
    let store = app.store();
    push(&app.client, "a", 4).await;
    stage(&app, &[("a", 5), ("b", 5)]).await;
    let registry = registry(store, std::slice::from_ref(&rule));
    let flight = tokio::spawn(async move { registry.run("r").await });
    eventually("it has the lock", async || status(store).await.lock.is_some()).await;
    while !flight.is_finished() {
        let begun = store.begin_round(&rule, "B", Why::Tick, None).await.unwrap();
        assert!(matches!(begun, Begun::Held { .. } | Begun::Early { .. }), "{begun:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let Some(RoundAttempt::Ran { report, .. }) = flight.await.unwrap().unwrap() else { panic!("a round") };
    assert_eq!((report.outcome, report.promoted), (RoundOutcome::Promoted, 4));
    assert!(report.duration_ms > 2000.0, "{}", report.duration_ms);
}

/// Starts processes; one is stopped while it holds the lock and continued when another has taken over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_planner_does_no_harm_when_it_continues() {
    let (redis, (server, webhook)) = (TestRedis::start(), slow_webhook(400).await);
    let options = format!(
        "enqueue_interval = \"50ms\"\nenqueue_jobs = 3\nplanner_lock_ttl = \"1s\"\nweights.webhook = {{ url = \"{}\" }}",
        webhook.url
    );
    let (processes, _) = processes(&redis, 2, &options).await;
    let mut pushed = 0;
    for _ in 0..20 {
        pushed += push(&processes[0].client, "a", 10).await.len();
        pushed += push(&processes[0].client, "b", 10).await.len();
    }
    let holder = async || -> Option<String> { redis.command(&["HGET", "fg:{default}:plan:r:lock", "holder"]).await };
    let asked = async || server.received_requests().await.unwrap().len();
    let mut frozen = None;
    eventually("a process plans and waits for the webhook", async || {
        let Some(holder) = holder().await else { return false };
        frozen = processes.iter().find(|process| holder.contains(&process.pid().to_string()));
        frozen.is_some() && asked().await > 0
    })
    .await;
    let frozen = frozen.unwrap();
    frozen.freeze();
    let other = processes.iter().find(|process| process.pid() != frozen.pid()).unwrap();
    let of_other = other.pid().to_string();
    eventually("the other one takes over", async || {
        super::work(&other.client, 50).await.iter().for_each(|_| pushed -= 1);
        holder().await.is_some_and(|holder| holder.contains(&of_other))
    })
    .await;
    frozen.thaw();
    work_off(&other.client, pushed).await;
    let staged: Option<i64> = redis.command(&["HGET", "fg:{default}:plan:r", "staged"]).await;
    assert_eq!(staged, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_planner_is_replaced_within_the_ttl_of_its_lock() {
    let redis = TestRedis::start();
    let options = "enqueue_interval = \"20ms\"\nenqueue_jobs = 1\nstrict_interval = true\nplanner_lock_ttl = \"1s\"";
    let (mut processes, _) = processes(&redis, 2, options).await;
    push(&processes[0].client, "a", 1000).await;
    let lock = async || -> Option<String> { redis.command(&["HGET", "fg:{default}:plan:r:lock", "holder"]).await };
    eventually("somebody plans", async || lock().await.is_some()).await;
    let first = lock().await.unwrap();
    let holds = processes.iter().position(|process| first.contains(&process.pid().to_string())).unwrap();
    processes[holds].kill();
    let killed = Instant::now();
    eventually("the other one plans", async || lock().await.is_some_and(|holder| holder != first)).await;
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    let promoted = async || -> i64 { redis.command(&["HGET", "fg:{default}:plan:r", "promoted"]).await };
    let before = promoted().await;
    eventually("promotion goes on", async || promoted().await > before + 3).await;
    let page = processes[1 - holds].client.get("/v1/events?types=planner.taken_over").await.expect(200);
    let data = page.at("/events/0/data");
    assert_eq!((&data["from"], &data["lock_expired"]), (&first.replace("%3A", ":").into(), &true.into()));
    assert_eq!(page.at("/events").as_array().map(Vec::len), Some(1));
    let log = processes[1 - holds].logged();
    assert!(log.contains("took over planning of a rule"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planner_that_shuts_down_releases_its_lock_at_once() {
    let redis = Arc::new(TestRedis::start());
    let rule = rule(|rule| {
        rule.batch = Batch::Jobs(1);
        rule.pace = Pace::Every(20);
        rule.strict_interval = true;
        rule.planner_lock_ttl = HOUR;
    });
    let rules = std::slice::from_ref(&rule);
    let first = planning_on(&redis, rules).await;
    push(&first.client, "a", 1000).await;
    eventually("the first one plans", async || status(&first.app.store).await.lock.is_some()).await;
    let second = planning_on(&redis, rules).await;
    let held_by = status(&first.app.store).await.lock.unwrap().holder;
    let TestApp { app, .. } = first;
    let stopped = Instant::now();
    app.shut_down().await;
    let store = &second.app.store;
    eventually("the other one plans", async || status(store).await.lock.is_some_and(|lock| lock.holder != held_by))
        .await;
    let page = second.client.get("/v1/events?types=planner.taken_over").await.expect(200);
    let data = page.at("/events/0/data");
    assert_eq!((&data["from"], &data["lock_expired"]), (&held_by.into(), &false.into()));
    // It would check again after 5 s anyway; the test is that it need not wait that long.
    assert!(stopped.elapsed() < Duration::from_secs(4), "{:?}", stopped.elapsed());
}

#[tokio::test]
async fn only_planners_of_its_group_plan_a_rule() {
    let redis = Arc::new(TestRedis::start());
    let rule = rule(|rule| rule.planner_group = "heavy".to_owned());
    let app = planning_on(&redis, std::slice::from_ref(&rule)).await;
    let other = super::serving_on(&redis, std::slice::from_ref(&rule)).await;
    stage(&app, &[("a", 20)]).await;
    // A process that planned the rule would run a round on the signal; a second rule shows that signals have been
    // handled.
    let light = fairgate::domain::plan::Rule { name: "light".to_owned(), types: vec!["l".to_owned()], ..rule.clone() };
    let light = fairgate::domain::plan::Rule { planner_group: "default".to_owned(), queue: None, ..light };
    super::rulebook(app.store(), std::slice::from_ref(&rule)).put(light).await.unwrap();
    let job = json!({"type": "l", "args": [], "meta": {"tenant_id": "a"}, "options": {"queue": "z"}});
    app.client.post("/v1/jobs/batch", json!({"jobs": vec![job; 5]})).await.expect(201);
    eventually("the other rule is planned", async || !app.redis.keys_with("plan:light:rounds").await.is_empty()).await;
    assert_eq!((status(app.store()).await.rounds, depth(&app).await), (0, 0));
    let heavy = TestApp::start_on(redis, Clock::System, |config| {
        config.plan = vec![rule.clone()];
        config.server.planner_groups = vec!["other".to_owned(), "heavy".to_owned()];
    })
    .await;
    work_off(&heavy.client, 20).await;
    drop(other);
}

/// The round runs in the process that received the request; then the process that plans the rule continues at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_asked_for_elsewhere_does_not_keep_the_lock() {
    let rule = rule(|rule| rule.planner_lock_ttl = 600_000);
    let app = planning(std::slice::from_ref(&rule)).await;
    stage(&app, &[("a", 200)]).await;
    let elsewhere = serving_on(&app.redis, &[rule]).await;
    let mut done = 0;
    eventually("all jobs are done long before the lock expires", async || {
        elsewhere.client.post("/ojs/v1/admin/planner/r/run", json!({})).await.expect(200);
        done += work(&app.client, 10).await.len();
        done == 200
    })
    .await;
}

/// Jobs wait and no process plans the rule: its state is not `running`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_without_a_planner_is_stalled() {
    let rules = [rule(|rule| rule.planner_lock_ttl = 1000)];
    let clock = Clock::manual(NOON);
    let start = |config: &mut Config| {
        config.plan = rules.to_vec();
        config.server.roles = vec![Role::Api, Role::Dispatch];
    };
    let app = TestApp::start_with(clock, start).await;
    let state = async || app.client.get("/v1/admin/planner/r").await.expect(200).text_at("/state").to_owned();
    app.clock.advance(60_000);
    assert_eq!(state().await, "running", "nothing is staged");
    stage(&app, &[("a", 3)]).await;
    assert_eq!(state().await, "running", "the jobs have only just arrived");
    app.clock.advance(6_000);
    assert_eq!(state().await, "running");
    app.clock.advance(1);
    assert_eq!(state().await, "stalled");
    // A process takes over and dies in the middle of its round: it counts as alive until its lock expires.
    round(app.store().begin_round(&rules[0], "A", Why::Run, None).await.unwrap());
    assert_eq!(state().await, "running");
    let _: i64 = app.redis.command(&["DEL", "fg:{default}:plan:r:lock"]).await;
    assert_eq!(state().await, "stalled");
    let registry = registry(app.store(), &rules);
    while status(app.store()).await.staged > 0 {
        run(&registry).await;
        work(&app.client, 10).await;
    }
    app.clock.advance(60_000);
    assert_eq!(state().await, "running", "nothing is staged");
    app.store().pause_rule("r", true, "test").await.unwrap();
    push(&app.client, "a", 1).await;
    app.clock.advance(60_000);
    assert_eq!(state().await, "paused");
}
