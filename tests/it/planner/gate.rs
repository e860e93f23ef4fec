//! The gate: nothing is promoted into a main queue that is slow or full, and the gate opens again automatically.

use super::{by_hand, depth, planning, registry, rounds, rule, rulebook, serving, stage, status, work, work_off};
use crate::support::{NOON, TestApp, eventually, json};
use fairgate::clock::Clock;
use fairgate::config::Role;
use fairgate::domain::plan::{Batch, Pace, Rule};
use fairgate::planner::RoundAttempt;
use serde_json::Value;

/// A rule that promotes continuously.
fn eager(change: impl FnOnce(&mut Rule)) -> Rule {
    rule(|rule| {
        rule.pace = Pace::Every(20);
        rule.batch = Batch::Jobs(5);
        change(rule);
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_wait_too_long_close_it() {
    let app = planning(&[eager(|rule| rule.latency_threshold = 100)]).await;
    stage(&app, &[("a", 100), ("b", 100)]).await;
    let store = app.store();
    let late = async || rounds(store).await.iter().filter(|round| round["reason"] == "latency").count();
    eventually("rounds are skipped", async || late().await >= 3).await;
    let before = depth(&app).await;
    let many = late().await;
    eventually("more rounds are skipped", async || late().await >= many + 3).await;
    assert_eq!(depth(&app).await, before, "no job is promoted while jobs wait too long");
    let rounds = rounds(store).await;
    let last = rounds.last().unwrap();
    assert_eq!((&last["outcome"], &last["promoted"]), (&"skipped".into(), &0.into()));
    assert!(last["latency_ms"].as_u64().unwrap() > 100, "{last}");
    assert!(status(store).await.skipped >= 6);
    work_off(&app.client, 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_main_queue_closes_it() {
    let app = planning(&[eager(|rule| rule.max_depth = 7)]).await;
    stage(&app, &[("a", 20), ("b", 20)]).await;
    let store = app.store();
    let full = async || {
        let rounds = rounds(store).await;
        rounds.iter().filter(|round| round["reason"] == "depth" && round["depth"] == 7).count()
    };
    eventually("rounds are skipped", async || full().await >= 3).await;
    assert_eq!(depth(&app).await, 7, "filled to the maximum and not further");
    work_off(&app.client, 40).await;
    assert!(rounds(store).await.iter().all(|round| round["depth"].as_u64().unwrap() <= 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_rule_promotes_nothing_and_loses_nothing() {
    let app = planning(&[eager(|_| {})]).await;
    let store = app.store();
    store.pause_rule("r", true, "test").await.unwrap();
    super::push(&app.client, "a", 20).await;
    let rule = by_hand(5, |_| {});
    let flight = registry(store, &[eager(|_| {})]).run("r").await.unwrap();
    assert!(matches!(flight, Some(RoundAttempt::Paused)), "{flight:?}");
    assert_eq!((depth(&app).await, status(store).await.paused, rule.strict_interval), (0, true, true));
    store.pause_rule("r", false, "test").await.unwrap();
    work_off(&app.client, 20).await;
}

/// Closing and opening of a gate are reported once each, with the reason.
#[tokio::test]
async fn a_change_is_reported_once() {
    let rule = by_hand(5, |rule| rule.max_depth = 7);
    let app = TestApp::start_with(Clock::manual(NOON), |config| {
        config.plan = vec![rule.clone()];
        config.server.roles = vec![Role::Api];
    })
    .await;
    let planner = registry(app.store(), &[rule]);
    stage(&app, &[("a", 20)]).await;
    for _ in 0..4 {
        planner.run("r").await.unwrap();
    }
    assert_eq!(gate_events(&app).await, [closed()]);
    work(&app.client, 7).await;
    app.clock.advance(60_000);
    planner.run("r").await.unwrap();
    assert_eq!(gate_events(&app).await, [closed(), opened()]);
}

/// Type, queue and reason of each event about a gate, oldest first.
async fn gate_events(app: &TestApp) -> Vec<[Value; 3]> {
    let page = app.client.get("/v1/events?types=planner.gate_*").await.expect(200);
    let shown = |event: &Value| [&event["type"], &event["data"]["queue"], &event["data"]["reason"]].map(Clone::clone);
    page.at("/events").as_array().unwrap().iter().map(shown).collect()
}

fn closed() -> [Value; 3] {
    ["planner.gate_closed", "q", "depth"].map(Value::from)
}

fn opened() -> [Value; 3] {
    ["planner.gate_opened".into(), "q".into(), Value::Null]
}

/// Works until so many jobs are done, while the clock advances, but not by as much as a minute.
async fn work_off_slowly(app: &TestApp, jobs: usize) {
    let mut done = 0;
    eventually("all jobs are done", async || {
        app.clock.advance(20);
        done += work(&app.client, 50).await.len();
        done >= jobs
    })
    .await;
}

/// No round runs any more, so the scheduler reports the opening that was held back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opening_is_reported_after_the_last_round() {
    let rule = eager(|rule| rule.max_depth = 7);
    let app = TestApp::start_with(Clock::manual(1_800_000_000_000), |config| config.plan = vec![rule]).await;
    stage(&app, &[("a", 20)]).await;
    eventually("it is closed", async || {
        app.clock.advance(20);
        gate_events(&app).await == [closed()]
    })
    .await;
    work_off_slowly(&app, 20).await;
    assert_eq!(gate_events(&app).await, [closed()], "at most one report a minute");
    app.clock.advance(60_000);
    eventually("the opening is reported", async || gate_events(&app).await == [closed(), opened()]).await;
}

/// A change of the rule replaces its round runner, but not what was reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opening_by_a_change_of_the_rule_is_reported() {
    let app = TestApp::start_with(Clock::manual(1_800_000_000_000), |_| {}).await;
    let book = rulebook(&app.app.store, &[]);
    book.put(eager(|rule| rule.max_depth = 7)).await.unwrap();
    stage(&app, &[("a", 20)]).await;
    eventually("it is closed", async || {
        app.clock.advance(20);
        gate_events(&app).await == [closed()]
    })
    .await;
    book.put(eager(|rule| rule.max_depth = 100)).await.unwrap();
    work_off_slowly(&app, 20).await;
    app.clock.advance(60_000);
    eventually("the opening is reported", async || gate_events(&app).await == [closed(), opened()]).await;
}

/// No round reads the gate of a queue without staged jobs.
#[tokio::test]
async fn an_opening_is_reported_after_staged_jobs_were_cancelled() {
    let rule = by_hand(10, |rule| rule.max_depth = 7);
    let app = TestApp::start_with(Clock::manual(1_800_000_000_000), |config| {
        config.plan = vec![rule.clone()];
        config.server.roles = vec![Role::Api];
    })
    .await;
    let planner = registry(&app.app.store, &[rule]);
    app.app.store.pause_rule("r", true, "test").await.unwrap();
    let staged = super::push(&app.client, "a", 20).await;
    app.app.store.pause_rule("r", false, "test").await.unwrap();
    for _ in 0..2 {
        planner.run("r").await.unwrap();
    }
    assert_eq!(gate_events(&app).await, [closed()]);
    for id in &staged[7..] {
        app.client.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    }
    app.clock.advance(60_000);
    assert!(matches!(planner.run("r").await.unwrap(), Some(RoundAttempt::Empty)));
    assert_eq!(gate_events(&app).await, [closed()], "the main queue is still full");
    work(&app.client, 1).await;
    assert!(matches!(planner.run("r").await.unwrap(), Some(RoundAttempt::Empty)));
    assert_eq!(gate_events(&app).await, [closed(), opened()]);
}

#[tokio::test]
async fn a_pause_is_reported_with_who_did_it() {
    let app = serving(&[by_hand(5, |_| {})]).await;
    for _ in 0..2 {
        app.client.post("/v1/admin/planner/r/pause", json!({})).await.expect(200);
    }
    app.client.post("/v1/admin/planner/r/resume", json!({})).await.expect(200);
    let page = app.client.get("/v1/events?types=planner.paused,planner.resumed").await.expect(200);
    let events = page.at("/events").as_array().unwrap().clone();
    let reported: Vec<_> = events.iter().map(|event| (event["type"].as_str(), event["data"]["by"].as_str())).collect();
    let by = Some("anonymous");
    assert_eq!(reported, [(Some("planner.paused"), by), (Some("planner.resumed"), by)]);
}

/// A round notices the pause during promotion.
#[tokio::test]
async fn a_pause_stops_a_round_under_way() {
    let rule = by_hand(10, |_| {});
    let app = serving(std::slice::from_ref(&rule)).await;
    let store = app.store();
    stage(&app, &[("a", 20)]).await;
    let begun = store.begin_round(&rule, "A", fairgate::store::Why::Run, None).await.unwrap();
    let fairgate::store::Begun::Round(round) = begun else { panic!("{begun:?}") };
    store.pause_rule("r", true, "test").await.unwrap();
    assert_eq!(store.promote("r", &round.token, "q", 10).await.unwrap(), fairgate::store::Promoted::Paused);
    assert_eq!((depth(&app).await, status(store).await.staged), (0, 20));
}
