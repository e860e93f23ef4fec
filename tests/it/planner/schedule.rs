//! Scheduled rounds: once per interval with any number of processes; cron schedules; strict intervals.

use super::{
    HOUR, by_hand, depth, planning, planning_on, push, registry, rounds, rule, run, serving, stage, status, work,
};
use crate::support::{TestRedis, eventually};
use fairgate::domain::plan::{Batch, Pace, Rule};
use fairgate::domain::time::At;
use fairgate::planner::RoundAttempt;
use fairgate::store::{Begun, Promoted, Why};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The time of a round, in ms since the epoch.
fn at(round: &Value) -> i64 {
    match At::parse(round["at"].as_str().unwrap()) {
        Some(At::Absolute(ms)) => ms,
        other => panic!("{other:?} in {round}"),
    }
}

fn scheduled(rounds: &[Value]) -> Vec<i64> {
    rounds.iter().filter(|round| round["scheduled"] == true).map(at).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_planners_run_one_round_an_interval() {
    const INTERVAL: u64 = 200;
    let redis = Arc::new(TestRedis::start());
    let rule = rule(|rule| {
        rule.pace = Pace::Every(INTERVAL);
        rule.batch = Batch::Jobs(2);
        rule.strict_interval = true;
        rule.planner_lock_ttl = 1000;
    });
    let mut apps = Vec::new();
    for _ in 0..5 {
        apps.push(planning_on(&redis, std::slice::from_ref(&rule)).await);
    }
    stage(&apps[0], &[("a", 500), ("b", 500)]).await;
    let store = &apps[1].app.store;
    eventually("many rounds were run", async || scheduled(&rounds(store).await).len() >= 15).await;
    let rounds = rounds(store).await;
    let times = scheduled(&rounds);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= INTERVAL as i64), "{times:?}");
    assert!(rounds.iter().all(|round| round["promoted"].as_u64().unwrap() <= 2), "{rounds:?}");
    let (now, promoted) = (status(store).await, rounds.len() as i64 * 2);
    assert_eq!(rounds.len(), times.len(), "a strict interval allows no other rounds");
    // A round may have run since the list was read.
    assert!((promoted..=promoted + 4).contains(&depth(&apps[2]).await), "{now:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_interval_lets_workers_wait() {
    let rule = by_hand(3, |_| {});
    let app = planning(std::slice::from_ref(&rule)).await;
    let store = app.store();
    push(&app.client, "a", 3).await;
    push(&app.client, "a", 7).await;
    assert_eq!(work(&app.client, 10).await.len(), 3, "one batch per interval and not more");
    assert_eq!(work(&app.client, 10).await.len(), 0);
    // A wake-up that started a round would be visible by now: the planner has checked and found that it is too early.
    let due = status(store).await.due;
    for _ in 0..20 {
        assert_eq!(work(&app.client, 10).await.len(), 0);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let now = status(store).await;
    assert_eq!((now.staged, now.due, now.wasted_ms), (7, due, 0));
    assert!(due > now.now, "{now:?}");
    assert_eq!(run(&registry(store, &[rule])).await.promoted, 3);
    let wasted = status(store).await.wasted_ms;
    assert!((200..60_000).contains(&wasted), "workers waited since they found the queue empty: {wasted}");
    assert_eq!(work(&app.client, 10).await.len(), 3);
}

fn cron(expression: &str) -> impl FnOnce(&mut Rule) {
    move |rule: &mut Rule| {
        rule.pace = Pace::Cron { expression: expression.to_owned(), timezone: "UTC".to_owned() };
        rule.batch = Batch::Jobs(2);
        rule.strict_interval = true;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_promotes_when_it_is_due() {
    let app = planning(&[rule(cron("* * * * * *"))]).await;
    push(&app.client, "a", 100).await;
    assert_eq!(depth(&app).await, 0, "nothing passes before the first time");
    let store = app.store();
    eventually("three times came", async || rounds(store).await.len() >= 3).await;
    let rounds = rounds(store).await;
    let seconds: Vec<i64> = scheduled(&rounds).iter().map(|ms| ms / 1000).collect();
    assert_eq!(seconds.len(), rounds.len());
    assert!(seconds.windows(2).all(|pair| pair[1] > pair[0]), "{seconds:?}");
    assert!(rounds.iter().all(|round| round["promoted"] == 2), "{rounds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_far_away_promotes_nothing() {
    let rules = [rule(cron("0 0 1 1 *"))];
    let app = planning(&rules).await;
    push(&app.client, "a", 10).await;
    eventually("its time is known", async || status(app.store()).await.due > 0).await;
    assert_eq!(work(&app.client, 10).await.len(), 0);
    assert_eq!(status(app.store()).await.rounds, 0);
    assert_eq!(run(&registry(app.store(), &rules)).await.promoted, 2, "unless somebody asks for it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_interval_applies_at_once() {
    let slow = by_hand(1, |_| {});
    let yearly = rule(cron("0 0 1 1 *"));
    for (before, after) in [
        (slow.clone(), Rule { pace: Pace::Every(20), ..slow.clone() }),
        (yearly.clone(), Rule { pace: Pace::Every(20), ..yearly.clone() }),
        (yearly.clone(), rule(cron("* * * * * *"))),
    ] {
        let app = planning(std::slice::from_ref(&before)).await;
        let store = app.store();
        push(&app.client, "a", 100).await;
        eventually("its time is known", async || status(store).await.due > 0).await;
        let far = status(store).await;
        assert!(far.due > far.now + (HOUR / 2) as i64, "{far:?}");
        super::rulebook(store, std::slice::from_ref(&before)).put(after).await.unwrap();
        eventually("promotion keeps the new pace", async || depth(&app).await >= 4).await;
    }
}

/// A process that dies between begin and promotion of a round leaves the batch of the interval to its successor.
#[tokio::test]
async fn a_round_that_never_ended_is_caught_up() {
    let rule = by_hand(4, |_| {});
    let app = serving(std::slice::from_ref(&rule)).await;
    let store = app.store();
    stage(&app, &[("a", 20)]).await;
    let begun = store.begin_round(&rule, "A", Why::Tick, None).await.unwrap();
    assert!(matches!(&begun, Begun::Round(round) if round.scheduled), "{begun:?}");
    store.renew_lock("r", "A", 0).await.unwrap(); // as if it had run out
    let Begun::Round(round) = store.begin_round(&rule, "B", Why::Tick, None).await.unwrap() else {
        panic!("the batch of this interval was not promoted")
    };
    assert_eq!((round.scheduled, round.room), (false, 4));
    let promoted = store.promote("r", &round.token, "q", 100).await.unwrap();
    assert!(matches!(promoted, Promoted::Jobs { promoted: 4, .. }), "{promoted:?}");
    assert!(store.end_round("r", &round.token, round.number, &Default::default()).await.unwrap());
    let early = store.begin_round(&rule, "B", Why::Tick, None).await.unwrap();
    assert!(matches!(early, Begun::Early { .. }), "{early:?}");
}

#[tokio::test]
async fn rounds_of_an_unknown_rule() {
    let app = serving(&[]).await;
    let registry = registry(app.store(), &[]);
    assert!(registry.run("r").await.unwrap().is_none());
    let rules = [by_hand(4, |_| {})];
    let registry = super::registry(app.store(), &rules);
    let flight = registry.run("r").await.unwrap();
    assert!(matches!(flight, Some(RoundAttempt::Empty)), "{flight:?}");
}
